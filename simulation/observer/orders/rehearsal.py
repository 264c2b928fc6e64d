"""A controller's twin, for which all goes well from now on: what is written is written, who is told
to delete deletes, and whoever follows a leader comes into its ISR.

The twin knows what the controller knows and shares nothing with it; what it decides is carried out
nowhere. So any controller can be asked at any time what would become of an order, also of one that
nobody has given.
"""

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.controller import events
from ackproof.broker.controller.cluster import (
    BrokerInfo,
    LiveBroker,
    PartitionState,
    TopicAssignment,
)
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller, _Epoch
from ackproof.broker.controller.events import Effect, Event, Send, WriteStates
from ackproof.broker.controller.intent import Intents
from ackproof.broker.controller.phases.partition_state import PartitionPhases
from ackproof.broker.controller.phases.replica_state import ReplicaPhase, ReplicaPhases
from ackproof.broker.controller.requests.outbox import Outbox
from ackproof.broker.types import NO_LEADER, BrokerId, TopicPartition, ZkVersion
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest

ROUNDS_MAX: Final = 20
"""More than any order takes."""


class Rehearsal:
    """What a controller would do, and what came of it."""

    def __init__(self, controller: Controller) -> None:
        """Of one in office, whose last effects are not carried out yet."""
        epoch = controller._epoch
        assert epoch is not None
        self._outbox = Outbox(BrokerId(0), "PLAINTEXT")
        self._twin = _Epoch(_begun(epoch.context), self._outbox)
        vars(self.context).update(_copied(vars(epoch.context)))
        self._twin._pendings._waiting = epoch._pendings._waiting
        self.gone: dict[str, tuple[str, ...]] = {}
        """Topics that are, with the replicas that were not deleted by then."""
        self.answered: set[int] = set()
        """Whose questions are, by their tokens."""
        self._zxid = itertools.count(_latest(self.context) + 1)
        self._written = deque([WriteStates(writes=tuple(self.context.writing.values()))])
        """What is being written."""
        self._deleting: dict[tuple[TopicPartition, BrokerId], None] = {}
        """Who was told to, in the life that he is in."""
        self._deleted: set[tuple[TopicPartition, BrokerId]] = set()
        for tp in self.context.replica_phases.partitions():
            for broker, phase in self.context.replica_phases.of(tp):
                if phase is ReplicaPhase.DELETION_SUCCESSFUL:
                    self._deleted.add((tp, broker))
                if phase is ReplicaPhase.DELETION_STARTED and broker in self.context.live:
                    self._deleting[tp, broker] = None

    @property
    def context(self) -> Context:
        """What the twin knows."""
        return self._twin.context

    def take(self, event: Event) -> tuple[Effect, ...]:
        """Something happens, when what is being written has been."""
        self.write()
        return self._step(event)

    def meet_conflicts(self, *, but: TopicPartition | None = None) -> None:
        """Of what is being written one state is written, if any; of the others somebody was faster,
        and they are decided again. Nothing else has changed."""
        self._written.clear()
        writing = self.context.writing
        written = {tp: ZkVersion((w.expected or 0) + 1) for tp, w in writing.items() if tp == but}
        conflicts = {tp: self._met(tp) for tp in writing if tp != but}
        self._step(events.StatesWritten(written=written, conflicts=conflicts))

    def _met(self, tp: TopicPartition) -> PartitionState | None:
        state = self.context.states.get(tp)
        if state is None:
            return None
        version = ZkVersion(state.zk_version + 1)
        return replace(state, zk_version=version, mzxid=next(self._zxid))

    def write(self) -> None:
        """What is being written is, and so is what is decided then."""
        for _ in range(ROUNDS_MAX):
            if not self._written:
                return
            writes = self._written.popleft().writes
            versions = {w.partition: ZkVersion((w.expected or 0) + 1) for w in writes}
            self._step(events.StatesWritten(written=versions))

    def bounce(self, brokers: Collection[BrokerId]) -> None:
        """They die, and are back when the controller has heard of that."""
        self.write()
        live = self.context.live
        back = self._registered_anew(brokers)
        left = {broker: there for broker, there in live.items() if broker not in brokers}
        self._deleting = {each: None for each in self._deleting if each[1] in left}
        self.take(events.BrokersChanged(live=left))
        self.take(events.BrokersChanged(live={**left, **back}))

    def bounce_unseen(self, broker: BrokerId) -> tuple[Effect, ...]:
        """It dies, and is back before the controller has looked."""
        self.write()
        self._deleting = {each: None for each in self._deleting if each[1] != broker}
        live = {**self.context.live, **self._registered_anew([broker])}
        return self._step(events.BrokersChanged(live=live))

    def play_out(self) -> None:
        """Until nothing happens any more, with whoever is down or about to stop back at last."""
        self._play()
        phases = self.context.replica_phases
        away = {broker for tp in phases.partitions() for broker, _ in phases.of(tp)}
        self.bounce((away - self.context.live.keys()) | self.context.stopping)
        self._play()

    def _play(self) -> None:
        for _ in range(ROUNDS_MAX):
            self.take(events.IsrChanged(notifications=(), states=dict(self._followed())))
            for tp, broker in tuple(self._deleting):
                del self._deleting[tp, broker]
                self._deleted.add((tp, broker))
                self.take(events.StopReplicaAnswered(broker=broker, errors={tp: ErrorCode.none}))
            if not self._written and not dict(self._followed()):
                return

    def _followed(self) -> Iterator[tuple[TopicPartition, PartitionState]]:
        """The partitions whose leaders have somebody to let into their ISR."""
        context = self.context
        for tp, state in context.states.items():
            assignment = context.assignment(tp)
            if assignment is None or context.deletes(tp.topic) or state.leader not in context.live:
                continue
            joining = [b for b in assignment.replicas if b in context.online - {*state.isr}]
            if joining:
                epochs = {broker: context.live[broker].epoch for broker in joining}
                yield (
                    tp,
                    replace(
                        state,
                        isr=(*state.isr, *joining),
                        zk_version=ZkVersion(state.zk_version + 1),
                        mzxid=next(self._zxid),
                        broker_epochs={**state.broker_epochs, **epochs},
                    ),
                )

    def _step(self, event: Event) -> tuple[Effect, ...]:
        topics = dict(self.context.topics)
        self._twin.take(event)
        effects = self._outbox.take(self.context)
        for effect in effects:
            match effect:
                case WriteStates():
                    self._written.append(effect)
                case Send(request=StopReplicaRequest() as request):
                    for replica in _to_delete(effect.broker, request):
                        self._deleted.discard(replica)
                        self._deleting[replica] = None
                case events.Answer() | events.AnswerShutdown():
                    self.answered.add(effect.token)
                case events.DeleteTopic():
                    self._is_gone(effect.topic, topics[effect.topic])
                case _:
                    pass
        return effects

    def _is_gone(self, name: str, topic: TopicAssignment) -> None:
        replicas = ((TopicPartition(name, n), b) for n, b in _replicas(topic))
        self.gone[name] = tuple(
            f"{tp} on {b}" for tp, b in replicas if (tp, b) not in self._deleted
        )

    def _registered_anew(self, brokers: Iterable[BrokerId]) -> dict[BrokerId, LiveBroker]:
        live = self.context.live.values()
        info = next((broker.info for broker in live), BrokerInfo(broker_id=NO_LEADER, endpoints=()))
        return {
            broker: LiveBroker(info=replace(info, broker_id=broker), epoch=next(self._zxid))
            for broker in sorted(brokers)
        }


