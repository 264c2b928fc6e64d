"""Faults that give servers too little: of CPU, of memory.

The kernel keeps both limits, so it can report what they did. It reports how often it made a server
wait, how often a server met its memory limit, and which process it killed for that.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from ackproof.infra.api.capabilities import LimitedResource, NotCounted
from ackproof.infra.api.interface import Capability, PodRefusal, PodView, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EffectNotBegun, ProcessClaim
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Effect,
    Injection,
    Look,
    Members,
    Observation,
    Parameters,
    Plan,
    Resource,
    Target,
)
from ackproof.nemesis.proofs import (
    Seen,
    expiry_ms,
    held,
    intended,
    observe,
    sessions_at_stake,
    struck,
    unless,
)

_KIB = 1024
_THOUSANDTHS = 10
"""The thousandths of a core in one hundredth."""
_LESS = "already had less"


class TooLittleCpu(Parameters):
    """The parameters of a server without CPU."""

    percent: int = Field(default=2, ge=1, le=100, description="its share of one core")

    @property
    def thousandths(self) -> int:
        """The limit in thousandths of one core."""
        return self.percent * _THOUSANDTHS


class TooLittleMemory(Parameters):
    """The parameters of a server without memory."""

    kib: int = Field(
        default=1024, ge=0, description="memory beyond its present use, with the page cache"
    )


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit on a server's process; see ``infra.api.interface.Node.limit``."""

    server: str
    what: LimitedResource
    amount: int

    @property
    def resource(self) -> Resource:
        return Resource(self.what, (self.server,))

    @property
    def ends(self) -> str | None:
        # The kernel kills a process that needs more memory, but one that needs more CPU only waits.
        return self.server if self.what is LimitedResource.MEMORY else None

    def apply(self, cluster: Cluster) -> bool:
        """Set the limit. Raise EffectNotBegun if Kubernetes refuses it."""
        try:
            cluster.server(self.server).node.limit(self.what, self.amount)
        except PodRefusal as refusal:
            raise EffectNotBegun(str(refusal)) from refusal
        return True

    def undo(self, cluster: Cluster) -> None:
        cluster.server(self.server).node.lift(self.what)

    def __str__(self) -> str:
        return f"limit the {self.what} of {self.server} to {self.amount}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starvation:
    """A limit on every target's process.

    What the kernel has counted since then proves it. It counts tenths of a second in which the
    server had to wait for CPU, or how often it met its memory limit. Of a server in a pod, the
    limit that the kubelet reports proves it, too, and alone where the counters cannot be read. The
    fault is healed when there is no limit, the processes run and the brokers are registered.
    """

    name: str
    summary: str
    effects: Callable[[str, Parameters], Sequence[Effect]]
    what: LimitedResource
    counter: str
    """The name of what the kernel counts; a value above 0 shows that the limit took effect."""
    parameters: type[Parameters]
    needs: frozenset[Capability]

    aim: ClassVar[Aim] = Aim.SERVERS
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        made = (self.effects(server, parameters) for server in target.servers)
        return Plan(effects=tuple(effect for effects in made for effect in effects))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        pods = [one.server for one in intended(injection, Limit) if _pod_of(injection, one.server)]
        reported = [lambda: self._reported(injection)] if pods else []
        return [*reported, lambda: self._counted(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        brokers = sessions_at_stake(injection)
        return [
            lambda: self._lifted(injection),
            proofs.running(injection, injection.target.servers),
            proofs.registered(injection, brokers),
            proofs.sessions_lost(injection, brokers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)

    def _reported(self, injection: Injection) -> Observation:
        """Look at whether the kubelet reports the limits, of the servers in pods."""
        amounts = {one.server: one.amount for one in intended(injection, Limit)}

        def reported(server: str) -> Seen:
            pod = _pod_of(injection, server)
            limit = None if pod is None else pod.cpu_limit()
            return limit == amounts[server], "none" if limit is None else f"{limit}m"

        done, planned = struck(injection, Limit)
        in_pods = [server for server in planned if _pod_of(injection, server)]
        return observe("limit in force", in_pods, reported, unless(done, _LESS))

    def _counted(self, injection: Injection) -> Observation:
        done, planned = struck(injection, Limit)
        counters: dict[str, Mapping[str, int]] = {}
        unread: dict[str, str] = {}
        for server in (name for name in planned if name in done):
            try:
                counters[server] = injection.cluster.server(server).node.counted(self.what)
            except NotCounted as reason:
                unread[server] = str(reason)

        def counted(server: str) -> Seen:
            return counters[server].get(self.counter, 0) > 0, dict(counters[server])

        def why_not(server: str) -> str | None:
            return unless(done, _LESS)(server) or unread.get(server)

        return observe(f"short of {self.what}", planned, counted, why_not)

    def _lifted(self, injection: Injection) -> Observation:
        def lifted(server: str) -> Seen:
            try:
                counters = injection.cluster.server(server).node.counted(self.what)
            except NotCounted:
                return False, False
            return not counters, not counters

        def why_not(server: str) -> str | None:
            return held(injection, Resource(self.what, (server,)))

        return observe(f"{self.what} as before", injection.target.servers, lifted, why_not)


def _pod_of(injection: Injection, server: str) -> PodView | None:
    """Return the pod of a server that was not deployed here; None outside Kubernetes."""
    view = injection.cluster.server(server).distant
    return None if view is None else view.pod


def _cpu(server: str, parameters: Parameters) -> Sequence[Effect]:
    assert isinstance(parameters, TooLittleCpu)
    return [Limit(server, LimitedResource.CPU, parameters.thousandths)]


def _memory(server: str, parameters: Parameters) -> Sequence[Effect]:
    assert isinstance(parameters, TooLittleMemory)
    # The effects are undone in the opposite order, because a server that is started under the limit
    # would be killed again.
    return [ProcessClaim(server), Limit(server, LimitedResource.MEMORY, parameters.kib * _KIB)]


STARVE_CPU = Starvation(
    name="starve-cpu",
    summary="limit the CPU of the target's processes",
    effects=_cpu,
    what=LimitedResource.CPU,
    counter="throttled",
    parameters=TooLittleCpu,
    needs=frozenset({Capability.LIMIT_CPU}),
)
STARVE_MEMORY = Starvation(
    name="starve-memory",
    summary="limit the memory of the target's processes; they are killed if they need more",
    effects=_memory,
    what=LimitedResource.MEMORY,
    counter="hits",
    parameters=TooLittleMemory,
    needs=frozenset({Capability.LIMIT_MEMORY}),
)
