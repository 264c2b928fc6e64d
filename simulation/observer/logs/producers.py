"""**ProducersAreLog**: what a log remembers of idempotent producers is what stands in it.

It is remembered apart, in memory and in snapshots (KIP-98). A batch that was cut off and is
remembered all the same is answered when it comes again, and stands nowhere; one that stands there
and is not remembered is appended again.
"""

from collections.abc import Iterable

from broker.log.partition_log import PartitionLog
from broker.replication.events import Effect, Truncate, TruncateFully
from broker.types import ProducerId, TopicPartition
from simulation.observer.logs.on_disk import read_shadow
from simulation.partition.shadow import Shadow
from simulation.violation import Violation

NOBODY = -1


def check(tp: TopicPartition, broker: int, log: PartitionLog, read: Shadow) -> None:
    """At a start and in the end, of what is ``read`` in the log; raises Violation.

    Of batches that were deleted from it nothing is said: producers outlive them.
    """
    known = log.producers.state.producers
    for producer, of_producer in known.items():
        for batch in of_producer.batches:
            if batch.base_offset < log.log_start_offset:
                continue
            remembered = (batch.base_offset, batch.next_offset)
            there = read.between(*remembered)
            if [(extent.base, extent.next) for extent in there] != [remembered]:
                raise Violation(
                    "ProducersAreLog",
                    f"{tp}, broker {broker}: of producer {producer} offsets {batch.base_offset} to "
                    f"{batch.last_offset} are remembered, and no such batch is in the log",
                )
    extents = read.between(log.log_start_offset, log.log_end_offset)
    newest = {extent.producer: extent for extent in extents if extent.producer != NOBODY}
    for number, extent in newest.items():
        found = known.get(ProducerId(number))
        if found is None or found.last.base_offset != extent.base:
            raise Violation(
                "ProducersAreLog",
                f"{tp}, broker {broker}: producer {number} wrote {extent} last, remembered is "
                f"{found and found.last}",
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
