"""Rebalances, sessions, static members, offsets: one story each."""

import io

import pytest
from group_world import RANGE, REBALANCE_MS, SESSION_MS, TP, World
from kio.schema.consumer_protocol_subscription.v0.data import ConsumerProtocolSubscription
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from broker.groups.config import GroupConfig
from broker.groups.events import JoinAnswer, Protocol
from broker.groups.state import GroupState
from broker.types import TopicPartition
from broker.wire.group_records import encode


@pytest.fixture
def world():
    return World()


def consumer(*topics):
    with io.BytesIO() as buffer:
        buffer.write(b"\0\0")
        entity_writer(ConsumerProtocolSubscription)(
            buffer, ConsumerProtocolSubscription(topics=topics)
        )
        return (Protocol("range", buffer.getvalue()),)


# --- joining ----------------------------------------------------------------------------------


def test_a_newcomer_gets_its_id_first(world):
    answer = world.answer(world.join(new_member_id="c-1"))
    assert (answer.error, answer.member_id) == (ErrorCode.member_id_required, "c-1")
    old = world.join(requires_known_member_id=False)
    assert world.answer(old) is None  # before v4 it joins at once


def test_a_given_id_is_forgotten_when_nobody_joins_with_it(world):
    world.answer(world.join(new_member_id="c-1"))
    world.tick(SESSION_MS)
    assert world.answer(world.join("c-1")).error is ErrorCode.unknown_member_id
    assert not world.groups.by_id


def test_an_empty_group_waits_for_more_members(world):
    _, first = world.enter()
    world.tick(2_900)
    assert world.answer(first) is None
    world.tick(100)
    assert world.answer(first).generation == 1


def test_each_newcomer_prolongs_the_first_wait_up_to_the_rebalance_timeout():
    world = World(GroupConfig(initial_rebalance_delay_ms=3_000))
    _, first = world.enter(rebalance_timeout_ms=7_000)
    for _ in range(3):
        world.tick(2_000)
        world.enter(rebalance_timeout_ms=7_000)
    assert world.answer(first) is None
    world.tick(900)
    assert world.answer(first) is None
    world.tick(100)
    assert len(world.answer(first).members) == 4


def test_the_leader_alone_is_shown_the_members(world):
    requests = [world.enter()[1] for _ in range(2)]
    world.tick(6_000)
    first, second = (world.answer(number) for number in requests)
    assert {member.member_id for member in first.members} == {first.member_id, second.member_id}
    assert second.members == ()
    assert first.leader == second.leader == first.member_id


def test_the_protocol_is_one_that_all_support_and_most_prefer(world):
    a, b, c = Protocol("a", b""), Protocol("b", b""), Protocol("c", b"")
    requests = [world.enter(protocols=p)[1] for p in ((a, b, c), (b, c), (c, b))]
    world.tick(9_000)
    assert {world.answer(number).protocol for number in requests} == {"b"}


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"session_timeout_ms": 5_999}, ErrorCode.invalid_session_timeout),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.invalid_session_timeout),
        ({"protocols": ()}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": (Protocol("other", b""),)}, ErrorCode.inconsistent_group_protocol),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
    ],
)
def test_joins_that_cannot_be(world, values, error):
    world.stable()
    assert world.answer(world.join(**values)).error is error
    assert world.group.state is GroupState.STABLE


