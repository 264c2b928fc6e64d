"""Files and directories in memory, each of which knows what a power failure would leave of it.

What processes see is the page cache: everything that was ever written. What a power failure leaves
lies anywhere between that and the last sync, as POSIX allows and file systems do:

* Of a file's unsynced end any number of bytes stay, sectors among them may hold zeros or what was
  on the disk before, and the file may be longer than what was written of it. A cut that was not
  synced may be undone, and with it all that was appended since.
* Of a directory's unsynced changes any may have happened, in their order or (where a file system
  has no journal) out of it. A rename happens in whole or not at all.

A sync that fails may drop what it was to write, as Linux does: processes still see it, the next
sync is content, and it is gone with the page cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from random import Random

SECTOR = 512


class MemoryFile:
    """A file's content.

    Attributes:
        data: what processes see.
        holders: the descriptors by which it is locked.
    """

    __slots__ = ("_cuts", "_lost", "_synced", "data", "holders")

    def __init__(self) -> None:
        self.data = bytearray()
        self.holders: set[int] = set()
        self._synced = 0
        self._cuts: list[tuple[int, bytes]] = []
        self._lost: list[tuple[int, int]] = []

    def truncate(self, size: int) -> None:
        """Cuts the file, or makes it longer by zeros."""
        if size >= len(self.data):
            self.data += bytes(size - len(self.data))
            return
        self._cuts.append((size, bytes(self.data[size:])))
        self._lost = [(start, min(end, size)) for start, end in self._lost if start < size]
        del self.data[size:]

    def sync(self) -> None:
        """What is seen stays, but for what an earlier sync has dropped."""
        self._synced = len(self.data)
        self._cuts.clear()

    def drop_dirty_pages(self) -> None:
        """A sync has failed: what was not on the disk never gets there, and counts as synced."""
        self._lost.append((self._certain(len(self._cuts)), len(self.data)))
        self.sync()

    @property
    def has_dropped(self) -> bool:
        """What a sync has dropped is still seen to be there."""
        return bool(self._lost)

    @property
    def certain(self) -> int:
        """How many bytes no power failure takes."""
        return self._certain(len(self._cuts))

    def evict(self) -> None:
        """The page cache is emptied: what was dropped is seen to be gone."""
        for start, end in self._lost:
            self.data[start:end] = bytes(end - start)
        self._lost.clear()

    def lose_power(self, random: Random) -> None:
        """Leaves what is on the disk."""
        if self._cuts or self._synced < len(self.data):
            happened = random.randint(0, len(self._cuts))
            for size, behind in reversed(self._cuts[happened:]):
                self.data[size:] = behind
            self._tear(self._certain(happened), random)
        self.evict()
        self.holders.clear()
        self.sync()

    def _certain(self, cuts: int) -> int:
        """How many bytes have been on the disk ever since the last sync, if so many cuts were."""
        return min([self._synced, *(size for size, _ in self._cuts[:cuts])])

    def _tear(self, start: int, random: Random) -> None:
        """Of what lies from ``start`` on, leaves nothing, everything, or some."""
        end = random.choice((start, len(self.data), random.randint(start, len(self.data))))
        longer = random.randint(end, len(self.data)) - end
        del self.data[end:]
        if end > start and random.random() < 0.3:
            sector = random.randrange(start, end) // SECTOR * SECTOR
            first, last = max(start, sector), min(end, sector + SECTOR)
            filling = random.choice((bytes, random.randbytes))
            self.data[first:last] = filling(last - first)
        if random.random() < 0.3:
            self.data += bytes(longer)


class MemoryDirectory:
    """A directory's names.

    Attributes:
        entries: what processes see.
    """

    __slots__ = ("_changes", "_synced", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self._synced: dict[str, Node] = {}
        self._changes: list[dict[str, Node | None]] = []

    def change(self, names: dict[str, Node | None]) -> None:
        """What these names are from now on, all of them at once; None: nothing."""
        _apply(self.entries, names)
        self._changes.append(names)

    def sync(self) -> None:
        """What is seen stays."""
        self._synced = dict(self.entries)
        self._changes.clear()

    def possible(self) -> Set[str]:
        """The names of which a power failure may leave any there."""
        changed = (name for names in self._changes for name, node in names.items() if node)
        return self._synced.keys() | set(changed)

    def must_have(self, name: str) -> bool:
        """Whether any power failure leaves this name there."""
        gone = any(name in names and names[name] is None for names in self._changes)
        return name in self._synced and not gone

    def lose_power(self, random: Random) -> None:
        """Leaves what is on the disk, of everything in it as well."""
        for names in self._happened(random):
            _apply(self._synced, names)
        self.entries = self._synced
        self.sync()
        for node in self.entries.values():
            node.lose_power(random)

    def files(self) -> Iterator[MemoryFile]:
        """All files in it and below."""
        for node in self.entries.values():
            if isinstance(node, MemoryFile):
                yield node
            else:
                yield from node.files()

    def _happened(self, random: Random) -> list[dict[str, Node | None]]:
        match random.randrange(4):
            case 0:
                return []
            case 1:
                return self._changes
            case 2:
                return self._changes[: random.randint(0, len(self._changes))]
            case _:
                return [names for names in self._changes if random.random() < 0.5]


Node = MemoryFile | MemoryDirectory


def _apply(entries: dict[str, Node], names: dict[str, Node | None]) -> None:
    for name, node in names.items():
        if node is None:
            entries.pop(name, None)
            continue
        for other in [known for known, there in entries.items() if there is node]:
            del entries[other]  # renamed twice, and the first time did not happen
        entries[name] = node
