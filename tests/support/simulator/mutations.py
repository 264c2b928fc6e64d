"""Broken replication, on purpose: what the simulator must be able to find.

Each mutation swaps one function for a wrong one while it is active. One that the simulator does
not find is a hole in the simulator, not a proof of the mutation's harmlessness.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode

from broker.replication.config import Truncation
from broker.replication.follower import Follower
from broker.replication.isr import IsrState
from broker.replication.leader import Leader
from broker.replication.pending import PendingProduces
from broker.replication.replica import Replica
from broker.types import NO_LEADER
from simulator.controller import Controller
from simulator.simulation import Simulation, SimulationFailed


@dataclass(frozen=True, slots=True)
class Mutation:
    """``wrong`` takes the place of ``owner.name``."""

    owner: type
    name: str
    wrong: Any

    @contextmanager
    def active(self) -> Iterator[None]:
        right = self.owner.__dict__[self.name]
        setattr(self.owner, self.name, self.wrong)
        try:
            yield
        finally:
            setattr(self.owner, self.name, right)


@dataclass(frozen=True, slots=True)
class Found:
    """``steps``: taken in all, over all seeds from the first to the one that failed."""

    steps: int
    failure: SimulationFailed


def search(
    seeds: range, steps: int, truncation: Truncation = Truncation.LEADER_EPOCH
) -> Found | None:
    """Run seed after seed until one fails."""
    taken = 0
    for seed in seeds:
        simulation = Simulation(seed, truncation)
        try:
            simulation.run(steps).settle()
        except SimulationFailed as failure:
            return Found(taken + failure.step, failure)
        taken += simulation.step
    return None


def _no_fence(_self: Replica, _epoch: Any) -> None:
    """Takes any word, of whatever epoch."""


def _check_leader_without_fence(self: Replica, _epoch: Any) -> ErrorCode:
    return ErrorCode.none if self._leader else ErrorCode.not_leader_or_follower


def _largest_end(self: Leader) -> Any:
    return max([self._log.log_end_offset, *self._counted_ends()])


def _choose_anybody(self: Controller, state: Any, replicas: Any) -> Any:
    return next((b for b in replicas if b in self._known and b not in state.isr), NO_LEADER)


def _reached_at_once(self: PendingProduces, _high_watermark: Any) -> Any:
    return self.drain()


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


def _no_cut(self: Follower, _event: Any) -> Any:
    return self._log.log_end_offset, True


MUTATIONS: dict[str, Mutation] = {
    "words of earlier epochs are obeyed": Mutation(Replica, "_fence", _no_fence),
    "requests of other epochs are served": Mutation(
        Replica, "check_leader", _check_leader_without_fence
    ),
    "answers of earlier epochs are taken": Mutation(Follower, "_expects", _expects_any_epoch),
    "watermark from the largest log end": Mutation(Leader, "committed_end", _largest_end),
    "leader elected outside the ISR": Mutation(Controller, "choose", _choose_anybody),
    "acks=-1 answered before the watermark": Mutation(PendingProduces, "reached", _reached_at_once),
    "ISR believed before it is written": Mutation(IsrState, "maximal", property(_proposed_counts)),
    "ISR change in flight ignored": Mutation(IsrState, "maximal", property(_committed_counts)),
    "followers join the ISR at once": Mutation(Leader, "_maybe_expand_isr", _joins_at_once),
    "epoch start ignored when joining": Mutation(Leader, "_maybe_expand_isr", _joins_by_watermark),
    "answers of earlier rounds are taken": Mutation(Follower, "_could_be_asked", _any_answer),
    "one round of truncation": Mutation(Follower, "_parting", _one_round),
    "followers never truncate": Mutation(Follower, "_parting", _no_cut),
}
