"""Faults on clients of the workload: they crash, or are paused."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis.effects import Crash, StopClient
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
from ackproof.nemesis.process import observations as seen

OUTLASTED_MS = 22_000
"""By then a client of ours that was paused has outlasted its own limits, where nobody set them
otherwise: a producer's records their message.timeout.ms (20 s), a member its session.timeout.ms
(10 s)."""


class OfClients(Parameters):
    """Of a fault on clients: which of those that run there."""

    clients: Literal["one", "all"] = Field(
        default="one", description="one client there, drawn by the seed, or all"
    )
    role: Literal["any", "producer", "consumer"] = Field(
        default="any", description="the role of the clients"
    )


class Crashed(OfClients):
    """Of a crash."""

    comes_back: bool = Field(
        default=False,
        description="start a successor of each at the end, which goes on with its work; a "
        "producer gets a new number",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFault:
    """The same effect on clients of the workload, on the nodes of the target.

    Attributes:
        effect: On a client of that name.
        bite: What shows it.
        mended: What shows that it is over.
        full_effect_ms: How long it is held where nobody says.
    """

    name: str
    summary: str
    effect: Callable[[str, Parameters], Effect]
    bite: Callable[[Injection], Look]
    mended: Sequence[Callable[[Injection], Look]] = ()
    full_effect_ms: int = 0
    parameters: type[Parameters] = OfClients

    aim: ClassVar[Aim] = Aim.CLIENTS
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, OfClients)
        there = sorted(
            name
            for name, node in members.workload.items()
            if node in target.nodes and parameters.role in ("any", members.roles[name])
        )
        chosen = rng.sample(there, min(1, len(there))) if parameters.clients == "one" else there
        return Plan(effects=tuple(self.effect(client, parameters) for client in chosen))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return [self.bite(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [mended(injection) for mended in self.mended]

    def hold_ms_min(self, timings: Timings) -> int:  # noqa: ARG002
        return self.full_effect_ms


def _crash(client: str, parameters: Parameters) -> Crash:
    assert isinstance(parameters, Crashed)
    return Crash(client, parameters.comes_back)


CRASH_CLIENT = ClientFault(
    name="crash-client",
    summary="kill -9 clients of the workload; others may replace them at the end",
    effect=_crash,
    bite=seen.crashed,
    mended=[seen.replaced],
    parameters=Crashed,
)
"""What producers had under way may be in the log or not, and the last second of what any client did
is in nobody's history: their own cells are without evidence of it from then on, and nobody else's;
of what a consumer did no cell needs any. The others of a consumer's group have its partitions when
its session has ended."""

PAUSE_CLIENT = ClientFault(
    name="pause-client",
    summary="SIGSTOP clients of the workload until the end; connections stay open",
    effect=lambda client, _: StopClient(client),
    bite=seen.client_stopped,
    mended=[seen.client_goes_on],
    full_effect_ms=OUTLASTED_MS,
)
"""Whoever is paused for longer than its own limits goes on as if nothing had been: a producer with
records that are too old to be sent, a member of a group whose partitions others have by then, and
commit."""

CLIENTS: Mapping[str, ClientFault] = {one.name: one for one in (CRASH_CLIENT, PAUSE_CLIENT)}
