"""Files and directories as the logs use them, over any file system, and steps of work that wait for
the disk."""

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path

from ackproof.broker.log.disk.file_system import REAL, Bytes, FileSystem

# --- steps ----------------------------------------------------------------------------------------
#
# Work that waits for the disk, in steps, so that requests need not wait for it.
#
# A generator of steps runs in its owner's thread, and yields what takes long: syncs and removals,
# which use nothing of the owner's state. Each must be carried out, by any thread, before the
# generator continues. Its OSError is thrown into the generator. In between the owner may do
# anything. Whenever a generator continues, it checks whether it was overtaken.


Steps = Generator[Callable[[], object], None, None]


def carry_out(steps: Generator[Callable[[], object], None, object]) -> None:
    """Carry out all steps at once, in this thread."""
    try:
        work = next(steps)
        while True:
            try:
                work()
            except OSError as error:
                work = steps.throw(error)
            else:
                work = next(steps)
    except StopIteration:
        return
    finally:
        steps.close()


Later = Callable[[Steps], object]
"""A function that carries out steps, in this order, possibly after it returns. An error ends the
broker."""


# --- files ----------------------------------------------------------------------------------------
#
# Files and directories as the logs use them, over any file system.
#
# Writes go straight to the :class:`~broker.log.disk.file_system.FileSystem` (without a buffer of
# our own), so that written data outlives a killed process. Data that must outlive a power failure
# is synced, including the directory that names it.


TEMPORARY_SUFFIX = ".tmp"


class File:
    """An open file that grows by whole appends."""

    __slots__ = ("_descriptor", "_files", "_pread", "_size", "_torn", "_write")

    def __init__(self, files: FileSystem, path: Path) -> None:
        """Open the file, created empty if absent."""
        self._files = files
        self._write = files.write
        self._pread = files.pread
        self._descriptor = files.open(path)
        self._size = files.size(self._descriptor)
        self._torn = False

    @property
    def size(self) -> int:
        """The number of bytes in the file."""
        return self._size

    def append(self, data: Bytes) -> None:
        """Append all of ``data``, or nothing.

        Raises:
            OSError: for example, the disk is full. The file ends where it did.
        """
        if self._torn:
            self.truncate(self._size)
        try:
            written = self._write(self._descriptor, data)
            while written < len(data):
                written += self._write(self._descriptor, memoryview(data)[written:])
        except OSError:
            # A disk that refused a write may refuse the truncation as well. The next append would
            # then lie after the torn one, where no reader and no recovery finds it.
            self._torn = True
            with contextlib.suppress(OSError):
                self.truncate(self._size)
            raise
        self._size += written

    def read_at(self, size: int, position: int) -> bytes:
        """Return up to ``size`` bytes from ``position``, fewer only where the file ends."""
        data = self._pread(self._descriptor, size, position)
        while len(data) < size:
            more = self._pread(self._descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, size: int) -> None:
        """Truncate the file to ``size`` bytes."""
        self._files.truncate(self._descriptor, size)
        self._size = size
        self._torn = False

    def sync(self) -> None:
        """Make the content durable."""
        self._files.sync(self._descriptor)

    def drop_cached_pages(self) -> None:
        """Read from the disk from now on, and not from a cache."""
        self._files.drop_cached_pages(self._descriptor)

    def duplicate(self) -> int:
        """Return a descriptor of the same file, which the caller must close."""
        return self._files.duplicate(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        self._files.close(self._descriptor)


class Directory:
    """A directory and its file system.

    Attributes:
        files: the file system.
        path: its name there.
    """

    __slots__ = ("_turns", "files", "path")

    def __init__(self, path: Path, files: FileSystem = REAL) -> None:
        """Name the directory, which need not exist."""
        self.files = files
        self.path = path
        self._turns: dict[str, object] = {}

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.name

    def make(self, *, durably: bool = True) -> None:
        """Create the directory and its missing parents."""
        missing = []
        path = self.path
        while not self.files.is_directory(path):
            missing.append(path)
            path = path.parent
        for path in reversed(missing):
            self.files.make_directory(path)
            if durably:
                self.files.sync_directory(path.parent)

    def stems(self, suffix: str) -> list[str]:
        """Return the names of its files that end with ``suffix``, without it, sorted."""
        names = self.files.names(self.path)
        return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix))

    def open(self, name: str) -> File:
        """Open one of its files, created empty if absent."""
        return File(self.files, self.path / name)

    def read(self, name: str) -> bytes:
        """Return the content of one of its files. Raise FileNotFoundError."""
        return self.files.read(self.path / name)

    def replace(self, name: str, content: bytes) -> None:
        """Replace a file, durably: after a crash it holds either the old content or the new."""
        carry_out(self.replace_steps(name, content))

    def replace_steps(
        self, name: str, content: bytes
    ) -> Generator[Callable[[], object], None, bool]:
        """Do as ``replace``. Return False if it was overtaken by another replacement, or abandoned.

        Two replacements may write the same temporary file, one after the other. Only the last one
        renames it. Older content never replaces newer, and content that is not synced replaces
        nothing.
        """
        turn = self._turns[name] = object()
        temporary = name + TEMPORARY_SUFFIX
        file = self.open(temporary)
        try:
            file.truncate(0)
            file.append(content)
            yield file.sync
        finally:
            file.close()
        if self._turns.get(name) is not turn:
            return False
        self.files.rename(self.path / temporary, self.path / name)
        try:
            yield self.sync
        except OSError:
            if name in self._turns:  # if abandoned, the directory may have another name by now
                raise
        return self._turns.get(name) is turn

    def abandon(self, *names: str) -> None:
        """Abandon the running replacements of these files, or of all if none is named. The files
        are gone, or their content is. The directory's name may belong to another directory by now.
        """
        for name in names or tuple(self._turns):
            self._turns.pop(name, None)

    def remove(self, name: str) -> None:
        """Remove a file. A missing file is no error."""
        with contextlib.suppress(FileNotFoundError):
            self.files.remove(self.path / name)

    def sync(self) -> None:
        """Make created, renamed and removed names in it durable."""
        self.files.sync_directory(self.path)