def test_a_full_group_takes_nobody():
    world = World(GroupConfig(max_size=1))
    (member,) = world.stable()
    assert world.answer(world.join()).error is ErrorCode.group_max_size_reached
    world.join(member)
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_who_does_not_join_again_in_time_is_out(world):
    leader, other = world.stable(2)
    join = world.join(leader)
    for _ in range(REBALANCE_MS // 5_000):
        assert world.answer(join) is None
        world.heartbeat(other, 1)
        world.tick(5_000)
    assert [m.member_id for m in world.answer(join).members] == [leader]
    assert world.heartbeat(other, 1) is ErrorCode.unknown_member_id


def test_another_leads_when_the_leader_does_not_join(world):
    leader, other = world.stable(2)
    join = world.join(other, protocols=(Protocol("range", b"new"),))
    world.tick(SESSION_MS)
    answer = world.answer(join)
    assert answer.leader == other
    assert leader not in world.group.members


def test_a_second_join_takes_the_place_of_the_first(world):
    leader, other = world.stable(2)
    first, second = world.join(leader), world.join(leader)
    assert world.answer(first).error is ErrorCode.rebalance_in_progress
    world.join(other)
    assert world.answer(second).generation == 2


def test_a_lost_join_answer_is_given_again(world):
    _, request = world.enter()
    world.tick(3_000)
    answer = world.answer(request)
    assert world.answer(world.join(answer.member_id)) == answer
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_a_stable_follower_rejoins_without_a_rebalance_a_leader_does_not(world):
    leader, other = world.stable(2)
    assert world.answer(world.join(other)) == JoinAnswer(
        member_id=other, generation=1, protocol_type="consumer", protocol="range", leader=leader
    )
    assert world.group.state is GroupState.STABLE
    world.join(leader)
    assert world.group.state is GroupState.PREPARING_REBALANCE


# --- syncing ----------------------------------------------------------------------------------


def test_assignments_are_stored_before_anyone_gets_them(world):
    requests = [world.enter()[1] for _ in range(2)]
    world.tick(6_000)
    leader, other = (world.answer(number).member_id for number in requests)
    world.auto = False
    waiting = world.sync(other, 1)
    mine = world.sync(leader, 1, {leader: b"L", other: b"O"})
    assert world.answer(mine) is world.answer(waiting) is None
    world.store()
    assert (world.answer(mine).assignment, world.answer(waiting).assignment) == (b"L", b"O")
    assert world.group.state is GroupState.STABLE


def test_assignments_that_cannot_be_stored_begin_a_new_rebalance(world):
    member, _ = world.enter()
    world.tick(3_000)
    world.auto = False
    sync = world.sync(member, 1, {member: b"A"})
    world.store(ErrorCode.not_enough_replicas)
    assert world.answer(sync).error is ErrorCode.coordinator_not_available
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_assignments_of_a_generation_that_is_over_go_to_nobody(world):
    member, _ = world.enter()
    world.tick(3_000)
    world.auto = False
    sync = world.sync(member, 1, {member: b"old"})
    world.join(member, protocols=(Protocol("range", b"changed"),))
    assert world.answer(sync).error is ErrorCode.rebalance_in_progress
    world.store()
    assert world.group.generation == 2
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    assert world.group.members[member].assignment == b""


def test_who_does_not_sync_in_time_is_out(world):
    requests = [world.enter()[1] for _ in range(2)]
    world.tick(6_000)
    leader, other = (world.answer(number).member_id for number in requests)
    world.sync(leader, 1, {leader: b"L", other: b"O"})
    for _ in range(REBALANCE_MS // 5_000):
        world.heartbeat(leader, 1)
        world.heartbeat(other, 1)
        world.tick(5_000)
    assert other not in world.group.members
    assert world.heartbeat(leader, 1) is ErrorCode.rebalance_in_progress


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"generation": 0}, ErrorCode.illegal_generation),
        ({"member_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"instance_id": "nobody"}, ErrorCode.unknown_member_id),
        ({"protocol_type": "connect"}, ErrorCode.inconsistent_group_protocol),
        ({"protocol": "other"}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_syncs_that_cannot_be(world, values, error):
    (member,) = world.stable()
    request = {"member_id": member, "generation": 1} | values
    assert world.answer(world.sync(**request)).error is error


# --- sessions ---------------------------------------------------------------------------------


def test_heartbeats_keep_a_member_silence_loses_it(world):
    (member,) = world.stable()
    for _ in range(5):
        world.tick(SESSION_MS - 100)
        assert world.heartbeat(member, 1) is ErrorCode.none
    world.tick(SESSION_MS)
    assert world.heartbeat(member, 1) is ErrorCode.unknown_member_id
    assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 2)


def test_a_member_that_leaves_makes_the_others_join_again(world):
    leader, other = world.stable(2)
    assert world.leave((leader,)).members == (ErrorCode.none,)
    assert world.heartbeat(other, 1) is ErrorCode.rebalance_in_progress
    join = world.answer(world.join(other))
    assert (join.generation, join.leader) == (2, other)


def test_each_of_a_batch_leaves_by_itself(world):
    first, second = world.stable(instances=["a", "b"])
    answer = world.leave(("nobody",), ("", "a"), (second, "a"), ("", "c"))
    assert answer.members == (
        ErrorCode.unknown_member_id,
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    )
    assert first not in world.group.members
    assert second in world.group.members


# --- static members ---------------------------------------------------------------------------


def test_a_static_member_restarts_without_a_rebalance(world):
    _, follower = world.stable(instances=["a", "b"])
    answer = world.answer(world.join(instance="b", new_member_id="b-2"))
    assert (answer.error, answer.member_id, answer.generation) == (ErrorCode.none, "b-2", 1)
    sync = world.answer(world.sync("b-2", 1, instance_id="b"))
    assert sync.assignment == b"for " + follower.encode()
    assert world.group.state is GroupState.STABLE
    assert world.heartbeat(follower, 1, instance_id="b") is ErrorCode.fenced_instance_id
    world.reload()
    assert world.heartbeat("b-2", 1, instance_id="b") is ErrorCode.none


@pytest.mark.parametrize("skips", [False, True])
def test_a_static_leader_that_restarts_does_not_assign_again(world, skips):
    (leader,) = world.stable(instances=["a"])
    request = world.join(instance="a", new_member_id="a-2", supports_skipping_assignment=skips)
    answer = world.answer(request)
    assert answer.skip_assignment is skips
    assert answer.leader == ("a-2" if skips else leader)
    assert bool(answer.members) is skips


def test_a_static_member_that_comes_back_changed_begins_a_rebalance(world):
    world.stable(instances=["a"], protocols=(*RANGE, Protocol("other", b"")))
    world.join(instance="a", protocols=(Protocol("other", b""),))
    assert world.group.generation == 2


def test_a_restart_that_cannot_be_stored_did_not_happen(world):
    (member,) = world.stable(instances=["a"])
    world.auto = False
    request = world.join(instance="a", new_member_id="a-2")
    world.store(ErrorCode.request_timed_out)
    assert world.answer(request).error is ErrorCode.rebalance_in_progress
    assert world.heartbeat(member, 1, instance_id="a") is ErrorCode.none
    assert "a-2" not in world.group.members


def test_a_waiting_twin_is_fenced(world):
    first = world.join(instance="a", new_member_id="a-1")
    world.join(instance="a", new_member_id="a-2")
    assert world.answer(first).error is ErrorCode.fenced_instance_id
    assert world.answer(world.join("a-1", instance="a")).error is ErrorCode.fenced_instance_id


# --- offsets ----------------------------------------------------------------------------------


def test_a_commit_is_answered_and_seen_when_it_is_stored(world):
    (member,) = world.stable()
    world.auto = False
    request = world.commit(7, member, 1)
    assert world.answer(request) is None
    assert world.committed() is None
    world.store()
    assert world.answer(request).partitions == {TP: ErrorCode.none}
    assert world.committed() == 7


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas_after_append, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.invalid_commit_offset_size),
    ],
)
def test_a_commit_that_cannot_be_stored(world, failed, error):
    world.commit(1)
    world.auto = False
    request = world.commit(2)
    world.store(failed)
    assert world.answer(request).partitions == {TP: error}
    assert world.committed() == 1


