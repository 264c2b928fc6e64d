"""What all orders of an administrator are as faults."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
)
from ackproof.nemesis.proofs.proving import noticed_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """Orders to the cluster, one or several for each target.

    Proven by what ZooKeeper shows afterwards. What was ordered is taken back at the end, and
    ZooKeeper must show that, too.

    Attributes:
        makes: The effects, in their order.
        bite: What it does itself, seen.
        back: What must be seen when it is healed.
    """

    name: str
    summary: str
    aim: Aim
    makes: Callable[[Members, Target, Parameters, random.Random], Sequence[Effect]]
    bite: Callable[[Injection], Sequence[Look]]
    back: Callable[[Injection], Sequence[Look]]
    full_effect_ms: Callable[[Timings], int] = noticed_ms
    parameters: type[Parameters] = Parameters
    needs: frozenset[Capability] = frozenset()
    destroys: Literal["unclean"] | None = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        return Plan(effects=tuple(self.makes(members, target, parameters, rng)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return self.bite(injection)

    def healed(self, injection: Injection) -> Sequence[Look]:
        return self.back(injection)

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)
