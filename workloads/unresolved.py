"""The records of a producer that have no outcome yet, by arrays: reports of thousands at once cost
a few calls."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

_ROOM_MIN = 1024
FEW = 8
"""The most records that are sent, and reported, one by one. The fixed cost of arrays, some tenths
of a millisecond on a busy machine, is more than that."""

Integers = NDArray[np.int64]


class Unresolved:
    """Records by their sequence numbers, which count from 0 in the order in which they are added.

    They are kept back to the oldest that has no outcome, at four bytes a record. A client library
    gives each record up after a while (``message.timeout.ms``), whatever the outcome of the others.

    Attributes:
        waiting: How many there are of each partition.
        count: How many there are.
    """

    def __init__(self, partitions: int) -> None:
        self.waiting: Integers = np.zeros(partitions, np.int64)
        self.count = 0
        self._first = 0
        self._next = 0
        # The partition of each record from the first on, or a negative number where it has an
        # outcome.
        self._partitions: NDArray[np.int32] = np.empty(_ROOM_MIN, np.int32)

    def __contains__(self, sequence: int) -> bool:
        return self._knows(sequence) and self._partitions[sequence - self._first] >= 0

    def add(self, partitions: ArrayLike) -> range:
        """Add the next records, of these partitions, and return their sequence numbers."""
        added = np.asarray(partitions, np.int32)
        begin, self._next = self._next, self._next + len(added)
        if self._next - self._first > len(self._partitions):
            self._make_room(begin)
        self._partitions[begin - self._first : self._next - self._first] = added
        if len(added) <= FEW:
            for partition in added.tolist():
                self.waiting[partition] += 1
        else:
            self.waiting += np.bincount(added, minlength=len(self.waiting))
        self.count += len(added)
        return range(begin, self._next)

    def take(self, sequence: int) -> int | None:
        """Take a record that has an outcome, and return its partition.

        The result is None where it had one before, or was never added.
        """
        if sequence not in self:
            return None
        place = sequence - self._first
        partition = int(self._partitions[place])
        self._partitions[place] = -1
        self.waiting[partition] -= 1
        self.count -= 1
        return partition

    def take_all(self, sequences: ArrayLike) -> tuple[Integers, NDArray[np.int32]]:
        """Take records that have outcomes.

        Return which of these had none until then, as places in ``sequences``, and their partitions.
        For one that is there twice, the first place counts.
        """
        places = np.asarray(sequences, np.int64) - self._first
        had_none = np.flatnonzero((places >= 0) & (places < self._next - self._first))
        had_none = had_none[self._partitions[places[had_none]] >= 0]
        places = places[had_none]
        partitions = self._partitions[places]
        # Where one is there twice, what is written last stays, which is the first of them.
        marks = ~np.arange(len(places), dtype=np.int32)
        self._partitions[places[::-1]] = marks[::-1]
        is_first = self._partitions[places] == marks
        if not is_first.all():
            had_none, partitions = had_none[is_first], partitions[is_first]
        self.waiting -= np.bincount(partitions, minlength=len(self.waiting))
        self.count -= len(partitions)
        return had_none, partitions

    def partitions_of(self, sequences: Integers) -> NDArray[np.int32]:
        """Return the partition of each record.

        It is negative for one that has an outcome, or was never added.
        """
        places = sequences - self._first
        known = (places >= 0) & (places < self._next - self._first)
        return np.where(known, self._partitions[np.where(known, places, 0)], np.int32(-1))

    def left(self) -> Integers:
        """Return the sequence numbers of those without an outcome."""
        return self._first + np.flatnonzero(self._partitions[: self._next - self._first] >= 0)

    def _knows(self, sequence: int) -> bool:
        return self._first <= sequence < self._next

    def _make_room(self, end: int) -> None:
        """Make room for all up to the next one, when those up to ``end`` are there.

        The oldest that have an outcome are forgotten.
        """
        known = self._partitions[: end - self._first]
        unresolved = np.flatnonzero(known >= 0)
        forgotten = int(unresolved[0]) if len(unresolved) else len(known)
        self._first += forgotten
        room = max(_ROOM_MIN, 2 * (self._next - self._first))
        kept, self._partitions = known[forgotten:], np.empty(room, np.int32)
        self._partitions[: len(kept)] = kept
