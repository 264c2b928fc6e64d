"""Whatever happens, in whatever order: leaders are in the ISR, epochs grow, everybody is told."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ackproof.broker.controller import events
from ackproof.broker.controller.plan import plan
from ackproof.broker.types import NO_LEADER, TopicPartition
from tests.support.builders.examples import examples
from tests.support.worlds.controller_world import World

BROKERS = range(1, 5)
TOPICS = ["clean", "unclean"]

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
held = st.booleans()


class ControllerMachine(RuleBasedStateMachine):
    """Brokers, leaders and controllers come and go; state writes may be held back meanwhile."""

    @initialize(up=st.sets(brokers, min_size=1))
    def start(self, up):
        self.world = World(unclean=["unclean"])
        for broker in sorted(up):
            self.world.register(broker)
        self.world.elect()
        self.epochs = {}
        self.tokens = 0

    def tps(self):
        return sorted(self.world.states)

    # --- what happens

    @rule(topic=topics, data=st.data())
    def create_topic(self, topic, data):
        if topic not in self.world.topics:
            replicas = st.lists(brokers, min_size=1, max_size=3, unique=True).map(tuple)
            self.world.topic(topic, *data.draw(st.lists(replicas, min_size=1, max_size=2)))

    @rule(broker=brokers, hold=held, seen=st.booleans())
    def broker_down(self, broker, hold, seen):
        if broker in self.world.live:
            self.world.unregister(broker)
            if seen:
                self.see_brokers(hold)

    @rule(broker=brokers, hold=held, seen=st.booleans())
    def broker_up_or_bounced(self, broker, hold, seen):
        self.world.register(broker)
        if seen:
            self.see_brokers(hold)

    def see_brokers(self, hold):
        self.world.feed(events.BrokersChanged(live=dict(self.world.live)), hold=hold)

    @rule(data=st.data(), notified=st.booleans(), hold=held)
    def leader_writes_isr(self, data, notified, hold):
        led = [tp for tp in self.tps() if self.world.states[tp].leader in self.world.whole(tp)]
        if led:
            tp = data.draw(st.sampled_from(led))
            leader = self.world.states[tp].leader
            assigned = self.world.topics[tp.topic].partitions[tp.partition].replicas
            known = set(self.world.live) | set(self.world.states[tp].isr)
            others = data.draw(st.sets(st.sampled_from(sorted(known & set(assigned)))))
            self.world.leader_writes(tp, *sorted({leader, *others}))
            if notified:
                states = {tp: self.world.states[tp]}
                self.world.feed(events.IsrChanged(notifications=("/n",), states=states), hold=hold)

    @rule(data=st.data(), hold=held)
    def preferred_election(self, data, hold):
        if self.tps():
            chosen = data.draw(st.lists(st.sampled_from(self.tps()), unique=True))
            self.world.feed(events.PreferredElectionAsked(partitions=tuple(chosen)), hold=hold)

    @rule(broker=brokers, hold=held)
    def controlled_shutdown(self, broker, hold):
        self.tokens += 1
        epoch = self.world.live[broker].epoch if broker in self.world.live else -1
        self.world.feed(
            events.ControlledShutdownAsked(broker=broker, broker_epoch=epoch, token=self.tokens),
            hold=hold,
        )

    @rule(topic=topics, data=st.data(), hold=held)
    def reassign(self, topic, data, hold):
        if topic in self.world.topics:
            target = tuple(data.draw(st.lists(brokers, min_size=1, max_size=3, unique=True)))
            tp = TopicPartition(topic, 0)
            self.world.feed(events.ReassignmentAsked(targets={tp: target}), hold=hold)

    @rule(topic=topics, hold=held)
    def delete_topic(self, topic, hold):
        if topic in self.world.topics:
            self.world.deleting.add(topic)
            self.world.feed(events.DeletionAsked(topics=frozenset({topic})), hold=hold)

    @rule()
    def another_controller(self):
        self.world.elect()

    @precondition(lambda self: self.world.held)
    @rule()
    def release(self):
        self.world.release()

    # --- what holds

    @invariant()
    def leaders_are_in_the_isr(self):
        for state in getattr(self, "world", World()).states.values():
            assert state.isr
            assert state.leader == NO_LEADER or state.leader in state.isr

    @invariant()
    def epochs_grow_with_every_write(self):
        if not hasattr(self, "world"):
            return
        for tp, state, _ in self.world.history:
            topic = self.world.topics.get(tp.topic)
            key = (tp, topic.topic_id if topic else None)
            assert state.leader_epoch > self.epochs.get(key, -1)
            self.epochs[key] = state.leader_epoch
        self.world.history.clear()

    @invariant()
    def who_may_have_lost_records_waits_for_who_may_have_them(self):
        for tp, leader, others in getattr(self, "world", World()).risks:
            assert tp.topic == "unclean" or not others, f"{leader} leads {tp}, not one of {others}"

    @invariant()
    def nothing_is_left_to_be_written_and_asking_changes_nothing(self):
        if not hasattr(self, "world"):
            return
        context = self.world.controller.context
        for tp in context.partitions():
            intent = context.intents[tp]
            if tp not in context.writing:
                planned = plan(context, tp)
                assert planned.write is None, f"{planned.write} was not asked for"
                assert plan(context, tp) == planned
            assert context.intents[tp] == intent

    def teardown(self):
        """Once all is heard of and written, nothing is left to do, and everybody knows."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.release()
        self.see_brokers(hold=False)
        world.isr_seen(*self.tps())
        world.feed(events.RebalanceLeaders(imbalance_percentage=100))
        for tp, state in world.states.items():
            replicas = world.topics[tp.topic].partitions[tp.partition].replicas
            if tp.topic in world.deleting:
                continue
            if state.leader == NO_LEADER:
                assert not set(state.isr) & self.able() or self.must_wait(tp, state)
            else:
                assert state.leader in world.live
            for broker in set(replicas) & set(world.live):
                told = world.told.get((broker, tp))
                if told is not None:
                    assert (told.leader, told.leader_epoch) == (state.leader, state.leader_epoch)
                else:
                    assert broker not in self.able(), f"{broker} was never told of {tp}"
        settled = dict(world.states)
        world.elect()
        world.release()
        for tp, state in world.states.items():
            if tp in settled and tp.topic not in world.deleting:
                assert state.leader in world.live or self.must_wait(tp, state)
                if state.leader != NO_LEADER:
                    away = set(state.isr) & set(world.live) - world.whole(tp)
                    assert not away, f"{away} are in the ISR of {tp} and may have lost records"

    def must_wait(self, tp, state):
        """Return whether the partition must wait: no ISR member is live, or only some are, and all
        of those bounced."""
        there = set(state.isr) & set(self.world.live)
        waits = tp.topic != "unclean" and there < set(state.isr)
        return not there or (waits and not self.world.whole(tp))

    def able(self):
        """Live brokers that are not in controlled shutdown."""
        context = self.world.controller._epoch.context
        return set(self.world.live) - context.stopping


TestController = ControllerMachine.TestCase
TestController.settings = settings(max_examples=examples(30), stateful_step_count=30)
