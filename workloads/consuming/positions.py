"""How far a consumer has got in the partitions that it has: what is next to be committed, and
whether it has read to the end."""

from collections.abc import Iterable, Mapping


class Positions:
    """Offsets by partition, of those that the consumer has. Offsets are the next ones: the last
    record's plus one."""

    def __init__(self) -> None:
        self._reached: dict[int, int] = {}
        self._shown: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._has: set[int] = set()

    @property
    def partitions(self) -> frozenset[int]:
        """Those that the consumer has."""
        return frozenset(self._has)

    def begin(self, partition: int, offset: int | None) -> None:
        """A partition is read from here on; None: nobody knows where."""
        self.forget([partition])
        self._has.add(partition)
        if offset is not None:
            self._reached[partition] = offset

    def forget(self, partitions: Iterable[int]) -> None:
        """Partitions were taken away."""
        for partition in partitions:
            self._has.discard(partition)
            for offsets in (self._reached, self._shown, self._committed):
                offsets.pop(partition, None)

    def shown(self, last: Mapping[int, int]) -> None:
        """Records were shown, up to the one at this offset of each partition.

        One of a partition that was taken away during the same poll says nothing of where this
        consumer is. Committing it would set back whoever has the partition now.
        """
        for partition in last.keys() & self._has:
            self._shown[partition] = self._reached[partition] = last[partition] + 1

    def ended(self, partition: int, offset: int) -> None:
        """There is nothing at ``offset`` and behind it."""
        if partition in self._has:
            self._reached[partition] = offset

    def reached(self, partition: int) -> int | None:
        """What is due next; None: nobody knows."""
        return self._reached.get(partition)

    def have_reached(self, ends: Mapping[int, int]) -> bool:
        """Whether each partition is read to its end, of which all must be known."""
        return all(
            p in ends and p in self._reached and self._reached[p] >= ends[p] for p in self._has
        )

    def uncommitted(self) -> Mapping[int, int]:
        """What was shown and is not known to be committed."""
        return {p: o for p, o in self._shown.items() if self._committed.get(p) != o}

    def committed(self, partition: int, offset: int) -> None:
        """It is committed."""
        if partition in self._has:
            self._committed[partition] = offset
