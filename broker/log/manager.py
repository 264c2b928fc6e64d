"""All logs of a broker: one directory per partition in one or more log directories.

The manager owns the checkpoint files, the clean-shutdown markers and the locks of its log
directories. A log directory either has the marker of a clean shutdown, which is removed as soon as
it is read, or its logs are recovered from their recovery points. To delete a partition, its
directory is first renamed to ``<topic>-<n>.<id>-delete``. A crash then never leaves half a log that
would be loaded, and the next start removes the rest.

Work that need not be on disk when a call returns is given to ``later``
(:mod:`broker.log.disk`).

Not handled: log directories that fail one by one (any OSError reaches the caller), and moving a
replica between them.
"""

import logging
import re
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    REAL,
    RECOVERY_POINTS,
    Directory,
    FileSystem,
    Later,
    MetaProperties,
    Steps,
    carry_out,
    mark_clean_shutdown,
    offsets_content,
    read_meta_properties,
    read_offsets,
    take_clean_shutdown,
    write_meta_properties,
)
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.types import Offset, TopicPartition

logger = logging.getLogger(__name__)


LOCK_FILE = ".lock"

_DELETED = re.compile(r".+\..+-delete")
_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_NAME_BYTES_MAX = 255


class LogDirectoryInUse(Exception):
    """A log directory that another process has locked."""


