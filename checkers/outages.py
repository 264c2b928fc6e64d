"""Unavailability: for how long a partition was asked to take records, and acknowledged none.

A partition is *asked* while at least one record is under way: from the moment at which it was
handed to the client library until its outcome is known. An *outage* is the time asked between one
ack and the next (or between the last one and the end of the sends), where that is more than
:data:`OUTAGE_MIN_NS`. It begins with the first ack: until then clients connect. A partition that
never acknowledged anything had one outage, from the first record on.

Only one clock is in it, the client's. Shorter times are how long an ack takes: added up over every
one, they would say how busy the clients were.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from checkers.indexes import NONE, Fate, PartitionHistory

OUTAGE_MIN_NS = 500_000_000
"""Ten times what an ack takes on a busy machine, and a sixth of a short session timeout."""

_TOTAL, _LONGEST = "unavailable", "unavailable at most"

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """``start``: when it began, nanoseconds of the Unix epoch on the client's clock; ``length``:
    the time asked from then until the next ack, nanoseconds."""

    start: int
    length: int


def outages(history: PartitionHistory) -> Iterator[Outage]:
    """The outages of one partition, in the order of time."""
    sent = history.asked != NONE
    if not np.any(sent):
        return
    asked, answered = history.asked[sent], history.answered[sent]
    last = int(max(asked.max(), answered.max()))
    since, until = _merged(asked, np.where(answered == NONE, last, answered))
    acks = np.sort(history.answered[history.fate == Fate.ACKED], kind="stable")
    edges = np.append(acks, last) if len(acks) else np.array([since[0], last])
    for place in np.flatnonzero(np.diff(edges) > OUTAGE_MIN_NS):
        start, end = edges[place], edges[place + 1]
        begins, ends = np.maximum(since, start), np.minimum(until, end)
        under_way = ends > begins
        length = int((ends - begins)[under_way].sum())
        if length > OUTAGE_MIN_NS:
            yield Outage(start=int(begins[under_way][0]), length=length)


def counts(history: PartitionHistory) -> dict[str, int]:
    """The outages of a partition as counts of nanoseconds: in all and at most, over all and by the
    faults within whose reach they began (:func:`named`)."""
    found = list(outages(history))
    starts = np.array([one.start for one in found], dtype=np.int64)
    told: dict[str, int] = {_TOTAL: 0, _LONGEST: 0}
    for outage, label in zip(found, history.faults.at(starts).to_pylist(), strict=True):
        for suffix in ("", f" {label or ''}"):
            total, longest = _TOTAL + suffix, _LONGEST + suffix
            told[total] = told.get(total, 0) + outage.length
            told[longest] = max(told.get(longest, 0), outage.length)
    return told


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


def _merged(since: Array, until: Array) -> tuple[Array, Array]:
    """Intervals as their union: disjoint, in order."""
    order = np.argsort(since, kind="stable")
    since, until = since[order], np.maximum.accumulate(until[order])
    first = np.append(True, since[1:] > until[:-1])
    last = np.append(first[1:], True)
    return since[first], until[last]
