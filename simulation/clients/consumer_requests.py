"""Requests of consumers, as functions of any client. All of them raise Disconnected."""

from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ackproof.broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from simulation.clients.client import SimulatedClient

EARLIEST: Final = -2
LATEST: Final = -1


async def list_offset(
    client: SimulatedClient, leader: int, tp: TopicPartition, timestamp: int
) -> int:
    """Return the log start (EARLIEST), the high watermark (LATEST), or the first offset that is not
    older.

    The result is -1 if there is none, or if the question must be repeated.
    """
    answer = await _listed(client, leader, tp, timestamp)
    return int(answer.offset) if answer.error_code is ErrorCode.none else -1


async def end_offset(client: SimulatedClient, leader: int, tp: TopicPartition) -> tuple[int, int]:
    """Return the high watermark, and the leader epoch of the answer; -1 means that the question
    must be repeated."""
    answer = await _listed(client, leader, tp, LATEST)
    if answer.error_code is not ErrorCode.none:
        return -1, -1
    return int(answer.offset), int(answer.leader_epoch)


def list_offsets(
    tp: TopicPartition,
    timestamp: int = LATEST,
    epoch: LeaderEpoch = NO_EPOCH,
    *,
    version: int = 5,
) -> ListOffsetsRequest:
    """Return the request of a consumer for an offset."""
    part = ListOffsetsPartition(
        partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamp
    )
    topic = ListOffsetsTopic(name=tp.topic, partitions=(part,))
    return ListOffsetsRequest(
        version=version, replica_id=BrokerId(-1), isolation_level=0, topics=(topic,)
    )


async def _listed(
    client: SimulatedClient, leader: int, tp: TopicPartition, timestamp: int
) -> ListOffsetsPartitionResponse:
    response = await client.ask(leader, list_offsets(tp, timestamp))
    return response.topics[0].partitions[0]


async def fetch(
    client: SimulatedClient, leader: int, tp: TopicPartition, offset: int
) -> PartitionData:
    """Fetch as a consumer, and return the partition's part of the answer."""
    part = FetchPartition(
        partition=tp.partition, fetch_offset=Offset(offset), partition_max_bytes=2**20
    )
    request = FetchRequest(
        version=4,
        replica_id=BrokerId(-1),
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=2**20,
        isolation_level=0,
        topics=(FetchTopic(topic=tp.topic, partitions=(part,)),),
    )
    response = await client.ask(leader, request)
    return response.responses[0].partitions[0]


async def offsets_of(
    client: SimulatedClient, coordinator: int | None, group: str, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """Return the committed offsets of a group, -1 for none. None means that the question must be
    repeated."""
    if coordinator is None:
        return None
    topic = tps[0].topic
    numbers = tuple(tp.partition for tp in tps)
    request = OffsetFetchRequest(
        version=5,
        group_id=group,
        topics=(OffsetFetchRequestTopic(name=topic, partition_indexes=numbers),),
    )
    response = await client.ask(coordinator, request)
    if response.error_code is not ErrorCode.none:
        return None
    parts = [part for topic in response.topics for part in topic.partitions]
    if any(part.error_code is not ErrorCode.none for part in parts):
        return None
    return {TopicPartition(topic, p.partition_index): p.committed_offset for p in parts}
