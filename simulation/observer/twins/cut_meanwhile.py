"""**CutIsForgotten**: what a log has given up does not come back with a flush that was under way.

A leader's last batches are being flushed, with the producers that its full segment knows, when it
hears of another leader, and gives them up. Whatever comes in their place is not on disk when that
flush has ended, and is of other producers. A cut falls into a flush where a disk is slow; so each
twin of a log is given a batch, a full segment, and a cut in the middle of its flush.
"""

import struct
from dataclasses import replace
from random import Random
from typing import Final

from crc32c import crc32c

from ackproof.broker.log.disk.steps import Steps, carry_out
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch, parse_batches
from ackproof.broker.wire.new_batch import KeyValue, new_batch
from simulation.machines.disk import MemoryDisk
from simulation.machines.node import BEGINNING_WALL_MS
from simulation.observer.logs import flushed, producers
from simulation.observer.logs.on_disk import read_shadow
from simulation.violation import Violation

UnderWay = list[Steps]
"""What was to be done in the background."""

WAITS_MAX: Final = 8
"""So often a flush waits for the disk, about."""
NEVER: Final = 2**63 - 1
GIVEN_UP, KEPT = 2**62, 2**62 + 1
"""Producers."""
CRC_AT, CRC_FROM, PRODUCER_AT = 17, 21, 43
"""In a batch."""


def _sent(producer: int, records: int) -> RecordBatch:
    raw = bytearray(new_batch([KeyValue(b"k", b"v")] * records, BEGINNING_WALL_MS).raw)
    struct.pack_into(">qhi", raw, PRODUCER_AT, producer, 0, 0)
    struct.pack_into(">I", raw, CRC_AT, crc32c(bytes(raw[CRC_FROM:])))
    (batch,) = parse_batches(bytes(raw))
    return batch


SENT_FIRST, SENT_NEXT = _sent(GIVEN_UP, 2), {n: _sent(KEPT, n) for n in (1, 4)}


def check(
    tp: TopicPartition,
    broker: int,
    disk: MemoryDisk,
    log: PartitionLog,
    under_way: UnderWay,
    random: Random,
) -> None:
    """Of a ``log`` on a ``disk`` that nobody else uses, with all that is ``under_way`` there. What
    comes in the place of what was cut is less than that, or more. Raises Violation."""
    end = log.log_end_offset
    epoch = 1 + (log.epochs.entries[-1][0] if log.epochs.entries else 0)
    log.config = replace(log.config, flush_messages=NEVER)
    log.append([SENT_FIRST], end, epoch, 0)
    log._roll(log.log_end_offset)
    begun = [_begin(steps, random.randint(1, WAITS_MAX)) for steps in under_way]
    log.truncate_to(end)
    log.append([SENT_NEXT[random.choice((1, 4))]], end, epoch + 1, 0)
    for steps in begun:
        carry_out(steps)
    _holds(tp, broker, disk, log)


def _begin(steps: Steps, waits: int) -> Steps:
    """The rest of them, with so much done."""
    for _, work in zip(range(waits), steps, strict=False):
        work()
    return steps


def _holds(tp: TopicPartition, broker: int, disk: MemoryDisk, log: PartitionLog) -> None:
    end = log.log_end_offset
    if log.recovery_point > end:
        what = f"all below {log.recovery_point} counts as flushed, and it ends at {end}"
        raise Violation("CutIsForgotten", f"{tp}: {what}")
    flushed.check(disk, log.directory.parent, {tp: log.recovery_point})
    read = read_shadow(log)
    if read is not None:
        producers.check(tp, broker, log, read)
    for offset in log.flushing._snapshots:
        if offset > end:
            what = f"its producers at {offset} wait to be written, and it ends at {end}"
            raise Violation("CutIsForgotten", f"{tp}: {what}")
