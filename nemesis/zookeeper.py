"""ZooKeeper's word on registrations whose session a fault ended, or replaced by one of ours."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ackproof.infra.api.interface import Capability, ClusterView, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.effects import EndsNothing, OnServer
from ackproof.nemesis.interface import (
    Aim,
    Cluster,
    Effect,
    Injection,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
    Unplannable,
    brokers_alone,
)
from ackproof.nemesis.proofs import Seen, expiry_ms, of_brokers, sessions_before, struck

# --- observations ---------------------------------------------------------------------------------


def over(injection: Injection, kind: type[Effect]) -> Look:
    """Return a look at whether the sessions that this fault struck hold their registrations no
    more.

    Ephemeral znodes vanish with their session, in one transaction. The look shows nothing about a
    broker whose session was not known.
    """
    before = sessions_before(injection)

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        if holder is not None and hex(holder) == before[broker]:
            return False, f"goes on, {hex(holder)}"
        return True, before[broker]

    known = [name for name in _done(injection, kind) if injection.cluster.server(name).id in before]
    return of_brokers(injection, "session ended", known, seen)


def occupied(injection: Injection, kind: type[Effect]) -> Look:
    """Return a look at whether a session of the harness holds the registrations that this fault
    occupied.

    ZooKeeper's word on their znodes decides.
    """

    def seen(view: ClusterView, broker: int) -> Seen:
        holder = view.brokers.get(broker)
        if holder is None:
            return False, "not registered"
        ours = holder in injection.cluster.system.ensemble.ours
        return ours, f"by {hex(holder)}, " + ("ours" if ours else "the broker's")

    return of_brokers(injection, "registered by another session", _done(injection, kind), seen)


def _done(injection: Injection, kind: type[Effect]) -> list[str]:
    """Return the servers on which an effect of the fault has changed something."""
    done, planned = struck(injection, kind)
    return [name for name in planned if name in done]


# --- faults ---------------------------------------------------------------------------------------
#
# These faults do nothing to a process, a link or a disk. The broker goes on, and finds that its
# session has expired.

SESSION = "session"
REGISTRATION = "registration"


@dataclass(frozen=True, slots=True)
class EndSession(EndsNothing, OnServer):
    """The end of the session that holds a broker's registration, ended in the broker's place.

    Nothing is undone, because the broker has another session at once.
    """

    kind: ClassVar[str] = SESSION

    def apply(self, cluster: Cluster) -> bool:
        """End the session; return False where the broker has no registration of its own."""
        ensemble = cluster.system.ensemble
        holder = cluster.system.view().brokers.get(cluster.server(self.server).id)
        if holder is None or holder in ensemble.ours:
            return False
        return ensemble.end_session(holder)

    def undo(self, cluster: Cluster) -> None: ...

    def __str__(self) -> str:
        return f"end the session of {self.server}"


@dataclass(frozen=True, slots=True)
class RegistrationOccupation(EndsNothing, OnServer):
    """A broker's registration, held by a session of the harness from the moment when the broker's
    own has ended.

    Ending that session undoes it.
    """

    kind: ClassVar[str] = REGISTRATION

    def apply(self, cluster: Cluster) -> bool:
        return cluster.system.ensemble.occupy(cluster.server(self.server).id)

    def undo(self, cluster: Cluster) -> None:
        cluster.system.ensemble.vacate(cluster.server(self.server).id)

    def __str__(self) -> str:
        return f"occupy the registration of {self.server}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFault:
    """A fault that has one effect on every target's session.

    ZooKeeper's word on the znodes of the registrations proves it, while the brokers run. It is
    healed when they are registered by sessions of their own that they did not have before.

    Attributes:
        effect: The class of the effect, made from a broker's name.
        bite: Makes the look at what the fault does itself.
    """

    name: str
    summary: str
    effect: type[EndSession] | type[RegistrationOccupation]
    bite: Callable[[Injection], Look]
    full_effect_ms: Callable[[Timings], int]

    aim: ClassVar[Aim] = Aim.BROKERS
    parameters: ClassVar[type[Parameters]] = Parameters
    needs: ClassVar[frozenset[Capability]] = frozenset()
    destroys: ClassVar[None] = None

    def plan(
        self,
        members: Members,
        target: Target,
        parameters: Parameters,  # noqa: ARG002
        rng: random.Random,  # noqa: ARG002
    ) -> Plan:
        if members.migrates:
            raise Unplannable(f"{self.name} is for clusters that stay with ZooKeeper")
        if members.kraft:
            raise Unplannable(
                f"{self.name} needs ZooKeeper sessions, which KRaft does not have; to have a "
                "broker fenced, isolate or pause it for longer than broker.session.timeout.ms"
            )
        if not members.zookeepers:
            raise Unplannable(f"{self.name} needs ZooKeeper sessions, and this system has none")
        brokers_alone(self.name, members, target.servers)
        return Plan(effects=tuple(self.effect(server) for server in target.servers))

    def bitten(self, injection: Injection) -> Sequence[Look]:
        return [self.bite(injection), proofs.running(injection, injection.target.servers)]

    def healed(self, injection: Injection) -> Sequence[Look]:
        done, _ = struck(injection, self.effect)
        return [
            proofs.registered(injection, injection.target.servers, renewed=done),
            proofs.running(injection, injection.target.servers),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)


EXPIRE_SESSION = SessionFault(
    name="expire-session",
    summary="end brokers' ZooKeeper sessions; the brokers run on and register again",
    effect=EndSession,
    bite=lambda injection: over(injection, EndSession),
    full_effect_ms=lambda _: 0,
)
CONFLICTED_NODE = SessionFault(
    name="conflicted-node",
    summary="let another ZooKeeper session own brokers' znodes; their sessions end, and they "
    "cannot register in /brokers/ids until the end",
    effect=RegistrationOccupation,
    bite=lambda injection: occupied(injection, RegistrationOccupation),
    full_effect_ms=expiry_ms,
)
SESSIONS: Sequence[SessionFault] = (EXPIRE_SESSION, CONFLICTED_NODE)
