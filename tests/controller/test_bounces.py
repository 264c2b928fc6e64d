"""Brokers that come back before anybody noticed that they were gone, and controllers that change
meanwhile: what they may have lost must not count as kept (acknowledged records are lost else)."""

import asyncio
from dataclasses import replace

import pytest

from ackproof.broker.config import BrokerConfig
from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import ReplicaAssignment
from ackproof.broker.server.controller.runtime import ControllerRuntime
from ackproof.broker.server.zk import znodes
from ackproof.broker.types import NO_LEADER, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataRequest
from tests.support.worlds.controller_cluster import cluster, run, until
from tests.support.worlds.controller_world import World

TP = TopicPartition("orders", 0)


def world(*replicas, unclean=()):
    made = World(unclean=unclean)
    for broker in (1, 2, 3):
        made.register(broker)
    made.elect()
    made.topic("orders", replicas or (1, 2, 3))
    made.effects.clear()
    return made


def elected_and_held(made):
    """A new controller has looked and decided; nothing is written yet."""
    made.feed(events.Resigned())
    made.epoch += 1
    made.feed(
        events.Elected(
            epoch=made.epoch,
            live=dict(made.live),
            topics=dict(made.topics),
            states=dict(made.states),
            unclean=frozenset(),
            waits_for_isr=made.waits_for_isr,
        ),
        hold=True,
    )


def leaders_told(made, broker):
    return [
        role.leader
        for effect in made.sent(LeaderAndIsrRequest)
        if effect.broker == broker
        for topic in effect.request.topic_states
        for role in topic.partition_states
    ]


def test_a_new_controller_does_not_let_a_bounced_leader_lead_on():
    """The leader was the controller, too: no controller saw it go."""
    made = world()
    made.register(1)
    made.elect()
    assert made.state(TP) == (2, (2, 3), 1)
    for broker in (1, 2, 3):
        assert leaders_told(made, broker) == [2], "never told to lead, or to follow, as before"


def test_a_new_controller_takes_a_bounced_follower_out_of_the_isr():
    """With a short log it would lead as soon as the leader dies."""
    made = world()
    made.register(3)
    made.elect()
    assert made.state(TP) == (1, (1, 2), 1)
    made.brokers(3)
    assert made.state(TP)[0] == NO_LEADER


def test_a_bounce_that_the_old_controller_had_begun_with_is_not_forgotten():
    made = world()
    made.register(1)
    made.feed(events.BrokersChanged(live=dict(made.live)), hold=True)
    assert made.held, "decided, not written"
    made.elect()
    assert made.state(TP) == (2, (2, 3), 1)


def test_broker_that_rejoined_the_isr_does_not_count_as_bounced():
    made = world()
    made.register(3)
    made.brokers_seen()
    made.leader_writes(TP, 1, 2, 3)
    before = made.state(TP)
    made.elect()
    assert made.state(TP) == before


def test_isr_write_for_another_reason_does_not_clear_a_bounced_broker():
    """3 lost power while there was no controller, and what it had not synced. The leader, who knows
    nothing of that, takes 2 out: a write later than the registration of 3."""
    made = world()
    made.register(3)
    made.unregister(2)
    made.leader_writes(TP, 1, 3)
    made.elect()
    assert made.state(TP) == (1, (1,), 1)
    made.brokers(3)
    assert made.state(TP)[0] == NO_LEADER


def test_controller_write_before_its_read_does_not_clear_a_bounced_broker():
    """It hears that 2 is gone, from before 3 was away; then it dies itself."""
    made = world()
    as_seen = {b: broker for b, broker in made.live.items() if b != 2}
    made.register(3)
    made.feed(events.BrokersChanged(live=as_seen))
    assert made.state(TP) == (1, (1, 3), 1)
    made.elect()
    assert made.state(TP) == (1, (1,), 2)


def test_reassignment_does_not_clear_a_bounced_broker():
    """Its first step is a new epoch with the same leader and ISR."""
    made = world(1, 2, 3)
    made.register(4)
    made.brokers_seen()
    made.register(3)
    made.feed(events.ReassignmentAsked(targets={TP: (1, 3, 4)}))
    assert made.state(TP) == (1, (1, 2, 3), 1)
    made.elect()
    assert made.state(TP) == (1, (1, 2), 2)


