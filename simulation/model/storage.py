"""Invariants of logs and checkpoints on one broker's disk.

- **Log/recovery-point-unsynced**: a power failure takes nothing below a recovery point on disk,
  because a start does not check there ("recovery-point-offset-checkpoint", ``LogManager``). The log
  itself must know of every recovery point, also after a truncation.
- **Log/flush-overdue**: no more records wait for the disk than ``flush.messages`` allows, nor
  longer than ``flush.ms``.
- **Log/epochs-differ-from-batches**: the leader epochs of a log are those of its batches. A
  follower truncates by them (KIP-101).
- **Log/timestamp-of-no-batch**: the greatest timestamp of a log is that of one of its batches.
  Retention and searches by time depend on it.
- **Log/new-start-unsynced**: a log that was deleted and started again begins at the same offset
  after a power failure.
- **Log/new-log-knows-former-topic**: a new log knows nothing of a former topic of the same name,
  and no checkpoint does. With a stale log start, it would delete its records after a kill.
- **Log/retention-violated**: retention deletes nothing that is not committed, nothing younger than
  ``retention.ms``, and nothing while the rest is smaller than ``retention.bytes`` (Kafka's
  documentation of both). Plans set one of them.
- **Log/false-clean-shutdown-mark**: a log directory is marked as closed in order only if it was.
  The mark is gone for good once a start has found it. The checkpoints of that moment agree with
  what the broker knew.
"""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from ackproof.broker.log.disk import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    offsets_in,
)
from ackproof.broker.log.epochs import FILE_NAME as EPOCHS
from ackproof.broker.log.manager import LogManager
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.producer_state import (
    SNAPSHOT_SUFFIX,
    Appended,
    CorruptSnapshot,
    Producer,
    ProducerState,
    decode,
)
from ackproof.broker.log.segment import LOG_SUFFIX
from ackproof.broker.replication.replica import Replica
from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.types import Offset, ProducerId, TopicPartition
from ackproof.broker.wire.batch import parse_batches
from simulation.machines.disk import SimulatedDisk
from simulation.machines.node import BrokerNode
from simulation.model.log import BatchExtent, ModelLog, durable_batches
from simulation.model.partition import PartitionModel
from simulation.model.replica import ReplicaModel
from simulation.violation import Violation

# --- producers ------------------------------------------------------------------------------------
#
# The state of idempotent producers in logs.
#
# **ProducerState/differs-from-log**: a log remembers, in memory and in snapshots, the last five
# batches of each producer with sequence numbers, offsets and times (KIP-98), as its batches have
# them. If a truncated batch were still remembered, its retry would be acknowledged without being
# appended. If an existing batch were not remembered, its retry would be appended again.

DIFFERS_FROM_LOG: Final = "ProducerState/differs-from-log"
NO_PRODUCER: Final = -1
BATCHES_MAX: Final = 5


def check_producers(where: str, log: PartitionLog, read: ModelLog) -> None:
    """Judge the producer state of a log by what was ``read`` in it. Raises Violation.

    Producers outlive batches that were deleted from the log's start.
    """
    _agree(where, log.producers.state, read, log.log_start_offset, log.log_end_offset)


def check_producer_snapshots(
    where: str, log: PartitionLog, disk: SimulatedDisk, read: ModelLog
) -> None:
    """Judge the snapshots on the disk, and those that a power failure may bring back.

    Suppose a truncation to 10 removed the snapshot of offset 20, and a power failure brings it
    back. Once the log has grown beyond 20, the broker would trust it. Raises Violation.
    """
    names = disk.names(log.directory) if disk.is_directory(log.directory) else ()
    for name in sorted(name for name in names if name.endswith(SNAPSHOT_SUFFIX)):
        offset = int(name.removesuffix(SNAPSHOT_SUFFIX))
        if offset > log.log_end_offset:
            raise Violation(
                DIFFERS_FROM_LOG, f"{where}: {name}, and the log ends at {log.log_end_offset}"
            )
        with contextlib.suppress(CorruptSnapshot):
            state = decode(disk.durable_bytes(log.directory / name))
            _agree(f"{where}, {name}", state, read, log.log_start_offset, offset)
    check_removed(log.directory, disk)


