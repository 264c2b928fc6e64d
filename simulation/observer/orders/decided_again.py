"""**DecidedAgain**: what a controller has decided, and could not write, it decides again.

A leader changes its ISR in the very ms in which the controller writes that partition: its state is
read again, and nothing but its version may have changed. Who was to lead is to lead still, and who
was to leave the ISR, since he has bounced, is to leave it still, or else nobody would lead until
something else happened, or one that has lost its log's end.

That a bounce and a conflict meet is rare. So whenever brokers come or go, it is rehearsed
(:mod:`~simulation.observer.orders.rehearsal`) what would be decided, and told
(:mod:`~simulation.observer.leadership.suspecting`), if one that leads something were back before
anybody saw it go, and if somebody were faster with all that is written then.
"""

from ackproof.broker.controller import events
from ackproof.broker.controller.context import Context
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import Event
from ackproof.broker.types import BrokerId
from simulation.observer.leadership import decided
from simulation.observer.leadership.suspecting import Bounced
from simulation.observer.orders.rehearsal import Rehearsal
from simulation.violation import Violation


def stepped(controller: Controller, event: Event, known: Bounced) -> None:
    """A controller has taken in an event; raises Violation."""
    context = controller.context
    if context is not None and isinstance(event, events.Elected | events.BrokersChanged):
        for broker in _leader(context):
            rehearsal = Rehearsal(controller)
            known.told(rehearsal.context, rehearsal.bounce_unseen(broker))
            _are_decided_again(rehearsal)


def _leader(context: Context) -> list[BrokerId]:
    """One that is not alone in sync, if any."""
    for _, state, _ in decided.settled(context):
        if state.leader in context.live and len(state.isr) > 1:
            return [state.leader]
    return []


def _are_decided_again(rehearsal: Rehearsal) -> None:
    """Who is elected from outside the ISR, or nobody, was so while the one that bounced was away:
    he is back by now, and may be better than that."""
    context = rehearsal.context
    before, states = dict(context.writing), dict(context.states)
    rehearsal.meet_conflicts()
    for tp, write in before.items():
        if tp not in states:
            continue  # whoever was faster with the first state of all has deleted it since
        again = context.writing.get(tp)
        if again is not None and write.leader not in states[tp].isr:
            continue
        if again is None or (again.leader, again.isr) != (write.leader, write.isr):
            led = "nothing" if again is None else f"{again.leader}, {list(again.isr)}"
            raise Violation(
                "DecidedAgain",
                f"{write.leader} is to lead {tp} with the ISR {list(write.isr)}: if somebody had "
                f"been faster, {led} would be written instead",
            )
