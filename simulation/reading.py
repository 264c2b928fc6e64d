"""What consumers ask, as functions of any client. All raise Disconnected."""

from collections.abc import Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8, i32, i64

from broker.types import TopicPartition
from simulation.clients import Client, entities, milliseconds

EARLIEST: Final = -2
LATEST: Final = -1


async def list_offset(client: Client, leader: int, tp: TopicPartition, timestamp: int) -> int:
    """Where the log begins (EARLIEST), the high watermark is (LATEST), or the first record is that
    is not older; -1: there is none, or ask again."""
    answer = await _listed(client, leader, tp, timestamp)
    return int(answer.offset) if answer.error_code is ErrorCode.none else -1


async def end_offset(client: Client, leader: int, tp: TopicPartition) -> tuple[int, int]:
    """The high watermark, and the leader epoch that says so; -1: ask again."""
    answer = await _listed(client, leader, tp, LATEST)
    if answer.error_code is not ErrorCode.none:
        return -1, -1
    return int(answer.offset), int(answer.leader_epoch)


async def _listed(client: Client, leader: int, tp: TopicPartition, timestamp: int) -> Any:
    v5 = entities(2, 5)
    part = v5.ListOffsetsPartition(
        partition_index=i32(tp.partition), current_leader_epoch=i32(-1), timestamp=i64(timestamp)
    )
    topic = v5.ListOffsetsTopic(name=tp.topic, partitions=(part,))
    request = v5.ListOffsetsRequest(replica_id=i32(-1), isolation_level=i8(0), topics=(topic,))
    response = await client.ask(leader, request)
    return response.topics[0].partitions[0]


async def fetch(client: Client, leader: int, tp: TopicPartition, offset: int) -> Any:
    """A consumer's fetch; the partition's part of the answer."""
    v4 = entities(1, 4)
    part = v4.FetchPartition(
        partition=i32(tp.partition), fetch_offset=i64(offset), partition_max_bytes=i32(2**20)
    )
    request = v4.FetchRequest(
        replica_id=i32(-1),
        max_wait=milliseconds(100),
        min_bytes=i32(1),
        max_bytes=i32(2**20),
        isolation_level=i8(0),
        topics=(v4.FetchTopic(topic=tp.topic, partitions=(part,)),),
    )
    response = await client.ask(leader, request)
    return response.responses[0].partitions[0]


async def offsets_of(
    client: Client, coordinator: int | None, group: str, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """What a group has committed, -1 where it has nothing; None: ask again."""
    v5 = entities(9, 5)
    if coordinator is None:
        return None
    topic = tps[0].topic
    numbers = tuple(i32(tp.partition) for tp in tps)
    request = v5.OffsetFetchRequest(
        group_id=group,
        topics=(v5.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers),),
    )
    response = await client.ask(coordinator, request)
    if response.error_code is not ErrorCode.none:
        return None
    parts = [part for topic in response.topics for part in topic.partitions]
    if any(part.error_code is not ErrorCode.none for part in parts):
        return None
    return {TopicPartition(topic, p.partition_index): p.committed_offset for p in parts}
