"""**InvalidRefused**: what is wrong in itself, or said to the wrong broker, is refused.

Good clients find the leader and the coordinator, send whole batches and are who they say, so that
a broker which looks at none of it serves them as well as any. So it is said on purpose when all is
over, and no log is longer for it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from kio.schema.errors import ErrorCode

from broker.server.groups.offsets_topic import partition_for
from broker.server.replication import partition as server
from broker.server.topic_names import OFFSETS_TOPIC
from broker.types import Offset, TopicPartition
from broker.wire.messages.heartbeat import HeartbeatRequest
from broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from broker.wire.messages.sync_group import SyncGroupRequest
from simulation.clients.batches import encoded
from simulation.clients.client import Client
from simulation.clients.members import Place
from simulation.clients.reading import list_offsets
from simulation.observer.observer import Observer
from simulation.partition.invariants import Partition
from simulation.verdict.words import Word, is_refused, of_parts, of_whole
from simulation.violation import Violation

INVARIANT: Final = "InvalidRefused"
NOWHERE: Final = TopicPartition("nowhere", 0)
NOBODY: Final = "nobody"

Hosted = Callable[[int, TopicPartition], server.Partition | None]


async def check(client: Client, observer: Observer, hosted: Hosted) -> None:
    """Says it all, to each broker what it must refuse; raises Violation."""
    for tp, partition in observer.partitions():
        if tp.topic != OFFSETS_TOPIC and partition.state is not None:
            await _of_a_partition(client, tp, partition, hosted)
            for word in _to_coordinators(client.brokers, tp, observer):
                await is_refused(client, word, INVARIANT)
            return


# --- partitions -----------------------------------------------------------------------------------


async def _of_a_partition(
    client: Client, tp: TopicPartition, partition: Partition, hosted: Hosted
) -> None:
    assert partition.state is not None
    leader = partition.state.leader
    leading = hosted(leader, tp)
    if leading is None:
        return
    end = leading.log.log_end_offset
    followers = [broker for broker in partition.state.isr if broker != leader]
    for word in (*_to_the_leader(leader, tp, leading), *_to_others(followers, tp)):
        await is_refused(client, word, INVARIANT)
    if leading.log.log_end_offset != end:
        what = f"{tp} ended at {end} before anything was refused, then at"
        raise Violation(INVARIANT, f"{what} {leading.log.log_end_offset}")


def _to_the_leader(broker: int, tp: TopicPartition, leading: server.Partition) -> Iterator[Word]:
    good = encoded([b"v"])
    damaged = good[:-1] + bytes([good[-1] ^ 1])
    large = encoded([bytes(leading.config.max_message_bytes)])
    for what, where, acks, records, expected in (
        ("a batch that is damaged", tp, -1, damaged, ErrorCode.corrupt_message),
        ("a batch that is cut short", tp, -1, good[:-1], ErrorCode.corrupt_message),
        ("a batch that is too large", tp, -1, large, ErrorCode.message_too_large),
        ("two batches", tp, -1, good + good, ErrorCode.invalid_record),
        ("acks=2", tp, 2, good, ErrorCode.invalid_required_acks),
        ("a record for no topic", NOWHERE, -1, good, ErrorCode.unknown_topic_or_partition),
    ):
        request = produce(where, acks, records)
        yield Word(f"a Produce of {what} to {where}", broker, request, _of_produce, expected)
    listed = list_offsets(NOWHERE)
    nowhere = ErrorCode.unknown_topic_or_partition
    yield Word(f"ListOffsets of {NOWHERE}", broker, listed, of_parts, nowhere)


def _to_others(brokers: Iterable[int], tp: TopicPartition) -> Iterator[Word]:
    expected = ErrorCode.not_leader_or_follower
    for broker in brokers:
        for acks in (1, -1):
            request = produce(tp, acks, encoded([b"v"]))
            what = f"a Produce with acks={acks} of {tp}, which it follows"
            yield Word(what, broker, request, _of_produce, expected)
        what = f"ListOffsets of {tp}, which it follows"
        yield Word(what, broker, list_offsets(tp), of_parts, expected)


def produce(tp: TopicPartition, acks: int, records: bytes) -> ProduceRequest:
    """One partition's records."""
    data = PartitionProduceData(index=tp.partition, records=records)
    topic = TopicProduceData(name=tp.topic, partition_data=(data,))
    return ProduceRequest(version=7, acks=acks, timeout_ms=1_000, topic_data=(topic,))


def _of_produce(answer: Any) -> Iterator[ErrorCode]:
    for topic in answer.responses:
        for part in topic.partition_responses:
            yield part.error_code


# --- groups ---------------------------------------------------------------------------------------


async def check_group(member: Client, place: Place, tp: TopicPartition) -> None:
    """Of a group whose only member has a ``place`` in it: what others say as if they had one, and
    itself of another generation; raises Violation."""
    stranger = place._replace(member_id=NOBODY)
    for word in _of_groups(stranger, tp, ErrorCode.unknown_member_id):
        await is_refused(member, word, INVARIANT)
    for other in place.generation - 1, place.generation + 1:
        elsewhere = place._replace(generation=other)
        for word in _of_groups(elsewhere, tp, ErrorCode.illegal_generation):
            await is_refused(member, word, INVARIANT)


def _to_coordinators(
    brokers: Iterable[int], tp: TopicPartition, observer: Observer
) -> Iterator[Word]:
    """Of a group that there is not, where nobody coordinates it."""
    topic = observer.topics.get(OFFSETS_TOPIC)
    if topic is None:
        return
    home = topic.partitions[partition_for(NOBODY, len(topic.partitions))]
    for broker in brokers:
        if home.state is None or home.state.leader != broker:
            yield from _of_groups(Place(broker, NOBODY, 1, NOBODY), tp, ErrorCode.not_coordinator)


def _of_groups(place: Place, tp: TopicPartition, expected: ErrorCode) -> Iterator[Word]:
    broker, group, generation, member_id = place
    part = OffsetCommitRequestPartition(
        partition_index=tp.partition, committed_offset=Offset(1), committed_metadata=None
    )
    of = f"of member {member_id} of group {group} in generation {generation}"
    heartbeat = HeartbeatRequest(
        version=3, group_id=group, generation_id=generation, member_id=member_id
    )
    yield Word(f"a Heartbeat {of}", broker, heartbeat, of_whole, expected)
    sync = SyncGroupRequest(
        version=3, group_id=group, generation_id=generation, member_id=member_id, assignments=()
    )
    yield Word(f"a SyncGroup {of}", broker, sync, of_whole, expected)
    commit = OffsetCommitRequest(
        version=7,
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=(OffsetCommitRequestTopic(name=tp.topic, partitions=(part,)),),
    )
    yield Word(f"an OffsetCommit {of}", broker, commit, of_parts, expected)