def check_removed(log: Path, disk: SimulatedDisk) -> None:
    """Judge that no removed snapshot can come back. Raises Violation.

    A process that removed one may have died before it synced the directory, and its successor sees
    nothing to remove.
    """
    for name in sorted(disk.reappearing_names(log)) if disk.is_directory(log) else ():
        if name.endswith(SNAPSHOT_SUFFIX):
            what = f"{log.name}: {name} was removed, and a power failure may bring it back"
            raise Violation(DIFFERS_FROM_LOG, what)


def check_restarted(where: str, log: PartitionLog, begins: int) -> None:
    """Judge that a log which was deleted and started again remembers nothing below its new start.

    Such batches may never have been committed. As leader, this replica would acknowledge their
    retries. Raises Violation.
    """
    for producer, known in log.producers.state.producers.items():
        for batch in known.batches:
            if batch.base_offset < begins:
                what = f"{where}: the log was thrown away up to {begins}, and of producer"
                what = f"{what} {producer} offsets {batch.base_offset} to {batch.last_offset} are"
                raise Violation(DIFFERS_FROM_LOG, f"{what} remembered")


def _agree(where: str, state: ProducerState, read: ModelLog, start: int, end: int) -> None:
    written = _written(read.between(start, end), start)
    remembered = {
        producer: Producer(known.epoch, kept)
        for producer, known in state.producers.items()
        if (kept := tuple(sent for sent in known.batches if sent.base_offset >= start))
    }
    for producer in sorted(written.keys() | remembered.keys()):
        known, in_log = remembered.get(producer), written.get(producer)
        if known != in_log:
            what = f"of producer {producer}, {_named(known)} is remembered, in the log is"
            raise Violation(DIFFERS_FROM_LOG, f"{where}: {what} {_named(in_log)}")


def _named(producer: Producer | None) -> str:
    if producer is None:
        return "nothing"
    sent = (
        f"{each.base_sequence} to {each.last_sequence} at {each.base_offset} ({each.timestamp} ms)"
        for each in producer.batches
    )
    return f"epoch {producer.epoch}, {', '.join(sent)}"


def _written(extents: Iterable[BatchExtent], start: int) -> Mapping[ProducerId, Producer]:
    """Return each producer's last five batches of its last epoch."""
    found: dict[ProducerId, Producer] = {}
    for producer, extent in _sent(extents, start):
        before = found.get(producer)
        same_epoch = before is not None and before.epoch == extent.producer_epoch
        kept = before.batches if before is not None and same_epoch else ()
        appended = Appended(
            base_sequence=extent.sequence,
            last_sequence=(extent.sequence + extent.next - extent.base - 1) % 2**31,
            base_offset=Offset(extent.base),
            last_offset=Offset(extent.next - 1),
            timestamp=extent.timestamp,
        )
        found[producer] = Producer(extent.producer_epoch, (*kept, appended)[-BATCHES_MAX:])
    return found


def _sent(extents: Iterable[BatchExtent], start: int) -> Iterator[tuple[ProducerId, BatchExtent]]:
    for extent in extents:
        if extent.producer != NO_PRODUCER and extent.base >= start:
            yield ProducerId(extent.producer), extent


# --- logs and checkpoints -------------------------------------------------------------------------

NO_TIMESTAMP: Final = -1
UNLIMITED: Final = -1


# --- flushes ------------------------------------------------------------------------------------


def check_recovery_point(disk: SimulatedDisk, log: PartitionLog, offset: int, deleted: int) -> None:
    """Judge a recovery point that is about to be written; raises Violation. Epochs below
    ``deleted`` do not count (:func:`check_epochs`)."""
    name, kept = log.directory.name, _synced_end(disk, log.directory, offset)
    if kept < offset:
        what = f"{name}: everything below {offset} is noted as synced; a power failure may"
        raise Violation(
            "Log/recovery-point-unsynced", f"{what} leave only the records below {kept}"
        )
    if (vouched := log.flushing.vouched_for) < offset:
        what = f"{name}: everything below {offset} is noted as synced, the log knows only of"
        raise Violation("Log/recovery-point-unsynced", f"{what} {vouched}")
    _check_synced_epochs(disk, log, offset, max(log.log_start_offset, deleted))


