"""What retention may take: **RetentionKept**.

Nothing that is not committed, nothing that is younger than ``retention.ms``, and nothing as long as
the rest is smaller than ``retention.bytes`` (Kafka's documentation of both). Plans set one of them.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.retention import count_deletable
from ackproof.broker.server.replication.partition import Partition as Hosted
from ackproof.broker.types import TopicPartition
from simulation.partition.invariants import Partition
from simulation.partition.seat import Seat
from simulation.partition.shadow import Extent
from simulation.violation import Violation

UNLIMITED = -1
AFTER_ALL: Final = 2**62
"""ms."""


def taken(
    hosted: Hosted, seat: Seat, start: int, config: Mapping[str, str],
    *, committed: int, wall_ms: int,
) -> None:  # fmt: skip
    """By a replica that has given up by itself what lies below ``start``; raises Violation."""
    check(
        hosted.tp,
        seat.log.between(seat.log.start, start),
        config,
        high_watermark=committed,
        bytes_left=hosted.log.size,
        wall_ms=wall_ms,
    )


def of_nothing(log: PartitionLog, high_watermark: int) -> None:
    """If a log that is about to be looked at were to keep nothing, and that long after, it would
    keep what is not committed; raises Violation."""
    segments, config = log._segments, replace(log.config, retention_ms=0, retention_bytes=0)
    count = count_deletable(
        segments,
        config,
        log_start=log.log_start_offset,
        high_watermark=high_watermark,
        now_ms=AFTER_ALL,
    )
    if count and segments[count - 1].next_offset > high_watermark:
        what = f"retention would take what lies below {segments[count - 1].next_offset}"
        what = f"{log.directory.name}: {what}, the high watermark is {high_watermark}"
        raise Violation("RetentionKept", what)


def found(
    hosted: Hosted, partition: Partition, seat: Seat, start: int, config: Mapping[str, str],
    *, wall_ms: int,
) -> None:  # fmt: skip
    """A new life has found a log that begins at ``start``: the one before was killed right behind
    what retention took, before its replica was told so, or was there. If that is not what it was,
    nothing is excused."""
    if seat.readable and partition.given_up < start <= seat.log.end:
        committed = partition.committed_end
        with suppress(Violation):
            taken(hosted, seat, start, config, committed=committed, wall_ms=wall_ms)
            partition.given_up = start


def check(
    tp: TopicPartition,
    taken: Iterable[Extent],
    config: Mapping[str, str],
    *,
    high_watermark: int,
    bytes_left: int,
    wall_ms: int,
) -> None:
    """Raises Violation. ``taken``: what a replica gave up by itself just now."""
    keeps_ms = int(config.get("retention.ms", UNLIMITED))
    keeps_bytes = int(config.get("retention.bytes", UNLIMITED))
    for extent in taken:
        what = f"{tp}: retention takes {extent}"
        if extent.next > high_watermark:
            raise Violation("RetentionKept", f"{what}, the high watermark is {high_watermark}")
        too_old = keeps_ms >= 0 and wall_ms - extent.timestamp > keeps_ms
        too_much = keeps_bytes >= 0 and bytes_left >= keeps_bytes
        if not too_old and not too_much:
            age = f"{wall_ms - extent.timestamp} ms old"
            raise Violation("RetentionKept", f"{what}, {age}, and leaves {bytes_left} bytes")
