"""What a broker would tell clients, looked at in moments at which hardly any of them asks."""

from types import SimpleNamespace
from typing import Any

from kio.schema.errors import ErrorCode

from broker.server.replication import partition as server
from broker.server.requests import list_offsets
from broker.types import LATEST_TIMESTAMP, NO_LEADER, BrokerId, TopicPartition
from broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from broker.wire.messages.metadata import MetadataResponse
from simulation.partition.invariants import Partition
from simulation.violation import Violation


def end(broker: int, hosted: server.Partition, partition: Partition) -> None:
    """**EndNeverBack**: a leader just elected tells nobody of an end that lies before what was
    committed, and may have been read (KIP-207). Raises Violation.

    1 and 2 have committed up to 12, and 2, told of 10 so far, leads next: until it has heard from 1
    its watermark is 10. That takes a few ms, and who asks then would take two records for gone.
    """
    state, seat = partition.state, partition.seat(broker)
    now = (broker, hosted.replica.leader_epoch)
    if state is None or (state.leader, state.leader_epoch) != now:
        return
    if partition.unpromised or not (seat.is_whole and seat.trusted and seat.readable):
        return
    context: Any = SimpleNamespace(replicas=SimpleNamespace(hosted=lambda _tp: hosted))
    told = list_offsets.handle(_where_it_ends(hosted.tp), context)
    ((part,),) = [topic.partitions for topic in told.topics]
    if part.error_code is ErrorCode.none and part.offset < partition.committed_end:
        raise Violation(
            "EndNeverBack",
            f"{hosted.tp}: {partition.committed_end} are committed, and leader {broker} would say "
            f"{part.offset} at its election",
        )


def _where_it_ends(tp: TopicPartition) -> ListOffsetsRequest:
    part = ListOffsetsPartition(partition_index=tp.partition, timestamp=LATEST_TIMESTAMP)
    topic = ListOffsetsTopic(name=tp.topic, partitions=(part,))
    return ListOffsetsRequest(
        version=5, replica_id=BrokerId(-1), isolation_level=0, topics=(topic,)
    )


def leaders(answer: MetadataResponse) -> None:
    """**NoLeaderIsSaid**: of a partition that nobody leads clients are told LEADER_NOT_AVAILABLE,
    and ask again. Without the error they take -1 for a broker. Raises Violation."""
    for topic in answer.topics:
        for part in topic.partitions:
            nobody = part.leader_id == NO_LEADER
            if nobody != (part.error_code is ErrorCode.leader_not_available):
                what = f"{part.error_code.name} of {topic.name}-{part.partition_index}"
                raise Violation("NoLeaderIsSaid", f"{what}, whose leader is {part.leader_id}")
