"""The file system operations that the logs need, and the real file system.

The operations are the system's own. What is built of them (whole appends, atomic replacement:
:mod:`broker.log.disk.files`) is therefore the same code over every implementation. A simulated disk
may fail or lose power at each of its steps. An implementation must promise what POSIX promises and
no more:

- What was written outlives the process.
- A file or name that was not synced need not outlive the machine.
- A sync that failed may have lost its data.

All operations raise OSError (FileNotFoundError, ...) as the system's calls do.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import Protocol

Bytes = bytes | bytearray | memoryview


class FileSystem(Protocol):
    """A file system. Files are known by descriptors while they are open, and otherwise by paths."""

    def open(self, path: Path, /) -> int:
        """Return a descriptor that reads anywhere and writes at the end. Create an absent file."""

    def write(self, descriptor: int, data: Bytes, /) -> int:
        """Append the first bytes of ``data``, at least one, and return how many."""

    def pread(self, descriptor: int, size: int, position: int, /) -> bytes:
        """Return up to ``size`` bytes from ``position``, none only where the file ends."""

    def truncate(self, descriptor: int, size: int, /) -> None:
        """Truncate the file to ``size`` bytes."""

    def size(self, descriptor: int, /) -> int:
        """Return the length of the file in bytes."""

    def sync(self, descriptor: int, /) -> None:
        """Make the file's content durable, but not its name. May be called in any thread."""

    def drop_cached_pages(self, descriptor: int, /) -> None:
        """Read from the disk from now on, except what is still to be written. Data that a failed
        sync has dropped is then seen to be gone. This is advice to the system."""

    def duplicate(self, descriptor: int, /) -> int:
        """Return a second descriptor of the same open file, which outlives the first one."""

    def close(self, descriptor: int, /) -> None:
        """Close the descriptor."""

    def lock(self, descriptor: int, /) -> None:
        """Lock the file until this descriptor and its duplicates are closed, at the latest by the
        end of the process.

        Raises:
            BlockingIOError: another process has locked it.
        """

    def read(self, path: Path, /) -> bytes:
        """Return the content of a file."""

    def names(self, directory: Path, /) -> list[str]:
        """Return the names in a directory, in no particular order."""

    def is_directory(self, path: Path, /) -> bool:
        """Return whether there is a directory of this name."""

    def make_directory(self, path: Path, /) -> None:
        """Create a directory in an existing one."""

    def rename(self, source: Path, target: Path, /) -> None:
        """Give a file or directory another name in the same directory, in one step.

        A file may exist already under the new name if the source is a file.
        """

    def remove(self, path: Path, /) -> None:
        """Remove a file's name. The file lasts until its last descriptor is closed."""

    def remove_tree(self, directory: Path, /) -> None:
        """Remove a directory with its content. May be called in any thread."""

    def sync_directory(self, directory: Path, /) -> None:
        """Make created, renamed and removed names in ``directory`` durable. Callable in any
        thread."""

    def disk_usage(self, directory: Path, /) -> tuple[int, int]:
        """Return the bytes of the disk that holds ``directory``: the total, and those free to
        us."""


class RealFileSystem:
    """The operating system's files. Calls for each batch are the system's calls themselves."""

    write = staticmethod(os.write)
    pread = staticmethod(os.pread)
    truncate = staticmethod(os.ftruncate)
    sync = staticmethod(os.fsync)
    duplicate = staticmethod(os.dup)
    close = staticmethod(os.close)

    def open(self, path: Path, /) -> int:
        """Open a file; see :class:`FileSystem`, here and below."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def size(self, descriptor: int, /) -> int:
        return os.fstat(descriptor).st_size

    def drop_cached_pages(self, descriptor: int, /) -> None:
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
