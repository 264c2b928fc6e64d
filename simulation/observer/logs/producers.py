"""**ProducersAreLog**: what a log remembers of idempotent producers is what stands in it.

It is remembered apart, in memory and in snapshots (KIP-98), both of which must be what the batches
say up to there: the last five of each producer, with their numbers, offsets and times. A batch
that was cut off and is remembered all the same is answered when it comes again, and stands nowhere;
one that stands there and is not remembered is appended again.
"""

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ackproof.broker.log.idempotence.producer_snapshots import (
    SNAPSHOT_SUFFIX,
    CorruptSnapshot,
    decode,
)
from ackproof.broker.log.idempotence.producer_state import Appended, Producer, ProducerState
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.events import Effect, Truncate, TruncateFully
from ackproof.broker.types import Offset, ProducerId, TopicPartition
from simulation.machines.disk import MemoryDisk
from simulation.observer.logs.on_disk import read_shadow
from simulation.partition.shadow import Extent, Shadow
from simulation.violation import Violation

NOBODY: Final = -1
REMEMBERED: Final = 5


def check(tp: TopicPartition, broker: int, log: PartitionLog, read: Shadow) -> None:
    """At a start, after a cut and in the end, of what is ``read`` in the log; raises Violation.

    Of batches that were deleted from it nothing is said: producers outlive them.
    """
    start = log.log_start_offset
    _agree(f"{tp}, broker {broker}", log.producers.state, read, start, log.log_end_offset)
    snapshots = log.producers._snapshots
    for offset in snapshots.offsets:
        where = f"{tp}, broker {broker}, {offset}.snapshot"
        if offset > log.log_end_offset:
            raise Violation("ProducersAreLog", f"{where}: the log ends at {log.log_end_offset}")
        with contextlib.suppress(CorruptSnapshot, OSError):
            _agree(where, snapshots.read(offset), read, start, offset)


def written(log: PartitionLog, offset: int, content: bytes) -> None:
    """A snapshot is about to be written; raises Violation."""
    read = read_shadow(log)
    if read is not None:
        where = f"{log.directory.name}, {offset}.snapshot"
        _agree(where, decode(content), read, log.log_start_offset, offset)


def removed(disk: MemoryDisk, log: Path, offsets: Iterable[int]) -> None:
    """Snapshots of these offsets were taken away just now; raises Violation.

    One of 20 that a cut to 10 took away, and a power failure brings back: where the log has grown
    past 20 by then it is believed.
    """
    for offset in sorted(offsets):
        name = f"{offset:020d}{SNAPSHOT_SUFFIX}"
        if disk.may_return(log / name):
            what = f"{log.name}: {name} was taken away, and a power failure may bring it back"
            raise Violation("ProducersAreLog", what)


def opened(disk: MemoryDisk, log: Path) -> None:
    """A life has opened a log; raises Violation. Who took a snapshot away may have died before it
    had synced that, and nobody who sees no snapshot would take it away."""
    removed(
        disk,
        log,
        (
            int(name.removesuffix(SNAPSHOT_SUFFIX))
            for name in disk.may_come_back(log)
            if name.endswith(SNAPSHOT_SUFFIX)
        ),
    )


def _agree(where: str, state: ProducerState, read: Shadow, start: int, end: int) -> None:
    """What is remembered at ``end``."""
    written = _written(read.between(start, end), start)
    remembered = {
        producer: Producer(known.epoch, kept)
        for producer, known in state.producers.items()
        if (kept := tuple(sent for sent in known.batches if sent.base_offset >= start))
    }
    for producer in sorted(written.keys() | remembered.keys()):
        known, in_log = remembered.get(producer), written.get(producer)
        if known != in_log:
            what = f"of producer {producer} is remembered {_told(known)}, in the log is"
            raise Violation("ProducersAreLog", f"{where}: {what} {_told(in_log)}")


def _told(producer: Producer | None) -> str:
    if producer is None:
        return "nothing"
    sent = (
        f"{each.base_sequence} to {each.last_sequence} at {each.base_offset} ({each.timestamp} ms)"
        for each in producer.batches
    )
    return f"epoch {producer.epoch}, {', '.join(sent)}"


def _written(extents: Iterable[Extent], start: int) -> Mapping[ProducerId, Producer]:
    """Each producer's last five batches of its last epoch (KIP-98)."""
    found: dict[ProducerId, Producer] = {}
    for extent in extents:
        if extent.producer == NOBODY or extent.base < start:
            continue
        producer = ProducerId(extent.producer)
        before = found.get(producer)
        goes_on = before is not None and before.epoch == extent.producer_epoch
        kept = before.batches if before is not None and goes_on else ()
        found[producer] = Producer(extent.producer_epoch, (*kept, _sent(extent))[-REMEMBERED:])
    return found


def _sent(extent: Extent) -> Appended:
    return Appended(
        base_sequence=extent.sequence,
        last_sequence=(extent.sequence + extent.next - extent.base - 1) % 2**31,
        base_offset=Offset(extent.base),
        last_offset=Offset(extent.next - 1),
        timestamp=extent.timestamp,
    )


def kept(tp: TopicPartition, broker: int, log: PartitionLog, effects: Iterable[Effect]) -> None:
    """After a step that cut the log; raises Violation."""
    cuts = [effect for effect in effects if isinstance(effect, Truncate | TruncateFully)]
    if not cuts:
        return
    for cut in cuts:
        if isinstance(cut, TruncateFully):
            _thrown_away(tp, broker, log, cut.offset)
    read = read_shadow(log)
    if read is not None:
        check(tp, broker, log, read)


def _thrown_away(tp: TopicPartition, broker: int, log: PartitionLog, begins: int) -> None:
    """Of a log that ``begins`` anew nothing is remembered that lay below.

    It may never have been committed, where this replica was too far behind to be cut: a producer
    whose batch it is would be told, by this one as its leader, that it is there.
    """
    for producer, of_producer in log.producers.state.producers.items():
        for batch in of_producer.batches:
            if batch.base_offset < begins:
                raise Violation(
                    "ProducersAreLog",
                    f"{tp}, broker {broker}: the log was thrown away up to {begins}, and of "
                    f"producer {producer} offsets {batch.base_offset} to {batch.last_offset} are "
                    "remembered",
                )
