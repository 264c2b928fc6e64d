"""The disk as logs use it: files, work that waits for a sync, and small files beside the logs."""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jproperties import Properties

from ackproof.broker.types import BrokerId, TopicPartition

# --- file system operations -----------------------------------------------------------------------
#
# The file system operations that the logs need, and the real file system.
#
# The operations are the system's own. What is built of them (whole appends, atomic replacement:
# :mod:`broker.log.disk`) is therefore the same code over every implementation. A simulated
# disk may fail or lose power at each of its steps. An implementation must promise what POSIX
# promises and no more:
#
# - What was written outlives the process.
# - A file or name that was not synced need not outlive the machine.
# - A sync that failed may have lost its data.
#
# All operations raise OSError (FileNotFoundError, ...) as the system's calls do.


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


# --- files and directories ------------------------------------------------------------------------
#
# They work over any file system. Some steps of work wait for the disk.


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
# Writes go straight to the :class:`~broker.log.disk.FileSystem` (without a buffer of
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


# --- checkpoints ----------------------------------------------------------------------------------
#
# The small files beside the logs, in Kafka's formats.
#
# * ``recovery-point-offset-checkpoint``: below it a log is fsynced and needs no check after a
# crash. * ``replication-offset-checkpoint``: the high watermarks. *
# ``log-start-offset-checkpoint``: log starts that lie inside a segment (DeleteRecords).
#
# Each has a version (0), a count, and "topic partition offset" lines. They are replaced atomically
# and durably. A file that does not fit its format was damaged by another program. That is an error,
# and never an empty checkpoint.
#
# * ``.kafka_cleanshutdown``: exists only while the logs are unchanged since a clean shutdown. *
# ``meta.properties``: the broker and cluster to which a log directory belongs.


RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"

_VERSION = "0"


class CorruptCheckpoint(Exception):
    """A checkpoint file that is not in its format. The text names the file and the error."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a log directory."""

    broker_id: BrokerId
    cluster_id: str


def read_checkpoint(directory: Directory, name: str) -> Sequence[str]:
    """Return the entries of a checkpoint file, none if there is no file. Raise
    CorruptCheckpoint."""
    try:
        content = directory.read(name)
    except FileNotFoundError:
        return []
    return _entries(content, directory.path / name)


def _entries(content: bytes, path: Path) -> Sequence[str]:
    try:
        lines = content.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error
    version, count, *entries = lines if len(lines) > 1 else ("", "")
    if version != _VERSION:
        raise CorruptCheckpoint(f"{path}: version {version!r}, expected {_VERSION}")
    if count != str(len(entries)):
        raise CorruptCheckpoint(f"{path}: {len(entries)} entries, but it says {count!r}")
    return entries


def checkpoint_content(entries: Sequence[str]) -> bytes:
    """Return the content of a checkpoint file with these entries."""
    lines = (_VERSION, str(len(entries)), *entries)
    return "".join(f"{line}\n" for line in lines).encode()


def read_offsets(directory: Directory, name: str) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint file, none if there is no file. Raise
    CorruptCheckpoint."""
    return _offsets(read_checkpoint(directory, name), directory.path / name)


def offsets_in(content: bytes, path: Path) -> dict[TopicPartition, int]:
    """Return the offsets in this content of the file at ``path``. Raise CorruptCheckpoint."""
    return _offsets(_entries(content, path), path)


def _offsets(entries: Sequence[str], path: Path) -> dict[TopicPartition, int]:
    offsets = {}
    for line in entries:
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptCheckpoint(
                f"{path}: {line!r}, expected 'topic partition offset'"
            ) from error
    return offsets


def offsets_content(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the content of a checkpoint file with these offsets."""
    return checkpoint_content(
        [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    )


def write_offsets(directory: Directory, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file by these offsets, durably."""
    directory.replace(name, offsets_content(offsets))


def take_clean_shutdown(directory: Directory) -> bool:
    """Return whether the last shutdown was clean, and remove the marker, durably. If it stayed, it
    would also vouch for a log that the next crash tears, and recovery would not look for the tear.
    """
    try:
        directory.files.remove(directory.path / CLEAN_SHUTDOWN)
        orderly = True
    except FileNotFoundError:
        orderly = False
    # Sync also if there is no marker: the process that removed it may have died before this.
    directory.sync()
    return orderly


def mark_clean_shutdown(directory: Directory) -> None:
    """Write the marker of a clean shutdown. Call this when everything else is on disk."""
    directory.replace(CLEAN_SHUTDOWN, b"")


def read_meta_properties(directory: Directory) -> MetaProperties | None:
    """Return the owner of the directory, or None if it has no owner yet.

    Raises:
        CorruptCheckpoint: a property is missing, or not of version 0.
    """
    path = directory.path / META_PROPERTIES
    properties = Properties()
    try:
        properties.load(directory.read(META_PROPERTIES), "utf-8")
    except FileNotFoundError:
        return None
    values = properties.properties
    try:
        if values["version"] != _VERSION:
            raise CorruptCheckpoint(f"{path}: version={values['version']}, expected {_VERSION}")
        return MetaProperties(BrokerId(int(values["broker.id"])), values["cluster.id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint(f"{path}: broker.id or cluster.id: {error}") from error


def write_meta_properties(directory: Directory, meta: MetaProperties) -> None:
    """Make the directory this broker's, durably."""
    lines = (
        f"version={_VERSION}",
        f"broker.id={meta.broker_id}",
        f"cluster.id={meta.cluster_id}",
    )
    directory.replace(META_PROPERTIES, "".join(f"{line}\n" for line in lines).encode())
