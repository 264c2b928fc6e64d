"""How long records took since they were due: until they were acknowledged, until they were shown.

Due is what the producer's schedule said (``due`` of ``sends``), whenever the record was sent: while
a producer is held up, what is due meanwhile is late, too, and is told so (coordinated omission). A
producer without a rate has no schedule; then it is when the record was handed to the client.

Every record counts, none is sampled. Latencies are counted in bins, 1 % apart, which can be added
up over partitions as they are; a percentile is the upper edge of its bin, so that no more than so
many took longer, and at most 1 % too much.

- Of acks: the records that were acknowledged. What never was is in other counts; so is what a
  producer let go when it was due, since its turn was skipped.
- Of what was shown: what each tail reader was shown, the first time. Two clocks are in it, the
  producer's and the reader's (table ``clocks``), which are one where both are on one machine."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.verdict import Latency

BIN = 1.01
"""The ratio of two edges."""

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_FIRST, _LAST = "acks from", "acks until"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is measured, by its names among the counts of a partition."""

    prefix: str

    def bin(self, number: int) -> str:
        """How many took at most ``BIN ** number`` nanoseconds, and more than the bin below."""
        return f"{self.prefix} bin {number}"

    def number(self, name: str) -> int | None:
        """The bin that is called so; None where none of this kind is."""
        start = f"{self.prefix} bin "
        return int(name.removeprefix(start)) if name.startswith(start) else None

    @property
    def longest(self) -> str:
        """Nanoseconds."""
        return f"{self.prefix} at most"

    @property
    def without_schedule(self) -> str:
        """How many were due when they were sent."""
        return f"{self.prefix} since sent"


ACK, SHOWN = Kind("ack latency"), Kind("shown latency")


def of_acks(history: PartitionHistory) -> Counter[str]:
    """The latencies of a partition's acks, and when the first and the last of them were."""
    acked = np.flatnonzero(
        (history.fate == Fate.ACKED) & (history.asked != NONE) & ~history.contradicted
    )
    answered = history.answered[acked]
    counts = _counts(ACK, history, acked, answered)
    if len(acked):
        counts[_FIRST], counts[_LAST] = int(answered.min()), int(answered.max())
    return counts


def of_reader(history: PartitionHistory, shown: Array, times: Array) -> Counter[str]:
    """The latencies of what a tail reader was shown of a partition: the numbers of the records, and
    when it was shown each, as it went."""
    ours = np.flatnonzero((shown != NONE) & (shown < len(history.sequence)))
    records, first = np.unique(shown[ours], return_index=True)
    sent = history.asked[records] != NONE
    return _counts(SHOWN, history, records[sent], times[ours][first][sent])


def together(some: Iterable[Mapping[str, int]]) -> Counter[str]:
    """The latencies among the counts of several readers, partitions or slices of one, as those of
    one."""
    found: Counter[str] = Counter()
    for counts in some:
        for name, many in counts.items():
            if name in (ACK.longest, SHOWN.longest, _LAST):
                found[name] = max(found[name], many)
            elif name == _FIRST:
                found[name] = min(found.get(name, many), many)
            elif name.startswith((ACK.prefix, SHOWN.prefix)):
                found[name] += many
    return found


def latency(kind: Kind, partitions: Iterable[Mapping[str, int]]) -> Latency | None:
    """Of a cell, from the counts of its partitions; None where there is none."""
    counts = together(partitions)
    bins = sorted(
        (number, many) for name, many in counts.items() if (number := kind.number(name)) is not None
    )
    records = sum(many for _, many in bins)
    if not records:
        return None
    edges = np.array([BIN**number for number, _ in bins])
    running = np.cumsum([many for _, many in bins])
    longest = counts[kind.longest]

    def within(share: float) -> float:
        edge = edges[np.searchsorted(running, ceil(records * share))]
        return _milliseconds(min(edge, longest))

    return Latency(
        records=records,
        since_due=not counts[kind.without_schedule],
        p50_ms=within(0.5),
        p90_ms=within(0.9),
        p99_ms=within(0.99),
        p999_ms=within(0.999),
        longest_ms=_milliseconds(longest),
    )


def acks_per_second(partitions: Iterable[Mapping[str, int]]) -> float | None:
    """Of a cell, from its first ack to its last one, from the counts of its partitions; None where
    there are less than two moments."""
    counted = [one for one in partitions if _FIRST in one]
    if not counted:
        return None
    lasted = max(one[_LAST] for one in counted) - min(one[_FIRST] for one in counted)
    acked = sum(one["acked"] for one in counted)
    # The first ack is where time begins.
    return round((acked - 1) * _NS_PER_S / lasted, 1) if lasted else None


def _counts(kind: Kind, history: PartitionHistory, records: Array, times: Array) -> Counter[str]:
    due = history.due[records]
    scheduled = due != NONE
    took = times - np.where(scheduled, due, history.asked[records])
    # Where two clocks are in it, what took no time may have taken less than none.
    bins = np.ceil(np.log(np.maximum(took, 1)) / np.log(BIN)).astype(np.int64)
    many = np.bincount(bins)  # of int64 nanoseconds there are 4,400 bins
    counts = Counter({kind.bin(n): int(many[n]) for n in np.flatnonzero(many).tolist()})
    if len(records):
        counts[kind.longest] = max(0, int(took.max()))
        counts[kind.without_schedule] = int(np.count_nonzero(~scheduled))
    return counts


def _milliseconds(ns: float) -> float:
    return round(float(ns) / _NS_PER_MS, 3)
