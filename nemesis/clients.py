"""The fault on clients of the workload: they crash."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from infra.interface import Capability, Timings
from nemesis import process_observations as seen
from nemesis.effects import Crash
from nemesis.interface import Aim, Injection, Look, Members, Parameters, Plan, Target


class Crashed(Parameters):
    """Of a crash."""

    clients: Literal["one", "all"] = Field(
        default="one", description="one of the clients that run there, drawn by the seed, or all"
    )
    role: Literal["any", "producer", "consumer"] = Field(
        default="any", description="of those with this role alone: a group loses a member, say"
    )


@dataclass(frozen=True, slots=True)
class ClientCrash:
    """kill -9 of clients of the workload. What producers had under way may be in the log or not,
    and the last second of what any client did is in nobody's history: their own cells are without
    evidence of it from then on, and nobody else's; of what a consumer did no cell needs any. They
    do not come back, so that there is nothing to heal; the others of a consumer's group have its
    partitions when its session has ended."""

    name: ClassVar[str] = "crash-client"
    summary: ClassVar[str] = "kill -9 clients of the workload, which do not come back"
    aim: ClassVar[Aim] = Aim.CLIENTS
    parameters: ClassVar[type[Parameters]] = Crashed
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, Crashed)
        there = sorted(
            name
            for name, node in members.workload.items()
            if node in target.nodes and parameters.role in ("any", members.roles[name])
        )
        chosen = rng.sample(there, min(1, len(there))) if parameters.clients == "one" else there
        return Plan(effects=tuple(map(Crash, chosen)))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return [seen.crashed(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:  # noqa: ARG002
        return []

    def hold_ms_min(self, timings: Timings) -> int:  # noqa: ARG002
        return 0


CRASH_CLIENT = ClientCrash()