def test_next_controller_leaves_restarted_brokers_unchanged():
    made = world()
    for broker in (1, 2, 3):
        made.register(broker)
    made.elect()
    assert made.state(TP) == (1, (1,), 1)
    made.elect()
    assert made.state(TP) == (1, (1,), 1)


def test_restarted_brokers_are_cleared_once():
    made = world()
    for broker in (1, 2, 3):
        made.register(broker)
    elected_and_held(made)
    made.release()
    assert made.state(TP)[:2] == (1, (1,))
    made.leader_writes(TP, 1, 2)
    made.leader_writes(TP, 1, 2, 3)
    of_which_life = made.states[TP].broker_epochs | {3: 0}  # the leader did not know
    made.states[TP] = replace(made.states[TP], broker_epochs=of_which_life)
    made.isr_seen(TP)
    made.brokers(1, 3)
    assert made.state(TP)[:2] == (1, (1, 3))
    made.elect()
    assert made.state(TP)[:2] == (1, (1,))


def test_leader_that_returns_from_no_leader_is_trusted_in_its_new_life():
    made = world(1)
    made.brokers(2, 3)
    made.brokers(1, 2, 3)
    assert made.state(TP) == (1, (1,), 2)
    made.elect()
    assert made.state(TP) == (1, (1,), 2)


def test_uncleanly_elected_leader_is_trusted_in_its_new_life():
    made = world(1, 2, unclean=("orders",))
    for up in ((1,), (1, 2), (2,)):
        made.brokers(*up)
    assert made.state(TP) == (2, (2,), 2)
    made.elect()
    assert made.state(TP) == (2, (2,), 2)


def test_in_a_state_without_broker_epochs_its_transaction_counts():
    """Another make of broker wrote it. What it tells is kept when it is written again."""
    made = world()
    made.register(2)
    made.states[TP] = replace(made.states[TP], broker_epochs={}, mzxid=made.zxid())
    made.register(3)
    for _ in range(2):
        made.elect()
        assert made.state(TP) == (1, (1, 2), 1)


def joins_and_bounces(made):
    """3 is let into the ISR, and is gone and back before the leader has told the controller."""
    made.leader_writes(TP, 1, 2)
    made.isr_seen(TP)
    made.leader_writes(TP, 1, 2, 3)
    made.brokers(1, 2)
    made.brokers(1, 2, 3)


def test_broker_that_bounces_before_its_isr_join_is_seen_leaves_the_isr():
    made = world()
    joins_and_bounces(made)
    made.isr_seen(TP)
    assert made.state(TP) == (1, (1, 2), 1)


def test_broker_that_joins_unregistered_and_bounces_leaves_the_isr():
    """3 is paused past its session, is let into the ISR when it resumes, and restarts then."""
    made = world()
    made.leader_writes(TP, 1, 2)
    made.isr_seen(TP)
    made.brokers(1, 2)
    made.elect()
    made.leader_writes(TP, 1, 2, 3)
    made.brokers(1, 2, 3)
    made.isr_seen(TP)
    assert made.state(TP) == (1, (1, 2), 1)


def test_broker_that_bounced_after_an_unseen_join_is_not_elected():
    made = world(1, 3, 2)
    joins_and_bounces(made)
    made.brokers(2, 3)
    assert made.state(TP)[:2] == (2, (2,))


def test_a_broker_outside_the_isr_may_come_back_into_it_after_a_bounce():
    """No broker loses an election when the controller has seen each write."""
    made = world()
    made.leader_writes(TP, 1, 2)
    made.isr_seen(TP)
    made.brokers(1, 2)
    made.brokers(1, 2, 3)
    made.leader_writes(TP, 1, 2, 3)
    made.isr_seen(TP)
    assert made.state(TP) == (1, (1, 2, 3), 0)


