"""A disk in memory that loses and tears data, fills up and fails, as a :class:`FileSystem`.

It belongs to a machine and outlives the processes on it. ``kill`` ends a process, and everything
that it wrote stays. ``lose_power`` takes what was not synced (:mod:`simulation.machines.disk`).
"""

from __future__ import annotations

import copy
import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from pathlib import Path
from random import Random

from ackproof.broker.log.disk import Bytes
from ackproof.broker.wire.batch import HEADER_BYTES

# --- files and directories ------------------------------------------------------------------------
#
# Each file and directory knows what a power failure may leave of it. Processes see the page cache,
# which holds everything that was ever written. A power failure leaves a state between the page
# cache and the last sync, as POSIX allows and file systems do:
#
# - Any number of bytes of a file's unsynced end stay. Sectors among them may hold zeros or what was
#   on the disk before, and the file may be longer than its written part. A truncation that was not
#   synced may be undone, and with it every later append.
# - Any of a directory's unsynced changes may have happened, in their order or (if a file system has
#   no journal) out of it. A rename happens as a whole or not at all.
#
# A sync that fails may drop the data, as Linux does. Processes still see the data, and the next
# sync succeeds. The data is gone when the page cache is.

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


# --- the disk -------------------------------------------------------------------------------------

UNLIMITED_BYTES = 2**40

PARTIAL_WRITE_RATE = 0.02
"""The share of partial writes, on disks that have partial writes."""

WRITE = "write"
SYNC = "sync"
READ = "read"


