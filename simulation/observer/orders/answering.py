"""**AnsweredIsWritten**: who asked a controller for elections, or to let others lead since he
stops, is answered when all is written that was decided for him, and is answered then.

Told before, he takes what is about to be for what failed: a broker that stops asks again, a tool
says that there is no preferred leader. What one step decides is mostly written in one, so it is
rehearsed (:mod:`~simulation.observer.orders.rehearsal`) what would be said if somebody had been
faster with all of that but one.
"""

from ackproof.broker.controller import events
from ackproof.broker.controller.controller import Controller
from ackproof.broker.controller.events import Event
from ackproof.broker.controller.pending import PendingElection, PendingShutdown
from simulation.observer.orders.rehearsal import Rehearsal
from simulation.violation import Violation


def stepped(controller: Controller, event: Event) -> None:
    """A controller has taken in an event; raises Violation."""
    if not isinstance(event, events.ElectionAsked | events.ControlledShutdownAsked):
        return
    epoch = controller._epoch
    for pending in () if epoch is None else epoch._pendings._waiting:
        if isinstance(pending, PendingElection | PendingShutdown) and pending.token == event.token:
            _is_answered_in_time(controller, pending)


def _is_answered_in_time(controller: Controller, asked: PendingElection | PendingShutdown) -> None:
    rehearsal = Rehearsal(controller)
    written = rehearsal.context.writing
    first = next(tp for tp in asked.partitions if tp in written)
    rehearsal.meet_conflicts(but=first)
    late = sorted(str(tp) for tp in asked.partitions if tp in written)
    what = f"whoever asked for {sorted(map(str, asked.partitions))}"
    if late and asked.token in rehearsal.answered:
        raise Violation("AnsweredIsWritten", f"{what} would be told before {late} are written")
    rehearsal.write()
    if asked.token not in rehearsal.answered:
        raise Violation("AnsweredIsWritten", f"{what} would never be answered")
