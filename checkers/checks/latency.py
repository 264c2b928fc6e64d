"""Latencies of records from the time when they were due until they were acknowledged or read.

The due time is that of the producer's schedule (``due`` of ``sends``), whenever the record was
sent. While a producer is held up, the records that become due are late, too, and are counted as
late (coordinated omission). A producer without a rate has no schedule; its latencies begin when a
record is passed to the client library.

Every record counts; there is no sampling. Latencies are counted in bins that are 1 % apart, which
can be added up over partitions. A percentile is the upper edge of its bin: at most the stated share
took longer, and the figure is at most 1 % too high.

- Ack latency includes the records that were acknowledged. Records that never were have counts of
  their own, and so have records that a producer skipped because they were overdue.
- Read latency includes the first read of each record by each tail reader. It is the difference
  between two clocks, the producer's and the reader's (table ``clocks``). On one machine they are
  the same clock.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.verdict import Latency

BIN = 1.01
"""The ratio of the two edges of a bin."""

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_FIRST, _LAST = "acks from", "acks until"


@dataclass(frozen=True, slots=True)
class LatencyKind:
    """A kind of latency, with the names of its counts."""

    prefix: str

    def bin(self, number: int) -> str:
        """Return the name of the count of latencies of at most ``BIN ** number`` nanoseconds that
        are above the bin below."""
        return f"{self.prefix} bin {number}"

    def number(self, name: str) -> int | None:
        """Return the bin that has this name, or None if no bin of this kind has it."""
        start = f"{self.prefix} bin "
        return int(name.removeprefix(start)) if name.startswith(start) else None

    @property
    def longest(self) -> str:
        """The name of the longest latency, in nanoseconds."""
        return f"{self.prefix} at most"

    @property
    def without_schedule(self) -> str:
        """The name of the count of records that were due when they were sent."""
        return f"{self.prefix} since sent"


ACK, SHOWN = LatencyKind("ack latency"), LatencyKind("shown latency")


def of_acks(history: PartitionHistory) -> Counter[str]:
    """Count the latencies of a partition's acks, and record the times of the first and the last
    ack."""
    acked = np.flatnonzero(
        (history.fate == Fate.ACKED) & (history.asked != NONE) & ~history.contradicted
    )
    answered = history.answered[acked]
    counts = _counts(ACK, history, acked, answered)
    if len(acked):
        counts[_FIRST], counts[_LAST] = int(answered.min()), int(answered.max())
    return counts


def of_reader(history: PartitionHistory, shown: Array, times: Array) -> Counter[str]:
    """Count the latencies of the reads of a tail reader from one partition. ``shown`` has the
    numbers of the records and ``times`` the times of the reads, in the order of the reads."""
    ours = np.flatnonzero((shown != NONE) & (shown < len(history.sequence)))
    records, first = np.unique(shown[ours], return_index=True)
    sent = history.asked[records] != NONE
    return _counts(SHOWN, history, records[sent], times[ours][first][sent])


def together(some: Iterable[Mapping[str, int]]) -> Counter[str]:
    """Add up the latencies among the counts of several readers, partitions or slices."""
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


def latency(kind: LatencyKind, partitions: Iterable[Mapping[str, int]]) -> Latency | None:
    """Return the latencies of a cell from the counts of its partitions, or None if there are
    none."""
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
    """Return the throughput of a cell from its first ack to its last one, or None if all acks came
    at the same time or there are none."""
    counted = [one for one in partitions if _FIRST in one]
    if not counted:
        return None
    lasted = max(one[_LAST] for one in counted) - min(one[_FIRST] for one in counted)
    acked = sum(one["acked"] for one in counted)
    # The first ack is the start of the measured time and does not count.
    return round((acked - 1) * _NS_PER_S / lasted, 1) if lasted else None


def _counts(
    kind: LatencyKind, history: PartitionHistory, records: Array, times: Array
) -> Counter[str]:
    due = history.due[records]
    scheduled = due != NONE
    took = times - np.where(scheduled, due, history.asked[records])
    # The two times may come from different clocks, so a very short latency may seem to be negative.
    bins = np.ceil(np.log(np.maximum(took, 1)) / np.log(BIN)).astype(np.int64)
    many = np.bincount(bins)  # of int64 nanoseconds there are 4,400 bins
    counts = Counter({kind.bin(n): int(many[n]) for n in np.flatnonzero(many).tolist()})
    if len(records):
        counts[kind.longest] = max(0, int(took.max()))
        counts[kind.without_schedule] = int(np.count_nonzero(~scheduled))
    return counts


def _milliseconds(ns: float) -> float:
    return round(float(ns) / _NS_PER_MS, 3)
