"""Requests of clients to the controller: elections and reassignments, and their answers."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import ReplicaAssignment
from ackproof.broker.types import NO_LEADER, TopicPartition
from tests.support.worlds.controller_world import World

TP = TopicPartition("orders", 0)
TOKEN = 7


@pytest.fixture
def three():
    """Brokers 1, 2 and 3 with a replica of ``orders-0`` each, all in sync, led by 1."""
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    world.elect()
    world.topic("orders", (1, 2, 3))
    return world


def asked(world, event):
    """The outcomes by partition of the answer to ``event``."""
    before = len(world.effects)
    world.feed(event)
    (answer,) = [e for e in world.effects[before:] if isinstance(e, events.Answer)]
    assert answer.token == TOKEN
    return {tp: outcome.error for tp, outcome in answer.outcomes.items()}


def elect(world, *tps, unclean=False):
    event = events.ElectionAsked(partitions=tps or None, unclean=unclean, token=TOKEN)
    return asked(world, event)


def alter(world, tp, target):
    return asked(world, events.ReassignmentsAltered(targets={tp: target}, token=TOKEN))[tp]


# --- elections ------------------------------------------------------------------------------


def test_the_preferred_replica_gets_its_leadership_back(three):
    three.brokers(2, 3)
    three.brokers(1, 2, 3)
    three.leader_writes(TP, 1, 2, 3)
    three.isr_seen(TP)
    assert three.state(TP)[0] == 2
    assert elect(three, TP) == {TP: ErrorCode.none}
    assert three.state(TP)[0] == 1
    assert elect(three, TP) == {TP: ErrorCode.election_not_needed}


def test_a_preferred_replica_that_is_not_in_sync_is_not_elected(three):
    three.brokers(2, 3)
    three.brokers(1, 2, 3)
    assert elect(three, TP) == {TP: ErrorCode.preferred_leader_not_available}
    assert three.state(TP)[0] == 2


def test_an_election_asked_for_during_a_write_is_not_forgotten(three):
    three.brokers(2, 3)
    three.brokers(1, 2, 3)
    three.leader_writes(TP, 1, 2, 3)
    three.isr_seen(TP)
    three.unregister(3)
    three.feed(events.BrokersChanged(live=dict(three.live)), hold=True)
    three.feed(events.ElectionAsked(partitions=(TP,), unclean=False, token=TOKEN), hold=True)
    assert not any(isinstance(e, events.Answer) for e in three.effects)
    three.release()
    assert three.state(TP)[:2] == (1, (1, 2))
    (answer,) = [e for e in three.effects if isinstance(e, events.Answer)]
    assert answer.outcomes[TP].error is ErrorCode.none


def test_asked_for_all_those_that_need_no_election_are_left_out(three):
    three.topic("more", (2, 3))
    three.brokers(2, 3)
    three.brokers(1, 2, 3)
    assert elect(three) == {TP: ErrorCode.preferred_leader_not_available}


def test_elections_that_make_no_sense_are_refused(three):
    unknown = TopicPartition("orders", 5)
    assert elect(three, unknown) == {unknown: ErrorCode.unknown_topic_or_partition}
    assert elect(three, TP, unclean=True) == {TP: ErrorCode.election_not_needed}
    three.brokers(1, 2)
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    assert elect(three, TP) == {TP: ErrorCode.invalid_topic_exception}


def test_an_unclean_election_is_for_once(three):
    three.brokers(1)
    three.brokers(2)
    assert three.state(TP)[:2] == (NO_LEADER, (1,))
    assert elect(three, TP, unclean=True) == {TP: ErrorCode.none}
    assert three.state(TP)[:2] == (2, (2,))
    three.brokers(3)
    assert three.state(TP)[:2] == (NO_LEADER, (2,))


def test_unclean_election_needs_a_live_replica(three):
    three.brokers(1)
    three.brokers()
    assert elect(three, TP, unclean=True) == {TP: ErrorCode.eligible_leaders_not_available}
    three.brokers(3)
    assert three.state(TP)[0] == NO_LEADER, "the request was answered: no request is left"


def test_unclean_elections_switched_on_elect_at_once(three):
    three.brokers(1)
    three.brokers(3)
    three.feed(events.UncleanElectionsChanged(enabled={"orders": False, "no-such": True}))
    assert three.state(TP)[0] == NO_LEADER
    three.feed(events.UncleanElectionsChanged(enabled={"orders": True}))
    assert three.state(TP)[:2] == (3, (3,))
    three.feed(events.UncleanElectionsChanged(enabled={"orders": False}))
    three.brokers(2)
    assert three.state(TP)[:2] == (NO_LEADER, (3,))


# --- reassignments --------------------------------------------------------------------------


def test_a_reassignment_is_answered_when_it_has_begun(three):
    three.brokers(1, 2, 3, 4)
    assert alter(three, TP, (4, 2)) is ErrorCode.none
    moving = three.topics["orders"].partitions[0]
    assert moving == ReplicaAssignment(replicas=(4, 2, 1, 3), adding=(4,), removing=(1, 3))
    three.leader_writes(TP, 1, 2, 3, 4)
    three.isr_seen(TP)
    assert three.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(4, 2))
    assert three.state(TP)[:2] == (4, (2, 4))


def test_a_reassignment_by_request_takes_the_place_of_the_znodes(three):
    three.brokers(1, 2, 3, 4)
    three.feed(events.ReassignmentAsked(targets={TP: (4, 2)}))
    assert alter(three, TP, (4, 3)) is ErrorCode.none
    assert three.topics["orders"].partitions[0].target == (4, 3), "4 is not in sync yet"
    assert events.DropReassignments(partitions=(TP,)) in three.effects


def test_cancelled_reassignment_restores_the_former_state(three):
    three.brokers(1, 2, 3, 4)
    alter(three, TP, (4, 2))
    assert alter(three, TP, None) is ErrorCode.none
    assert three.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(2, 1, 3))
    assert three.state(TP)[:2] == (1, (1, 2, 3))
    assert (4, TP) not in three.told
    assert alter(three, TP, None) is ErrorCode.no_reassignment_in_progress


def test_taking_back_does_not_wait_for_the_dead(three):
    three.brokers(1, 2, 3, 4)
    alter(three, TP, (4, 2))
    three.brokers(1, 2, 4)
    assert alter(three, TP, None) is ErrorCode.none
    assert three.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(2, 1, 3))
    assert three.state(TP)[:2] == (1, (1, 2))


def test_taking_back_waits_for_a_former_replica_that_has_everything(three):
    three.brokers(1, 2, 3, 4)
    alter(three, TP, (4, 2))
    three.leader_writes(TP, 1, 4)
    three.isr_seen(TP)
    three.brokers(2, 3, 4)
    assert three.state(TP)[:2] == (4, (4,))
    assert alter(three, TP, None) is ErrorCode.none
    assert three.state(TP)[:2] == (4, (4,)), "only 4 has every acknowledged record"
    three.leader_writes(TP, 4, 2)
    three.isr_seen(TP)
    assert three.state(TP)[:2] == (2, (2,))
    assert three.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(2, 1, 3))
    assert (4, TP) not in three.told


@pytest.mark.parametrize(
    ("tp", "target", "error"),
    [
        (TP, (), ErrorCode.invalid_replica_assignment),
        (TP, (1, 1), ErrorCode.invalid_replica_assignment),
        (TP, (1, 9), ErrorCode.invalid_replica_assignment),
        (TopicPartition("orders", 5), (1,), ErrorCode.unknown_topic_or_partition),
        (TopicPartition("orders", 5), None, ErrorCode.unknown_topic_or_partition),
        (TP, None, ErrorCode.no_reassignment_in_progress),
        (TP, (1, 2, 3), ErrorCode.none),
    ],
)
def test_reassignments_that_make_no_sense_are_refused(three, tp, target, error):
    assert alter(three, tp, target) is error
    assert three.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(1, 2, 3))