class SimulatedDisk:
    """The disk of one machine, with the methods of
    :class:`~broker.log.disk.FileSystem`.

    Attributes:
        watch: A function called with the kind of each operation before the operation is carried
            out, or None. An OSError that it raises is the operation's: a write is then carried out
            in part, and a failed sync may have lost the data. Kinds: open, write, truncate, sync,
            read, make_directory, rename, remove, sync_directory.
        capacity: The number of bytes that all files together may have.
        failures: The number of times that the disk has failed to store data.
    """

    def __init__(
        self, random: Random, short: Random | None = None, capacity: int = UNLIMITED_BYTES
    ) -> None:
        """Create an empty disk.

        Args:
            random: The source of decisions about unsynced data.
            short: The source that decides which writes are partial, as POSIX allows. With None, a
                write is partial only if there is too little space.
        """
        self.watch: Callable[[str], None] | None = None
        self.capacity = capacity
        self.failures = 0
        self._corrupted: frozenset[MemoryFile] = frozenset()
        self._random = random
        self._short = short
        self._root = MemoryDirectory()
        self._used = 0
        self._open: dict[int, MemoryFile] = {}
        # the first of the descriptors that are duplicates of each other
        self._originals: dict[int, int] = {}
        self._descriptors = self._last_dead = 2

    # --- events of the machine --------------------------------------------------------------

    def kill(self) -> None:
        """End the process that used the disk. Data that its failed syncs have dropped may become
        invisible."""
        for node in self._open.values():
            node.holders.clear()
        self._detach_process()
        if self._random.random() < 0.5:
            for file in self._root.files():
                file.evict()

    def lose_power(self) -> None:
        """Switch the machine off. No process uses the disk any more, and unsynced data may be
        lost."""
        self._detach_process()
        self._root.lose_power(self._random)
        self._used = sum(len(file.data) for file in self._root.files())

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self._detach_process()
        self._root = MemoryDirectory()
        self._used = 0

    def fail(self, kinds: Collection[str]) -> None:
        """Fail operations of these kinds with EIO from now on. An empty collection ends the
        failures."""

        def watch(kind: str) -> None:
            if kind in kinds:
                self.failures += kind != READ
                raise _error(errno.EIO)

        self.watch = watch if kinds else None

    def corrupt_reads(self, directories: Iterable[Path]) -> None:
        """Return a wrong byte from now on in reads of the files in these directories.

        It is the first byte behind the possible header of a batch. The effect ends with the
        process, because recovery would rightly truncate a log at the wrong byte.
        """
        opened = [self._directory(each) for each in directories if self.is_directory(each)]
        self._corrupted = frozenset(file for each in opened for file in each.files())

    @property
    def has_dropped_data(self) -> bool:
        """Return whether data that a failed sync has dropped is still visible."""
        return any(file.has_dropped_data for file in self._root.files())

    @property
    def free(self) -> int:
        """Return the number of bytes that can still be written."""
        return max(0, self.capacity - self._used)

    def durable_bytes(self, path: Path) -> bytes:
        """Return the beginning of a file that survives any power failure."""
        node = self._find(path)
        assert isinstance(node, MemoryFile)
        return bytes(node.data[: node.durable_size])

    def may_reappear(self, path: Path) -> bool:
        """Return whether a removed name may be there again after a power failure."""
        return path.name in self.reappearing_names(path.parent)

    def reappearing_names(self, directory: Path) -> Set[str]:
        """Return the removed names of a directory that a power failure may bring back."""
        opened = self._directory(directory)
        return opened.possible_names() - opened.entries.keys()

    def is_durable(self, path: Path) -> bool:
        """Return whether a name survives any power failure, provided that those of its directories
        do."""
        parent, name = self._parent(path)
        return name in parent.entries and parent.has_durably(name)

    def copy_directory(self, directory: Path, random: Random) -> SimulatedDisk:
        """Return another disk with a copy of one directory, and no process.

        The copy may lose the same data as the original.
        """
        copied = SimulatedDisk(random)
        at = copied._root
        for name in directory.parent.relative_to(directory.anchor).parts:
            at.change({name: (inner := MemoryDirectory())})
            at.sync()
            at = inner
        at.change({directory.name: copy.deepcopy(self._directory(directory))})
        at.sync()
        for file in copied._root.files():
            file.holders.clear()
        return copied

    # --- operations of processes ------------------------------------------------------------

    def open(self, path: Path, /) -> int:
        """Do what :class:`~broker.log.disk.FileSystem` describes, as do the methods
        below."""
        self._notify("open")
        parent, name = self._parent(path)
        node = parent.entries.get(name)
        if node is None:
            node = MemoryFile()
            parent.change({name: node})
        if not isinstance(node, MemoryFile):
            raise _error(errno.EISDIR, path)
        return self._opened(node)

    def write(self, descriptor: int, data: Bytes, /) -> int:
        node = self._node(descriptor)
        if self.watch is not None:
            try:
                self.watch(WRITE)
            except OSError:
                self._append(node, data[: self._random.randint(0, len(data))])
                raise
        if self._short is not None and data and self._short.random() < PARTIAL_WRITE_RATE:
            data = data[: self._short.randint(1, len(data))]
        return self._append(node, data)

    def pread(self, descriptor: int, size: int, position: int, /) -> bytes:
        if self.watch is not None:
            self.watch(READ)
        node = self._node(descriptor)
        data = node.data[position : position + size]
        if node in self._corrupted and len(data) > HEADER_BYTES:
            data[HEADER_BYTES] ^= 0xFF
        return bytes(data)

    def truncate(self, descriptor: int, size: int, /) -> None:
        self._notify("truncate")
        node = self._node(descriptor)
        self._used += size - len(node.data)
        node.truncate(size)

    def size(self, descriptor: int, /) -> int:
        return len(self._node(descriptor).data)

    def sync(self, descriptor: int, /) -> None:
        node = self._node(descriptor)
        try:
            self._notify(SYNC)
        except OSError:
            if self._random.random() < 0.5:
                node.drop_dirty_pages()
            raise
        node.sync()

    def drop_cached_pages(self, descriptor: int, /) -> None:
        self._node(descriptor).evict()

    def duplicate(self, descriptor: int, /) -> int:
        node = self._node(descriptor)
        duplicate = self._opened(node)
        self._originals[duplicate] = self._originals[descriptor]
        if descriptor in node.holders:
            node.holders.add(duplicate)
        return duplicate

    def close(self, descriptor: int, /) -> None:
        if descriptor <= self._last_dead:
            return  # the rest of a dead process is tidied up, such as a generator
        self._node(descriptor).holders.discard(descriptor)
        del self._open[descriptor], self._originals[descriptor]

    def lock(self, descriptor: int, /) -> None:
        node = self._node(descriptor)
        first = self._originals[descriptor]
        duplicates = {other for other in self._originals if self._originals[other] == first}
        if node.holders and not node.holders & duplicates:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        node.holders |= duplicates

    def read(self, path: Path, /) -> bytes:
        self._notify(READ)
        node = self._find(path)
        if isinstance(node, MemoryDirectory):
            raise _error(errno.EISDIR, path)
        return bytes(node.data)

    def names(self, directory: Path, /) -> list[str]:
        return list(self._directory(directory).entries)

    def is_directory(self, path: Path, /) -> bool:
        try:
            return isinstance(self._find(path), MemoryDirectory)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def make_directory(self, path: Path, /) -> None:
        self._notify("make_directory")
        parent, name = self._parent(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        parent.change({name: MemoryDirectory()})

    def rename(self, source: Path, target: Path, /) -> None:
        """Rename within one directory. No caller needs more."""
        self._notify("rename")
        parent, name = self._parent(source)
        node = self._find(source)
        replaced = parent.entries.get(target.name)
        assert source.parent == target.parent
        if isinstance(replaced, MemoryDirectory):
            raise _error(errno.ENOTEMPTY if isinstance(node, MemoryDirectory) else errno.EISDIR)
        if replaced is node:
            return
        if isinstance(replaced, MemoryFile):
            if isinstance(node, MemoryDirectory):
                raise _error(errno.ENOTDIR, target)
            self._used -= len(replaced.data)
        parent.change({name: None, target.name: node})

    def remove(self, path: Path, /) -> None:
        self._notify("remove")
        parent, name = self._parent(path)
        node = self._find(path)
        if isinstance(node, MemoryDirectory):
            raise _error(errno.EISDIR, path)
        self._used -= len(node.data)
        parent.change({name: None})

    def remove_tree(self, directory: Path, /) -> None:
        for name, node in list(self._directory(directory).entries.items()):
            if isinstance(node, MemoryDirectory):
                self.remove_tree(directory / name)
            else:
                self.remove(directory / name)
        self._notify("remove")
        parent, name = self._parent(directory)
        parent.change({name: None})

    def sync_directory(self, directory: Path, /) -> None:
        self._notify("sync_directory")
        self._directory(directory).sync()

    def disk_usage(self, directory: Path, /) -> tuple[int, int]:
        self._directory(directory)
        return self.capacity, self.free

    # ---------------------------------------------------------------------------------------

    def _detach_process(self) -> None:
        self._corrupted = frozenset()
        self._open.clear()
        self._originals.clear()
        self._last_dead = self._descriptors

    def _notify(self, kind: str) -> None:
        if self.watch is not None:
            self.watch(kind)

    def _append(self, node: MemoryFile, data: Bytes) -> int:
        """Append to a file, and return the number of bytes written.

        Files that were removed while open count as free space, unlike on a real disk.
        """
        size = len(data)
        if size > self.capacity - self._used:
            size = self.free
            if not size:
                self.failures += 1
                raise _error(errno.ENOSPC)
            data = data[:size]
        node.data += data
        self._used += size
        return size

    def _opened(self, node: MemoryFile) -> int:
        self._descriptors += 1
        self._open[self._descriptors] = node
        self._originals[self._descriptors] = self._descriptors
        return self._descriptors

    def _node(self, descriptor: int) -> MemoryFile:
        try:
            return self._open[descriptor]
        except KeyError:
            raise _error(errno.EBADF) from None

    def _find(self, path: Path) -> Node:
        node: Node = self._root
        for name in path.relative_to(path.anchor).parts:
            if isinstance(node, MemoryFile):
                raise _error(errno.ENOTDIR, path)
            try:
                node = node.entries[name]
            except KeyError:
                raise _error(errno.ENOENT, path) from None
        return node

    def _directory(self, path: Path) -> MemoryDirectory:
        node = self._find(path)
        if isinstance(node, MemoryFile):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: Path) -> tuple[MemoryDirectory, str]:
        return self._directory(path.parent), path.name


def _error(number: int, path: Path | None = None) -> OSError:
    return OSError(number, os.strerror(number), None if path is None else str(path))