def _synced_end(disk: SimulatedDisk, log: Path, offset: int) -> int:
    """Return the offset up to which records are certainly on the disk, at most ``offset``."""
    if not disk.is_directory(log):
        return offset  # just deleted
    names = sorted(name for name in disk.names(log) if name.endswith(LOG_SUFFIX))
    bases = [int(name.removesuffix(LOG_SUFFIX)) for name in names]
    for name, base, end in zip(names, bases, [*bases[1:], offset], strict=True):
        is_there = disk.is_durable(log) and disk.is_durable(log / name)
        *_, kept = (base, *_ends(disk.durable_bytes(log / name))) if is_there else (base,)
        if base < offset and kept < min(end, offset):
            return kept
    return offset


def _ends(data: bytes) -> Iterator[int]:
    for batch in parse_batches(data, verify_crc=False, partial_tail=True):
        yield batch.next_offset


class _Append(NamedTuple):
    begin: int
    end: int
    at_ms: int


class FlushTracker:
    """The appends of each log that wait for the disk."""

    def __init__(self) -> None:
        self._waiting: WeakKeyDictionary[PartitionLog, deque[_Append]] = WeakKeyDictionary()

    def appended(self, log: PartitionLog, begin: int, now_ms: int) -> None:
        """Judge an append that began at ``begin``; raises Violation."""
        waiting = self._waiting.setdefault(log, deque())
        _drop_from(waiting, begin)
        waiting.append(_Append(begin, log.log_end_offset, now_ms))
        unflushed, most = log.log_end_offset - log.recovery_point, log.config.flush_messages
        if unflushed >= most:
            what = f"{unflushed} records wait for the disk, flush.messages is {most}"
            raise Violation("Log/flush-overdue", f"{log.directory.name}: {what}")

    def started(self, log: PartitionLog, now_ms: int) -> None:
        """Judge the waiting records after the broker has begun every flush that is due. Raises
        Violation."""
        waiting = self._waiting.get(log)
        if not waiting or log.flushing.failed or log.flushing.is_running:
            return
        _drop_from(waiting, log.log_end_offset)
        while waiting and waiting[0].end <= log.recovery_point:
            waiting.popleft()
        if waiting and now_ms - waiting[0].at_ms >= log.config.flush_ms:
            oldest = waiting[0]
            what = f"offset {oldest.begin} waits for the disk for {now_ms - oldest.at_ms} ms"
            what = f"{what} and is not being flushed, flush.ms is {log.config.flush_ms}"
            raise Violation("Log/flush-overdue", f"{log.directory.name}: {what}")


def _drop_from(waiting: deque[_Append], end: int) -> None:
    while waiting and waiting[-1].begin >= end:
        waiting.pop()
    if waiting and waiting[-1].end > end:
        waiting.append(waiting.pop()._replace(end=end))


# --- epochs and times --------------------------------------------------------------------------


def check_epochs(where: str, log: PartitionLog, read: ModelLog, *, deleted: int) -> None:
    """Judge the epochs of a log that was opened, by what was ``read`` in it. Raises Violation.

    Records below ``deleted`` do not count. Suppose everything up to 1 was deleted.
    leader-epoch-checkpoint records that at once, and log-start-offset-checkpoint once a minute.
    After a power failure record 0 is back, without an epoch.
    """
    start = max(log.log_start_offset, deleted)
    for extent in read.between(start, log.log_end_offset):
        offset = max(extent.base, start)
        epoch = log.epochs.epoch_for_offset(offset)
        if epoch != extent.epoch:
            what = f"by {log.epochs.entries} offset {offset} is of epoch {epoch}, in the log is"
            raise Violation("Log/epochs-differ-from-batches", f"{where}: {what} {extent}")


