"""The sans-I/O controller, event by event."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import ReplicaAssignment
from ackproof.broker.controller.requests import LEADER_AND_ISR_FULL
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.support.worlds.controller_world import World

TP = TopicPartition("orders", 0)


def world(*brokers, unclean=()):
    made = World(unclean=unclean)
    for broker in brokers:
        made.register(broker)
    made.elect()
    return made


@pytest.fixture
def three():
    made = world(1, 2, 3)
    made.topic("orders", (1, 2, 3))
    made.effects.clear()
    return made


def test_new_topic(three):
    assert three.state(TP) == (1, (1, 2, 3), 0)
    assert [three.told[b, TP].leader for b in (1, 2, 3)] == [1, 1, 1]
    assert all(three.told[b, TP].is_new for b in (1, 2, 3))


def test_new_topic_without_live_replicas_waits_for_one():
    made = world(1)
    made.topic("orders", (2, 3))
    assert TP not in made.states
    made.brokers(1, 3)
    assert made.state(TP) == (3, (3,), 0)


def test_broker_failure_moves_leaderships(three):
    three.brokers(2, 3)
    assert three.state(TP) == (2, (2, 3), 1)
    assert three.told[3, TP].leader == 2
    assert not three.told[3, TP].is_new
    for effect in three.sent(UpdateMetadataRequest)[-2:]:
        (topic,) = effect.request.topic_states
        assert topic.partition_states[0].offline_replicas == (1,)
        assert [b.id for b in effect.request.live_brokers] == [2, 3]


def test_returning_broker_receives_full_state_and_stays_out_of_the_isr(three):
    three.brokers(2, 3)
    three.effects.clear()
    three.brokers(1, 2, 3)
    assert three.state(TP) == (2, (2, 3), 1)
    first, second = [e.request for e in three.effects if e.broker == 1]
    assert isinstance(first, UpdateMetadataRequest)
    assert isinstance(second, LeaderAndIsrRequest)
    assert second.type_ == LEADER_AND_ISR_FULL
    assert three.told[1, TP].leader == 2


def test_last_of_the_isr_is_kept_when_all_fail(three):
    three.brokers(2, 3)
    three.brokers(3)
    three.brokers()
    assert three.state(TP) == (-1, (3,), 3)
    three.brokers(1, 2)
    assert three.state(TP) == (-1, (3,), 3)
    three.brokers(1, 2, 3)
    assert three.state(TP) == (3, (3,), 4)


def test_unclean_election_takes_the_first_that_lives():
    made = world(1, 2, unclean=["orders"])
    made.topic("orders", (1, 2))
    made.leader_writes(TP, 1)
    made.isr_seen(TP)
    made.brokers(2)
    assert made.state(TP) == (2, (2,), 1)


def test_bounced_broker_counts_as_failed_first(three):
    three.register(1)
    three.brokers_seen()
    assert three.state(TP) == (2, (2, 3), 1)
    roles = [e.request for e in three.sent(LeaderAndIsrRequest) if e.broker == 1]
    stated = [p for r in roles for t in r.topic_states for p in t.partition_states]
    assert [p.leader for p in stated] == [2], "never told that it leads"


def test_new_address_of_a_bounced_broker_is_sent_to_all(three):
    three.register(1, port=7000)
    three.brokers_seen()
    for broker in (1, 2, 3):
        last = [e.request for e in three.sent(UpdateMetadataRequest) if e.broker == broker][-1]
        assert {b.id: b.endpoints[0].port for b in last.live_brokers} == {1: 7000, 2: 9002, 3: 9003}


def test_conflict_is_decided_again_on_the_fresh_state(three):
    three.leader_writes(TP, 1, 3)
    three.brokers(2, 3)
    assert three.state(TP) == (3, (3,), 1)


def test_isr_notification_reaches_everybodys_metadata(three):
    three.leader_writes(TP, 1, 2)
    three.isr_seen(TP)
    sent = three.sent(UpdateMetadataRequest)
    assert [e.broker for e in sent] == [1, 2, 3]
    assert sent[0].request.topic_states[0].partition_states[0].isr == (1, 2)
    assert three.effects[-1] == events.DropIsrChanges(notifications=("/n",))


def test_new_controller_completes_the_work_of_the_old_one(three):
    three.unregister(1)
    three.effects.clear()
    three.elect()
    assert three.state(TP) == (2, (2, 3), 1)
    assert three.states[TP].controller_epoch == 2
    assert isinstance(three.effects[0].request, UpdateMetadataRequest)


def test_nothing_is_done_between_terms(three):
    three.feed(events.Resigned())
    three.effects.clear()
    three.brokers(3)
    assert three.effects == []


def test_state_of_a_newer_controller_is_left_alone(three):
    three.epoch = 7
    old = three.states[TP]
    three.states[TP] = events.StateWrite(
        partition=TP,
        leader=3,
        leader_epoch=5,
        isr=(3,),
        controller_epoch=7,
        expected=None,
        broker_epochs={3: 0},
    ).written_at(old.zk_version + 1)
    before = three.state(TP)
    three.epoch = 1
    three.brokers(1, 2)
    assert three.state(TP) == before


def test_repeated_events_change_nothing(three):
    three.brokers(2, 3)
    after = three.state(TP)
    three.effects.clear()
    three.brokers_seen()
    three.feed(events.StatesWritten(written={TP: 1}))
    three.feed(events.StatesWritten(written={}, conflicts={TP: None}))
    three.topics_seen("orders")
    assert three.effects == []
    assert three.state(TP) == after


def test_preferred_election(three):
    three.brokers(2, 3)
    three.brokers(1, 2, 3)
    ask = events.PreferredElectionAsked(partitions=(TP, TopicPartition("no-such", 0)))
    three.feed(ask)
    assert three.state(TP) == (2, (2, 3), 1), "the preferred replica is not in sync"
    three.leader_writes(TP, 2, 3, 1)
    three.isr_seen(TP)
    three.effects.clear()
    three.feed(ask)
    assert three.state(TP) == (1, (2, 3, 1), 2)
    assert three.effects[-1] == events.DropPreferredElection()


def test_rebalance_only_above_the_threshold(three):
    three.brokers(2, 3)
    three.brokers(1, 2, 3)
    three.leader_writes(TP, 2, 3, 1)
    three.isr_seen(TP)
    three.feed(events.RebalanceLeaders(imbalance_percentage=100))
    assert three.states[TP].leader == 2
    three.feed(events.RebalanceLeaders(imbalance_percentage=10))
    assert three.states[TP].leader == 1


def shutdown(three, broker, token=1):
    three.feed(
        events.ControlledShutdownAsked(
            broker=broker, broker_epoch=three.live[broker].epoch, token=token
        )
    )
    return three.answers[token]


def test_controlled_shutdown_moves_leaderships_and_stops_followers(three):
    three.topic("single", (1,))
    three.topic("other", (2, 1))
    answer = shutdown(three, 1)
    assert (answer.error, answer.remaining) == (ErrorCode.none, ())
    assert three.state(TP) == (2, (2, 3), 1)
    assert three.state(TopicPartition("other", 0)) == (2, (2,), 1)
    assert three.states[TopicPartition("single", 0)].leader == 1
    (stop,) = three.sent(StopReplicaRequest)
    assert stop.broker == 1
    assert [t.topic_name for t in stop.request.topic_states] == ["other"]
    assert not stop.request.topic_states[0].partition_states[0].delete_partition


def test_controlled_shutdown_lists_partitions_that_it_cannot_move(three):
    three.leader_writes(TP, 1)
    three.isr_seen(TP)
    assert shutdown(three, 1).remaining == (TP,)
    assert three.states[TP].leader == 1
    three.leader_writes(TP, 1, 3)
    three.isr_seen(TP)
    assert shutdown(three, 1, token=2).remaining == ()
    assert three.states[TP].leader == 3


def test_controlled_shutdown_leaves_out_topics_that_are_being_deleted(three):
    """Their deletion may wait for a broker that is down; no leader is elected for them any more."""
    three.topic("stays", (1, 2))
    three.brokers(1, 2)
    three.deleting.add("orders")
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    assert three.states[TP].leader == 1
    assert shutdown(three, 1).remaining == ()
    assert three.states[TopicPartition("stays", 0)].leader == 2
    assert "orders" in three.topics


def test_a_deletion_that_begins_while_a_shutdown_is_asked_leaves_nothing_to_hand_over(three):
    three.brokers(1, 2)
    ask = events.ControlledShutdownAsked(broker=1, broker_epoch=three.live[1].epoch, token=1)
    three.feed(ask, hold=True)
    three.leader_writes(TP, 1, 2)  # so that the write that hands over meets a conflict
    three.deleting.add("orders")
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    three.release()
    assert three.states[TP].leader == 1
    assert three.answers[1].remaining == ()


def test_controlled_shutdown_of_another_registration_is_refused(three):
    three.feed(events.ControlledShutdownAsked(broker=1, broker_epoch=999, token=1))
    assert three.answers[1].error is ErrorCode.stale_broker_epoch
    three.feed(events.ControlledShutdownAsked(broker=9, broker_epoch=1, token=2))
    assert three.answers[2].error is ErrorCode.broker_not_available


def test_topic_deletion(three):
    three.feed(events.DeletionAsked(topics=frozenset({"orders", "no-such"})))
    assert events.DropDeletion(topic="no-such") in three.effects
    assert "orders" not in three.topics
    assert [e.broker for e in three.sent(StopReplicaRequest)] == [1, 2, 3]
    metadata = three.sent(UpdateMetadataRequest)[0].request
    assert metadata.topic_states[0].partition_states[0].leader == -2


def test_a_topic_without_partitions_is_deleted_at_once(three):
    three.topic("nothing")
    three.deleting.add("nothing")
    three.feed(events.DeletionAsked(topics=frozenset({"nothing"})))
    assert list(three.topics) == ["orders"]
    assert "nothing" not in three.controller.context.deletions


def test_topic_deletion_waits_for_dead_brokers(three):
    three.brokers(1, 2)
    three.deleting.add("orders")
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    assert "orders" in three.topics
    three.elect()
    assert "orders" in three.topics
    three.brokers(1, 2, 3)
    assert "orders" not in three.topics
    three.topic("orders", (3, 2))
    assert three.state(TP) == (3, (3, 2), 0)


@pytest.mark.parametrize("written", [True, False])
def test_partitions_added_while_a_topic_is_being_deleted_go_with_it(three, written):
    """Whether its deletion waits for brokers' answers or still for a write."""
    three.silent.update((1, 2, 3))
    if not written:
        three.feed(events.BrokersChanged(live={b: three.live[b] for b in (2, 3)}), hold=True)
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    three.extend("orders", (3, 2))
    three.release()
    assert TopicPartition("orders", 1) not in three.states
    if not written:
        three.brokers_seen()
    for broker in (1, 2, 3):
        three.feed(events.StopReplicaAnswered(broker=broker, errors={TP: ErrorCode.none}))
    assert "orders" not in three.topics
    three.topic("orders", (3, 2), (2, 3))
    assert three.state(TopicPartition("orders", 1)) == (2, (2, 3), 0)


