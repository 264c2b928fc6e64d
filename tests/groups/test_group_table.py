"""A walk over the table: every event in every state does what the table says, and no more."""

from typing import get_args

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Event, Leaving, Moment, Request, refusal
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.groups import STEPS, step
from ackproof.broker.groups.state import BEFORE, GroupState
from ackproof.broker.types import Millis
from tests.support.worlds.group_world import TP, World

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)


def in_state(state):
    """A world whose group is in ``state``, and a member of it (or what was one)."""
    world = World()
    if state is EMPTY:
        (member,) = world.stable()
        world.leave((member,))
    elif state is PREPARING:
        member = world.stable(2)[0]
        world.enter()
    elif state is COMPLETING:
        member, _ = world.enter()
        world.tick(3_000)
    else:
        (member,) = world.stable()
    assert world.group.state is state
    return world, member, world.group.generation


def test_every_event_has_its_place_in_every_state():
    assert set(STEPS) == set(GroupState)
    for steps in STEPS.values():
        assert set(steps) == set(get_args(Event))


WALK = [
    # state, what a member does, what it hears, the state afterwards
    (EMPTY, "join", ErrorCode.unknown_member_id, EMPTY),
    (PREPARING, "join", None, PREPARING),
    (COMPLETING, "join", ErrorCode.none, COMPLETING),
    (STABLE, "join", ErrorCode.none, COMPLETING),  # alone and leading: a generation at once
    (EMPTY, "enter", None, PREPARING),
    (PREPARING, "enter", None, PREPARING),
    (COMPLETING, "enter", None, PREPARING),
    (STABLE, "enter", None, PREPARING),
    (EMPTY, "sync", ErrorCode.unknown_member_id, EMPTY),
    (PREPARING, "sync", ErrorCode.rebalance_in_progress, PREPARING),
    (COMPLETING, "sync", ErrorCode.none, STABLE),
    (STABLE, "sync", ErrorCode.none, STABLE),
    (EMPTY, "heartbeat", ErrorCode.unknown_member_id, EMPTY),
    (PREPARING, "heartbeat", ErrorCode.rebalance_in_progress, PREPARING),
    (COMPLETING, "heartbeat", ErrorCode.none, COMPLETING),
    (STABLE, "heartbeat", ErrorCode.none, STABLE),
    (EMPTY, "leave", ErrorCode.unknown_member_id, EMPTY),
    (PREPARING, "leave", ErrorCode.none, PREPARING),
    (COMPLETING, "leave", ErrorCode.none, EMPTY),
    (STABLE, "leave", ErrorCode.none, EMPTY),
    (EMPTY, "commit", ErrorCode.unknown_member_id, EMPTY),
    (PREPARING, "commit", ErrorCode.none, PREPARING),
    (COMPLETING, "commit", ErrorCode.rebalance_in_progress, COMPLETING),
    (STABLE, "commit", ErrorCode.none, STABLE),
    (EMPTY, "delete", ErrorCode.none, None),
    (PREPARING, "delete", ErrorCode.non_empty_group, PREPARING),
    (COMPLETING, "delete", ErrorCode.non_empty_group, COMPLETING),
    (STABLE, "delete", ErrorCode.non_empty_group, STABLE),
]


def do(world, action, member, generation):
    match action:
        case "join":
            return world.join(member)
        case "enter":
            return world.enter()[1]
        case "sync":
            return world.sync(member, generation)
        case "commit":
            return world.commit(1, member, generation)
        case _:
            return world.delete_group()


@pytest.mark.parametrize(("state", "action", "heard", "after"), WALK)
def test_each_request_has_its_effect_in_each_state(state, action, heard, after):
    world, member, generation = in_state(state)
    if action == "heartbeat":
        assert world.heartbeat(member, generation) is heard
    elif action == "leave":
        assert world.leave(Leaving(member)).members == (heard,)
    else:
        answer = world.answer(do(world, action, member, generation))
        if action == "commit" and answer.error is ErrorCode.none:
            assert answer.partitions == {TP: heard}
        else:
            assert (answer and answer.error) is heard
    group = world.groups.by_id.get("g")
    assert (group and group.state) is after


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_no_other_transition_is_possible(before, after):
    group = Group("g", World().config, iter(range(10)))
    group.state = before
    at = Moment(Millis(0), 0)
    if before in BEFORE[after]:
        group.enter(after, at)
        assert group.state is after
    else:
        with pytest.raises(AssertionError):
            group.enter(after, at)


@pytest.fixture
def requests():
    """One of each kind."""
    world = World()
    seen = []
    feed = world.groups.step
    world.groups.step = lambda event: seen.append(event) or feed(event)
    world.join()
    world.sync("m", 1)
    world.heartbeat("m", 1)
    world.leave(("m",))
    world.delete_group()
    world.delete_offsets(TP)
    world.commit(1)
    return [event for event in seen if isinstance(event, Request)]


def test_the_dead_refuse_everything(requests):
    assert {type(request) for request in requests} == set(get_args(Request))
    group = Group("g", World().config, iter(range(10)))
    group.enter(DEAD, Moment(Millis(0), 0))
    for request in requests:
        step(group, request)
    errors = {effect.answer.error for effect in group.drain()}
    assert errors == {ErrorCode.coordinator_not_available}


def test_every_request_can_be_refused(requests):
    for request in requests:
        answer = refusal(request, ErrorCode.not_coordinator)
        assert answer.error is ErrorCode.not_coordinator
