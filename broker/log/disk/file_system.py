"""All that the logs ask of a file system, and the real one.

The operations are the system's own, so that what is built of them (whole appends, atomic
replacement: :mod:`broker.log.disk.files`) is the same code over every implementation, and every one
of its steps a moment at which a simulated disk may fail or lose power. Of an implementation is
asked what POSIX promises and no more: what was written outlives the process; what was not synced,
file or name, need not outlive the machine; a sync that failed may have lost what it was to keep.

All of them raise OSError (FileNotFoundError, ...) as the system's calls do.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class FileSystem(Protocol):
    """Files are known by descriptors while they are open, else by paths."""

    def open(self, path: Path, /) -> int:
        """A descriptor that reads anywhere and writes at the end; the file is made if absent."""

    def write(self, descriptor: int, data: Bytes, /) -> int:
        """Appends the first bytes of ``data``, at least one; returns how many."""

    def pread(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Up to ``size`` bytes from ``position``; nothing only where the file ends."""

    def truncate(self, descriptor: int, size: int, /) -> None:
        """Cuts the file to ``size`` bytes."""

    def size(self, descriptor: int, /) -> int:
        """How long the file is."""

    def sync(self, descriptor: int, /) -> None:
        """Makes the file's content durable, its name not. May be called in any thread."""

    def read_anew(self, descriptor: int, /) -> None:
        """What is read from now on comes from the disk, but for what is still to be written there:
        what a sync that failed has dropped is seen to be gone. Advice to the system."""

    def duplicate(self, descriptor: int, /) -> int:
        """A second descriptor of the same open file, which outlives the first one."""

    def close(self, descriptor: int, /) -> None:
        """Gives the descriptor back."""

    def lock(self, descriptor: int, /) -> None:
        """Locks the file until this descriptor and its duplicates are closed, if only by the end of
        the process.

        Raises:
            BlockingIOError: somebody else has locked it.
        """

    def read(self, path: Path, /) -> bytes:
        """All of a file."""

    def names(self, directory: Path, /) -> list[str]:
        """What is in a directory, in no order that means anything."""

    def is_directory(self, path: Path, /) -> bool:
        """Whether there is a directory of this name."""

    def make_directory(self, path: Path, /) -> None:
        """Makes a directory in one that is there."""

    def rename(self, source: Path, target: Path, /) -> None:
        """Gives a file or directory another name in the same directory, in one step.

        Under the new name there may be a file already, if it is one.
        """

    def remove(self, path: Path, /) -> None:
        """Removes a file's name; the file lasts until its last descriptor is closed."""

    def remove_tree(self, directory: Path, /) -> None:
        """Removes a directory with all that is in it. May be called in any thread."""

    def sync_directory(self, directory: Path, /) -> None:
        """Makes durable what was made, renamed and removed in ``directory``. In any thread."""

    def disk_usage(self, directory: Path, /) -> tuple[int, int]:
        """Bytes of the disk that ``directory`` is on: all there are, and those free to us."""


class RealFileSystem:
    """The operating system's. What is called for each batch is the system's call itself."""

    write = staticmethod(os.write)
    pread = staticmethod(os.pread)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(os.fsync)
    duplicate = staticmethod(os.dup)
    close = staticmethod(os.close)

    def open(self, path: Path, /) -> int:
        """See :class:`FileSystem`, here and below."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def size(self, descriptor: int, /) -> int:
        return os.fstat(descriptor).st_size

    def read_anew(self, descriptor: int, /) -> None:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def lock(self, descriptor: int, /) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def read(self, path: Path, /) -> bytes:
        return path.read_bytes()

    def names(self, directory: Path, /) -> list[str]:
        return [path.name for path in directory.iterdir()]

    def is_directory(self, path: Path, /) -> bool:
        return path.is_dir()

    def make_directory(self, path: Path, /) -> None:
        path.mkdir()

    def rename(self, source: Path, target: Path, /) -> None:
        source.replace(target)

    def remove(self, path: Path, /) -> None:
        path.unlink()

    def remove_tree(self, directory: Path, /) -> None:
        shutil.rmtree(directory)

    def sync_directory(self, directory: Path, /) -> None:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def disk_usage(self, directory: Path, /) -> tuple[int, int]:
        usage = shutil.disk_usage(directory)
        return usage.total, usage.free


REAL: FileSystem = RealFileSystem()