def test_who_may_commit(world):
    def error(*args):
        answer = world.answer(world.commit(1, *args))
        return answer.error or answer.partitions[TP]

    assert error("nobody", 3) is ErrorCode.illegal_generation
    assert error() is ErrorCode.none  # from outside of any group
    (member,) = world.stable()
    assert error() is ErrorCode.unknown_member_id
    assert error("nobody", 1) is ErrorCode.unknown_member_id
    assert error(member, 0) is ErrorCode.illegal_generation
    assert error(member, 1) is ErrorCode.none
    _ = world.enter()
    assert error(member, 1) is ErrorCode.none  # while a rebalance is prepared
    world.join(member)
    assert error(member, 2) is ErrorCode.rebalance_in_progress


def test_a_text_that_is_too_long_is_refused_alone(world):
    answer = world.answer(world.commit(1, metadata="x" * 4097))
    assert answer.partitions == {TP: ErrorCode.offset_metadata_too_large}
    assert not world.groups.by_id


def test_offsets_and_membership_survive_the_coordinator(world):
    leader, other = world.stable(2)
    world.commit(5, leader, 1)
    world.reload()
    assert world.committed() == 5
    assert world.heartbeat(other, 1) is ErrorCode.none
    sync = world.answer(world.sync(other, 1))
    assert sync.assignment == b"for " + other.encode()
    world.tick(SESSION_MS)
    assert world.group.state is GroupState.EMPTY


