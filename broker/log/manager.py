"""All logs of a broker: one directory per partition in one or more log directories.

Owns the checkpoint files, the clean-shutdown markers and the locks of its log directories. A log
directory was either left in good order (marker, removed as soon as it is read) or its logs are
recovered from their recovery points. A partition is deleted by renaming its directory to
``<topic>-<n>.<id>-delete`` first, so that a crash never leaves half a log that would be loaded;
what is left over is removed at the next start.

What need not be on disk when a call returns is given to ``later``, in :mod:`broker.log.disk.files`.

Not handled: log directories that fail one by one (any OSError reaches the caller), and moving a
replica between them."""

import logging
import re
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.disk.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    MetaProperties,
    mark_clean_shutdown,
    offsets_content,
    read_meta_properties,
    read_offsets,
    take_clean_shutdown,
    write_meta_properties,
)
from ackproof.broker.log.disk.file_system import REAL, FileSystem
from ackproof.broker.log.disk.files import Directory, Later, Steps, carry_out
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.probe import NO_PROBE, Probe
from ackproof.broker.types import Offset, TopicPartition

logger = logging.getLogger(__name__)


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
        later: has done what nobody waits for.
        files: the file system that the directories are on.
        probe: what is reported to.

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
        probe.logs_opened(self)

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
        """As ``delete_steps``, done when it returns."""
        carry_out(self.delete_steps([tp]))

    def delete_steps(self, partitions: Collection[TopicPartition]) -> Steps:
        """Removes the partitions' logs and their checkpoints from disk; no log is no error.

        They are gone when the generator has begun, and for good when it has ended; until then no
        partition of the same name may be made. A log start of 100 that outlived its log would have
        the next one of that name, with 10 records, begin anew at 100 after a crash.
        """
        doomed = [self._doom(tp) for tp in partitions if tp in self._logs]
        for directory in self._directories:
            mine = [path for path in doomed if path.parent == directory.path]
            if mine:
                yield directory.sync
                for name in (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
                    while not self._closed and not (yield from self._replace(directory, name)):
                        pass  # overtaken by a later one, of which nobody knows when it is durable
                self._later(_removal(self._files, mine))

    def _doom(self, tp: TopicPartition) -> Path:
        """Takes the log's name away, so that it is not loaded again. Where the disk refuses that
        the log stays: were it forgotten first, who asks again would be told that there is none, and
        the topic count as deleted until the next start finds its log."""
        log = self._logs[tp]
        suffix = f"-{tp.partition}.{self._unique()}-delete"
        doomed = log.directory.with_name(tp.topic[: _NAME_BYTES_MAX - len(suffix)] + suffix)
        self._files.rename(log.directory, doomed)
        del self._logs[tp]
        self._high_watermarks.pop(tp, None)
        log.close(flush=False)
        return doomed

    def high_watermark(self, tp: TopicPartition) -> Offset:
        """The high watermark as last checkpointed, 0 if it never was."""
        return Offset(self._high_watermarks.get(tp, 0))

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Notes these high watermarks durably; partitions not named keep theirs."""
        self._high_watermarks.update(
            (tp, offset) for tp, offset in high_watermarks.items() if tp in self._logs
        )
        self._checkpoint(HIGH_WATERMARKS)

    def checkpoint_recovery_points(self) -> None:
        """Notes durably up to where each log is fsynced."""
        self._checkpoint(RECOVERY_POINTS)

    def checkpoint_log_starts(self) -> None:
        """Notes durably where each log starts."""
        self._checkpoint(LOG_STARTS)

    def flush_if_due(self, now_ms: int) -> None:
        """Flushes the logs in which a record has waited for ``flush.ms``."""
        for log in self._logs.values():
            log.flush_if_due(now_ms)
        self._probe.flushes_started(self, now_ms)

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
            # A deletion that was cut short: its log is gone, and they would be the next one's of
            # that name, if this life ends before it has checkpointed. See delete_steps.
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
        """Once more if it was asked for meanwhile: of two at once, on a slow disk each would be
        overtaken by the next for ever."""
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
        """Writes what is the case now; see ``Directory.replace_steps``."""
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


def _removal(files: FileSystem, directories: Sequence[Path]) -> Steps:
    """What stays, because the broker ends or the disk says no, goes at the next start."""
    for directory in directories:
        try:
            yield partial(files.remove_tree, directory)
        except OSError as error:
            logger.error("A deleted partition could not be removed: %s", error)


# --- owner of the log directories -----------------------------------------------------------------
#
# Whose log directories these are: ``meta.properties``, checked before anything in them is touched.
#
# Another broker's logs under our id: followers of partitions that both hold would cut ours by
# epochs that speak of other records, and what we lack would count as replicated, because an ISR has
# our id in it. Another cluster's: topics of the same names are other topics, which topic ids tell
# only where the log has one.


class ForeignLogDirectory(Exception):
    """A log directory of somebody else; nothing was changed."""


class InconsistentBrokerId(ForeignLogDirectory):
    """Of another broker."""


class InconsistentClusterId(ForeignLogDirectory):
    """Of another cluster."""


def claim(directories: Sequence[Directory], owner: MetaProperties) -> None:
    """Makes these directories ``owner``'s. One without ``meta.properties`` is anybody's, even with
    logs in it, as in Kafka.

    Raises:
        InconsistentBrokerId, InconsistentClusterId: one of them is another's.
        CorruptCheckpoint: a file does not say whose directory it is.
        OSError: the disk says no.
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