def _begun(context: Context) -> events.Elected:
    """In the same epoch, knowing nothing."""
    return events.Elected(
        epoch=context.epoch,
        live={},
        topics={},
        states={},
        unclean=frozenset(),
        waits_for_isr=context.waits_for_isr,
        by_isr_order=context.by_isr_order,
    )


def _copied(known: Any) -> Any:
    """All that holds something; what is held is frozen."""
    match known:
        case dict():
            return {key: _copied(value) for key, value in known.items()}
        case set():
            return set(known)
        case Intents() | PartitionPhases() | ReplicaPhases():
            twin = copy(known)
            vars(twin).update(_copied(vars(known)))
            return twin
        case _:
            return known


def _latest(context: Context) -> int:
    """The last transaction that it knows of."""
    registered = (broker.epoch for broker in context.live.values())
    written = (max(s.mzxid, *s.broker_epochs.values(), 0) for s in context.states.values())
    return max((*registered, *written), default=0)


def _to_delete(
    broker: BrokerId, request: StopReplicaRequest
) -> Iterator[tuple[TopicPartition, BrokerId]]:
    for topic in request.topic_states:
        for part in topic.partition_states:
            if part.delete_partition:
                yield TopicPartition(topic.topic_name, part.partition_index), broker


def _replicas(topic: TopicAssignment) -> Iterator[tuple[int, BrokerId]]:
    for number, assignment in topic.partitions.items():
        for broker in assignment.replicas:
            yield number, broker