def test_answer_to_a_former_registration_is_ignored(three):
    """It may come after a repeated request for the deletion."""
    three.silent.add(3)
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    three.brokers(1, 2)
    three.brokers(1, 2, 3)
    refused = {TP: ErrorCode.stale_broker_epoch}
    three.feed(events.StopReplicaAnswered(broker=3, errors=refused))
    assert "orders" in three.topics
    three.feed(events.StopReplicaAnswered(broker=3, errors={TP: ErrorCode.none}))
    assert "orders" not in three.topics


def test_new_topic_of_a_deleted_ones_name_stays(three):
    three.topic("other", (1,))
    three.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    three.topic("orders", (2, 3))
    three.feed(events.DeletionAsked(topics=frozenset({"other"})))
    assert list(three.topics) == ["orders"]
    assert three.told[2, TP].leader == 2


def test_recreated_topic_uses_its_own_unclean_election_setting(three):
    """It was deleted and made again before the controller looked."""
    for unclean in (True, False):
        three.unclean = {"orders"} if unclean else set()
        three.topic("orders", (1, 2, 3))
        assert three.controller.context.unclean == three.unclean


def test_added_partitions(three):
    parts = three.topics["orders"].partitions
    three.topics["orders"] = type(three.topics["orders"])(
        topic_id=three.topics["orders"].topic_id,
        partitions={**parts, 1: ReplicaAssignment(replicas=(3, 1))},
    )
    three.topics_seen("orders")
    assert three.state(TopicPartition("orders", 1)) == (3, (3, 1), 0)
    assert three.state(TP) == (1, (1, 2, 3), 0)


