"""Replication, broken on purpose: one swap for each fence, bound and wait of its state machines.

Both searches make their mutations of these: whole brokers (:mod:`simulation.mutations.catalogue`),
and the model in ``tests/support/simulator``, which deals messages one by one.
"""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.events import Respond
from ackproof.broker.replication.follower import Follower
from ackproof.broker.replication.isr import IsrState
from ackproof.broker.replication.leader import Leader
from ackproof.broker.replication.pending import PendingProduces
from ackproof.broker.replication.replica import Replica
from simulation.mutations.swap import Swap

_check_leader = Replica.check_leader


def _no_fence(_self: Replica, _epoch: Any) -> None:
    """Takes any word, of whatever epoch."""


def _check_leader_without_fence(self: Replica, _epoch: Any, follower: Any = None) -> ErrorCode:
    return _check_leader(self, None, follower)


def _largest_end(self: Leader) -> Any:
    return max([self._log.log_end_offset, *self._counted_ends()])


def _reached_at_once(self: PendingProduces, _high_watermark: Any) -> Any:
    return self.drain()


def _proposed_counts(self: IsrState) -> Any:
    return frozenset(self.committed if self.proposed is None else self.proposed)


def _committed_counts(self: IsrState) -> Any:
    return frozenset(self.committed)


def _gives_up(self: IsrState, *, conflict: bool) -> IsrState:
    """Takes a write whose outcome nobody knows for one that was not carried out."""
    del conflict
    return self.refused()


def _joins_at_once(self: Leader, replica: Any) -> Any:
    if self.isr.proposed is not None or replica in self.isr.committed:
        return ()
    return self._propose((*self.isr.committed, replica))


def _joins_by_watermark(self: Leader, replica: Any) -> Any:
    if self.remotes[replica].log_end_offset < self._log.high_watermark:
        return ()
    return _joins_at_once(self, replica)


def _expects_any_epoch(_self: Follower, _epoch: Any) -> bool:
    return True


def _any_answer(_self: Follower, _event: Any) -> bool:
    return True


def _one_round(_self: Follower, event: Any) -> Any:
    """KIP-101 without KIP-279: whatever the leader says ends the conversation."""
    return event.end_offset, True


def _no_cut(self: Follower, _event: Any) -> Any:
    return self._log.log_end_offset, True


def _drops_nobody(_self: Leader) -> Any:
    return ()


_refusal = Leader.refusal


def _lets_all_in(self: Leader, _acks: Any) -> ErrorCode:
    return _refusal(self, 1)


def _answers_all(self: Leader) -> Any:
    return tuple(
        Respond(request=done.request, error=ErrorCode.none, base_offset=done.base_offset)
        for done in self.pending.reached(self._log.high_watermark)
    )


EPOCHS_OBEYED: Final = Swap(Replica, "_fence", _no_fence)
EPOCHS_SERVED: Final = Swap(Replica, "check_leader", _check_leader_without_fence)
EPOCHS_TAKEN: Final = Swap(Follower, "_expects", _expects_any_epoch)
ROUNDS_TAKEN: Final = Swap(Follower, "_could_be_asked", _any_answer)
LARGEST_END: Final = Swap(Leader, "committed_end", _largest_end)
ANSWERED_AT_APPEND: Final = Swap(PendingProduces, "reached", _reached_at_once)
PROPOSED_COUNTS: Final = Swap(IsrState, "maximal", property(_proposed_counts))
COMMITTED_COUNTS: Final = Swap(IsrState, "maximal", property(_committed_counts))
GIVEN_UP: Final = Swap(IsrState, "failed", _gives_up)
JOINS_AT_ONCE: Final = Swap(Leader, "_maybe_expand_isr", _joins_at_once)
JOINS_BY_WATERMARK: Final = Swap(Leader, "_maybe_expand_isr", _joins_by_watermark)
ONE_ROUND: Final = Swap(Follower, "_truncation_state", _one_round)
DROPS_NOBODY: Final = Swap(Leader, "_maybe_shrink_isr", _drops_nobody)
LETS_ALL_IN: Final = Swap(Leader, "refusal", _lets_all_in)
ANSWERS_ALL: Final = Swap(Leader, "_acknowledge", _answers_all)
NO_CUT: Final = Swap(Follower, "_truncation_state", _no_cut)
