"""The broker, broken on purpose: what a search must be able to find.

Each mutation swaps one function for a wrong one while it is active. One that is not found is a
hole in the simulation, not a proof of the mutation's harmlessness.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from broker.controller import partitions
from broker.controller.context import Context
from broker.controller.election import Choice, choose
from broker.replication.follower import Follower
from broker.replication.pending import PendingProduces
from broker.types import NO_LEADER


@dataclass(frozen=True, slots=True)
class Mutation:
    """``wrong`` takes the place of ``owner.name``."""

    owner: Any
    name: str
    wrong: Any

    @contextmanager
    def active(self) -> Iterator[None]:
        right = vars(self.owner)[self.name]
        setattr(self.owner, self.name, self.wrong)
        try:
            yield
        finally:
            setattr(self.owner, self.name, right)


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


MUTATIONS: dict[str, Mutation] = {
    "acks=all answered at append": Mutation(PendingProduces, "reached", _reached_at_once),
    "leader elected outside the ISR": Mutation(partitions, "choose", _anybody),
    "followers never truncate": Mutation(Follower, "_parting", _no_cut),
    "bounces forgotten at an election": Mutation(Context, "suspect_bounced", _suspects_nobody),
}