@pytest.mark.parametrize("unclean", [(), ("orders",)])
def test_isr_of_bounced_members_leads_in_a_new_epoch(unclean):
    """The whole cluster was switched off. No other replica has more records than they. The
    followers truncate to the log of the next leader; the one outside the ISR is no better."""
    made = world(unclean=unclean)
    made.leader_writes(TP, 2, 1)
    for broker in (1, 2, 3):
        made.register(broker)
    made.elect()
    assert made.state(TP) == (1, (1,), 1)
    assert [made.told[b, TP].leader_epoch for b in (1, 2, 3)] == [1, 1, 1]
    metadata = [effect.request for effect in made.sent(UpdateMetadataRequest)]
    told = [p for r in metadata for topic in r.topic_states for p in topic.partition_states]
    assert [part.leader_epoch for part in told] == [0, 0, 0, 1, 1, 1], "as it was, and as it is"


def test_bounced_brokers_lead_in_a_new_epoch_despite_a_concurrent_write():
    """The write is refused by its version, and decided again on a state that looks sound."""
    made = world()
    for broker in (1, 2, 3):
        made.register(broker)
    elected_and_held(made)
    made.leader_writes(TP, 1, 2)
    made.release()
    assert made.state(TP) == (1, (1,), 1)


def loses_one_while_the_other_is_away(**settings):
    """3 lost power and is back, and 1, the leader, died before 3 has left the ISR of 1 and 3."""
    made = World(unclean=settings.pop("unclean", ()))
    made.brokers(1, 2, 3)
    made.elect()
    made.topic("orders", (1, 2, 3))
    made.leader_writes(TP, 1, 3)
    made.isr_seen(TP)
    made.unregister(1)
    made.register(3)
    made.effects.clear()
    return made


@pytest.mark.parametrize("failover", [False, True])
def test_bounced_broker_waits_for_an_absent_isr_member(failover):
    """Test a bounced broker 3 that may have lost records which broker 1 has on its disk."""
    made = loses_one_while_the_other_is_away()
    made.elect() if failover else made.brokers_seen()
    leader, isr, epoch = made.state(TP)
    assert (leader, set(isr), epoch) == (NO_LEADER, {1, 3}, 1)
    made.register(3)
    made.brokers_seen()
    made.elect()
    assert made.state(TP) == (leader, isr, epoch), (
        "for each controller, and however often it comes back"
    )
    made.register(1)
    made.brokers_seen()
    assert made.state(TP) == (1, (1,), 2)
    made.elect()
    assert made.state(TP) == (1, (1,), 2)


def test_first_isr_member_that_returns_leads_without_waiting():
    """Seed 002, recovery when all of the ISR are down: any of them."""
    made = loses_one_while_the_other_is_away()
    made.waits_for_isr = False
    made.elect()
    assert made.state(TP)[:2] == (3, (3,))


def test_a_member_that_never_was_away_is_not_made_to_wait():
    """2 was in controlled shutdown when the leader died, and the controller that knew of it is
    dead, too."""
    made = world(1, 2)
    made.feed(events.ControlledShutdownAsked(broker=2, broker_epoch=-1, token=1), hold=True)
    made.held.clear()
    made.unregister(1)
    made.elect()
    assert made.state(TP)[:2] == (2, (2,))


def test_unclean_election_does_not_wait_and_prefers_the_isr():
    made = loses_one_while_the_other_is_away(unclean=("orders",))
    made.elect()
    assert made.state(TP)[:2] == (3, (3,))


def test_an_unclean_election_by_request_or_a_changed_setting_ends_the_wait():
    for word in (
        events.ElectionAsked(partitions=(TP,), unclean=True, token=1),
        events.UncleanElectionsChanged(enabled={"orders": True}),
    ):
        made = loses_one_while_the_other_is_away()
        made.elect()
        assert made.state(TP)[0] == NO_LEADER
        made.feed(word)
        assert made.state(TP)[:2] == (3, (3,))
        made.elect()
        assert made.state(TP)[:2] == (3, (3,))


def test_a_preferred_election_ends_no_wait():
    made = loses_one_while_the_other_is_away()
    made.elect()
    before = made.state(TP)
    made.feed(events.PreferredElectionAsked(partitions=(TP,)))
    assert made.state(TP) == before


