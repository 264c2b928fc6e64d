"""Outages: the times in which a partition had requests waiting and acknowledged none.

A request is *waiting* from the moment at which a record is passed to the client library until its
outcome is known. An *outage* is the time with waiting requests between one ack and the next, or
between the last ack and the end of the sends, if it is longer than :data:`OUTAGE_MIN_NS`. Outages
are counted from the first ack on, because clients connect until then. A partition that never
acknowledged anything had one outage, from its first record on.

All times are those of one clock, the client's. Shorter times are ordinary ack latencies. Their sum
would only say how busy the clients were.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.thresholds import OUTAGE_MIN_MS
from ackproof.checkers.verdict import OutagePeriod, Outages, Unavailable

_NS_PER_MS = 1_000_000
OUTAGE_MIN_NS = OUTAGE_MIN_MS * _NS_PER_MS
"""The shortest outage. It is ten times the latency of an ack on a busy machine, and a sixth of a
short session timeout."""

_TOTAL, _LONGEST, _TRAFFIC = "unavailable", "unavailable at most", "traffic"
_LISTED = "outage"

LISTED_MAX = 20
"""The most outages of a partition, and of a cell, that are listed: the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One outage.

    Attributes:
        start: Its start, in nanoseconds of the Unix epoch by the client's clock.
        length: The time with waiting requests from then until the next ack, in nanoseconds.
        end: The end of that time.
        acked: Whether an ack ended it. Otherwise nothing was acknowledged any more.
    """

    start: int
    length: int
    end: int
    acked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The times of sends and acks of a partition or a slice of one, as far as its outages depend on
    them. There are few numbers, because times without an outage are represented by their bounds.

    Attributes:
        first, last: The earliest and the latest time of a send or outcome; None if nothing was
            sent.
        unanswered: The time of the earliest send with an unknown outcome; None if there is none.
        run_starts, run_ends: The bounds of the periods in which acks came in quick succession, in
            order.
        since, until: The bounds of the periods in which requests with a known outcome were waiting,
            unless the whole period is within such a run; disjoint, in order.
    """

    first: int | None
    last: int | None
    unanswered: int | None
    run_starts: Array
    run_ends: Array
    since: Array
    until: Array


def asked(history: PartitionHistory) -> Asked:
    """Return the times of a partition or of a slice of one."""
    sent = history.asked != NONE
    begun, answered = history.asked[sent], history.answered[sent]
    known = answered != NONE
    since, until = _merged(begun[known], answered[known])
    acks = np.sort(history.answered[history.fate == Fate.ACKED], kind="stable")
    run_starts, run_ends = _runs(acks, acks)
    within = np.searchsorted(run_starts, since, side="right") - 1
    reached = np.append(run_ends, np.iinfo(np.int64).min)[within]
    open_ = until > reached
    return Asked(
        first=int(begun.min()) if len(begun) else None,
        last=int(max(begun.max(), answered.max())) if len(begun) else None,
        unanswered=int(begun[~known].min()) if not known.all() else None,
        run_starts=run_starts,
        run_ends=run_ends,
        since=since[open_],
        until=until[open_],
    )


def together(some: Sequence[Asked]) -> Asked:
    """Return the times of several slices, at least one, as those of the partition."""
    starts, ends = (
        np.concatenate([getattr(one, name) for one in some]) for name in ("run_starts", "run_ends")
    )
    since, until = (
        np.concatenate([getattr(one, name) for one in some]) for name in ("since", "until")
    )
    order = np.argsort(starts, kind="stable")
    run_starts, run_ends = _runs(starts[order], np.maximum.accumulate(ends[order]))
    since, until = _merged(since, until)
    return Asked(
        first=min((one.first for one in some if one.first is not None), default=None),
        last=max((one.last for one in some if one.last is not None), default=None),
        unanswered=min((o.unanswered for o in some if o.unanswered is not None), default=None),
        run_starts=run_starts,
        run_ends=run_ends,
        since=since,
        until=until,
    )


def outages(times: Asked) -> Iterator[Outage]:
    """Yield the outages of a partition in the order of time. ``times`` has the times of the whole
    partition."""
    first, last = times.first, times.last
    if first is None or last is None:
        return
    since, until = times.since, times.until
    if times.unanswered is not None:
        since, until = _merged(np.append(since, times.unanswered), np.append(until, last))
    acked = len(times.run_starts) > 0
    starts = times.run_ends if acked else np.array([first])
    ends = np.append(times.run_starts[1:], last)
    for place in np.flatnonzero(ends - starts > OUTAGE_MIN_NS):
        start, end = starts[place], ends[place]
        begins, over = np.maximum(since, start), np.minimum(until, end)
        under_way = over > begins
        length = int((over - begins)[under_way].sum())
        if length > OUTAGE_MIN_NS:
            yield Outage(
                start=int(begins[under_way][0]),
                length=length,
                end=int(over[under_way][-1]),
                acked=bool(place < len(ends) - 1),
            )