def check_replica_epochs(where: str, log: PartitionLog, replica: Replica) -> None:
    """Judge the epochs of a replica by those of its log; raises Violation."""
    if log.epochs.entries != replica.epochs:
        what = f"the replica has the epochs {replica.epochs}, its log {log.epochs.entries}"
        raise Violation("Log/epochs-differ-from-batches", f"{where}: {what}")


def _check_synced_epochs(disk: SimulatedDisk, log: PartitionLog, offset: int, begin: int) -> None:
    """Check the epochs on the disk from ``begin`` to the recovery point ``offset``, which a start
    trusts."""
    path = log.directory / EPOCHS
    there = disk.is_directory(log.directory) and disk.is_durable(path)
    lines = disk.durable_bytes(path).decode().splitlines()[2:] if there else []
    epochs = {int(start): int(epoch) for epoch, start in map(str.split, lines)}
    for batch in durable_batches(disk, log.directory, offset):
        at = max(batch.base_offset, begin)
        epoch = epochs.get(max((start for start in epochs if start <= at), default=-1))
        if at < batch.next_offset and epoch != batch.leader_epoch:
            what = f"everything below {offset} is noted as synced; by its epochs {epochs} offset"
            what = f"{what} {at} is of epoch {epoch}, in the log of {batch.leader_epoch}"
            raise Violation("Log/epochs-differ-from-batches", f"{log.directory.name}: {what}")


def check_timestamps(where: str, log: PartitionLog, read: ModelLog) -> None:
    """Judge the greatest timestamp of a log by what was ``read`` in it. Raises Violation.

    If the log begins inside a segment, older batches of that segment still count.
    """
    extents = read.between(log.log_start_offset, log.log_end_offset)
    youngest = max((extent.timestamp for extent in extents), default=NO_TIMESTAMP)
    if log.segment_base_offsets[0] == log.log_start_offset and log.max_timestamp != youngest:
        what = f"the log's greatest timestamp is said to be {log.max_timestamp} ms, and is"
        raise Violation("Log/timestamp-of-no-batch", f"{where}: {what} {youngest} ms")


# --- beginnings and ends ------------------------------------------------------------------------


def check_restarted_log(disk: SimulatedDisk, log: PartitionLog) -> None:
    """Judge a log that was just deleted and started again. Raises Violation."""
    name = f"{log.log_end_offset:020d}{LOG_SUFFIX}"
    if not disk.is_durable(log.directory / name):
        what = f"{log.directory.name} was restarted at {log.log_end_offset}, and after a power"
        raise Violation("Log/new-start-unsynced", f"{what} failure it may have no {name}")


def check_new_log(
    disk: SimulatedDisk, logs: LogManager, tp: TopicPartition, log: PartitionLog
) -> None:
    """Judge a log that was just created. Raises Violation."""
    directory = log.directory.parent
    known = {name: _durable_offsets(disk, directory / name).get(tp, 0) for name in CHECKPOINTS}
    known["log start"], known["log end"] = log.log_start_offset, log.log_end_offset
    known["recovery point"] = log.recovery_point
    known["high watermark"] = logs.high_watermark(tp)
    known["epochs"] = len(log.epochs.entries)
    known["producers"] = len(log.producers.state.producers)
    for name, value in known.items():
        if value:
            raise Violation(
                "Log/new-log-knows-former-topic",
                f"{tp} was just created, and its {name} is {value}",
            )


CHECKPOINTS: Final = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)


def _durable_offsets(disk: SimulatedDisk, path: Path) -> Mapping[TopicPartition, int]:
    there = disk.is_directory(path.parent) and disk.is_durable(path)
    return offsets_in(disk.durable_bytes(path), path) if there else {}


class _ProcessRun(NamedTuple):
    incarnation: int
    disk_failures: int


