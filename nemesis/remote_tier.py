"""Faults on the storage to which brokers copy closed segments (tiered storage, KIP-405).

A fault strikes a broker's own use of the remote tier, so that the other brokers still reach it.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.capabilities import RemoteTier, TierProblem, TierUse
from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EffectNotBegun, EndsNothing, OnServer
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Resource,
    Target,
    brokers_alone,
)
from ackproof.nemesis.proofs import Seen, expiry_ms, held, observe, struck

TIER = "remote-tier"


def _tier(cluster: Cluster) -> RemoteTier:
    if (found := cluster.system.remote_tier) is None:
        raise EffectNotBegun("the cluster has no remote tier of Ackproof's")
    return found


@dataclass(frozen=True, slots=True)
class DisturbedTier(EndsNothing, OnServer):
    """Operations of one broker on the remote tier that fail or take longer, by which nothing
    ends."""

    problem: TierProblem
    delay_ms: int
    kind: ClassVar[str] = TIER

    def apply(self, cluster: Cluster) -> bool:
        broker = cluster.server(self.server).id
        _tier(cluster).disturb(broker, self.problem, self.delay_ms)
        return True

    def undo(self, cluster: Cluster) -> None:
        _tier(cluster).restore(cluster.server(self.server).id)

    def __str__(self) -> str:
        return f"make the remote tier {self.problem} for {self.server}"


def _used(injection: Injection, claim: str, seen: Callable[[TierUse], Seen]) -> Look:
    """Return a look at the use of the tier by the brokers that this fault has struck."""
    tier = _tier(injection.cluster)
    done, planned = struck(injection, DisturbedTier)
    return lambda: observe(
        claim,
        [name for name in planned if name in done],
        lambda broker: seen(tier.use(injection.cluster.server(broker).id)),
        lambda broker: held(injection, Resource(TIER, (broker,))),
    )


def _disturbed(use: TierUse) -> Seen:
    return use.problem is not None and use.disturbed > 0, f"{use.disturbed} operations"


def _passing(use: TierUse) -> Seen:
    # A broker that leads nothing any more uploads nothing, so that none may have passed yet.
    seen = f"{use.passed} operations since the last one refused or delayed"
    return use.problem is None, seen if use.problem is None else f"it is {use.problem}"


class Disturbance(Parameters):
    """The parameters of a disturbed remote tier."""

    problem: Literal["absent", "read-only", "slow"] = Field(
        default="absent",
        description="`absent`: every operation fails; `read-only`: uploads and deletions fail; "
        "`slow`: every operation takes longer",
    )
    delay_ms: int = Field(
        default=5000,
        ge=1,
        le=60_000,
        description="how much longer an operation takes, if `slow`",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteTierFault:
    """A fault on the remote tier. It is proven by operations that it has refused or delayed, so a
    broker that leads nothing to upload proves nothing."""

    name: str = "disturb-remote-tier"
    summary: str = (
        "disturb brokers' use of the remote tier; uploads and reads fail or take longer (KIP-405)"
    )
    parameters: type[Disturbance] = Disturbance
    aim: ClassVar[Aim] = Aim.BROKERS
    needs: ClassVar[frozenset[Capability]] = frozenset()
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        assert isinstance(parameters, Disturbance)
        brokers_alone(self.name, members, target.servers)
        problem = TierProblem(parameters.problem)
        return Plan(
            effects=tuple(
                DisturbedTier(one, problem, parameters.delay_ms) for one in target.servers
            )
        )

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return [_used(injection, "operations refused or delayed", _disturbed)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        return [
            _used(injection, "operations pass", _passing),
            proofs.running(injection, injection.target.servers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)


REMOTE_TIER = RemoteTierFault()
