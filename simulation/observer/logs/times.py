"""**TimesAreLog**: the greatest timestamp that a log goes by is that of a batch in it.

It is remembered apart, in memory and in time indexes. One of a batch that was cut off keeps the
segment from retention for as long as that one was to be kept, and has it searched for records that
are not there; one that is missing has records deleted that are young.
"""

from collections.abc import Iterable

from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.replication.events import Effect, Truncate, TruncateFully
from ackproof.broker.types import TopicPartition
from simulation.observer.logs.on_disk import read_shadow
from simulation.partition.shadow import Shadow
from simulation.violation import Violation

NONE = -1


def check(tp: TopicPartition, broker: int, log: PartitionLog, read: Shadow) -> None:
    """At a start and after a cut, of what is ``read`` in the log; raises Violation.

    Where the log begins inside a segment, what lies before that counts still.
    """
    extents = read.between(log.log_start_offset, log.log_end_offset)
    youngest = max((extent.timestamp for extent in extents), default=NONE)
    if log.segment_base_offsets[0] == log.log_start_offset and log.max_timestamp != youngest:
        raise Violation(
            "TimesAreLog",
            f"{tp}, broker {broker}: the log goes by {log.max_timestamp} ms as its greatest "
            f"timestamp, and that is {youngest} ms",
        )


def kept(tp: TopicPartition, broker: int, log: PartitionLog, effects: Iterable[Effect]) -> None:
    """After a step that cut the log; raises Violation."""
    if any(isinstance(effect, Truncate | TruncateFully) for effect in effects):
        read = read_shadow(log)
        if read is not None:
            check(tp, broker, log, read)