class LogManager:
    """All logs of this broker, opened.

    Args:
        directories: ``log.dirs``, created if absent. A new partition goes where the fewest are.
        config_of: returns a topic's settings, called when a log of it is opened.
        unique: returns a name for a deleted partition, different every time.
        owner: the broker that must own the directories, or None to skip the check.
        later: carries out work that no caller waits for.
        files: the file system of the directories.
        probe: the observer of the logs.

    Raises:
        LogDirectoryInUse: another process has one of the directories.
        ForeignLogDirectory: a directory belongs to another broker or cluster.
        CorruptCheckpoint: a checkpoint file, or one of a partition, is damaged.
        OSError: the disk refuses an operation.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        config_of: Callable[[str], LogConfig],
        unique: Callable[[], str] = lambda: uuid.uuid4().hex,
        owner: MetaProperties | None = None,
        later: Later = carry_out,
        files: FileSystem = REAL,
        probe: Probe = NO_PROBE,
    ) -> None:
        self._files = files
        self._probe = probe
        self._directories = tuple(Directory(path, files) for path in directories)
        self._config_of = config_of
        self._unique = unique
        self._later = later
        self._writing: dict[tuple[Directory, str], bool] = {}
        self._closed = False
        self._logs: dict[TopicPartition, PartitionLog] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._locks: list[int] = []
        self.clean = True
        """Whether they were closed cleanly the last time. Otherwise unflushed records may be
        gone."""
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
        probe.logs_opened(self)

    @property
    def logs(self) -> Mapping[TopicPartition, PartitionLog]:
        """The open logs."""
        return self._logs

    def get(self, tp: TopicPartition) -> PartitionLog | None:
        """Return the partition's log, or None if it is not on this broker."""
        return self._logs.get(tp)

    def create(self, tp: TopicPartition) -> PartitionLog:
        """Return the partition's log, created empty if it does not exist yet."""
        if tp not in self._logs:
            directory = min(self._directories, key=self._partitions_in)
            self._logs[tp] = PartitionLog.open(
                directory.path / str(tp),
                self._config_of(tp.topic),
                clean=True,
                files=self._files,
                later=self._later,
                probe=self._probe,
            )
            self._probe.log_created(self, tp, self._logs[tp])
        return self._logs[tp]

    def delete(self, tp: TopicPartition) -> None:
        """Do as ``delete_steps``, and finish before returning."""
        carry_out(self.delete_steps([tp]))

    def delete_steps(self, partitions: Collection[TopicPartition]) -> Steps:
        """Remove the partitions' logs and their checkpoints from disk. A missing log is no error.

        The logs are gone once the generator has begun, and durably so when it has ended. Until then
        no partition of the same name may be created. Suppose a log start of 100 outlives its log.
        The next log of that name, with 10 records, would begin again at 100 after a crash.
        """
        renamed = [self._mark_as_deleted(tp) for tp in partitions if tp in self._logs]
        for directory in self._directories:
            mine = [path for path in renamed if path.parent == directory.path]
            if mine:
                yield directory.sync
                for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
                    while not self._closed and not (yield from self._replace(directory, name)):
                        pass  # overtaken by a later write, which may become durable at any time
                self._later(_removal(self._files, mine))

    def _mark_as_deleted(self, tp: TopicPartition) -> Path:
        """Rename the log's directory, so that it is not loaded again. If the disk refuses that, the
        log stays. If it were forgotten first, a repeated request would be told that there is no
        log. The topic would count as deleted until the next start finds its log."""
        log = self._logs[tp]
        suffix = f"-{tp.partition}.{self._unique()}-delete"
        renamed = log.directory.with_name(tp.topic[: _NAME_BYTES_MAX - len(suffix)] + suffix)
        self._files.rename(log.directory, renamed)
        del self._logs[tp]
        self._high_watermarks.pop(tp, None)
        log.close(flush=False)
        return renamed

    def high_watermark(self, tp: TopicPartition) -> Offset:
        """Return the high watermark as last checkpointed, or 0 if it never was."""
        return Offset(self._high_watermarks.get(tp, 0))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write these high watermarks durably. Partitions that are not named keep theirs."""
        self._high_watermarks.update(
            (tp, offset) for tp, offset in high_watermarks.items() if tp in self._logs
        )
        self._checkpoint(HIGH_WATERMARKS)

    def checkpoint_recovery_points(self) -> None:
        """Write durably up to where each log is fsynced."""
        self._checkpoint(RECOVERY_POINTS)

    def checkpoint_log_starts(self) -> None:
        """Write durably where each log starts."""
        self._checkpoint(LOG_STARTS)

    def flush_if_due(self, now_ms: int) -> None:
        """Flush the logs in which a record has waited for ``flush.ms``."""
        for log in self._logs.values():
            log.flush_if_due(now_ms)
        self._probe.flushes_started(self, now_ms)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> None:
        """Forget idempotent producers that have been silent for ``producer.id.expiration.ms``."""
        for log in self._logs.values():
            log.producers.state.expire(now_ms, expiration_ms)

    def close(self, clean: bool = True) -> None:
        """Close all logs and unlock the directories.

        Args:
            clean: flush, checkpoint, and leave the marker that makes the next start a quick one.
                Otherwise the files are left as they are, as after a kill.
        """
        try:
            for log in self._logs.values():
                log.close(flush=clean)
            if clean:
                for directory in self._directories:
                    for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
                        carry_out(self._replace(directory, name))
                    self._probe.shutdown_marked(self, directory.path)
                    mark_clean_shutdown(directory)
        finally:
            self._closed = True
            self._logs.clear()
            for directory in self._directories:
                directory.abandon()
            while self._locks:
                self._files.close(self._locks.pop())

    def _load(self, directory: Directory) -> None:
        clean = take_clean_shutdown(directory)
        self.clean = self.clean and clean
        recovery_points = read_offsets(directory, RECOVERY_POINTS)
        log_starts = read_offsets(directory, LOG_STARTS)
        high_watermarks = read_offsets(directory, HIGH_WATERMARKS)
        there = dict(_partition_directories(directory))
        for tp, path in there.items():
            self._logs[tp] = PartitionLog.open(
                path,
                self._config_of(tp.topic),
                clean=clean,
                recovery_point=recovery_points.get(tp, 0),
                log_start_offset=log_starts.get(tp, 0),
                files=self._files,
                later=self._later,
                probe=self._probe,
            )
            self._high_watermarks[tp] = high_watermarks.get(tp, 0)
        for name, noted in (
            (RECOVERY_POINTS, recovery_points),
            (LOG_STARTS, log_starts),
            (HIGH_WATERMARKS, high_watermarks),
        ):
            # A deletion was interrupted, and its log is gone. These offsets would apply to the next
            # log of that name, if this process ends before it has checkpointed. See delete_steps.
            if not noted.keys() <= there.keys():
                carry_out(self._replace(directory, name))

    def _checkpoint(self, name: str) -> None:
        for directory in self._directories:
            if (directory, name) in self._writing:
                self._writing[directory, name] = True
            else:
                self._writing[directory, name] = False
                self._later(self._checkpoint_steps(directory, name))

    def _checkpoint_steps(self, directory: Directory, name: str) -> Steps:
        """Write the checkpoint, and write it again if that was requested meanwhile. If two writes
        ran at once, each would be overtaken by the next for ever on a slow disk."""
        try:
            again = True
            while again and not self._closed:
                self._writing[directory, name] = False
                yield from self._replace(directory, name)
                again = self._writing[directory, name]
        finally:
            del self._writing[directory, name]

    def _replace(
        self, directory: Directory, name: str
    ) -> Generator[Callable[[], object], None, bool]:
        """Write the current offsets; see ``Directory.replace_steps``."""
        here = {tp: log for tp, log in self._logs.items() if log.directory.parent == directory.path}
        offsets: Mapping[TopicPartition, int]
        if name == RECOVERY_POINTS:
            offsets = {tp: log.recovery_point for tp, log in here.items()}
        elif name == LOG_STARTS:
            offsets = {tp: log.log_start_offset for tp, log in here.items()}
        else:
            offsets = {tp: self.high_watermark(tp) for tp in here}
        self._probe.checkpoint_started(self, directory.path / name, offsets)
        return directory.replace_steps(name, offsets_content(offsets))

    def _partitions_in(self, directory: Directory) -> int:
        return sum(log.directory.parent == directory.path for log in self._logs.values())


def _partition_directories(directory: Directory) -> Iterator[tuple[TopicPartition, Path]]:
    """Yield the partitions of a log directory, after removing those with an interrupted
    deletion."""
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
    """Lock the directory while the returned descriptor is open, and release it even on kill -9."""
    descriptor = directory.files.open(directory.path / LOCK_FILE)
    try:
        directory.files.lock(descriptor)
    except BlockingIOError as error:
        directory.files.close(descriptor)
        raise LogDirectoryInUse(f"{directory.path}: another broker is using it") from error
    return descriptor


def _removal(files: FileSystem, directories: Sequence[Path]) -> Steps:
    """Remove directories. A directory that remains, because the broker ends or the disk refuses, is
    removed at the next start."""
    for directory in directories:
        try:
            yield partial(files.remove_tree, directory)
        except OSError as error:
            logger.error("A deleted partition could not be removed: %s", error)


# --- owner of the log directories -----------------------------------------------------------------
#
# The owner of the log directories: ``meta.properties``, checked before anything in them is changed.
#
# - The logs may be another broker's, under our id. The followers of partitions that both hold would
#   truncate ours by epochs of other records. Records that we lack would count as replicated,
#   because an ISR has our id in it.
# - The logs may be another cluster's. Topics of the same names are other topics, which topic ids
#   detect only if the log has one.


class ForeignLogDirectory(Exception):
    """A log directory of another owner. Nothing was changed."""


class InconsistentBrokerId(ForeignLogDirectory):
    """A log directory of another broker."""


class InconsistentClusterId(ForeignLogDirectory):
    """A log directory of another cluster."""


def claim(directories: Sequence[Directory], owner: MetaProperties) -> None:
    """Make these directories ``owner``'s. A directory without ``meta.properties`` may be claimed by
    any broker, even with logs in it, as in Kafka.

    Raises:
        InconsistentBrokerId, InconsistentClusterId: a directory has another owner.
        CorruptCheckpoint: a file does not name the owner of its directory.
        OSError: the disk refuses an operation.
    """
    found = {directory: read_meta_properties(directory) for directory in directories}
    for directory, meta in found.items():
        if meta is not None:
            _check_owner(directory.path / META_PROPERTIES, meta, owner)
    for directory, meta in found.items():
        if meta is None:
            write_meta_properties(directory, owner)


def _check_owner(path: Path, meta: MetaProperties, owner: MetaProperties) -> None:
    if meta.cluster_id != owner.cluster_id:
        raise InconsistentClusterId(
            f"{path}: cluster.id={meta.cluster_id}, but this cluster is {owner.cluster_id}; "
            f"zookeeper.connect should name that cluster's ZooKeeper, or log.dirs other directories"
        )
    if meta.broker_id != owner.broker_id:
        raise InconsistentBrokerId(
            f"{path}: broker.id={meta.broker_id}, but this is broker {owner.broker_id}; broker.id "
            f"should be {meta.broker_id} for these logs, or log.dirs name other directories"
        )