def test_a_move_ends_no_wait_and_goes_on_after_it():
    """Test that a reassignment during a wait writes nothing repeatedly: the leaving replica is not
    judged yet."""
    made = loses_one_while_the_other_is_away()
    made.elect()
    made.feed(events.ReassignmentAsked(targets={TP: (3,)}))
    assert made.state(TP)[0] == NO_LEADER
    assert made.topics["orders"].partitions[0].removing
    made.register(1)
    made.brokers_seen()
    assert made.state(TP)[:2] == (3, (3,))
    assert made.topics["orders"].partitions[0].replicas == (3,)


def test_a_partition_that_waits_can_be_deleted():
    made = loses_one_while_the_other_is_away()
    made.elect()
    made.deleting.add("orders")
    made.feed(events.DeletionAsked(topics=frozenset({"orders"})))
    assert "orders" in made.topics, "a replica is away"
    made.register(1)
    made.brokers_seen()
    assert "orders" not in made.topics


def test_isr_member_found_during_a_restart_is_waited_for():
    """1 and 2 bounced, and 1 was to lead again. The leader that was had let 3 in; 3 is away, and
    has everything."""
    made = world()
    made.leader_writes(TP, 1, 2)
    made.isr_seen(TP)
    registered = made.live[3]
    made.unregister(3)
    made.brokers_seen()
    for broker in (1, 2):
        made.register(broker)
    elected_and_held(made)
    assert made.held
    made.live[3] = registered
    made.leader_writes(TP, 1, 2, 3)
    made.unregister(3)
    made.release()
    assert made.state(TP)[:2] == (NO_LEADER, (1, 2, 3))
    made.register(3)
    made.brokers_seen()
    assert made.state(TP)[:2] == (1, (1,))


def test_restarted_broker_with_a_shorter_log_leads_only_after_catching_up():
    """1, 2 and 3 bounced, 2 with an empty disk. 1 leads, and dies."""
    made = world()
    for broker in (1, 2, 3):
        made.register(broker)
    made.elect()
    made.brokers(2, 3)
    assert made.state(TP)[:2] == (NO_LEADER, (1,))
    made.brokers(1, 2, 3)
    made.leader_writes(TP, 1, 3)
    made.isr_seen(TP)
    made.brokers(2, 3)
    assert made.state(TP)[:2] == (3, (3,))


def test_former_replica_is_not_trusted():
    """A person has written another assignment meanwhile. One that may not lead would be written
    down as the last of the ISR, and suspected, for ever."""
    made = world(3)
    made.brokers(1, 2)
    made.register(3)
    elsewhere = {0: ReplicaAssignment(replicas=(2,))}
    made.topics["orders"] = replace(made.topics["orders"], partitions=elsewhere)
    elected_and_held(made)
    assert made.state(TP) == (NO_LEADER, (3,), 1)
    assert not made.held, "there is nothing to be written that would change anything"


async def bounced(broker):
    """Its registration goes and another comes, as one transaction."""
    path = znodes.broker_id(broker.id)
    data, _ = await broker.zk.session.get(path)

    def submit(client):
        transaction = client.transaction()
        transaction.delete(path)
        transaction.create(path, data, ephemeral=True)
        return transaction.commit_async()

    await broker.zk.session.request(submit, broker.zk.session.number)


@pytest.mark.integration
def test_zookeeper_transaction_ids_reveal_bounces_without_a_controller(zookeeper):
    async def main():
        async with cluster(zookeeper, 1, 2, 3) as made:
            stays = made.brokers[1]
            await stays.zk.create_topic("orders", {0: [2, 1, 3]}, {})
            await until(lambda: all(TP in broker.roles for broker in made.brokers.values()))
            for task in made._tasks.values():
                task.cancel()
            await asyncio.wait(made._tasks.values())
            await bounced(made.brokers[2])
            await stays.zk.session.request(lambda c: c.delete_async("/controller"))
            config = BrokerConfig(broker_id=1, zookeeper_connect=zookeeper.connect)
            runtime = ControllerRuntime(config, stays.zk, stays.registered)
            made._tasks[1] = asyncio.create_task(runtime.run())
            state = await made.state(TP, lambda state: state.leader_epoch > 0)
            assert (state.leader, state.isr, state.leader_epoch) == (1, (1, 3), 1)

    run(main())