class CleanShutdowns:
    """The processes of one broker that have opened its logs, and whether they closed them in
    order."""

    def __init__(self, node: BrokerNode, disk: SimulatedDisk) -> None:
        self._node = node
        self._disk = disk
        self._last: _ProcessRun | None = None
        self._closed: _ProcessRun | None = None

    def check_opened(self, incarnation: int, logs: LogManager) -> None:
        """Judge what a new process found. Raises Violation."""
        if logs.clean and not self._was_closed_in_order():
            what = "finds the mark of an orderly end, and its last end was not orderly"
            raise Violation("Log/false-clean-shutdown-mark", f"broker {self._node.id} {what}")
        self._last = self._run(incarnation)
        for directory in self._node.config.log_dirs:
            if self._disk.may_reappear(directory / CLEAN_SHUTDOWN):
                what = f"begins, and after a power failure {directory.name} may still say that the"
                raise Violation(
                    "Log/false-clean-shutdown-mark",
                    f"broker {self._node.id} {what} end was orderly",
                )

    def check_mark(
        self,
        incarnation: int,
        logs: LogManager,
        directory: Path,
        watermark_of: Callable[[TopicPartition, PartitionLog], int],
    ) -> None:
        """Judge the checkpoints of a log directory that is about to be marked as closed in order;
        raises Violation."""
        self._closed = self._run(incarnation)
        for tp, log in logs.logs.items():
            due = (log.log_end_offset, log.log_start_offset, watermark_of(tp, log))
            for name, offset in zip(CHECKPOINTS, due, strict=True):
                noted = _durable_offsets(self._disk, directory / name).get(tp)
                if log.directory.parent == directory and noted != offset:
                    what = f"is marked as closed in order; {name} has {noted} of {tp}, not {offset}"
                    raise Violation(
                        "Log/false-clean-shutdown-mark", f"broker {self._node.id} {what}"
                    )

    def _was_closed_in_order(self) -> bool:
        """Return whether the last process that had opened the logs closed them in order.

        The disk must have stored everything, and afterwards the process must have ended on request
        or been killed. Later processes that did not open the logs have left them as they were.
        """
        last = self._last
        return last is None or (
            self._closed == last
            and all(
                process_exit.was_requested and process_exit.error is None
                for process_exit in self._node.exits
                if process_exit.incarnation == last.incarnation
            )
        )

    def _run(self, incarnation: int) -> _ProcessRun:
        return _ProcessRun(incarnation, self._disk.failures)


# --- retention ------------------------------------------------------------------------------------


def check_own_retention(
    hosted: Partition, model: ReplicaModel, start: int, config: Mapping[str, str],
    *, committed: int, wall_ms: int,
) -> None:  # fmt: skip
    """Judge what a replica has deleted below ``start`` by itself. Raises Violation."""
    check_retention(
        hosted.tp,
        model.log.between(model.log.start, start),
        config,
        high_watermark=committed,
        bytes_left=hosted.log.size,
        wall_ms=wall_ms,
    )


def excuse_retention(
    hosted: Partition, partition: PartitionModel, model: ReplicaModel, start: int,
    config: Mapping[str, str], *, wall_ms: int,
) -> None:  # fmt: skip
    """Excuse a log that begins at ``start`` in a new process, if retention may have deleted the
    rest.

    The previous process was killed directly after that, before its replica knew of it.
    """
    if model.readable and partition.deleted_below < start <= model.log.end:
        committed = partition.committed_end
        with suppress(Violation):
            check_own_retention(hosted, model, start, config, committed=committed, wall_ms=wall_ms)
            partition.deleted_below = start


def check_retention(
    tp: TopicPartition,
    deleted: Iterable[BatchExtent],
    config: Mapping[str, str],
    *,
    high_watermark: int,
    bytes_left: int,
    wall_ms: int,
) -> None:
    """Judge deleted batches; raises Violation."""
    retention_ms = int(config.get("retention.ms", UNLIMITED))
    retention_bytes = int(config.get("retention.bytes", UNLIMITED))
    for extent in deleted:
        what = f"{tp}: retention deletes {extent}"
        if extent.next > high_watermark:
            raise Violation(
                "Log/retention-violated", f"{what}, the high watermark is {high_watermark}"
            )
        too_old = retention_ms >= 0 and wall_ms - extent.timestamp > retention_ms
        too_much = retention_bytes >= 0 and bytes_left >= retention_bytes
        if not too_old and not too_much:
            age = f"{wall_ms - extent.timestamp} ms old"
            raise Violation(
                "Log/retention-violated", f"{what}, {age}, and leaves {bytes_left} bytes"
            )