def counts(times: Asked, faults: FaultWindows) -> dict[str, int]:
    """Return the outages of a partition as nanoseconds: the sum and the longest one, of all outages
    and by the faults that were active when they began, and each of the longest by its times and
    faults. Also return the time with traffic, from the first send to the last outcome."""
    found = list(outages(times))
    lasted = 0 if times.first is None or times.last is None else times.last - times.first
    counted: dict[str, int] = {_TOTAL: 0, _LONGEST: 0, _TRAFFIC: lasted}
    if not found:
        return counted
    starts = np.array([one.start for one in found], dtype=np.int64)
    labels = faults.at(starts).to_pylist()
    for outage, label in zip(found, labels, strict=True):
        for suffix in ("", f" {label or ''}"):
            total, longest = _TOTAL + suffix, _LONGEST + suffix
            counted[total] = counted.get(total, 0) + outage.length
            counted[longest] = max(counted.get(longest, 0), outage.length)
    both = sorted(zip(found, labels, strict=True), key=lambda one: -one[0].length)[:LISTED_MAX]
    return counted | {_listed(outage, label): outage.length for outage, label in both}


def _listed(outage: Outage, label: str | None) -> str:
    """Return the name of the count of one outage, which :func:`_periods` parses."""
    return f"{_LISTED} {outage.start} {outage.end} {int(outage.acked)} {label or ''}"


def _periods(partition: str, counted: Mapping[str, int]) -> Iterator[OutagePeriod]:
    """Yield the listed outages of a partition from its counts."""
    for name, length in counted.items():
        if name.startswith(f"{_LISTED} "):
            _, start, end, acked, faults = name.split(" ", 4)
            yield OutagePeriod(
                partition=partition,
                start=int(start),
                end=int(end),
                length_ms=length // _NS_PER_MS,
                acked=acked == "1",
                fault=faults or None,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The length of outages in nanoseconds: ``longest`` of the longest one, ``total`` of all."""

    longest: int
    total: int


def spent(counted: dict[str, int]) -> Spent | None:
    """Return the outages of a partition, or None if they were not counted."""
    if _TOTAL not in counted:
        return None
    return Spent(longest=counted[_LONGEST], total=counted[_TOTAL])


def by_fault(counted: dict[str, int]) -> dict[str | None, Spent]:
    """Return the outages by the faults that were active when they began. None stands for no
    fault."""
    return {
        name.removeprefix(f"{_LONGEST} ") or None: Spent(
            longest=longest, total=counted[name.replace(_LONGEST, _TOTAL, 1)]
        )
        for name, longest in counted.items()
        if name.startswith(f"{_LONGEST} ")
    }


def _runs(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Return the bounds of periods in which acks came in quick succession, joined if no outage can
    lie between them."""
    apart = np.flatnonzero(starts[1:] - ends[:-1] > OUTAGE_MIN_NS)
    first = np.concatenate([[0], apart + 1]) if len(starts) else apart
    last = np.append(apart, len(starts) - 1) if len(starts) else apart
    return starts[first], ends[last]


def _merged(since: Array, until: Array) -> tuple[Array, Array]:
    """Return the union of intervals as disjoint intervals in order."""
    if not len(since):
        return since, until
    order = np.argsort(since, kind="stable")
    since, until = since[order], np.maximum.accumulate(until[order])
    first = np.append(True, since[1:] > until[:-1])
    last = np.append(first[1:], True)
    return since[first], until[last]


def unavailable(partitions: Mapping[str, Mapping[str, int]]) -> Unavailable | None:
    """Return the unavailability of a cell from the counts of its partitions by name, or None if a
    partition was not counted."""
    counted = {name: dict(one) for name, one in partitions.items()}
    found = [spent(one) for one in counted.values()]
    whole = [one for one in found if one is not None]
    if not whole or len(whole) < len(found):
        return None
    faults: dict[str | None, dict[str, Spent]] = {}
    for name, one in counted.items():
        for fault, mine in by_fault(one).items():
            faults.setdefault(fault, {})[name] = mine
    return Unavailable(
        longest_ms=_longest(whole),
        total_ms=_total(whole),
        traffic_ms=sum(one[_TRAFFIC] for one in counted.values()) // _NS_PER_MS,
        by_fault=tuple(
            Outages(
                fault=fault,
                longest_ms=_longest(some.values()),
                total_ms=_total(some.values()),
                partition=max(some, key=lambda name: some[name].longest),
            )
            for fault, some in sorted(faults.items(), key=lambda item: item[0] or "")
        ),
        periods=tuple(sorted(_longest_periods(counted), key=lambda one: one.start)),
    )


def _longest_periods(partitions: Mapping[str, Mapping[str, int]]) -> list[OutagePeriod]:
    every = [one for name, counted in partitions.items() for one in _periods(name, counted)]
    return sorted(every, key=lambda one: -one.length_ms)[:LISTED_MAX]


def _longest(some: Iterable[Spent]) -> int:
    return max(one.longest for one in some) // _NS_PER_MS


def _total(some: Iterable[Spent]) -> int:
    return sum(one.total for one in some) // _NS_PER_MS
