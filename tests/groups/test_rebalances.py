"""Members join, sync, stay and leave."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import JoinAnswer, Protocol
from ackproof.broker.groups.state import GroupState
from tests.support.worlds.group_world import REBALANCE_MS, SESSION_MS, World

# --- joining ----------------------------------------------------------------------------------


def test_a_newcomer_gets_its_id_first(world):
    answer = world.answer(world.join(new_member_id="c-1"))
    assert (answer.error, answer.member_id) == (ErrorCode.member_id_required, "c-1")
    old = world.join(requires_known_member_id=False)
    assert world.answer(old) is None  # before v4 it joins at once


def test_unused_member_id_is_forgotten(world):
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
        ({"member_id": "unknown"}, ErrorCode.unknown_member_id),
    ],
)
def test_joins_that_cannot_be(world, values, error):
    world.stable()
    assert world.answer(world.join(**values)).error is error
    assert world.group.state is GroupState.STABLE


def test_full_group_rejects_new_members():
    world = World(GroupConfig(max_size=1))
    (member,) = world.stable()
    assert world.answer(world.join()).error is ErrorCode.group_max_size_reached
    world.join(member)
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_member_that_does_not_rejoin_in_time_is_removed(world):
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


@pytest.mark.parametrize("stored", [True, False])
def test_member_that_waited_longer_than_a_session_may_rejoin(world, stored):
    """The leader is slow, and nothing comes of what it assigns: its store fails, or it says that
    it wants something else."""
    requests = [world.enter()[1] for _ in range(2)]
    world.tick(6_000)
    leader, other = (world.answer(number).member_id for number in requests)
    world.auto = False
    sync = world.sync(other, 1)
    for _ in range(SESSION_MS // 1_000 + 1):
        world.tick(1_000)
        world.heartbeat(leader, 1)
    if stored:
        world.join(leader, protocols=(Protocol("range", b"changed"),))
    else:
        world.sync(leader, 1, {leader: b"L", other: b"O"})
        world.store(ErrorCode.not_enough_replicas)
    assert world.answer(sync).error is not ErrorCode.none
    world.tick(1_000)
    assert other in world.group.members


def test_assignments_of_an_ended_generation_are_discarded(world):
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


def test_member_that_does_not_sync_in_time_is_removed(world):
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
        ({"member_id": "unknown"}, ErrorCode.unknown_member_id),
        ({"instance_id": "unknown"}, ErrorCode.unknown_member_id),
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
    answer = world.leave(("unknown",), ("", "a"), (second, "a"), ("", "c"))
    assert answer.members == (
        ErrorCode.unknown_member_id,
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.unknown_member_id,
    )
    assert first not in world.group.members
    assert second in world.group.members
