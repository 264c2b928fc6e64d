"""What a plan hardly ever has by chance: knots, and the faults in the broker that they find.

docs/simulation.md has the whole table.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest
from swap import Mutation, Swap

from ackproof.broker.controller.deletion import Deletions
from ackproof.broker.controller.reassignment import Reassignments
from ackproof.broker.groups import table
from ackproof.broker.groups.events import Stored
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.pending import PendingAssignments
from ackproof.broker.groups.requests import membership
from ackproof.broker.log.flushing import Flushing
from ackproof.broker.log.idempotence.producers import LogProducers
from ackproof.broker.replication.events import LeaderAndIsr
from ackproof.broker.replication.follower import Follower
from ackproof.broker.replication.local import Effects
from ackproof.broker.replication.replica import Replica
from ackproof.broker.server.controller.control_fence import ControlFence, ControlRequest
from ackproof.broker.server.replication.fetch_session_cache import FetchSession, _Fetched, asked_in
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.controller_zk import ControllerZk, Tenure
from ackproof.broker.types import NO_LEADER, TopicPartition
from ackproof.broker.wire.messages.fetch import FetchRequest
from simulation.plans.actions import CommitALot
from simulation.plans.knots import KNOTS
from simulation.plans.plan import from_json, to_json
from simulation.plans.schedule import draw
from simulation.world.world import run

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("knot", KNOTS)
def test_a_knot_is_data_and_the_same_for_a_seed(knot: str) -> None:
    for seed in range(20):
        plan = draw(seed, knot)
        assert from_json(to_json(plan)) == plan == draw(seed, knot)
        assert all(timed.at_ms <= plan.run_ms for timed in plan.actions)
        assert plan != draw(seed, next(other for other in KNOTS if other != knot))


@pytest.mark.long
@pytest.mark.timeout(0)
@pytest.mark.parametrize("knot", KNOTS)
def test_without_a_fault_everything_holds(knot: str) -> None:
    lots = any(isinstance(timed.action, CommitALot) for timed in draw(0, knot).actions)
    for seed in range(1 if lots else 3):
        outcome = run(draw(seed, knot))
        assert outcome.violation is None, f"python -m simulation --knot {knot!r} --seed {seed}"


@pytest.mark.timeout(0)
def test_a_leader_whose_zookeeper_server_is_behind_writes_its_isr_in_the_end() -> None:
    """The controller had told it of a state that its own server had not got yet; it took that for
    a conflict, and waited for the controller for ever. Nor did it find the new topic's settings
    there, and answered acks=all by the default of ``min.insync.replicas``."""
    outcome = run(draw(4, "moved and extended"))
    assert outcome.plan.zookeeper_lag_ms > 0
    assert outcome.violation is None


# --- faults that nobody put back ------------------------------------------------------------------


def order_goes_first() -> Swap:
    async def delete(self: ControllerZk, tenure: Tenure, topic: str) -> None:
        await self.delete(tenure, f"{znodes.DELETE_TOPICS}/{topic}")
        await self.delete(tenure, znodes.topic(topic))

    return Swap(ControllerZk, "delete_topic", delete)


def flushes_outlive_cuts() -> Swap:
    cut_to = Flushing.cut_to

    def cut(self: Flushing, end: int) -> None:
        turn = self._turn
        cut_to(self, end)
        self._turn = turn

    return Swap(Flushing, "cut_to", cut)


def gives_out_what_was_assigned_before() -> Swap:
    def give_out(group: Group, stored: Stored, pending: PendingAssignments) -> None:
        membership.give_out(group, stored, replace(pending, generation=group.generation))

    return Swap(table, "AFTER", {**table.AFTER, PendingAssignments: give_out})


def waiting_producers_are_not_told() -> Swap:
    become = Replica._become

    def becomes(self: Replica, state: LeaderAndIsr) -> Effects:
        told = become(self, state)
        return () if state.leader == NO_LEADER else told

    return Swap(Replica, "_become", becomes)


def producers_outlive_their_log() -> Swap:
    return Swap(LogProducers, "clear", lambda _self: None)


def told_once_is_told_for_ever() -> Swap:
    def update(self: FetchSession, request: FetchRequest) -> None:
        for name, asked in asked_in(request):
            self._partitions.setdefault(name, _Fetched(asked)).asked = asked

    return Swap(FetchSession, "update", update)


def nothing_gives_way() -> Swap:
    return Swap(Follower, "_ends_inside_a_batch", lambda _self, _event: False)


def takes_its_own_office_for_anothers() -> Swap:
    async def elected(_self: ControllerZk, _won: object) -> bool:
        return False

    return Swap(ControllerZk, "_elected_unseen", elected)


def obeys_on_any_connection() -> Swap:
    admit = ControlFence.admit

    def admits(self: ControlFence, request: ControlRequest, _connection: int) -> object:
        return admit(self, request, 1)

    return Swap(ControlFence, "admit", admits)


def waits_for_who_died() -> Swap:
    return Swap(Deletions, "brokers_down", lambda _self, _brokers: None)


def looks_for_no_deletion() -> Swap:
    def conclude(self: Reassignments, moved: tuple[TopicPartition, ...]) -> None:
        with Mutation(Swap(Deletions, "advance", lambda _self: None)).active():
            concluded(self, moved)

    concluded = Reassignments.conclude
    return Swap(Reassignments, "conclude", conclude)


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("plant", "knot", "seed", "invariant"),
    [
        (order_goes_first, "half deleted", 3, "Settles"),
        (flushes_outlive_cuts, "cut while flushing", 6, "FlushedIsSynced"),
        (gives_out_what_was_assigned_before, "assignments overtaken", 8, "GenerationsFollow"),
        (waiting_producers_are_not_told, "leaderless", 0, "WaitingAreTold"),
        (producers_outlive_their_log, "far behind", 0, "ProducersAreLog"),
        (told_once_is_told_for_ever, "passed over", 0, "UntoldIsKnown"),
        (nothing_gives_way, "inside a batch", 0, "LogsMeet"),
        (takes_its_own_office_for_anothers, "written unheard", 0, "OfficeIsKnown"),
        (obeys_on_any_connection, "given-up order", 0, "NewestConnectionIsObeyed"),
        (waits_for_who_died, "deleted and moved", 0, "OrdersEnd"),
        (looks_for_no_deletion, "deleted and moved", 0, "OrdersEnd"),
    ],
)
def test_a_fault_is_found_by_its_knot(
    plant: Callable[[], Swap], knot: str, seed: int, invariant: str
) -> None:
    with Mutation(plant()).active():
        violation = run(draw(seed, knot)).violation
    assert violation is not None
    assert violation.invariant == invariant, violation
