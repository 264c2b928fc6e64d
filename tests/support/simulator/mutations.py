"""Broken replication, on purpose: what the simulator must be able to find.

Each mutation swaps one function for a wrong one while it is active. One that the simulator does
not find is a hole in the simulator, not a proof of the mutation's harmlessness.
"""

from dataclasses import dataclass
from typing import Any

from ackproof.broker.replication.config import Truncation
from ackproof.broker.types import NO_LEADER
from simulation.mutations import replication
from simulation.mutations.swap import Mutation, Swap
from simulator.controller import Controller
from simulator.simulation import Simulation, SimulationFailed


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


def _choose_anybody(self: Controller, state: Any, replicas: Any) -> Any:
    return next((b for b in replicas if b in self._known and b not in state.isr), NO_LEADER)


MUTATIONS: dict[str, Mutation] = {
    "words of earlier epochs are obeyed": Mutation(replication.EPOCHS_OBEYED),
    "requests of other epochs are served": Mutation(replication.EPOCHS_SERVED),
    "answers of earlier epochs are taken": Mutation(replication.EPOCHS_TAKEN),
    "watermark from the largest log end": Mutation(replication.LARGEST_END),
    "leader elected outside the ISR": Mutation(Swap(Controller, "choose", _choose_anybody)),
    "acks=-1 answered before the watermark": Mutation(replication.ANSWERED_AT_APPEND),
    "ISR believed before it is written": Mutation(replication.PROPOSED_COUNTS),
    "ISR change in flight ignored": Mutation(replication.COMMITTED_COUNTS),
    "followers join the ISR at once": Mutation(replication.JOINS_AT_ONCE),
    "epoch start ignored when joining": Mutation(replication.JOINS_BY_WATERMARK),
    "answers of earlier rounds are taken": Mutation(replication.ROUNDS_TAKEN),
    "one round of truncation": Mutation(replication.ONE_ROUND),
    "followers never truncate": Mutation(replication.NO_CUT),
}
