"""Static members (KIP-345): they restart, come back changed, and are fenced."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Protocol
from ackproof.broker.groups.state import GroupState
from tests.support.worlds.group_world import RANGE, REBALANCE_MS


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


def test_protocol_tie_causes_no_rebalance(world):
    likes = {"a": ("range", "sticky"), "b": ("sticky", "range")}
    known = {each: tuple(Protocol(name, b"") for name in names) for each, names in likes.items()}
    joins = [world.join(instance=each, protocols=known[each]) for each in likes]
    world.tick(3 * world.config.initial_rebalance_delay_ms)
    first, second = (world.answer(request) for request in joins)
    for answer in (first, second):
        world.sync(answer.member_id, 1)
    world.join(instance="a", protocols=known["a"])
    assert (world.group.generation, world.group.state) == (1, GroupState.STABLE)
    assert world.group.protocol == "range"


def test_a_restart_that_cannot_be_stored_did_not_happen(world):
    (member,) = world.stable(instances=["a"])
    world.auto = False
    request = world.join(instance="a", new_member_id="a-2")
    world.store(ErrorCode.request_timed_out)
    assert world.answer(request).error is ErrorCode.rebalance_in_progress
    assert world.heartbeat(member, 1, instance_id="a") is ErrorCode.none
    assert "a-2" not in world.group.members


@pytest.mark.parametrize(
    ("instance", "error"),
    [("a", ErrorCode.fenced_instance_id), ("b", ErrorCode.unknown_member_id)],
)
def test_unused_member_id_belongs_to_no_static_member(world, instance, error):
    (member,) = world.stable(instances=["a"])
    given = world.answer(world.join(requires_known_member_id=True))
    assert given.error is ErrorCode.member_id_required
    assert world.answer(world.join(given.member_id, instance=instance)).error is error
    assert world.heartbeat(member, 1, instance_id="a") is ErrorCode.none


# --- before it has asked for its part -------------------------------------------------------------

LONG_MS = 3 * REBALANCE_MS


def restarted_before_it_asks(world):
    """``b`` was told its generation, and comes back shortly before the time to ask is over; it is
    being stored."""
    joins = [world.join(instance=i, session_timeout_ms=LONG_MS) for i in ("a", "b")]
    while world.group.generation == 0:
        world.tick(100)
    world.sync(world.answer(joins[0]).member_id, 1)
    world.tick(REBALANCE_MS - 100)
    world.auto = False
    return world.join(instance="b", new_member_id="b-2", session_timeout_ms=LONG_MS)


@pytest.mark.parametrize("stored_in_time", [False, True])
def test_static_member_that_returns_before_asking_continues(world, stored_in_time):
    request = restarted_before_it_asks(world)
    if stored_in_time:
        world.store()
    world.tick(1_000)
    if not stored_in_time:
        world.store()
    answer = world.answer(request)
    assert (answer.error, answer.member_id, answer.generation) == (ErrorCode.none, "b-2", 1)
    assert world.heartbeat("b-2", 1, instance_id="b") is ErrorCode.none
    assert world.group.state is GroupState.STABLE


def test_static_member_with_a_failed_return_must_ask_in_time(world):
    request = restarted_before_it_asks(world)
    world.store(ErrorCode.request_timed_out)
    world.tick(1_000)
    assert world.answer(request).error is ErrorCode.rebalance_in_progress
    assert world.group.members.id_of("b") is None


def test_a_waiting_twin_is_fenced(world):
    first = world.join(instance="a", new_member_id="a-1")
    world.join(instance="a", new_member_id="a-2")
    assert world.answer(first).error is ErrorCode.fenced_instance_id
    assert world.answer(world.join("a-1", instance="a")).error is ErrorCode.fenced_instance_id