def test_reassignment():
    made = world(1, 2, 3, 4)
    made.topic("orders", (1, 2))
    made.feed(events.ReassignmentAsked(targets={TP: (3, 4)}))
    moving = made.topics["orders"].partitions[0]
    assert moving == ReplicaAssignment(replicas=(3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    assert made.state(TP) == (1, (1, 2), 1)
    assert made.told[3, TP].replicas == (3, 4, 1, 2)
    made.leader_writes(TP, 1, 2, 3)
    made.isr_seen(TP)
    assert made.topics["orders"].partitions[0] == moving
    made.elect()
    made.leader_writes(TP, 1, 2, 3, 4)
    made.effects.clear()
    made.isr_seen(TP)
    assert made.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(3, 4))
    assert made.state(TP) == (3, (3, 4), 2)
    assert {b for b, tp in made.told} == {3, 4}
    assert made.effects[-1] == events.DropReassignments(partitions=(TP,))


def test_reassignment_of_the_order_alone(three):
    three.feed(events.ReassignmentAsked(targets={TP: (3, 1, 2)}))
    assert three.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(3, 1, 2))
    assert events.DropReassignments(partitions=(TP,)) in three.effects
    assert three.told[2, TP].replicas == (3, 1, 2)
    assert three.state(TP) == (1, (1, 2, 3), 1)


