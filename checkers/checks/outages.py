"""Unavailability: for how long a partition was asked to take records, and acknowledged none.

A partition is *asked* while at least one record is under way: from the moment at which it was
handed to the client library until its outcome is known. An *outage* is the time asked between one
ack and the next (or between the last one and the end of the sends), where that is more than
:data:`OUTAGE_MIN_NS`. It begins with the first ack: until then clients connect. A partition that
never acknowledged anything had one outage, from the first record on.

Only one clock is in it, the client's. Shorter times are how long an ack takes: added up over every
one, they would say how busy the clients were."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.thresholds import OUTAGE_MIN_MS
from ackproof.checkers.verdict import Outages, Unavailable

_NS_PER_MS = 1_000_000
OUTAGE_MIN_NS = OUTAGE_MIN_MS * _NS_PER_MS
"""Ten times what an ack takes on a busy machine, and a sixth of a short session timeout."""

_TOTAL, _LONGEST, _TRAFFIC = "unavailable", "unavailable at most", "traffic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """``start``: when it began, nanoseconds of the Unix epoch on the client's clock; ``length``:
    the time asked from then until the next ack, nanoseconds."""

    start: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be known of some records of a partition, all or a slice of them, to tell its
    outages: few numbers, since times without an outage are told by their edges.

    Attributes:
        first, last: The earliest and the latest that is told of a send; None where nothing was
            sent.
        unanswered: When the earliest was sent whose outcome is not known; None where there is none.
        run_starts, run_ends: Of times in which acks came one soon after the other; in order.
        since, until: When records were under way whose outcome is known, as far as that was not
            all within one such time; disjoint, in order.
    """

    first: int | None
    last: int | None
    unanswered: int | None
    run_starts: Array
    run_ends: Array
    since: Array
    until: Array


def asked(history: PartitionHistory) -> Asked:
    """Of a partition, or of a slice of one."""
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
    """Of several slices, at least one."""
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


def outages(told: Asked) -> Iterator[Outage]:
    """The outages of a partition, in the order of time. ``told``: of all of it."""
    first, last = told.first, told.last
    if first is None or last is None:
        return
    since, until = told.since, told.until
    if told.unanswered is not None:
        since, until = _merged(np.append(since, told.unanswered), np.append(until, last))
    acked = len(told.run_starts) > 0
    starts = told.run_ends if acked else np.array([first])
    ends = np.append(told.run_starts[1:], last)
    for place in np.flatnonzero(ends - starts > OUTAGE_MIN_NS):
        start, end = starts[place], ends[place]
        begins, over = np.maximum(since, start), np.minimum(until, end)
        under_way = over > begins
        length = int((over - begins)[under_way].sum())
        if length > OUTAGE_MIN_NS:
            yield Outage(start=int(begins[under_way][0]), length=length)


def counts(told: Asked, faults: FaultWindows) -> dict[str, int]:
    """Return the outages of a partition as counts of nanoseconds: in all and at most, over all and
    by the faults within whose reach they began; and how long it had traffic at all, from the first
    send to the last outcome."""
    found = list(outages(told))
    lasted = 0 if told.first is None or told.last is None else told.last - told.first
    counted: dict[str, int] = {_TOTAL: 0, _LONGEST: 0, _TRAFFIC: lasted}
    if not found:
        return counted
    starts = np.array([one.start for one in found], dtype=np.int64)
    for outage, label in zip(found, faults.at(starts).to_pylist(), strict=True):
        for suffix in ("", f" {label or ''}"):
            total, longest = _TOTAL + suffix, _LONGEST + suffix
            counted[total] = counted.get(total, 0) + outage.length
            counted[longest] = max(counted.get(longest, 0), outage.length)
    return counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Nanoseconds without an ack: ``longest`` at a time, ``total`` of all."""

    longest: int
    total: int


def spent(counted: dict[str, int]) -> Spent | None:
    """Of a partition; None where its outages were not counted."""
    if _TOTAL not in counted:
        return None
    return Spent(longest=counted[_LONGEST], total=counted[_TOTAL])


def by_fault(counted: dict[str, int]) -> dict[str | None, Spent]:
    """The same by the faults within whose reach they began; None: no fault was on."""
    return {
        name.removeprefix(f"{_LONGEST} ") or None: Spent(
            longest=longest, total=counted[name.replace(_LONGEST, _TOTAL, 1)]
        )
        for name, longest in counted.items()
        if name.startswith(f"{_LONGEST} ")
    }


def _runs(starts: Array, ends: Array) -> tuple[Array, Array]:
    """Times with acks, in order, of which neighbours that no outage can part are one; of moments,
    too."""
    apart = np.flatnonzero(starts[1:] - ends[:-1] > OUTAGE_MIN_NS)
    first = np.concatenate([[0], apart + 1]) if len(starts) else apart
    last = np.append(apart, len(starts) - 1) if len(starts) else apart
    return starts[first], ends[last]


def _merged(since: Array, until: Array) -> tuple[Array, Array]:
    """Intervals as their union: disjoint, in order."""
    if not len(since):
        return since, until
    order = np.argsort(since, kind="stable")
    since, until = since[order], np.maximum.accumulate(until[order])
    first = np.append(True, since[1:] > until[:-1])
    last = np.append(first[1:], True)
    return since[first], until[last]


def unavailable(partitions: Mapping[str, Mapping[str, int]]) -> Unavailable | None:
    """Return the unavailability of a cell, from the counts of its partitions by their names; None
    where one was not counted."""
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
    )


def _longest(some: Iterable[Spent]) -> int:
    return max(one.longest for one in some) // _NS_PER_MS


def _total(some: Iterable[Spent]) -> int:
    return sum(one.total for one in some) // _NS_PER_MS
