"""**RecordsAreDeleted**: who was told that records are deleted meets them nowhere (KIP-107).

Plans delete records, too, but of a log that grows, and nobody there looks at the answer.
"""

from collections.abc import Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import Offset, TopicPartition
from ackproof.broker.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from simulation.clients.client import Client
from simulation.clients.reading import EARLIEST, list_offset
from simulation.model.observer import Observer
from simulation.verdict.led import Hosted, led
from simulation.verdict.refused.words import Word, answered, is_refused, of_parts
from simulation.violation import Violation

INVARIANT: Final = "RecordsAreDeleted"
TIMEOUT_MS: Final = 10_000
LONG_AGO: Final = 1
NO_OFFSET: Final = -2
"""Nor is it the high watermark, which -1 is."""


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Of the partition with the longest log; raises Violation."""
    all_led = led(observer, hosted)
    if not all_led:
        return
    most = max(all_led, key=lambda each: each.leader.log.log_end_offset - each.start)
    for word in _refused(most.tp, most.leader, observer):
        await is_refused(client, word, INVARIANT)
    await _are_gone(client, observer, hosted, most.tp)


async def _are_gone(client: Client, observer: Observer, hosted: Hosted, tp: TopicPartition) -> None:
    partition = observer.find(tp)
    assert partition is not None
    assert partition.state is not None
    leader = partition.state.leader
    replica = hosted(leader, tp)
    assert replica is not None
    start, target = replica.log.log_start_offset, replica.replica.high_watermark - 1
    if target <= start:
        return
    answer = await answered(client, leader, delete_records(tp, target))
    ((part,),) = [topic.partitions for topic in answer.topics]
    starts = {
        broker: found.log.log_start_offset
        for broker in partition.state.isr
        if (found := hosted(broker, tp)) is not None
    }
    told = (part.error_code.name, part.low_watermark)
    if part.error_code is not ErrorCode.none or part.low_watermark < target:
        raise Violation(INVARIANT, f"{tp}: {told} to who deletes what lies below {target}")
    if part.low_watermark != min(starts.values()):
        raise Violation(INVARIANT, f"{tp}: {told} is told, the replicas begin at {starts}")
    for timestamp in (EARLIEST, LONG_AGO):
        offset = await list_offset(client, leader, tp, timestamp)
        emptied = replica.log.log_start_offset == replica.log.log_end_offset  # by retention, since
        if offset < target and not (emptied and timestamp == LONG_AGO):
            what = f"{offset} for the timestamp {timestamp}, deleted is what lies below {target}"
            raise Violation(INVARIANT, f"{tp}: leader {leader} tells {what}")


def _refused(tp: TopicPartition, leading: server.Partition, observer: Observer) -> Iterator[Word]:
    broker, end = leading.replica.broker, leading.log.log_end_offset
    beyond = ErrorCode.offset_out_of_range
    what = f"DeleteRecords of {tp} below {end + 7}, which ends at {end}"
    yield Word(what, broker, delete_records(tp, end + 7), of_parts, beyond)
    what = f"DeleteRecords of {tp} below {NO_OFFSET}"
    yield Word(what, broker, delete_records(tp, NO_OFFSET), of_parts, beyond)
    for follower in leading.replica.isr:
        if follower != broker:
            what, expected = f"DeleteRecords of {tp}", ErrorCode.not_leader_or_follower
            yield Word(what, follower, delete_records(tp, -1), of_parts, expected)
    home = TopicPartition(OFFSETS_TOPIC, 0)
    offsets = observer.find(home)
    if offsets is not None and offsets.state is not None:
        what, expected = f"DeleteRecords of {home}", ErrorCode.invalid_topic_exception
        yield Word(what, offsets.state.leader, delete_records(home, 0), of_parts, expected)


def delete_records(tp: TopicPartition, offset: int) -> DeleteRecordsRequest:
    """Of what lies below ``offset``."""
    part = DeleteRecordsPartition(partition_index=tp.partition, offset=Offset(offset))
    topic = DeleteRecordsTopic(name=tp.topic, partitions=(part,))
    return DeleteRecordsRequest(version=1, topics=(topic,), timeout_ms=TIMEOUT_MS)
