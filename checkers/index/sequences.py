"""The sequence numbers of a partition's sends, counted so that those of all partitions of a cell
can be added up.

A producer numbers its records one by one from 0, over all partitions of its cell. The numbers of
its sends therefore have no gap, whichever partitions they went to. A gap means that sends are
missing from the history. Their outcomes are unknown, and each of these records may be lost. One
partition alone cannot show this, because it has only some of the numbers.

- The sessions of a producer (:mod:`history.sessions`) continue the count. A transactional session
  has a count of its own.
- A producer whose client was crashed has recorded the beginning of what it sent to each partition.
  It wrote the partitions one after the other, so that these beginnings may differ in length. There
  is no gap up to the shortest of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.history.sessions import producer_of_session

RANGE = 64
"""The number of sequence numbers that are counted together, for each partition of a cell. A range
then holds about so many sends of each partition, whatever the number of partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The sequence numbers of a producer's sends to one partition, or to several.

    Attributes:
        last: The greatest sequence number.
        counts: The number of them in each range. Empty ranges are left out.
        crashed: Whether its client was crashed, so that its last sends may be missing.
    """

    last: int
    counts: Mapping[int, int]
    crashed: bool


ByProducer = Mapping[int, Numbers]
"""Sequence numbers by producer number, or by transactional session number."""


def sequences_of(history: PartitionHistory, width: int) -> ByProducer:
    """Return the sequence numbers of the recorded sends to a partition, or to a slice of it, by
    producer. ``width`` is the width of a range."""
    sent = np.flatnonzero(history.asked != NONE)
    sequence, producer = history.sequence[sent], history.producer[sent]
    found: dict[int, Numbers] = {}
    for number in np.unique(producer).tolist():
        one = number if history.transactional else producer_of_session(number)
        mine = sequence[producer == number]
        told = _counted(mine, width, crashed=number in history.crashed)
        found[one] = together([told, found[one]]) if one in found else told
    return found


def _counted(sequence: Array, width: int, *, crashed: bool) -> Numbers:
    ranges, counts = np.unique(sequence // width, return_counts=True)
    return Numbers(
        last=int(sequence.max()),
        counts=dict(zip(ranges.tolist(), counts.tolist(), strict=True)),
        crashed=crashed,
    )


def together(some: Sequence[Numbers]) -> Numbers:
    """Return the sum of the numbers of several, at least one."""
    counts: dict[int, int] = {}
    for one in some:
        for place, many in one.counts.items():
            counts[place] = counts.get(place, 0) + many
    return Numbers(
        last=max(one.last for one in some),
        counts=counts,
        crashed=any(one.crashed for one in some),
    )


def all_together(some: Sequence[ByProducer]) -> ByProducer:
    """Return the sum of the numbers of several partitions for each producer."""
    producers = dict.fromkeys(number for one in some for number in one)
    return {
        number: together([one[number] for one in some if number in one]) for number in producers
    }


def missing(partitions: Mapping[str, ByProducer], width: int, *, in_turn: bool) -> Iterator[str]:
    """Yield the sends that are missing from the history of a cell, a sentence each.

    Args:
        partitions: The numbers of each partition of the cell, by its name.
        width: The width of a range.
        in_turn: Whether each producer sends to all partitions in turn.
    """
    for number, whole in sorted(all_together(list(partitions.values())).items()):
        have = {name: one[number] for name, one in partitions.items() if number in one}
        if (hole := _hole(whole, list(have.values()), len(partitions), width)) is not None:
            yield f"sends are missing: producer {number} {hole}"
        elif in_turn and not whole.crashed and whole.last + 1 >= len(partitions):
            for name in (name for name in partitions if name not in have):
                sent = f"{whole.last + 1} records to all partitions in turn"
                yield f"{name}: no send by producer {number} is recorded, although it sent {sent}"


def _hole(whole: Numbers, have: Sequence[Numbers], partitions: int, width: int) -> str | None:
    """Return a description of the first missing numbers, or None if none are missing."""
    end = whole.last + 1
    if whole.crashed:
        shortest = min(one.last for one in have) if len(have) == partitions else NONE
        end = (shortest + 1) // width * width
    first = _first_gap(whole.counts, end, width)
    if first is None:
        return None
    last = min(first + width, end) - 1
    lacks = last - first + 1 - whole.counts.get(first // width, 0)
    return (
        f"numbers its records consecutively, but {lacks} of the numbers from {first} to "
        f"{last} have no recorded send"
    )


def _first_gap(counts: Mapping[int, int], end: int, width: int) -> int | None:
    """Return the first number of the first range below ``end`` that lacks some of its numbers, or
    None."""
    full, rest = divmod(end, width)
    for place in range(full):
        if counts.get(place, 0) < width:
            return place * width
    return full * width if counts.get(full, 0) < rest else None
