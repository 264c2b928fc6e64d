"""Files and directories as the logs use them, over any file system, and work that waits for the
disk, in steps."""

import contextlib
from collections.abc import Callable, Generator
from pathlib import Path

from ackproof.broker.log.disk.file_system import REAL, Bytes, FileSystem

# --- steps ----------------------------------------------------------------------------------------
#
# Work that waits for the disk, in steps, so that it need not be waited for where requests are.
#
# A generator of steps runs where its owner runs, and yields what takes long: syncs and removals,
# which touch nothing that the owner has. Each is to be done, by any thread, before the generator
# goes on; an OSError of it is thrown into the generator. In between the owner may do as it likes: a
# generator looks, whenever it goes on, whether it was overtaken.


Steps = Generator[Callable[[], object], None, None]


def carry_out(steps: Generator[Callable[[], object], None, object]) -> None:
    """Does all of it at once, here."""
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
"""Has steps carried out, in this order, maybe after it returns; what goes wrong ends the broker."""


# --- files ----------------------------------------------------------------------------------------
#
# Files and directories as the logs use them, over any file system.
#
# Writes go straight to the :class:`~broker.log.disk.file_system.FileSystem` (no buffer of our own),
# so that what was written outlives a killed process. What must outlive a power failure is synced,
# the directory that names it included.


TEMPORARY_SUFFIX = ".tmp"


class File:
    """An open file that grows by whole appends."""

    __slots__ = ("_descriptor", "_files", "_pread", "_size", "_torn", "_write")

    def __init__(self, files: FileSystem, path: Path) -> None:
        """Opens it, made empty if it is absent."""
        self._files = files
        self._write = files.write
        self._pread = files.pread
        self._descriptor = files.open(path)
        self._size = files.size(self._descriptor)
        self._torn = False

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def append(self, data: Bytes) -> None:
        """Appends all of ``data``, or nothing.

        Raises:
            OSError: e.g. the disk is full; the file ends where it did.
        """
        if self._torn:
            self.truncate(self._size)
        try:
            written = self._write(self._descriptor, data)
            while written < len(data):
                written += self._write(self._descriptor, memoryview(data)[written:])
        except OSError:
            # A disk that refused a write may refuse the cut as well. The next append would then
            # lie behind the torn one, where no reader and no recovery gets to.
            self._torn = True
            with contextlib.suppress(OSError):
                self.truncate(self._size)
            raise
        self._size += written

    def read_at(self, size: int, position: int) -> bytes:
        """Up to ``size`` bytes from ``position``; fewer only where the file ends."""
        data = self._pread(self._descriptor, size, position)
        while len(data) < size:
            more = self._pread(self._descriptor, size - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def truncate(self, size: int) -> None:
        """Cuts the file to ``size`` bytes."""
        self._files.truncate(self._descriptor, size)
        self._size = size
        self._torn = False

    def sync(self) -> None:
        """Makes the content durable."""
        self._files.sync(self._descriptor)

    def read_anew(self) -> None:
        """Believes the disk from now on, and no cache of it."""
        self._files.read_anew(self._descriptor)

    def duplicate(self) -> int:
        """A descriptor of the same file, which is the caller's to close."""
        return self._files.duplicate(self._descriptor)

    def close(self) -> None:
        """Closes the file."""
        self._files.close(self._descriptor)


class Directory:
    """A directory and the file system that it is on.

    Attributes:
        files: the file system.
        path: its name there.
    """

    __slots__ = ("_turns", "files", "path")

    def __init__(self, path: Path, files: FileSystem = REAL) -> None:
        """Names it; it need not be there."""
        self.files = files
        self.path = path
        self._turns: dict[str, object] = {}

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.name

    def make(self, *, durably: bool = True) -> None:
        """Makes it and those above it, as far as they are not there."""
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
        """The names of its files that end with ``suffix``, without it, sorted."""
        names = self.files.names(self.path)
        return sorted(name.removesuffix(suffix) for name in names if name.endswith(suffix))

    def open(self, name: str) -> File:
        """One of its files, made empty if it is absent."""
        return File(self.files, self.path / name)

    def read(self, name: str) -> bytes:
        """All of one of its files; raises FileNotFoundError."""
        return self.files.read(self.path / name)

    def replace(self, name: str, content: bytes) -> None:
        """Replaces a file, durably: after a crash it holds either the old content or the new."""
        carry_out(self.replace_steps(name, content))

    def replace_steps(
        self, name: str, content: bytes
    ) -> Generator[Callable[[], object], None, bool]:
        """As ``replace``. False: it was overtaken by another replacement, or abandoned.

        Two may write the same temporary file, one after the other: only who was last renames it.
        Older content never takes the place of newer, nor content that is not synced any place.
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
            if name in self._turns:  # else abandoned: the directory may have another name by now
                raise
        return self._turns.get(name) is turn

    def abandon(self, *names: str) -> None:
        """These files (all, if none is named) are not replaced any more by what is under way: they
        are gone, or what was to be in them is. The directory's name may be another's by now."""
        for name in names or tuple(self._turns):
            self._turns.pop(name, None)

    def remove(self, name: str) -> None:
        """Removes a file; no file is no error."""
        with contextlib.suppress(FileNotFoundError):
            self.files.remove(self.path / name)

    def sync(self) -> None:
        """Makes durable what was made, renamed and removed in it."""
        self.files.sync_directory(self.path)
