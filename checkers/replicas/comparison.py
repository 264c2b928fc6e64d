"""Where two replicas' logs differ: a walk along both by offset, a batch of each in memory.

A follower appends the leader's batches as they are, so that the same bytes stand in every log, and
whoever has a batch has all of it. Only where the bytes differ batches are opened, and compared
record by record: by leader epoch, then by content. Where neither tells them apart, the rest of the
batch does (its CRC, attributes, producer, timestamps), and all its offsets differ.
Batches that are cut differently and hold the same records in the same epochs do not differ. Nor is
anything said of offsets that lie in what cannot be read of a log.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from ackproof.checkers.raw_logs.records import Undecodable, contents, holds
from ackproof.checkers.raw_logs.segments import Batch, RawLog
from ackproof.history.payload import Identity


class Kind(StrEnum):
    """How two logs differ at an offset."""

    DIFFERS = "differs"
    """Each holds something there, and not the same."""
    LACKS = "lacks"
    """One holds nothing there."""


@dataclass(frozen=True, slots=True)
class Side:
    """The batch that a log holds at an offset: its leader epoch, its CRC, and whether that fits."""

    leader_epoch: int
    crc: int
    intact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Neighbouring offsets at which two logs differ in the same way.

    Attributes:
        first, last: Offsets, both included.
        one, other: What each holds at the first of them, in words; None for nothing.
        sides: The batches that hold that, one and other; None for nothing.
        identity: Whose record stands there in the one, or else in the other; None for nobody's.
    """

    kind: Kind
    first: int
    last: int
    one: str | None
    other: str | None
    sides: tuple[Side | None, Side | None]
    identity: Identity | None

    def continued_by(self, later: "Difference") -> bool:
        """Whether ``later`` is more of the same."""
        same = (self.kind, self.one is None, self.other is None)
        return self.last + 1 == later.first and same == (
            later.kind,
            later.one is None,
            later.other is None,
        )


def differences(one: RawLog, other: RawLog, start: int, end: int) -> Iterator[Difference]:
    """The differences of two logs from ``start`` to ``end`` (exclusive), in their order.

    Raises what :meth:`checkers.raw_logs.segments.RawLog.batches` raises.
    """
    found: Difference | None = None
    for difference in _differences(one, other, start, end):
        if found is not None and found.continued_by(difference):
            found = replace(found, last=difference.last)
            continue
        if found is not None:
            yield found
        found = difference
    if found is not None:
        yield found


def _differences(one_log: RawLog, other_log: RawLog, offset: int, end: int) -> Iterator[Difference]:
    ones, others = one_log.batches(offset, end), other_log.batches(offset, end)
    one, other = next(ones, None), next(others, None)
    while offset < end and (one or other):
        following = min(batch.base_offset for batch in (one, other) if batch)
        offset = max(offset, following)
        last = _stretch(offset, end, one, other)
        here, there = _at(one, offset), _at(other, offset)
        if here is not None and there is not None:
            yield from _compared(here, there, offset, last)
        elif here is not None or there is not None:
            lacking = one_log if here is None else other_log
            for from_, to in _outside(lacking.unread, offset, last):
                yield _difference(Kind.LACKS, from_, to, here, there)
        offset = last + 1
        if one is not None and one.last_offset < offset:
            one = next(ones, None)
        if other is not None and other.last_offset < offset:
            other = next(others, None)


def _outside(unread: Iterable[tuple[int, int]], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the offsets, from one to another, that lie in none of the ranges that could not be
    read: what a log holds there nobody knows."""
    for since, until in sorted(unread):
        if first < since <= last:
            yield first, since - 1
        if since <= last:
            first = max(first, until)
    if first <= last:
        yield first, last


def _at(batch: Batch | None, offset: int) -> Batch | None:
    return batch if batch is not None and batch.base_offset <= offset else None


def _stretch(offset: int, end: int, *batches: Batch | None) -> int:
    """How far it stays the same batches, or none, that stand from ``offset`` on."""
    edges = [end - 1]
    for batch in batches:
        if batch is not None:
            begun = batch.base_offset <= offset
            edges.append(batch.last_offset if begun else batch.base_offset - 1)
    return min(edges)


def _compared(one: Batch, other: Batch, first: int, last: int) -> Iterator[Difference]:
    if one.data == other.data:
        return
    for from_, to in _unlike(one, other, first, last):
        yield _difference(Kind.DIFFERS, from_, to, one, other)


def _unlike(one: Batch, other: Batch, first: int, last: int) -> Iterator[tuple[int, int]]:
    """The offsets, from one to another, at which the records of two batches are not alike."""
    if one.leader_epoch != other.leader_epoch:
        yield first, last
        return
    try:
        mine, theirs = contents(one), contents(other)
    except Undecodable:
        yield first, last
        return
    offsets = range(first, last + 1)
    unlike = [offset for offset in offsets if mine.get(offset) != theirs.get(offset)]
    yield from ((offset, offset) for offset in unlike)
    same_cut = (one.base_offset, one.last_offset) == (other.base_offset, other.last_offset)
    if not unlike and same_cut:
        yield first, last


def _difference(
    kind: Kind, first: int, last: int, one: Batch | None, other: Batch | None
) -> Difference:
    (here, mine), (there, theirs) = (
        (None, None) if batch is None else holds(batch, first) for batch in (one, other)
    )
    return Difference(
        kind=kind,
        first=first,
        last=last,
        one=here,
        other=there,
        sides=(_side(one), _side(other)),
        identity=mine or theirs,
    )


def _side(batch: Batch | None) -> Side | None:
    return None if batch is None else Side(batch.leader_epoch, batch.crc, batch.intact)
