"""The state of idempotent producers in logs.

**ProducerState/differs-from-log**: a log remembers, in memory and in snapshots, the last five
batches of each producer with sequence numbers, offsets and times (KIP-98), as its batches have
them. If a truncated batch were still remembered, its retry would be acknowledged without being
appended. If an existing batch were not remembered, its retry would be appended again.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.producer_state import (
    SNAPSHOT_SUFFIX,
    Appended,
    CorruptSnapshot,
    Producer,
    ProducerState,
    decode,
)
from ackproof.broker.types import Offset, ProducerId
from simulation.machines.disk import SimulatedDisk
from simulation.model.log import BatchExtent, ModelLog
from simulation.violation import Violation

DIFFERS_FROM_LOG: Final = "ProducerState/differs-from-log"
NO_PRODUCER: Final = -1
BATCHES_MAX: Final = 5


def check(where: str, log: PartitionLog, read: ModelLog) -> None:
    """Judge the producer state of a log by what was ``read`` in it. Raises Violation.

    Producers outlive batches that were deleted from the log's start.
    """
    _agree(where, log.producers.state, read, log.log_start_offset, log.log_end_offset)


def check_snapshots(where: str, log: PartitionLog, disk: SimulatedDisk, read: ModelLog) -> None:
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
