"""**RolesAreTold**: when a controller has decided who leads, all live replicas are told, and also a
former leader that is about to stop.

Nobody else would tell them. Who is deposed and does not hear of it leads on: it acknowledges acks=1
that nobody gets, and serves what is no more. That lasts until it is gone, or told of something
else, and few clients ask in between.

**AnsweredIsTold**: and they are told before whoever asked for it hears that it is done, be it a
client or ZooKeeper, in which the order is dropped then. Who has asked for a leader goes to where he
finds one, and would be sent to the former.
"""

from dataclasses import dataclass, field
from typing import Final

from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import (
    Answer,
    AnswerShutdown,
    DropIsrChanges,
    DropPreferredElection,
    Effect,
    Send,
)
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest
from simulation.observer.leadership import decided
from simulation.violation import Violation

ANSWERS: Final = (Answer, AnswerShutdown, DropIsrChanges, DropPreferredElection)

Role = tuple[int, int]
"""The leader, and in which epoch."""


@dataclass(slots=True)
class RolesTold:
    """By one controller in one epoch."""

    _by_broker: dict[tuple[BrokerId, int], dict[TopicPartition, Role]] = field(default_factory=dict)
    """What each was told last, in each of its lives."""

    def stepped(self, context: Context, effects: tuple[Effect, ...]) -> None:
        """Raises Violation."""
        answered: Effect | None = None
        for effect in effects:
            if isinstance(effect, ANSWERS):
                answered = effect
            elif type(effect) is Send:
                self._sent(effect)
                if answered is not None and isinstance(effect.request, LeaderAndIsrRequest):
                    what = f"{type(answered).__name__} comes before broker {effect.broker} is told"
                    raise Violation("AnsweredIsTold", f"{what} of roles, in one step")
        for tp, state, assignment in decided.settled(context):
            now = (state.leader, state.leader_epoch)
            for broker in assignment.replicas:
                if broker in context.live:
                    told = self._told(context, broker, tp)
                    stops = broker in context.stopping
                    if told != now and (not stops or (told is not None and told[0] == broker)):
                        what = f"{state.leader} leads {tp} in epoch {state.leader_epoch}"
                        raise Violation("RolesAreTold", f"{what}, and broker {broker} heard {told}")

    def _told(self, context: Context, broker: BrokerId, tp: TopicPartition) -> Role | None:
        return self._by_broker.get((broker, context.live[broker].epoch), {}).get(tp)

    def _sent(self, effect: Send) -> None:
        request = effect.request
        if isinstance(request, LeaderAndIsrRequest):
            roles = self._by_broker.setdefault((effect.broker, request.broker_epoch), {})
            for topic in request.topic_states:
                for part in topic.partition_states:
                    tp = TopicPartition(topic.topic_name, part.partition_index)
                    roles[tp] = part.leader, part.leader_epoch
        elif isinstance(request, StopReplicaRequest):
            roles = self._by_broker.setdefault((effect.broker, request.broker_epoch), {})
            for each in request.topic_states:
                for stop in each.partition_states:
                    if stop.delete_partition:
                        roles.pop(TopicPartition(each.topic_name, stop.partition_index), None)
