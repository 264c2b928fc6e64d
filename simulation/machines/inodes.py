"""Files and directories in memory, each of which knows what a power failure may leave of it.

Processes see the page cache, which holds everything that was ever written. A power failure leaves a
state between the page cache and the last sync, as POSIX allows and file systems do:

- Any number of bytes of a file's unsynced end stay. Sectors among them may hold zeros or what was
  on the disk before, and the file may be longer than its written part. A truncation that was not
  synced may be undone, and with it every later append.
- Any of a directory's unsynced changes may have happened, in their order or (if a file system has
  no journal) out of it. A rename happens as a whole or not at all.

A sync that fails may drop the data, as Linux does. Processes still see the data, and the next sync
succeeds. The data is gone when the page cache is.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from random import Random

SECTOR = 512


class MemoryFile:
    """The content of a file.

    Attributes:
        data: The bytes that processes see.
        holders: The descriptors that hold its lock.
    """

    __slots__ = ("_lost", "_synced", "_truncations", "data", "holders")

    def __init__(self) -> None:
        self.data = bytearray()
        self.holders: set[int] = set()
        self._synced = 0
        self._truncations: list[tuple[int, bytes]] = []
        self._lost: list[tuple[int, int]] = []

    def truncate(self, size: int) -> None:
        """Truncate the file, or extend it by zeros."""
        if size >= len(self.data):
            self.data += bytes(size - len(self.data))
            return
        self._truncations.append((size, bytes(self.data[size:])))
        self._lost = [(start, min(end, size)) for start, end in self._lost if start < size]
        del self.data[size:]

    def sync(self) -> None:
        """Make the visible data durable, except what an earlier failed sync has dropped."""
        self._synced = len(self.data)
        self._truncations.clear()

    def drop_dirty_pages(self) -> None:
        """Fail a sync: data that was not on the disk never gets there, and counts as synced."""
        self._lost.append((self._durable_size(len(self._truncations)), len(self.data)))
        self.sync()

    @property
    def has_dropped_data(self) -> bool:
        """Return whether data that a failed sync has dropped is still visible."""
        return bool(self._lost)

    @property
    def durable_size(self) -> int:
        """Return the number of bytes that survive any power failure."""
        return self._durable_size(len(self._truncations))

    def evict(self) -> None:
        """Empty the page cache: dropped data becomes invisible."""
        for start, end in self._lost:
            self.data[start:end] = bytes(end - start)
        self._lost.clear()

    def lose_power(self, random: Random) -> None:
        """Replace the visible data by a state that a power failure may leave."""
        if self._truncations or self._synced < len(self.data):
            happened = random.randint(0, len(self._truncations))
            for size, behind in reversed(self._truncations[happened:]):
                self.data[size:] = behind
            self._lose_tail(self._durable_size(happened), random)
        self.evict()
        self.holders.clear()
        self.sync()

    def _durable_size(self, truncations: int) -> int:
        """Return the number of bytes that stay if so many ``truncations`` have happened."""
        return min([self._synced, *(size for size, _ in self._truncations[:truncations])])

    def _lose_tail(self, start: int, random: Random) -> None:
        """Keep nothing, everything or some of the data from ``start`` on."""
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
    """The names in a directory.

    Attributes:
        entries: The names that processes see, with their files and directories.
    """

    __slots__ = ("_changes", "_synced", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self._synced: dict[str, Node] = {}
        self._changes: list[dict[str, Node | None]] = []

    def change(self, names: dict[str, Node | None]) -> None:
        """Set these names in one change. None removes a name."""
        _apply(self.entries, names)
        self._changes.append(names)

    def sync(self) -> None:
        """Make the visible names durable."""
        self._synced = dict(self.entries)
        self._changes.clear()

    def possible_names(self) -> Set[str]:
        """Return the names that may be there after a power failure."""
        changed = (name for names in self._changes for name, node in names.items() if node)
        return self._synced.keys() | set(changed)

    def has_durably(self, name: str) -> bool:
        """Return whether a name survives any power failure."""
        gone = any(name in names and names[name] is None for names in self._changes)
        return name in self._synced and not gone

    def lose_power(self, random: Random) -> None:
        """Replace the visible names, and all content below, by a state that a power failure may
        leave."""
        for names in self._durable_changes(random):
            _apply(self._synced, names)
        self.entries = self._synced
        self.sync()
        for node in self.entries.values():
            node.lose_power(random)

    def files(self) -> Iterator[MemoryFile]:
        """Yield all files in the directory and below."""
        for node in self.entries.values():
            if isinstance(node, MemoryFile):
                yield node
            else:
                yield from node.files()

    def _durable_changes(self, random: Random) -> list[dict[str, Node | None]]:
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
            del entries[other]  # renamed twice, and the first rename did not happen
        entries[name] = node
