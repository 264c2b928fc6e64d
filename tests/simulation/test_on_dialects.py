"""Of members of one group that know different ways to share it out, and of a topic that goes while
a group commits: a fault for each is found; without one nothing is (``test_on_purpose.py``)."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from broker.groups.group import Group
from broker.groups.members import Members
from broker.groups.offsets import Offsets
from broker.types import TopicPartition
from simulation.mutations.swap import Mutation, Swap
from simulation.plans.schedule import draw
from simulation.world.world import run

pytestmark = pytest.mark.simulation

ASKED_EVERYTHING = 0


def chooses_what_fewest_like() -> Swap:
    def chosen(self: Members) -> str:
        common = self._common()
        votes = Counter(next(p.name for p in each.protocols if p.name in common) for each in self)
        return votes.most_common()[-1][0]

    return Swap(Members, "select_protocol", chosen)


def lets_in_who_shares_none() -> Swap:
    return Swap(Members, "supports", lambda _self, _protocols: True)


def lets_wait_who_is_called() -> Swap:
    answer = Group.answer_sync

    def answered(self: Group, member: Any, told: Any) -> None:
        if told.error.name != "rebalance_in_progress":
            answer(self, member, told)

    return Swap(Group, "answer_sync", answered)


def drops_what_is_on_its_way() -> Swap:
    def settled(self: Offsets) -> frozenset[TopicPartition]:
        return frozenset(self.committed)

    return Swap(Offsets, "settled", settled)


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (chooses_what_fewest_like, "GenerationsFollow"),
        (lets_in_who_shares_none, "RefusedByState"),
        (lets_wait_who_is_called, "AllAreCalled"),
        (drops_what_is_on_its_way, "OffsetsEnd"),
    ],
)
def test_what_is_wrong_with_groups_is_found(plant: Callable[[], Swap], invariant: str) -> None:
    with Mutation(plant()).active():
        violation = run(draw(ASKED_EVERYTHING)).violation
    assert violation is not None
    assert violation.invariant == invariant
