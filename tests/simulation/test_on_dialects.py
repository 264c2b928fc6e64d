"""Of members of one group that know different ways to share it out, and of a topic that goes while
a group commits: a fault for each is found; without one nothing is (``test_on_purpose.py``)."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from swap import Mutation, Swap

from ackproof.broker.groups.events import Join
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.members import Members
from ackproof.broker.groups.offsets import Offsets
from ackproof.broker.groups.requests import joining
from ackproof.broker.groups.state import GroupState
from ackproof.broker.groups.table import STEPS
from ackproof.broker.server.requests import join_group, list_groups
from ackproof.broker.server.requests.table import APIS, Api
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.list_groups import ListGroupsRequest
from simulation.plans.schedule import draw
from simulation.world.world import run

pytestmark = pytest.mark.simulation

ASKED_EVERYTHING = 0


def chooses_what_fewest_like() -> Swap:
    def chosen(self: Members) -> tuple[str, ...]:
        common = self._common()
        votes = Counter(next(p.name for p in each.protocols if p.name in common) for each in self)
        return (votes.most_common()[-1][0],)

    return Swap(Members, "liked_best", chosen)


def lets_in_who_shares_none() -> Swap:
    return Swap(Members, "supports", lambda _self, _protocols: True)


def lets_wait_who_is_called() -> Swap:
    end_wait = Group.end_wait

    def ended(self: Group, member: Any, told: Any, at: Any) -> None:
        if told.error.name != "rebalance_in_progress":
            end_wait(self, member, told, at)

    return Swap(Group, "end_wait", ended)


def drops_what_is_on_its_way() -> Swap:
    def settled(self: Offsets) -> frozenset[TopicPartition]:
        return frozenset(self.committed)

    return Swap(Offsets, "settled", settled)


def waits_for_those_who_never_join() -> Swap:
    return Swap(Group, "forget_pending", lambda _self, _member_id, _at: None)


def overlooks_what_is_on_its_way() -> Swap:
    return Swap(Offsets, "known", property(frozenset))


def overlooks_what_a_member_says_now() -> Swap:
    def rejoins(group: Group, event: Join) -> None:
        member = group.members[event.member_id]
        if group.members.leader == event.member_id:
            joining.rejoin_preparing(group, event)
        else:
            group.respond(event.request, group.joined(member))

    return Swap(STEPS[GroupState.STABLE], Join, partial(joining.join, rejoin=rejoins))


def shows_nobodys_instance() -> Swap:
    respond = join_group._respond

    def responded(request: Any, joined: Any) -> Any:
        answer = respond(request, joined)
        blank = (replace(each, group_instance_id=None) for each in answer.members)
        return replace(answer, members=tuple(blank))

    return Swap(join_group, "_respond", responded)


def lists_groups_in_any_state() -> Swap:
    def listed(request: Any, context: Any) -> Any:
        return list_groups.handle(replace(request, states_filter=()), context)

    return Swap(APIS, 16, Api(ListGroupsRequest, range(5), listed))


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (chooses_what_fewest_like, "GenerationsFollow"),
        (lets_in_who_shares_none, "RefusedByState"),
        (lets_wait_who_is_called, "AllAreCalled"),
        (drops_what_is_on_its_way, "OffsetsGoWithTopics"),
        (overlooks_what_is_on_its_way, "OffsetsEnd"),
        (waits_for_those_who_never_join, "MembersStay"),
        (overlooks_what_a_member_says_now, "AllAreCalled"),
        (shows_nobodys_instance, "LeaderIsShown"),
        (lists_groups_in_any_state, "DescribedAsItIs"),
    ],
)
def test_what_is_wrong_with_groups_is_found(plant: Callable[[], Swap], invariant: str) -> None:
    with Mutation(plant()).active():
        violation = run(draw(ASKED_EVERYTHING)).violation
    assert violation is not None
    assert violation.invariant == invariant
