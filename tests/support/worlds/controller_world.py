"""A small world for the sans-I/O controller: znodes, brokers that listen, leaders that write ISRs.

Carries out effects as a runtime would. State writes can be held back, so that other things happen
between a decision and its write; ``silent`` brokers do not answer StopReplica.
"""

import uuid
from dataclasses import replace

from kio.schema.errors import ErrorCode

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import (
    BrokerInfo,
    Endpoint,
    LiveBroker,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.controller.controller import Controller
from ackproof.broker.types import NO_LEADER, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest

ME = 100


class World:
    def __init__(self, unclean=()):
        self.controller = Controller(ME)
        self.live = {}
        self.topics = {}
        self.states = {}
        self.holds = {}
        """As which incarnation each member of an ISR has all that is acknowledged."""
        self.unclean = frozenset(unclean)
        self.waits_for_isr = True
        self.deleting = set()
        self.epoch = 0
        self.last_zxid = 0
        self.held = []
        self.told = {}
        self.silent = set()
        self.answers = {}
        self.effects = []
        self.history = []
        self.risks = []

    def zxid(self):
        """ZooKeeper's next transaction."""
        self.last_zxid += 1
        return self.last_zxid

    # --- things that happen

    def register(self, broker, port=None):
        endpoint = Endpoint(host="h", port=port or 9000 + broker)
        info = BrokerInfo(broker_id=broker, endpoints=(endpoint,))
        self.live[broker] = LiveBroker(info=info, epoch=self.zxid())
        self.told = {key: v for key, v in self.told.items() if key[0] != broker}

    def unregister(self, broker):
        del self.live[broker]

    def elect(self):
        self.epoch += 1
        self.held = []
        self.feed(events.Resigned())
        self.feed(
            events.Elected(
                epoch=self.epoch,
                live=dict(self.live),
                topics=dict(self.topics),
                states=dict(self.states),
                unclean=self.unclean,
                waits_for_isr=self.waits_for_isr,
            )
        )
        if self.deleting:
            self.feed(events.DeletionAsked(topics=frozenset(self.deleting)))

    def brokers(self, *up):
        """Exactly these brokers are registered; the controller hears of it."""
        for broker in set(self.live) - set(up):
            self.unregister(broker)
        for broker in sorted(set(up) - set(self.live)):
            self.register(broker)
        self.brokers_seen()

    def brokers_seen(self):
        self.feed(events.BrokersChanged(live=dict(self.live)))

    def topic(self, name, *replicas):
        parts = {p: ReplicaAssignment(replicas=r) for p, r in enumerate(replicas)}
        topic_id = uuid.UUID(int=self.zxid())
        self.topics[name] = TopicAssignment(topic_id=topic_id, partitions=parts)
        self.topics_seen(name)

    def extend(self, name, *added):
        """Partitions are added to a topic."""
        known = self.topics[name]
        parts = {
            p: ReplicaAssignment(replicas=r) for p, r in enumerate(added, len(known.partitions))
        }
        self.topics[name] = replace(known, partitions={**known.partitions, **parts})
        self.topics_seen(name)

    def topics_seen(self, *names, gone=()):
        self.feed(
            events.TopicsChanged(
                topics={name: self.topics[name] for name in names},
                gone=frozenset(gone),
                unclean=self.unclean & set(names),
            )
        )

    def leader_writes(self, tp, *isr):
        """A leader writes an ISR; the controller has not heard of it yet. A member that is not
        registered gets in without an epoch."""
        old = self.states[tp]
        present = {b: live.epoch for b, live in self.live.items()}
        epochs = {**present, **{b: old.broker_epochs[b] for b in old.isr}}
        epochs = {b: epochs[b] for b in isr if b in epochs}
        self.holds[tp] = {b: self.holds[tp].get(b) or present.get(b, 0) for b in isr}
        self.states[tp] = replace(
            old,
            isr=isr,
            zk_version=old.zk_version + 1,
            broker_epochs=epochs,
            mzxid=self.zxid(),
        )

    def isr_seen(self, *tps):
        states = {tp: self.states[tp] for tp in tps if tp in self.states}
        self.feed(events.IsrChanged(notifications=("/n",), states=states))

    # --- carrying out

    def feed(self, event, *, hold=False):
        waiting = [event]
        while waiting:
            for effect in self.controller.step(waiting.pop(0)):
                self.effects.append(effect)
                if isinstance(effect, events.WriteStates):
                    self.weigh(effect)
                if isinstance(effect, events.WriteStates) and hold:
                    self.held.append(effect)
                elif isinstance(effect, events.WriteStates):
                    waiting.append(self.write(effect))
                else:
                    waiting += self.carry_out(effect)

    def release(self):
        """Carry out the writes that were held back."""
        while self.held:
            self.feed(self.write(self.held.pop(0)))

    def write(self, effect):
        written, conflicts = {}, {}
        for write in effect.writes:
            tp, now = write.partition, self.states.get(write.partition)
            if (now.zk_version if now else None) == write.expected:
                version = 0 if now is None else now.zk_version + 1
                self.holds[tp] = self.held_after(tp, write)
                self.states[tp] = replace(write.written_at(version), mzxid=self.zxid())
                self.history.append((tp, self.states[tp], frozenset(self.live)))
                written[tp] = version
            else:
                conflicts[tp] = now
        return events.StatesWritten(written=written, conflicts=conflicts)

    def weigh(self, effect):
        """Note which elections were of one that is known to have been away since it held all, and
        who of the ISR may have everything, as far as is known."""
        known = self.controller.context.live
        for write in effect.writes:
            tp, now = write.partition, self.states.get(write.partition)
            if now is None or now.zk_version != write.expected or write.leader not in now.isr:
                continue
            held = self.holds[tp]
            whole = {b for b in now.isr if b not in known or known[b].epoch == held.get(b)}
            if write.leader not in whole:
                self.risks.append((tp, write.leader, whole))

    def held_after(self, tp, write):
        """Return the complete brokers after the write, with their incarnations. Complete ones stay
        so while they are in the ISR. If none of them is live, the live ISR members count as
        complete, in the incarnation that the controller knows. Without a leader nothing changes."""
        before = {b: e for b, e in self.holds.get(tp, {}).items() if b in write.isr}
        if write.leader == NO_LEADER or self.whole(tp) & before.keys():
            return before
        known = self.controller.context.live
        return before | {b: known[b].epoch for b in write.isr if b in known}

    def whole(self, tp):
        """The live members of the ISR that were not away since they joined it."""
        known = self.holds.get(tp, {})
        return {b for b in known if b in self.live and self.live[b].epoch == known[b]}

    def carry_out(self, effect):
        if isinstance(effect, events.Failed):
            self.failed(effect)
        elif isinstance(effect, events.Send):
            return self.deliver(effect.broker, effect.request)
        if isinstance(effect, events.WriteAssignment):
            self.topics[effect.topic] = effect.assignment
        elif isinstance(effect, events.AnswerShutdown):
            self.answers[effect.token] = effect
        elif isinstance(effect, events.DeleteTopic):
            del self.topics[effect.topic]
            self.deleting.discard(effect.topic)
            self.states = {tp: s for tp, s in self.states.items() if tp.topic != effect.topic}
            self.holds = {tp: h for tp, h in self.holds.items() if tp.topic != effect.topic}
            return [events.TopicsChanged(topics={}, gone=frozenset({effect.topic}))]
        return []

    def failed(self, effect):
        """Nothing may fail, unless a test says so."""
        raise effect.error

    def deliver(self, broker, request):
        if broker not in self.live or request.broker_epoch < self.live[broker].epoch:
            return []  # it was away since the controller looked, and refuses what is not for it
        assert request.broker_epoch == self.live[broker].epoch
        assert request.controller_epoch == self.epoch
        if isinstance(request, LeaderAndIsrRequest):
            for topic in request.topic_states:
                for role in topic.partition_states:
                    tp = TopicPartition(topic.topic_name, role.partition_index)
                    self.told[broker, tp] = role
        elif isinstance(request, StopReplicaRequest):
            return self.stopped(broker, request)
        return []

    def stopped(self, broker, request):
        errors = {}
        for topic in request.topic_states:
            for stop in topic.partition_states:
                tp = TopicPartition(topic.topic_name, stop.partition_index)
                self.told.pop((broker, tp), None)
                if stop.delete_partition:
                    errors[tp] = ErrorCode.none
        if not errors or broker in self.silent:
            return []
        return [events.StopReplicaAnswered(broker=broker, errors=errors)]

    def sent(self, request_type):
        return [
            e
            for e in self.effects
            if isinstance(e, events.Send) and isinstance(e.request, request_type)
        ]

    def state(self, tp):
        state: PartitionState = self.states[tp]
        return (state.leader, state.isr, state.leader_epoch)
