"""A disk in memory that loses, tears, fills up and fails: as a :class:`FileSystem` of the broker's.

It belongs to a machine and outlives the processes on it. ``kill`` is the end of a process: all that
was written stays. ``lose_power`` takes what was not synced (:mod:`simulation.machines.inodes`).
"""

import copy
import errno
import os
from collections.abc import Callable, Collection, Iterable, Set
from pathlib import Path
from random import Random

from ackproof.broker.log.disk.file_system import Bytes
from ackproof.broker.wire.batch import HEADER_BYTES
from simulation.machines.inodes import MemoryDirectory, MemoryFile, Node

PLENTY = 2**40

SHORT = 0.02
"""Of writes that they take only a part, where any do."""

WRITE = "write"
SYNC = "sync"
READ = "read"


class MemoryDisk:
    """One machine's disk; has the methods of :class:`~broker.log.disk.file_system.FileSystem`.

    Attributes:
        watch: called with the kind of each operation before it is carried out, if there is a
            watch. An OSError that it raises is the operation's: a write is then carried out in
            part, and a sync may have lost what it was to keep. Kinds: open, write, truncate, sync,
            read, make_directory, rename, remove, sync_directory.
        capacity: bytes that files may have in all.
        failures: how often it has not kept what it was to keep.
    """

    def __init__(self, random: Random, short: Random | None = None, capacity: int = PLENTY) -> None:
        """An empty disk.

        Args:
            random: what becomes of what was not synced.
            short: which writes take only a part of what they are given, as any may (POSIX); None:
                none does, but where there is not enough space.
        """
        self.watch: Callable[[str], None] | None = None
        self.capacity = capacity
        self.failures = 0
        self._garbled: frozenset[MemoryFile] = frozenset()
        self._random = random
        self._short = short
        self._root = MemoryDirectory()
        self._used = 0
        self._open: dict[int, MemoryFile] = {}
        self._first: dict[int, int] = {}  # of those that are duplicates of each other
        self._descriptors = self._dead = 2

    # --- what happens to machines -----------------------------------------------------------

    def kill(self) -> None:
        """The process that used it is no more. What its syncs have dropped may be seen to be."""
        for node in self._open.values():
            node.holders.clear()
        self._disown()
        if self._random.random() < 0.5:
            for file in self._root.files():
                file.evict()

    def lose_power(self) -> None:
        """The machine is off: nobody uses the disk, and what was not synced is gone, or not."""
        self._disown()
        self._root.lose_power(self._random)
        self._used = sum(len(file.data) for file in self._root.files())

    def wipe(self) -> None:
        """Another, empty disk has taken its place."""
        self._disown()
        self._root = MemoryDirectory()
        self._used = 0

    def fail(self, kinds: Collection[str]) -> None:
        """Operations of these kinds fail with EIO from now on; none of them: it works again."""

        def watch(kind: str) -> None:
            if kind in kinds:
                self.failures += kind != READ
                raise _error(errno.EIO)

        self.watch = watch if kinds else None

    def garble(self, directories: Iterable[Path]) -> None:
        """What is read from now on of files that these have is another byte than what is there, the
        first behind what may be the header of a batch. No longer than its process lives: recovery
        would rightly cut a log there."""
        there = [self._directory(each) for each in directories if self.is_directory(each)]
        self._garbled = frozenset(file for each in there for file in each.files())

    def turn_over(self, path: Path, byte: int, bit: int) -> None:
        """A bit of a file is another one, for good."""
        node = self._find(path)
        assert isinstance(node, MemoryFile)
        node.data[byte] ^= 1 << bit

    @property
    def has_dropped(self) -> bool:
        """Whether something is seen to be there that a sync which failed has dropped."""
        return any(file.has_dropped for file in self._root.files())

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        return max(0, self.capacity - self._used)

    def certain(self, path: Path) -> bytes:
        """What of a file no power failure takes."""
        node = self._find(path)
        assert isinstance(node, MemoryFile)
        return bytes(node.data[: node.certain])

    def may_return(self, path: Path) -> bool:
        """Whether a name that was taken away may be there again after a power failure."""
        return path.name in self.may_come_back(path.parent)

    def may_come_back(self, directory: Path) -> Set[str]:
        """The names there that were taken away, and that a power failure may bring back."""
        there = self._directory(directory)
        return there.possible() - there.entries.keys()

    def must_stay(self, path: Path) -> bool:
        """Whether a name is there after any power failure, if those of its directories are."""
        parent, name = self._parent(path)
        return name in parent.entries and parent.must_have(name)

    def twin(self, directory: Path, random: Random) -> "MemoryDisk":
        """Another disk, which has of this one a directory and all that it may lose there, and no
        process."""
        twin = MemoryDisk(random)
        at = twin._root
        for name in directory.parent.relative_to(directory.anchor).parts:
            at.change({name: (inner := MemoryDirectory())})
            at.sync()
            at = inner
        at.change({directory.name: copy.deepcopy(self._directory(directory))})
        at.sync()
        for file in twin._root.files():
            file.holders.clear()
        return twin

    # --- what processes ask of it -----------------------------------------------------------

    def open(self, path: Path, /) -> int:
        """See :class:`~broker.log.disk.file_system.FileSystem`, here and below."""
        self._watched("open")
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
        if self._short is not None and data and self._short.random() < SHORT:
            data = data[: self._short.randint(1, len(data))]
        return self._append(node, data)

    def pread(self, descriptor: int, size: int, position: int, /) -> bytes:
        if self.watch is not None:
            self.watch(READ)
        node = self._node(descriptor)
        data = node.data[position : position + size]
        if node in self._garbled and len(data) > HEADER_BYTES:
            data[HEADER_BYTES] ^= 0xFF
        return bytes(data)

    def truncate(self, descriptor: int, size: int, /) -> None:
        self._watched("truncate")
        node = self._node(descriptor)
        self._used += size - len(node.data)
        node.truncate(size)

    def size(self, descriptor: int, /) -> int:
        return len(self._node(descriptor).data)

    def sync(self, descriptor: int, /) -> None:
        node = self._node(descriptor)
        try:
            self._watched(SYNC)
        except OSError:
            if self._random.random() < 0.5:
                node.drop_dirty_pages()
            raise
        node.sync()

    def read_anew(self, descriptor: int, /) -> None:
        self._node(descriptor).evict()

    def duplicate(self, descriptor: int, /) -> int:
        node = self._node(descriptor)
        duplicate = self._opened(node)
        self._first[duplicate] = self._first[descriptor]
        if descriptor in node.holders:
            node.holders.add(duplicate)
        return duplicate

    def close(self, descriptor: int, /) -> None:
        if descriptor <= self._dead:
            return  # what is left of a dead process, a generator say, is tidied up
        self._node(descriptor).holders.discard(descriptor)
        del self._open[descriptor], self._first[descriptor]

    def lock(self, descriptor: int, /) -> None:
        node = self._node(descriptor)
        first = self._first[descriptor]
        one = {other for other in self._first if self._first[other] == first}
        if node.holders and not node.holders & one:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        node.holders |= one

    def read(self, path: Path, /) -> bytes:
        self._watched(READ)
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
        self._watched("make_directory")
        parent, name = self._parent(path)
        if name in parent.entries:
            raise _error(errno.EEXIST, path)
        parent.change({name: MemoryDirectory()})

    def rename(self, source: Path, target: Path, /) -> None:
        """Within one directory: nobody asks for more."""
        self._watched("rename")
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
        self._watched("remove")
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
        self._watched("remove")
        parent, name = self._parent(directory)
        parent.change({name: None})

    def sync_directory(self, directory: Path, /) -> None:
        self._watched("sync_directory")
        self._directory(directory).sync()

    def disk_usage(self, directory: Path, /) -> tuple[int, int]:
        self._directory(directory)
        return self.capacity, self.free

    # ---------------------------------------------------------------------------------------

    def _disown(self) -> None:
        self._garbled = frozenset()
        self._open.clear()
        self._first.clear()
        self._dead = self._descriptors

    def _watched(self, kind: str) -> None:
        if self.watch is not None:
            self.watch(kind)

    def _append(self, node: MemoryFile, data: Bytes) -> int:
        """Files that were removed while open count as free, unlike on a real disk."""
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
        self._first[self._descriptors] = self._descriptors
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
