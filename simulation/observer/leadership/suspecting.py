"""Whose log may lack what the ISR says it has: who decides must not forget it too early.

* **BouncedLeaveIsr**: where a controller has nothing to write, nobody is in the ISR of a led
  partition who has registered anew since he was let in: he may have lost his log's end, and be
  elected. It is in what the controller knows itself, by the broker epochs.
* **BouncedDoNotLead**: nor does a controller tell anybody of a leader who has registered anew since
  his epoch began. He would append behind the end that he lost, and his followers would cut theirs:
  while the next state is being written nothing is said.
* **SuspicionStays**: without a controller, a broker that ended in disorder suspects each replica
  when it hosts it, and as long as its leaving of the ISR is not written.

Whether such a replica lacks anything, and leads before it has it again, is a matter of luck.
"""

from collections.abc import Iterable

from ackproof.broker.controller.cluster import PartitionState
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.events import Effect, Send
from ackproof.broker.controller.rules.suspicion import bounced
from ackproof.broker.coordination.events import Event, Result, Written
from ackproof.broker.types import NO_LEADER, BrokerId, TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrRequest
from simulation.observer.leadership import decided
from simulation.violation import Violation


class Bounced:
    """Those of one controller in one epoch."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, PartitionState] = {}
        self._joined: dict[tuple[TopicPartition, BrokerId], int] = {}
        """As which incarnation somebody was seen to come into the ISR: by a leader that did not see
        him registered yet he is let in as nobody in particular."""

    def stepped(self, context: Context) -> None:
        """Raises Violation."""
        for tp, state in context.states.items():
            self._note_joined(context, tp, state)
        for tp, state, _ in decided.settled(context):
            if state.leader == NO_LEADER:
                continue
            there = self._bounced(context, tp, state)
            if there:
                what = f"{there}, who bounced, stay in the ISR {list(state.isr)}"
                raise Violation("BouncedLeaveIsr", f"{tp}: {what}, and nothing is written")

    def told(self, context: Context, effects: Iterable[Effect]) -> None:
        """What is sent of roles; raises Violation."""
        for effect in effects:
            if type(effect) is not Send or not isinstance(effect.request, LeaderAndIsrRequest):
                continue
            for topic in effect.request.topic_states:
                for part in topic.partition_states:
                    tp = TopicPartition(topic.topic_name, part.partition_index)
                    state = context.states.get(tp)
                    if state is not None and state.leader in self._bounced(context, tp, state):
                        what = f"broker {effect.broker} is told that {state.leader} leads {tp}"
                        since = f"since epoch {state.leader_epoch}, and has bounced since"
                        raise Violation("BouncedDoNotLead", f"{what} {since}")

    def _bounced(self, context: Context, tp: TopicPartition, state: PartitionState) -> list[int]:
        live = context.live
        there = (b for b in bounced(state, live) if self._joined.get((tp, b)) != live[b].epoch)
        return sorted(there)

    def _note_joined(self, context: Context, tp: TopicPartition, state: PartitionState) -> None:
        known, self._known[tp] = self._known.get(tp), state
        if known is None or known is state:
            return
        for broker in context.live.keys() & set(state.isr) - set(known.isr):
            if context.live[broker].epoch < state.mzxid:
                self._joined[tp, broker] = context.live[broker].epoch


def hosted(tp: TopicPartition, *, unclean: bool, suspect: bool) -> None:
    """A broker begins to host a replica, after an ``unclean`` stop or not; raises Violation."""
    if unclean and not suspect:
        what = "is trusted from the start, though its broker ended in disorder"
        raise Violation("SuspicionStays", f"{tp} {what}")


def stepped(
    event: Event, before: Iterable[TopicPartition], after: Iterable[TopicPartition]
) -> None:
    """A broker without a controller has taken in an event; ``before`` and ``after`` are its
    suspects. Raises Violation."""
    if isinstance(event, Written) and event.result is not Result.DONE:
        trusted = sorted(set(before) - set(after))
        if trusted:
            said = f"of what it wrote it hears {event.result.name}"
            raise Violation("SuspicionStays", f"{trusted[0]} is suspect no more, and {said}")
