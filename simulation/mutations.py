"""The broker, broken on purpose: what a search must be able to find.

Each mutation swaps one function for a wrong one while it is active. One that is not found is a
hole in the simulation, not a proof of the mutation's harmlessness.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kio.schema.errors import ErrorCode

from broker.controller import partitions
from broker.controller.context import Context
from broker.controller.election import Choice, choose
from broker.controller.partitions import Partitions
from broker.replication.follower import Follower
from broker.replication.isr import IsrState
from broker.replication.leader import Leader
from broker.replication.pending import PendingProduces
from broker.replication.replica import Replica
from broker.server.control_fence import ControlFence
from broker.types import NO_LEADER
from simulation.relapses import RELAPSES
from simulation.swap import Mutation, Swap


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """With that mutation; None: with none."""
    if name is None:
        yield
        return
    with MUTATIONS[name].active():
        yield


def _reached_at_once(self: PendingProduces, _high_watermark: Any) -> Any:
    return self.drain()


_choose = choose


def _anybody(state: Any, candidates: Any, *, online: Any, **others: Any) -> Choice:
    """The first of the assignment that lives, in the ISR or not."""
    choice = _choose(state, candidates, online=online, **others)
    if choice.leader in (state.leader, NO_LEADER):
        return choice
    leader = next((broker for broker in candidates if broker in online), choice.leader)
    isr = choice.isr if leader in choice.isr else (leader, *choice.isr)
    return Choice(leader, isr)


def _no_cut(self: Follower, _event: Any) -> Any:
    return self._log.log_end_offset, True


def _suspects_nobody(_self: Context) -> None:
    """As if a new controller knew of every bounce."""


def _forgets_suspects(self: Partitions, tp: Any, _state: Any) -> None:
    """As if the controller knew of every ISR as soon as it is written."""
    self._context.suspects.pop(tp, None)


_trust = Partitions._trust_if_nobody_else


def _waits_for_nobody(self: Partitions, tp: Any, state: Any, *, unclean: bool) -> None:
    """As if whoever of the ISR is away had nothing."""
    del unclean
    _trust(self, tp, state, unclean=True)


def _no_fence(_self: Replica, _epoch: Any) -> None:
    """Takes any word, of whatever epoch."""


def _obeys_anybody(self: ControlFence, request: Any) -> ErrorCode:
    self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
    return ErrorCode.none


def _check_leader_without_fence(self: Replica, _epoch: Any) -> ErrorCode:
    return ErrorCode.none if self._leader else ErrorCode.not_leader_or_follower


def _largest_end(self: Leader) -> Any:
    return max([self._log.log_end_offset, *self._counted_ends()])


def _proposed_counts(self: IsrState) -> Any:
    return frozenset(self.committed if self.proposed is None else self.proposed)


def _committed_counts(self: IsrState) -> Any:
    return frozenset(self.committed)


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


MUTATIONS: dict[str, Mutation] = {
    "acks=all answered at append": Mutation(Swap(PendingProduces, "reached", _reached_at_once)),
    "leader elected outside the ISR": Mutation(Swap(partitions, "choose", _anybody)),
    "followers never truncate": Mutation(Swap(Follower, "_parting", _no_cut)),
    "bounces forgotten at an election": Mutation(
        Swap(Context, "suspect_bounced", _suspects_nobody)
    ),
    "who joined unseen is trusted": Mutation(
        Swap(Partitions, "_suspect_who_may_have_joined", _forgets_suspects)
    ),
    "words of earlier epochs are obeyed": Mutation(Swap(Replica, "_fence", _no_fence)),
    "controllers of the past are obeyed": Mutation(Swap(ControlFence, "admit", _obeys_anybody)),
    "neither fence against the past": Mutation(
        Swap(ControlFence, "admit", _obeys_anybody), Swap(Replica, "_fence", _no_fence)
    ),
    "who bounced waits for nobody": Mutation(
        Swap(Partitions, "_trust_if_nobody_else", _waits_for_nobody)
    ),
    "requests of other epochs are served": Mutation(
        Swap(Replica, "check_leader", _check_leader_without_fence)
    ),
    "answers of earlier epochs are taken": Mutation(Swap(Follower, "_expects", _expects_any_epoch)),
    "watermark from the largest log end": Mutation(Swap(Leader, "committed_end", _largest_end)),
    "ISR believed before it is written": Mutation(
        Swap(IsrState, "maximal", property(_proposed_counts))
    ),
    "ISR change in flight ignored": Mutation(
        Swap(IsrState, "maximal", property(_committed_counts))
    ),
    "followers join the ISR at once": Mutation(Swap(Leader, "_maybe_expand_isr", _joins_at_once)),
    "epoch start ignored when joining": Mutation(
        Swap(Leader, "_maybe_expand_isr", _joins_by_watermark)
    ),
    "answers of earlier rounds are taken": Mutation(Swap(Follower, "_could_be_asked", _any_answer)),
    "one round of truncation": Mutation(Swap(Follower, "_parting", _one_round)),
    **RELAPSES,
}