def test_a_snapshot_says_what_the_log_says(world):
    leader, _ = world.stable(2)
    world.commit(5, leader, 1)
    world.commit(6, leader, 1)
    world.commit(1, leader, 1, TopicPartition("t", 1))
    world.delete_offsets(TopicPartition("u", 0))
    from_log = World(log=list(world.log))
    world.join(leader)  # a rebalance under way is not stored
    snapshot = World(auto=False, log=[])
    snapshot.log = [(encode(k), encode(v)) for k, v in world.groups.snapshot()]
    snapshot.reload()
    assert snapshot.groups.snapshot() == from_log.groups.snapshot()
    assert len(snapshot.log) == 3


def test_a_snapshot_counts_what_is_on_its_way(world):
    world.commit(5)
    world.auto = False
    world.commit(6)
    ((_, value),) = world.groups.snapshot()
    assert value.offset == 6


# --- the end ----------------------------------------------------------------------------------


def test_a_group_with_members_is_not_deleted(world):
    (member,) = world.stable()
    assert world.answer(world.delete_group()).error is ErrorCode.non_empty_group
    world.leave((member,))
    world.commit(1)
    assert world.answer(world.delete_group()).error is ErrorCode.none
    assert not world.groups.by_id
    world.reload()
    assert not world.groups.by_id
    assert world.answer(world.delete_group()).error is ErrorCode.group_id_not_found


def test_a_group_that_cannot_be_deleted_stays(world):
    world.commit(1)
    world.auto = False
    request = world.delete_group()
    world.store(ErrorCode.request_timed_out)
    assert world.answer(request).error is ErrorCode.coordinator_not_available
    assert world.committed() == 1


def test_offsets_of_subscribed_topics_are_not_deleted(world):
    (member,) = world.stable(protocols=consumer("t"))
    other = TopicPartition("other", 0)
    world.commit(1, member, 1)
    world.commit(2, member, 1, other)
    answer = world.answer(world.delete_offsets(TP, other))
    assert answer.partitions == {
        TP: ErrorCode.group_subscribed_to_topic,
        other: ErrorCode.none,
    }
    assert (world.committed(), world.committed(other)) == (1, None)


def test_offsets_outlive_their_group_for_the_retention(world):
    retention_ms = world.config.offsets_retention_ms
    (member,) = world.stable()
    world.commit(1, member, 1)
    world.now += retention_ms
    world.leave((member,))
    world.now += retention_ms - 1
    world.expire()
    assert world.committed() == 1
    world.now += 1
    world.expire()
    assert not world.groups.by_id
    world.reload()
    assert not world.groups.by_id


def test_offsets_without_a_group_expire_by_themselves(world):
    world.commit(1)
    world.now += world.config.offsets_retention_ms - 1
    world.expire()
    world.commit(2, tp=TopicPartition("t", 1))
    world.now += 1
    world.expire()
    assert (world.committed(), world.committed(TopicPartition("t", 1))) == (None, 2)


def test_offsets_of_a_stable_group_expire_when_nobody_is_subscribed(world):
    (member,) = world.stable(protocols=consumer("t"))
    other = TopicPartition("other", 0)
    world.commit(1, member, 1)
    world.commit(2, member, 1, other)
    world.now += world.config.offsets_retention_ms
    world.expire()
    assert (world.committed(), world.committed(other)) == (1, None)


def test_offsets_in_deleted_partitions_go(world):
    world.commit(1)
    world.commit(2, tp=TopicPartition("t", 1))
    world.partitions_deleted(TP, TopicPartition("u", 0))
    assert (world.committed(), world.committed(TopicPartition("t", 1))) == (None, 2)
