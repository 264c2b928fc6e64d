"""All logs of a broker: one directory per partition in one or more log directories.

Owns the checkpoint files, the clean-shutdown markers and the locks of its log directories. A log
directory was either left in good order (marker, removed as soon as it is read) or its logs are
recovered from their recovery points. A partition is deleted by renaming its directory to
``<topic>-<n>.<id>-delete`` first, so that a crash never leaves half a log that would be loaded;
what is left over is removed at the next start.

Not handled: log directories that fail one by one (any OSError reaches the caller), and moving a
replica between them.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from broker.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    MetaProperties,
    mark_clean_shutdown,
    read_offsets,
    take_clean_shutdown,
    write_offsets,
)
from broker.log.config import LogConfig
from broker.log.file_system import REAL, FileSystem
from broker.log.files import Directory
from broker.log.ownership import claim
from broker.log.partition_log import PartitionLog
from broker.types import Offset, TopicPartition

LOCK_FILE = ".lock"

_DELETED = re.compile(r".+\..+-delete")
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_NAME_BYTES_MAX = 255


class LogDirectoryInUse(Exception):
    """Another process holds the log directory."""


class LogManager:
    """Every log of this broker, opened.

    Args:
        directories: ``log.dirs``; made if absent. A new partition goes where the fewest are.
        config_of: a topic's settings, asked when a log of it is opened.
        unique: names for deleted partitions, different every time.
        owner: the broker that wants them; None: nobody asks whose they are.
        remove: gets rid of a directory whose deletion is certain, and may take its time.
        files: the file system that the directories are on.

    Raises:
        LogDirectoryInUse: another process has one of the directories.
        ForeignLogDirectory: one is another broker's or cluster's.
        CorruptCheckpoint: a checkpoint file is damaged, or a partition's own.
        OSError: the disk says no.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        config_of: Callable[[str], LogConfig],
        unique: Callable[[], str] = lambda: uuid.uuid4().hex,
        owner: MetaProperties | None = None,
        remove: Callable[[Path], object] | None = None,
        files: FileSystem = REAL,
    ) -> None:
        self._files = files
        self._directories = tuple(Directory(path, files) for path in directories)
        self._config_of = config_of
        self._unique = unique
        self._remove = remove or files.remove_tree
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._locks: list[int] = []
        self.clean = True
        """Whether they were closed cleanly the last time; what was not flushed may be gone else."""
        try:
            for directory in self._directories:
                directory.make()
                self._locks.append(_lock(directory))
            if owner is not None:
                claim(self._directories, owner)
            for directory in self._directories:
                self._load(directory)
        except BaseException:
            self.close(clean=False)
            raise

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The open logs."""
        return self._logs

    def get(self, tp: TopicPartition) -> PartitionLog | None:
        """The partition's log, or None if it is not on this broker."""
        return self._logs.get(tp)

    def create(self, tp: TopicPartition) -> PartitionLog:
        """The partition's log, made empty if it is not there yet."""
        if tp not in self._logs:
            directory = min(self._directories, key=self._partitions_in)
            self._logs[tp] = PartitionLog.open(
                directory.path / str(tp), self._config_of(tp.topic), clean=True, files=self._files
            )
        return self._logs[tp]

    def delete(self, tp: TopicPartition) -> None:
        """Removes the partition's log and its checkpoints from disk; no log is no error.

        The checkpoints before the call returns: a log start of 100 that outlived its log would
        have the next one of that name, with 10 records, begin anew at 100 after a crash.
        """
        log = self._logs.pop(tp, None)
        if log is None:
            return
        log.close(flush=False)
        suffix = f"-{tp.partition}.{self._unique()}-delete"
        doomed = log.directory.with_name(tp.topic[: _NAME_BYTES_MAX - len(suffix)] + suffix)
        self._files.rename(log.directory, doomed)
        self._files.sync_directory(doomed.parent)
        self._high_watermarks.pop(tp, None)
        self._checkpoint_all(Directory(doomed.parent, self._files))
        self._remove(doomed)

    def high_watermark(self, tp: TopicPartition) -> Offset:
        """The high watermark as last checkpointed, 0 if it never was."""
        return Offset(self._high_watermarks.get(tp, 0))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Notes these high watermarks durably; partitions not named keep theirs."""
        self._high_watermarks.update(
            (tp, offset) for tp, offset in high_watermarks.items() if tp in self._logs
        )
        for directory in self._directories:
            self._write(directory, HIGH_WATERMARKS, self.high_watermark)

    def checkpoint_recovery_points(self) -> None:
        """Notes durably up to where each log is fsynced."""
        for directory in self._directories:
            self._write(directory, RECOVERY_POINTS, lambda tp: self._logs[tp].recovery_point)

    def checkpoint_log_starts(self) -> None:
        """Notes durably where each log starts."""
        for directory in self._directories:
            self._write(directory, LOG_STARTS, lambda tp: self._logs[tp].log_start_offset)

    def flush_if_due(self, now_ms: int) -> None:
        """Flushes the logs in which a record has waited for ``flush.ms``."""
        for log in self._logs.values():
            log.flush_if_due(now_ms)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets idempotent producers that have been silent for ``producer.id.expiration.ms``."""
        for log in self._logs.values():
            log.producers.state.expire(now_ms, expiration_ms)

    def close(self, clean: bool = True) -> None:
        """Closes all logs and gives the directories back.

        Args:
            clean: flush, checkpoint, and leave the marker that makes the next start a quick one.
                Without, the files are left as they are, as after a kill.
        """
        try:
            for log in self._logs.values():
                log.close(flush=clean)
            if clean:
                for directory in self._directories:
                    self._checkpoint_all(directory)
                    mark_clean_shutdown(directory)
        finally:
            self._logs.clear()
            while self._locks:
                self._files.close(self._locks.pop())

    def _load(self, directory: Directory) -> None:
        clean = take_clean_shutdown(directory)
        self.clean = self.clean and clean
        recovery_points = read_offsets(directory, RECOVERY_POINTS)
        log_starts = read_offsets(directory, LOG_STARTS)
        high_watermarks = read_offsets(directory, HIGH_WATERMARKS)
        for tp, path in _partition_directories(directory):
            self._logs[tp] = PartitionLog.open(
                path,
                self._config_of(tp.topic),
                clean=clean,
                recovery_point=recovery_points.get(tp, 0),
                log_start_offset=log_starts.get(tp, 0),
                files=self._files,
            )
            self._high_watermarks[tp] = high_watermarks.get(tp, 0)

    def _checkpoint_all(self, directory: Directory) -> None:
        self._write(directory, RECOVERY_POINTS, lambda tp: self._logs[tp].recovery_point)
        self._write(directory, LOG_STARTS, lambda tp: self._logs[tp].log_start_offset)
        self._write(directory, HIGH_WATERMARKS, self.high_watermark)

    def _write(
        self, directory: Directory, name: str, offset_of: Callable[[TopicPartition], int]
    ) -> None:
        here = [tp for tp, log in self._logs.items() if log.directory.parent == directory.path]
        write_offsets(directory, name, {tp: offset_of(tp) for tp in here})

    def _partitions_in(self, directory: Directory) -> int:
        return sum(log.directory.parent == directory.path for log in self._logs.values())


def _partition_directories(directory: Directory) -> Iterator[tuple[TopicPartition, Path]]:
    """The partitions of a log directory, after removal of those whose deletion was cut short."""
    files = directory.files
    for name in sorted(files.names(directory.path)):
        path = directory.path / name
        if not files.is_directory(path):
            continue
        if _DELETED.fullmatch(name):
            files.remove_tree(path)
        elif match := _PARTITION.fullmatch(name):
            yield TopicPartition(match["topic"], int(match["partition"])), path


def _lock(directory: Directory) -> int:
    """Locks the directory for as long as the returned descriptor is open, kill -9 included."""
    descriptor = directory.files.open(directory.path / LOCK_FILE)
    try:
        directory.files.lock(descriptor)
    except BlockingIOError as error:
        directory.files.close(descriptor)
        raise LogDirectoryInUse(f"{directory.path}: another broker is using it") from error
    return descriptor