def moved_off_a_dead_broker():
    made = world(1, 2, 3)
    made.topic("orders", (1, 2))
    made.brokers(1, 3)
    made.feed(events.ReassignmentAsked(targets={TP: (1, 3)}))
    made.leader_writes(TP, 1, 3)
    made.isr_seen(TP)
    assert made.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(1, 3))
    assert made.sent(StopReplicaRequest) == []
    return made


def test_a_replica_moved_off_a_dead_broker_is_deleted_when_the_broker_returns():
    made = moved_off_a_dead_broker()
    made.brokers(1, 2, 3)
    (stop,) = made.sent(StopReplicaRequest)
    assert stop.broker == 2
    assert stop.request.topic_states[0].partition_states[0].delete_partition


def test_a_replica_that_comes_back_while_it_is_being_deleted_is_a_new_one():
    made = moved_off_a_dead_broker()
    made.silent.add(2)
    made.brokers(1, 2, 3)
    made.feed(events.ReassignmentAsked(targets={TP: (1, 2)}))
    assert made.told[2, TP].is_new
    made.feed(events.StopReplicaAnswered(broker=2, errors={TP: ErrorCode.none}))
    made.leader_writes(TP, 1, 3, 2)
    made.isr_seen(TP)
    assert made.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(1, 2))
    made.silent.clear()
    made.effects.clear()
    made.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    assert {e.broker for e in made.sent(StopReplicaRequest)} == {1, 2}
    assert "orders" not in made.topics


def test_new_controller_does_not_stop_a_replica_moved_off_a_dead_broker():
    made = moved_off_a_dead_broker()
    made.elect()
    made.brokers(1, 2, 3)
    assert made.sent(StopReplicaRequest) == []
    assert (2, TP) not in made.told


def test_reassignment_taken_back():
    made = world(1, 2, 3)
    made.topic("orders", (1, 2))
    made.feed(events.ReassignmentAsked(targets={TP: (1, 3)}))
    made.feed(events.ReassignmentAsked(targets={TP: (1, 2)}))
    assert made.topics["orders"].partitions[0] == ReplicaAssignment(replicas=(1, 2))
    assert events.DropReassignments(partitions=(TP,)) in made.effects
    assert (3, TP) not in made.told


def test_reassignment_that_makes_no_sense_is_refused(three):
    three.feed(events.ReassignmentAsked(targets={TP: (1, 9), TopicPartition("x", 0): (1,)}))
    refusals = [e.refused for e in three.effects]
    assert refusals == [
        "replicas [9] of orders-0 are on brokers that are not live",
        "x-0 does not exist",
    ]
