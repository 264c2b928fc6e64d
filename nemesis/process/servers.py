"""Faults on server processes: kill, terminate, restart, pause, and a machine that is replaced.

Each may be aimed at one server or at many: ``all`` brokers, every replica of a ``partition``.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EmptiedDisk, ProcessKill, ProcessStop, Terminate
from ackproof.nemesis.interface import (
    Aim,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
    brokers_alone,
)
from ackproof.nemesis.process import observations as processes_seen
from ackproof.nemesis.proofs import expiry_ms, sessions_at_stake, takes_the_quorum, targeted

Makes = Callable[[str], Effect]
"""A function that makes an effect on a server of that name."""


class RestartParameters(Parameters):
    """The parameters of a restart."""

    signal: Literal["kill", "terminate"] = Field(default="kill", description="SIGKILL or SIGTERM")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFault:
    """A fault that has its effects on every target's process, one effect after the other.

    The kernel's word on the processes proves the fault. Where it is held for long enough, its
    effect on the cluster must show as well. Then the brokers' sessions expire, or ZooKeeper without
    its quorum answers no request.

    The fault is healed when the processes run and the brokers are registered. If it strikes
    ZooKeeper's processes, every broker's session was at stake.

    Attributes:
        makes: Makes the effects, in their order.
        in_the_end: Makes the look at the brokers when the fault is held for long.
        full_effect_ms: Returns how long that is, in milliseconds.
    """

    name: str
    summary: str
    makes: Callable[[Parameters], Sequence[Makes]]
    in_the_end: Callable[[Injection, Sequence[str]], Look] | None = proofs.expired
    full_effect_ms: Callable[[Timings], int] = expiry_ms
    aim: Aim = Aim.SERVERS
    parameters: type[Parameters] = Parameters
    destroys: Literal["all"] | None = None

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        if self.aim is Aim.BROKERS:
            brokers_alone(self.name, members, target.servers)
        makes = self.makes(parameters)
        return Plan(effects=tuple(make(server) for make in makes for server in target.servers))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        if processes_seen.is_seen_from_outside(injection):
            least_ms = self.hold_ms_min(injection.cluster.system)
            in_full = self.in_the_end is not None and injection.hold_ms >= least_ms
            return list(processes_seen.looks_at_external_fault(injection, in_full=in_full))
        return [*self._bite(injection), *self._consequences(injection)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        if processes_seen.is_seen_from_outside(injection):
            return list(processes_seen.looks_at_external_recovery(injection))
        at_stake = sessions_at_stake(injection)
        brokers = targeted(injection, injection.cluster.members.brokers)
        ended = {effect.ends for effect in injection.done()}
        lives_on = all(effect.ends is None for effect in injection.plan.effects)
        return [
            proofs.running(injection, injection.target.servers),
            proofs.serving(injection, targeted(injection, injection.cluster.members.zookeepers)),
            proofs.registered(injection, at_stake, renewed=[b for b in brokers if b in ended]),
            *([proofs.sessions_lost(injection, at_stake)] if lives_on else []),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)

    def _bite(self, injection: Injection) -> Iterator[Look]:
        kinds = {type(effect) for effect in injection.plan.effects}
        yield from (look(injection) for kind, look in _SEEN.items() if kind in kinds)
        if Terminate in kinds and not takes_the_quorum(injection):
            yield processes_seen.session_closed(injection)

    def _consequences(self, injection: Injection) -> Iterator[Look]:
        if self.in_the_end is None or injection.hold_ms < self.hold_ms_min(
            injection.cluster.system
        ):
            return
        if takes_the_quorum(injection):
            yield proofs.zookeeper_silent(injection)
        else:
            yield self.in_the_end(injection, targeted(injection, injection.cluster.members.brokers))


_SEEN: Mapping[type[Effect], Callable[[Injection], Look]] = {
    EmptiedDisk: processes_seen.emptied,
    ProcessKill: processes_seen.killed,
    Terminate: processes_seen.terminated,
    ProcessStop: processes_seen.stopped,
}
"""The look that shows each kind of effect.

What a fault does itself comes first. Example: this fault empties the disk of a broker that another
fault had killed.
"""


def _deposed(injection: Injection, brokers: Sequence[str]) -> Look:
    # With every broker gone there is no controller that could write down another leader.
    all_gone = len(brokers) == len(injection.cluster.members.brokers)
    return proofs.deposed(injection, [] if all_gone else brokers)


def _ended_by(parameters: Parameters) -> Sequence[Makes]:
    assert isinstance(parameters, RestartParameters)
    return (ProcessKill,) if parameters.signal == "kill" else (Terminate,)


KILL = ProcessFault(
    name="kill",
    summary="kill -9 the target's processes; restart them at the end",
    makes=lambda _: (ProcessKill,),
)
TERMINATE = ProcessFault(
    name="terminate",
    summary="SIGTERM the target's processes; restart them at the end",
    makes=lambda _: (Terminate,),
    in_the_end=_deposed,
)
RESTART = ProcessFault(
    name="restart",
    summary="end and at once restart the target's processes",
    makes=_ended_by,
    in_the_end=None,
    full_effect_ms=lambda _: 0,
    parameters=RestartParameters,
)
PAUSE = ProcessFault(
    name="pause",
    summary="SIGSTOP the target's processes until the end; connections stay open",
    makes=lambda _: (ProcessStop,),
)
# The target is brokers alone. What a lone ZooKeeper server has lost exists nowhere else, and no
# rule of the checkers knows what that loss excuses.
REPLACE = ProcessFault(
    name="replace",
    summary="kill -9 brokers and empty their disks; they restart empty at the end",
    makes=lambda _: (ProcessKill, EmptiedDisk),
    aim=Aim.BROKERS,
    destroys="all",
)
