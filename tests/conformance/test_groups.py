"""Consumer groups: members, offsets, deletion, limits and another coordinator."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.delete_groups import DeleteGroupsRequest
from ackproof.broker.wire.messages.delete_topics import DeleteTopicsRequest
from ackproof.broker.wire.messages.describe_groups import DescribeGroupsRequest
from ackproof.broker.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ackproof.broker.wire.messages.list_groups import ListGroupsRequest
from ackproof.broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from simulation.clients.client import (
    GroupMembership,
    commit,
    heartbeat,
    join,
    protocols,
    subscription,
    sync,
    without_member,
)
from simulation.clients.producers import encode_batch, wall_ms
from tests.support.worlds.wire_cluster import WireCluster, errors_in, reassignment, simulated

pytestmark = pytest.mark.simulation

MINUTE_MS = 60_000
RETENTION_MINUTES = 30
SIZE_MAX = 4
SESSION_MS_MAX = 60_000
METADATA_MAX = 5_000
LOOKED_S = 1.3
"""Longer than the time between two looks for what has expired."""
PROPERTIES = {
    "group.max.size": str(SIZE_MAX),
    "group.min.session.timeout.ms": "1000",
    "group.max.session.timeout.ms": str(SESSION_MS_MAX),
    "offset.metadata.max.bytes": str(METADATA_MAX),
    "offsets.retention.minutes": str(RETENTION_MINUTES),
    "offsets.retention.check.interval.ms": "1000",
    "producer.id.expiration.ms": str(RETENTION_MINUTES * MINUTE_MS),
    "producer.id.expiration.check.interval.ms": "1000",
}
NONE = {ErrorCode.none}
INSTANCE = "instance"


@pytest.fixture
def group(topic: str) -> str:
    """A group name of the test alone."""
    return f"group-of-{topic}"


def leave(group: str, *instances: str) -> LeaveGroupRequest:
    members = tuple(MemberIdentity(member_id="", group_instance_id=each) for each in instances)
    return LeaveGroupRequest(version=3, group_id=group, members=members)


def delete_offset(group: str, tp: TopicPartition) -> OffsetDeleteRequest:
    """Return the order to delete the committed offset of one partition (KIP-496)."""
    part = OffsetDeleteRequestPartition(partition_index=tp.partition)
    topic = OffsetDeleteRequestTopic(name=tp.topic, partitions=(part,))
    return OffsetDeleteRequest(group_id=group, topics=(topic,))


async def deleted(cluster: WireCluster, group: str) -> ErrorCode:
    request = DeleteGroupsRequest(version=1, groups_names=(group,))
    (error,) = errors_in(await cluster.of_group(group, request))
    return error


# --- members --------------------------------------------------------------------------------------


@simulated
async def test_static_member_that_restarts_keeps_its_part_and_fences_its_former_id(
    cluster: WireCluster, topic: str, group: str
) -> None:
    tp = await cluster.create(topic)
    former = await cluster.join(group, INSTANCE)
    share = sync(former, {former.member_id: b"part"}, INSTANCE)
    assert (await cluster.of_group(group, share)).assignment == b"part"
    place = await cluster.join(group, INSTANCE)
    assert place.generation == former.generation
    assert place.member_id != former.member_id
    left = LeaveGroupRequest(
        version=3,
        group_id=group,
        members=(MemberIdentity(member_id=former.member_id, group_instance_id=INSTANCE),),
    )
    for request in (
        heartbeat(former, INSTANCE),
        commit(former, tp.topic, {0: 1}, None, INSTANCE),
        sync(former, {}, INSTANCE),
        join(group, former.member_id, instance_id=INSTANCE),
        left,
    ):
        assert errors_in(await cluster.of_group(group, request)) == {ErrorCode.fenced_instance_id}
    again = await cluster.of_group(group, sync(place, {place.member_id: b""}, INSTANCE))
    assert again.assignment == b"part"
    await cluster.of_group(group, leave(group, INSTANCE))
    gone = await cluster.of_group(group, heartbeat(place, INSTANCE))
    assert gone.error_code is ErrorCode.unknown_member_id


def of_member(place: GroupMembership, tp: TopicPartition) -> Iterator[Any]:
    yield heartbeat(place)
    yield sync(place, {})
    yield commit(place, tp.topic, {tp.partition: 1})


@simulated
async def test_request_of_a_stranger_or_of_another_generation_is_refused(
    cluster: WireCluster, topic: str, group: str
) -> None:
    tp, place = await cluster.create(topic), await cluster.join(group, INSTANCE)
    for other, expected in (
        (place._replace(member_id="unknown"), ErrorCode.unknown_member_id),
        (place._replace(generation=place.generation - 1), ErrorCode.illegal_generation),
        (place._replace(generation=place.generation + 1), ErrorCode.illegal_generation),
    ):
        for request in of_member(other, tp):
            assert errors_in(await cluster.of_group(group, request)) == {expected}
    outside = commit(without_member(group), tp.topic, {0: 1})
    assert errors_in(await cluster.of_group(group, outside)) == {ErrorCode.unknown_member_id}
    nowhere = commit(without_member("another"), "nowhere", {0: 1})
    answer = await cluster.of_group("another", nowhere)
    assert errors_in(answer) == {ErrorCode.unknown_topic_or_partition}


@simulated
async def test_broker_that_does_not_coordinate_a_group_says_so(
    cluster: WireCluster, topic: str, group: str
) -> None:
    tp, coordinator = await cluster.create(topic), await cluster.coordinator(group)
    for broker in set(cluster.brokers) - {coordinator}:
        for request in of_member(GroupMembership(broker, group, 1, "unknown"), tp):
            assert errors_in(await cluster.ask(broker, request)) == {ErrorCode.not_coordinator}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"session_timeout_ms": 1}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": SESSION_MS_MAX + 1}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": SESSION_MS_MAX}, ErrorCode.none),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": protocols("other")}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "unknown"}, ErrorCode.unknown_member_id),
    ],
)
@simulated
async def test_join_that_cannot_be_is_refused(
    cluster: WireCluster, group: str, changed: dict[str, Any], expected: ErrorCode
) -> None:
    await cluster.join(group, INSTANCE, rebalance_timeout_ms=300)
    request = join(group, "", instance_id=None if "member_id" in changed else "another")
    request = replace(request, rebalance_timeout_ms=300, **changed)
    assert (await cluster.of_group(group, request)).error_code is expected


@simulated
async def test_full_group_rejects_new_members_until_one_leaves(
    cluster: WireCluster, group: str
) -> None:
    instances = [f"instance-{number}" for number in range(SIZE_MAX)]
    short = {"rebalance_timeout_ms": 300}
    await cluster.join(group, instances[0], **short)
    await asyncio.gather(*(cluster.join(group, each, by=each, **short) for each in instances[1:]))
    newcomer = replace(join(group, "", instance_id="late"), **short)
    answer = await cluster.of_group(group, newcomer)
    assert answer.error_code is ErrorCode.group_max_size_reached
    await cluster.join(group, instances[0], **short)
    await cluster.of_group(group, leave(group, instances[0]))
    await cluster.join(group, "late", **short)


@simulated
async def test_member_that_waits_longer_than_its_session_for_others_stays(
    cluster: WireCluster, group: str
) -> None:
    timeouts = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 20_000}
    quick = await cluster.join(group, "quick", by="quick", **timeouts)
    assert errors_in(await cluster.of_group(group, sync(quick, {quick.member_id: b""}, "quick")))
    joining = asyncio.ensure_future(cluster.join(group, "slow", by="slow", **timeouts))
    for _ in range(14):
        await asyncio.sleep(0.5)
        beat = await cluster.of_group(group, heartbeat(quick, "quick"), by="quick")
        assert beat.error_code is ErrorCode.rebalance_in_progress
    assert not joining.done()
    again = replace(join(group, quick.member_id, instance_id="quick"), **timeouts)
    answer = await cluster.of_group(group, again, by="quick")
    slow = await joining
    assert (answer.error_code, answer.generation_id) == (ErrorCode.none, slow.generation)


@simulated
async def test_protocol_is_one_that_all_know_and_most_prefer(
    cluster: WireCluster, group: str
) -> None:
    known = {
        "first": ("share", "spare"),
        "second": ("spare", "share"),
        "third": ("spare", "own", "share"),
    }

    async def joins(instance: str) -> Any:
        request = replace(
            join(group, "", instance_id=instance), protocols=protocols(*known[instance])
        )
        return await cluster.of_group(group, request, by=instance)

    for _ in range(4):
        answers = await asyncio.gather(*map(joins, known))
        if len({each.generation_id for each in answers}) == 1:
            break
    assert {each.protocol_name for each in answers} == {"spare"}
    stranger = replace(join(group, "", instance_id="stranger"), protocols=protocols("own"))
    answer = await cluster.of_group(group, stranger)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol


@simulated
async def test_group_is_described_and_listed_as_it_is(cluster: WireCluster, group: str) -> None:
    place = await cluster.join(group, INSTANCE)
    await cluster.of_group(group, sync(place, {place.member_id: b""}, INSTANCE))
    request = DescribeGroupsRequest(version=4, groups=(group, "no such group"))
    answer = await cluster.ask(place.coordinator, request)
    described = {each.group_id: each for each in answer.groups}
    assert described[group].group_state == "Stable"
    assert [each.member_id for each in described[group].members] == [place.member_id]
    for states, is_due in ((("Stable",), True), (("Empty",), False)):
        answer = await cluster.of_group(group, ListGroupsRequest(version=4, states_filter=states))
        listed = {each.group_id for each in answer.groups}
        assert (group in listed) is is_due


# --- offsets --------------------------------------------------------------------------------------


@simulated
async def test_metadata_that_is_too_long_is_refused_alone(
    cluster: WireCluster, topic: str, group: str
) -> None:
    await cluster.create(topic, (1, 2), (1, 2))
    for number, metadata, expected in (
        (0, "m" * METADATA_MAX, ErrorCode.none),
        (1, "m" * (METADATA_MAX + 1), ErrorCode.offset_metadata_too_large),
    ):
        request = commit(without_member(group), topic, {number: 5}, metadata)
        assert errors_in(await cluster.of_group(group, request)) == {expected}
    assert [await cluster.committed(group, TopicPartition(topic, n)) for n in (0, 1)] == [5, -1]


@simulated
async def test_deleted_group_and_offset_stay_deleted_at_the_next_coordinator(
    cluster: WireCluster, topic: str
) -> None:
    tp = await cluster.create(topic)
    number = partition_for("doomed", 3)
    names = [f"{topic}-{n}" for n in range(60) if partition_for(f"{topic}-{n}", 3) == number]
    doomed, pruned, kept = names[:3]
    for each in (doomed, pruned, kept):
        assert await cluster.commit(each, tp, 7) is ErrorCode.none
    assert await deleted(cluster, doomed) is ErrorCode.none
    assert errors_in(await cluster.of_group(pruned, delete_offset(pruned, tp))) == NONE
    home = TopicPartition(OFFSETS_TOPIC, number)
    former = await cluster.coordinator(kept)
    others = [broker for broker in cluster.brokers if broker != former]
    for replicas in ((*others, former), (former, *others)):
        await cluster.obeyed(reassignment(home, replicas))
        await cluster.settled()
        assert await cluster.coordinator(kept) == replicas[0]
        assert [await cluster.committed(each, tp) for each in (doomed, pruned, kept)] == [-1, -1, 7]
        listed = (await cluster.of_group(kept, ListGroupsRequest(version=2))).groups
        assert doomed not in {each.group_id for each in listed}


@simulated
async def test_group_with_a_member_refuses_deletion_of_its_offsets(
    cluster: WireCluster, topic: str, group: str
) -> None:
    tp = await cluster.create(topic)
    known = (subscription("range", topic),)
    place = await cluster.join(group, INSTANCE, protocols=known)
    await cluster.of_group(group, sync(place, {place.member_id: b""}, INSTANCE))
    request = commit(place, topic, {0: 7}, "", INSTANCE)
    assert errors_in(await cluster.of_group(group, request)) == NONE
    assert await deleted(cluster, group) is ErrorCode.non_empty_group
    pruned = await cluster.of_group(group, delete_offset(group, tp))
    assert errors_in(pruned) == {ErrorCode.group_subscribed_to_topic}
    assert await cluster.committed(group, tp) == 7


@pytest.mark.parametrize("later_ms", [0, 0.5, 1, 2, 4, 8])
@simulated
async def test_commit_and_deletion_at_once_are_carried_out_one_after_the_other(
    cluster: WireCluster, topic: str, group: str, later_ms: float
) -> None:
    tp = await cluster.create(topic)
    assert await cluster.commit(group, tp, 1) is ErrorCode.none
    deleting = asyncio.ensure_future(deleted(cluster, group))
    await asyncio.sleep(later_ms / 1000)
    request = commit(without_member(group), topic, {0: 2})
    (committed,) = errors_in(await cluster.of_group(group, request, by="another"))
    deletion, offset = await deleting, await cluster.committed(group, tp)
    if committed is ErrorCode.none:
        assert offset in ({2, -1} if deletion is ErrorCode.none else {2})
    else:
        assert (deletion, offset) == (ErrorCode.none, -1)


@simulated
async def test_offsets_go_with_their_topic(cluster: WireCluster, topic: str, group: str) -> None:
    tp = await cluster.create(topic)
    assert await cluster.commit(group, tp, 7) is ErrorCode.none
    await cluster.obeyed(DeleteTopicsRequest(version=3, topic_names=(topic,), timeout_ms=5_000))

    async def is_gone() -> bool:
        return await cluster.committed(group, tp) == -1

    await cluster.until("the offset is gone", is_gone)


# --- what expires: all clocks are ahead afterwards ------------------------------------------------


@simulated
async def test_unused_offsets_and_producers_expire(
    cluster: WireCluster, topic: str, group: str
) -> None:
    tp = await cluster.create(topic)
    attended, recent = f"{group}-attended", f"{group}-recent"
    known = (subscription("range", topic),)
    place = await cluster.join(
        attended, INSTANCE, protocols=known, session_timeout_ms=SESSION_MS_MAX
    )
    await cluster.of_group(attended, sync(place, {place.member_id: b""}, INSTANCE))
    await cluster.of_group(attended, commit(place, topic, {0: 7}, "", INSTANCE))
    assert await cluster.commit(group, tp, 7) is ErrorCode.none
    producer, young_ms = await cluster.producer(), RETENTION_MINUTES * MINUTE_MS
    await cluster.append(tp, encode_batch([b"v"], (*producer, 0), times_ms=[wall_ms()]))

    async def with_a_gap() -> ErrorCode:
        now_ms = [wall_ms()]
        return (
            await cluster.send(tp, encode_batch([b"v"], (*producer, 7), times_ms=now_ms))
        ).error_code  # type: ignore[no-any-return]

    cluster.put_clocks_forward(young_ms - MINUTE_MS)
    await asyncio.sleep(LOOKED_S)
    assert await cluster.committed(group, tp) == 7
    assert await with_a_gap() is ErrorCode.out_of_order_sequence_number
    cluster.put_clocks_forward(2 * MINUTE_MS)
    assert await cluster.commit(recent, tp, 7) is ErrorCode.none

    async def is_gone() -> bool:
        return await cluster.committed(group, tp) == -1

    await cluster.until("the offset has expired", is_gone)
    assert await cluster.committed(attended, tp) == 7
    assert await cluster.committed(recent, tp) == 7
    assert await with_a_gap() is ErrorCode.none
