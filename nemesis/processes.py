"""Faults on server processes: kill, pause."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from infra.interface import Capability, Timings
from nemesis import observations as seen
from nemesis import process_observations as seen_of
from nemesis.effects import Kill, Stop
from nemesis.grudge import majority
from nemesis.interface import Aim, Effect, Injection, Look, Members, Parameters, Plan, Target
from nemesis.proof import expiry_ms


@dataclass(frozen=True, slots=True)
class ProcessFault:
    """The same effect on every target's process.

    Proven by what the kernel says of the processes; and, where it is held for that long, by what it
    does to the cluster: the brokers' sessions expire, or ZooKeeper without its quorum answers
    nobody. Healed when the processes run and the brokers are registered: with ZooKeeper's processes
    it is every broker's session that was at stake.
    """

    name: str
    summary: str
    effect: Callable[[str], Effect]
    bite: Callable[[Injection], Look]
    ends: bool
    """Whether the process does not live on."""

    aim: ClassVar[Aim] = Aim.SERVERS
    parameters: ClassVar[type[Parameters]] = Parameters
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,  # noqa: ARG002
        target: Target,
        parameters: Parameters,  # noqa: ARG002
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        return Plan(effects=tuple(self.effect(server) for server in target.servers))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        bite = self.bite(injection)
        if injection.hold_ms < self.hold_ms_min(injection.cluster.system):
            return [bite]
        if _takes_the_quorum(injection):
            return [bite, seen.zookeeper_silent(injection)]
        return [bite, seen.expired(injection, _among(injection, injection.cluster.members.brokers))]

    def healed(self, injection: Injection) -> Sequence[Look]:
        members = injection.cluster.members
        brokers = _among(injection, members.brokers)
        at_stake = members.brokers if _among(injection, members.zookeepers) else brokers
        killed = [effect.server for effect in injection.done() if isinstance(effect, Kill)]
        return [
            seen.running(injection, injection.target.servers),
            seen.registered(injection, at_stake, anew=[b for b in brokers if b in killed]),
            *([] if self.ends else [seen.sessions_lost(injection, at_stake)]),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return expiry_ms(timings)


def _among(injection: Injection, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in injection.target.servers]


def _takes_the_quorum(injection: Injection) -> bool:
    zookeepers = injection.cluster.members.zookeepers
    left = len(zookeepers) - len(_among(injection, zookeepers))
    return left < majority(len(zookeepers))


KILL = ProcessFault(
    name="kill",
    summary="kill -9 the target's processes, start them again at the end",
    effect=Kill,
    bite=seen_of.killed,
    ends=True,
)
PAUSE = ProcessFault(
    name="pause",
    summary="SIGSTOP the target's processes, SIGCONT them at the end; connections stay open",
    effect=Stop,
    bite=seen_of.stopped,
    ends=False,
)
