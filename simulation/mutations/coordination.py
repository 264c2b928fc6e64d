"""Leader coordination, broken on purpose: one fence, order or rule each (``leader-fenced``)."""

from dataclasses import replace
from typing import Any, Final

from ackproof.broker.coordination.coordinator import STEPS, Coordinator
from ackproof.broker.coordination.events import CreateLeader, PutIsr, RegisterBroker, SessionStarted
from ackproof.broker.coordination.hosting.reassignment import FencedReassignment
from ackproof.broker.coordination.nodes import ANY_VERSION
from ackproof.broker.coordination.queues.requests import OwnQueue
from ackproof.broker.coordination.variants import Fenced, Printed
from ackproof.broker.types import LeaderEpoch
from simulation.mutations.swap import Mutation, Swap

_claim = Fenced.claim
_take_on = OwnQueue.take_on
_session_started = STEPS[SessionStarted]


def _over_any_isr(self: Fenced, me: Any, tp: Any, view: Any) -> Any:
    return tuple(
        replace(op, expected=ANY_VERSION) if isinstance(op, PutIsr) else op
        for op in _claim(self, me, tp, view)
    )


def _in_the_same_epoch(self: Fenced, me: Any, tp: Any, view: Any) -> Any:
    known = LeaderEpoch(0 if view.isr is None else view.isr.epoch)
    return tuple(
        replace(op, epoch=known) if isinstance(op, CreateLeader | PutIsr) else op
        for op in _claim(self, me, tp, view)
    )


def _always_due(_self: Fenced, _me: Any, _view: Any) -> bool:
    return True


def _whoever_has_caught_up(_self: FencedReassignment, _isr: Any) -> bool:
    return True


def _always_news(_self: Fenced, _known: Any, _told: Any) -> bool:
    return True


def _written_over_anything(_self: Fenced, tp: Any, isr: Any, epoch: Any, _version: Any) -> Any:
    return (PutIsr(partition=tp, isr=isr, epoch=epoch, expected=ANY_VERSION),)


def _in_any_session(_self: Fenced, _session: Any) -> None:
    return None


def _last_first(self: OwnQueue, entries: Any) -> None:
    _take_on(self, entries[::-1])


def _registers_first(self: Coordinator, event: Any) -> None:
    _session_started(self, event)
    self._context.outbox.put(RegisterBroker())


COORDINATION: Final[dict[str, Mutation]] = {
    "a claim by the first reading, over any ISR": Mutation(
        Swap(Fenced, "claim", _over_any_isr), Swap(Fenced, "claims_by_first_reading", True)
    ),
    "a claim in the same epoch": Mutation(Swap(Fenced, "claim", _in_the_same_epoch)),
    "leaders of earlier epochs are followed": Mutation(Swap(Fenced, "is_news", _always_news)),
    "an ISR written over any other": Mutation(Swap(Fenced, "write_isr", _written_over_anything)),
    "a close is carried out whenever it comes": Mutation(Swap(Fenced, "close_is_due", _always_due)),
    "a close is carried out whenever it comes, whoever has joined": Mutation(
        Swap(Fenced, "close_is_due", _always_due),
        Swap(FencedReassignment, "lets_in", _whoever_has_caught_up),
    ),
    "who is moved to joins whatever waits in its queue": Mutation(
        Swap(FencedReassignment, "lets_in", _whoever_has_caught_up)
    ),
    "the queue is taken from its end": Mutation(Swap(OwnQueue, "take_on", _last_first)),
    "registered before anything is started": Mutation(
        Swap(STEPS, SessionStarted, _registers_first)
    ),
    "a former leader writes its ISR": Mutation(
        Swap(Fenced, "write_isr", _written_over_anything),
        Swap(Fenced, "session", _in_any_session),
        Swap(Fenced, "resigns_with_its_session", False),
    ),
    "a leader outlives its session": Mutation(Swap(Fenced, "resigns_with_its_session", False)),
    "who stopped uncleanly stays in the ISR": Mutation(
        Swap(Fenced, "leaves_isr_when_unclean", False)
    ),
    "whoever has caught up is in sync after the wait": Mutation(
        Swap(Fenced, "in_sync", Printed.in_sync)
    ),
}
"""By name; what follows from each is in ``docs/coordination.md``."""
