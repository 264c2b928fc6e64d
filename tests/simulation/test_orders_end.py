"""OrdersEnd, broken by hand: orders of which something would be left."""

from dataclasses import replace
from typing import Any

import pytest
from controlled import TP, in_office

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import (
    ReplicaAssignment,
)
from ackproof.broker.controller.deletion import Deletions
from ackproof.broker.controller.events import Event
from ackproof.broker.controller.phases.replica_state import ReplicaPhase
from ackproof.broker.controller.reassignment import Reassignments
from ackproof.broker.types import BrokerId
from simulation.mutations.swap import Mutation, Swap
from simulation.observer.orders import carried_out
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

DELETED = events.DeletionAsked(topics=frozenset({TP.topic}))


def of(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def moved(*target: int) -> Event:
    return events.ReassignmentsAltered(targets={TP: of(*target)}, token=1)


def ordered(event: Event, *, live: tuple[int, ...] = (1, 2, 3)) -> None:
    """Of t-0, which is on 1 and 2; raises Violation."""
    isr = [broker for broker in (1, 2) if broker in live]
    controller = in_office(1, (1, 2), live=live, isr=isr)
    assert controller.context is not None
    topics = dict(controller.context.topics)
    controller.step(event)
    carried_out.stepped(controller, event, topics)


@pytest.mark.parametrize("live", [(1, 2, 3), (1, 3)])
@pytest.mark.parametrize(
    "event", [DELETED, moved(3, 2), moved(1, 3), moved(3), moved(1), moved(2, 1), moved(1, 2, 3)]
)
def test_orders_end(event: Event, live: tuple[int, ...]) -> None:
    ordered(event, live=live)


def _left(deletions: Deletions, topic: str) -> set[ReplicaPhase]:
    phases = deletions._context.replica_phases
    tps = deletions._context.partitions_of(topic)
    return {phase for tp in tps for _, phase in phases.of(tp)}


def _any_is_deleted(self: Deletions, topic: str) -> bool:
    return ReplicaPhase.DELETION_SUCCESSFUL in _left(self, topic)


def _some_are_deleted(self: Deletions, topic: str) -> bool:
    return _left(self, topic) == {ReplicaPhase.DELETION_SUCCESSFUL}


def _nothing(*_: Any) -> None:
    return


@pytest.mark.parametrize(
    ("event", "owner", "method", "other", "found"),
    [
        (DELETED, Deletions, "is_deleted", _any_is_deleted, r"\['t-0 on 2'\] would be kept"),
        (DELETED, Deletions, "is_deleted", _some_are_deleted, "no partitions: .* there for good"),
        (DELETED, Deletions, "brokers_down", _nothing, "have died meanwhile .* there for good"),
        (DELETED, Deletions, "brokers_up", _nothing, "have died meanwhile .* there for good"),
        (moved(3, 2), Deletions, "advance", _nothing, "t-0 was being moved: .* there for good"),
        (moved(3, 2), Deletions, "delete_replica", _nothing, r"on \[2, 3\]: brokers \[1, 2, 3\]"),
        (moved(3, 2), Reassignments, "finish", lambda *_: False, r"t-0 is to be on \[2, 3\]"),
    ],
)
def test_what_would_be_left_is_found(
    event: Event, owner: Any, method: str, other: Any, found: str
) -> None:
    with (
        Mutation(Swap(owner, method, other)).active(),
        pytest.raises(Violation, match=f"OrdersEnd: .*{found}"),
    ):
        ordered(event)


def test_who_was_new_before_is_not_one_of_the_former() -> None:
    assign = Reassignments._assign

    def forgetting(self: Any, tp: Any, assignment: ReplicaAssignment) -> None:
        known = self._context.assignment(tp).replicas
        adding = tuple(broker for broker in assignment.adding if broker not in known)
        assign(self, tp, replace(assignment, adding=adding))

    with (
        Mutation(Swap(Reassignments, "_assign", forgetting)).active(),
        pytest.raises(Violation, match=r"OrdersEnd: t-0 is to be on \[1, 2\], .* \[3, 1\] before"),
    ):
        ordered(moved(3, 2))
