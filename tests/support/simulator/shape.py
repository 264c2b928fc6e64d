"""What a seed chooses before the first step: the cluster's shape and how often what happens."""

import random
from dataclasses import dataclass

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.types import BrokerId

WEIGHTS: dict[str, tuple[float, float]] = {
    "deliver": (15, 60),
    "poll": (10, 30),
    "produce": (2, 10),
    "tick": (2, 8),
    "notice": (0.5, 4),
    "lose": (0, 4),
    "double": (0, 4),
    "crash": (0, 1.5),
    "start": (0.5, 3),
    "checkpoint": (0.2, 2),
    "cut_link": (0, 1),
    "heal_link": (0.3, 2),
    "expire_session": (0, 0.7),
    "register": (0.5, 3),
    "tell_again": (0.2, 2),
    "move_leader": (0, 3),
    "retain": (0, 0.4),
}
"""Bounds of each action's weight. Where the lower one is 0, a third of the seeds have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    brokers: int
    assignment: tuple[tuple[BrokerId, ...], ...]
    config: ReplicaConfig
    weights: dict[str, float]

    @classmethod
    def choose(cls, rng: random.Random, truncation: Truncation) -> "Shape":
        brokers = rng.randint(2, 5)
        factor = rng.randint(2, min(brokers, 3))
        return cls(
            brokers=brokers,
            assignment=tuple(
                tuple(BrokerId(b) for b in rng.sample(range(brokers), factor))
                for _ in range(rng.randint(1, 2))
            ),
            config=ReplicaConfig(
                min_insync_replicas=rng.randint(1, factor),
                replica_lag_time_max_ms=rng.choice((1_000, 10_000, 30_000)),
                truncation=truncation,
                replica_lag_max_messages=rng.choice((None, None, None, 4)),
            ),
            weights={action: _weight(rng, *bounds) for action, bounds in WEIGHTS.items()},
        )


def _weight(rng: random.Random, low: float, high: float) -> float:
    return 0 if low == 0 and rng.random() < 1 / 3 else rng.uniform(low, high)
