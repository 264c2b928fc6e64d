"""The few file operations on which everything in this room relies.

Writes go straight to the operating system (no buffer of our own), so that what was written
outlives a killed process. What must outlive a power failure is fsynced, the directory that names
it included.
"""

import os
from pathlib import Path


def open_appending(path: Path) -> int:
    """A descriptor that reads anywhere and writes at the end; the file is made if it is absent."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def append_whole(descriptor: int, data: bytes | bytearray | memoryview, end: int) -> None:
    """Appends all of ``data`` to a file that ends at ``end``, or nothing.

    Raises:
        OSError: e.g. the disk is full; the file was cut back to ``end``.
    """
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, end)
        raise


def read_at(descriptor: int, size: int, position: int) -> bytes:
    """Up to ``size`` bytes from ``position``; fewer only where the file ends."""
    data = os.pread(descriptor, size, position)
    while len(data) < size:
        more = os.pread(descriptor, size - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def write_atomically(path: Path, content: bytes) -> None:
    """Replaces ``path``, durably: after a crash it holds either the old content or the new."""
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes durable what was created, renamed and removed in ``directory``."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
