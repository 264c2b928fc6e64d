"""Faults on clients of the workload: they crash, or are paused."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis.effects import ClientCrash, StopClient
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
"""The time after which a paused client of ours has passed its own default limits, in milliseconds.

A producer's records have then passed their message.timeout.ms (20 s), and a member of a group its
session.timeout.ms (10 s).
"""


class ClientFaultParameters(Parameters):
    """The parameters of a fault on clients: which of those that run on a node it strikes."""

    clients: Literal["one", "all"] = Field(
        default="one", description="one client there, drawn by the seed, or all"
    )
    role: Literal["any", "producer", "consumer"] = Field(
        default="any", description="the role of the clients"
    )


class ClientCrashParameters(ClientFaultParameters):
    """The parameters of a crash."""

    comes_back: bool = Field(
        default=False,
        description="start a successor of each at the end, which goes on with its work; a "
        "producer gets a new number",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFault:
    """A fault that has one effect on clients of the workload, on the nodes of the target.

    Attributes:
        effect: Makes the effect on a client of that name.
        bite: Makes the look that shows the effect.
        mended: Make the looks that show that the effect is over.
        full_effect_ms: How long it is held where the campaign does not say.
    """

    name: str
    summary: str
    effect: Callable[[str, Parameters], Effect]
    bite: Callable[[Injection], Look]
    mended: Sequence[Callable[[Injection], Look]] = ()
    full_effect_ms: int = 0
    parameters: type[Parameters] = ClientFaultParameters

    aim: ClassVar[Aim] = Aim.CLIENTS
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        assert isinstance(parameters, ClientFaultParameters)
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


def _crash(client: str, parameters: Parameters) -> ClientCrash:
    assert isinstance(parameters, ClientCrashParameters)
    return ClientCrash(client, parameters.comes_back)


CRASH_CLIENT = ClientFault(
    name="crash-client",
    summary="kill -9 clients of the workload; others may replace them at the end",
    effect=_crash,
    bite=seen.crashed,
    mended=[seen.replaced],
    parameters=ClientCrashParameters,
)
"""The fault that kills clients.

What producers had under way may be in the log or not. The last second of what any client did is in
no history. From then on the client's own cells lack that evidence, but no others do. No cell needs
evidence of what a consumer did.

The other members of a consumer's group get its partitions when its session has ended.
"""

PAUSE_CLIENT = ClientFault(
    name="pause-client",
    summary="SIGSTOP clients of the workload until the end; connections stay open",
    effect=lambda client, _: StopClient(client),
    bite=seen.client_stopped,
    mended=[seen.client_goes_on],
    full_effect_ms=OUTLASTED_MS,
)
"""The fault that pauses clients.

A client that is paused for longer than its own limits goes on as if nothing had happened. A
producer then has records that are too old to be sent. A member of a group commits although others
have its partitions by then.
"""

CLIENTS: Mapping[str, ClientFault] = {one.name: one for one in (CRASH_CLIENT, PAUSE_CLIENT)}
