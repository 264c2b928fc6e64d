"""**RetentionKept**: what retention may delete.

Nothing that is not committed; nothing younger than ``retention.ms``; nothing while the rest is
smaller than ``retention.bytes`` (Kafka's documentation of both). Plans set one of them.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from ackproof.broker.server.replication.partition import Partition
from ackproof.broker.types import TopicPartition
from simulation.model.log import Extent
from simulation.model.partition import PartitionModel
from simulation.model.replica import ReplicaModel
from simulation.violation import Violation

UNLIMITED: Final = -1


def taken(
    hosted: Partition, model: ReplicaModel, start: int, config: Mapping[str, str],
    *, committed: int, wall_ms: int,
) -> None:  # fmt: skip
    """Judge what a replica has deleted below ``start`` by itself; raises Violation."""
    check(
        hosted.tp,
        model.log.between(model.log.start, start),
        config,
        high_watermark=committed,
        bytes_left=hosted.log.size,
        wall_ms=wall_ms,
    )


def found(
    hosted: Partition, partition: PartitionModel, model: ReplicaModel, start: int,
    config: Mapping[str, str], *, wall_ms: int,
) -> None:  # fmt: skip
    """Excuse a log that begins at ``start`` in a new life, if retention may have deleted the rest:
    the life before was killed right after that, before its replica knew of it."""
    if model.readable and partition.given_up < start <= model.log.end:
        committed = partition.committed_end
        with suppress(Violation):
            taken(hosted, model, start, config, committed=committed, wall_ms=wall_ms)
            partition.given_up = start


def check(
    tp: TopicPartition,
    deleted: Iterable[Extent],
    config: Mapping[str, str],
    *,
    high_watermark: int,
    bytes_left: int,
    wall_ms: int,
) -> None:
    """Judge deleted batches; raises Violation."""
    keeps_ms = int(config.get("retention.ms", UNLIMITED))
    keeps_bytes = int(config.get("retention.bytes", UNLIMITED))
    for extent in deleted:
        what = f"{tp}: retention deletes {extent}"
        if extent.next > high_watermark:
            raise Violation("RetentionKept", f"{what}, the high watermark is {high_watermark}")
        too_old = keeps_ms >= 0 and wall_ms - extent.timestamp > keeps_ms
        too_much = keeps_bytes >= 0 and bytes_left >= keeps_bytes
        if not too_old and not too_much:
            age = f"{wall_ms - extent.timestamp} ms old"
            raise Violation("RetentionKept", f"{what}, {age}, and leaves {bytes_left} bytes")
