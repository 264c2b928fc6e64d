"""Faults that cut the network: a grudge each, all applied, proven and healed in the same way."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from ackproof.infra.agent.impairments import CUT as CUT_OFF
from ackproof.infra.api.interface import Capability, Timings
from ackproof.nemesis import proofs
from ackproof.nemesis.interface import (
    Aim,
    Injection,
    Link,
    Look,
    Members,
    Parameters,
    Plan,
    Target,
    Unplannable,
)
from ackproof.nemesis.network import grudge as shapes
from ackproof.nemesis.network import observations as seen_of_links
from ackproof.nemesis.network.effects import OnLink, is_by_policies
from ackproof.nemesis.network.grudge import Direction, Grudge
from ackproof.nemesis.network.observations import links_of
from ackproof.nemesis.network.services import Service, carrying
from ackproof.nemesis.proofs import expiry_ms, shrink_ms


class CutParameters(Parameters):
    """The parameters of a cut around a group of nodes."""

    direction: Direction = Field(
        default="both", description="drop incoming or outgoing packets, or both"
    )


class ServiceParameters(Parameters):
    """The parameters of a fault on one port alone."""

    service: Service | None = Field(
        default=None,
        description="one port only: broker (clients and replication), zookeeper (its clients), "
        "quorum (its servers' replication and elections)",
    )


class ServiceCutParameters(CutParameters, ServiceParameters):
    """The parameters of a cut around a group of nodes, on one port alone if wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutShape:
    """A grudge, and the links that stay open."""

    grudge: Grudge
    spares: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkFault:
    """A fault that cuts the links of a grudge.

    It is proven when new connections over the links that it cut fail, and those over the links that
    it spares succeed. Where it is held for long enough, the brokers without any ZooKeeper must also
    have lost their sessions. They lead nothing any more, though their processes run.

    It is healed when connections succeed again and the brokers whose sessions were at stake are
    registered.
    """

    name: str
    summary: str
    aim: Aim
    parameters: type[Parameters]
    shape: Callable[[Members, Target, Parameters, random.Random], CutShape]
    full_effect_ms: Callable[[Timings], int]

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CUT_LINKS})
    destroys: ClassVar[None] = None

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        shape = self.shape(members, target, parameters, rng)
        if not shape.grudge:
            raise Unplannable(f"{target.expression} leaves no link to cut")
        service = service_of(parameters)
        grudge = carrying(shape.grudge, members, service)
        return Plan(
            effects=tuple(OnLink(link, CUT_OFF, service) for link in sorted(grudge)),
            spares=shape.spares,
        )

    def bitten(self, injection: Injection) -> Sequence[Look]:
        links, service = links_of(injection), seen_of_links.service_treated(injection)
        by_policies = any(is_by_policies(injection.cluster, link) for link in links)
        bite = [
            seen_of_links.closed(injection, links, service),
            seen_of_links.silenced(injection)
            if by_policies
            else seen_of_links.packets_hit(injection, "packets dropped"),
            seen_of_links.opened(injection, injection.plan.spares, "still connected"),
        ]
        if service is not None:
            bite.append(seen_of_links.others_open(injection, links, service))
        if injection.hold_ms < expiry_ms(injection.cluster.system):
            return bite
        return [*bite, *_consequences(injection, _of_metadata(links, service))]

    def healed(self, injection: Injection) -> Sequence[Look]:
        links = links_of(injection)
        return [
            seen_of_links.open_again(injection),
            proofs.registered(injection, at_stake(links, injection.cluster.members)),
        ]

    def hold_ms_min(self, timings: Timings) -> int:
        return self.full_effect_ms(timings)


def service_of(parameters: Parameters) -> Service | None:
    """Return the service that a fault strikes, or None for all."""
    return parameters.service if isinstance(parameters, ServiceParameters) else None


def _of_metadata(links: Sequence[Link], service: Service | None) -> Grudge:
    """Return the links over which brokers and the servers of the metadata hear nothing from each
    other.

    At a broker's own listener they exchange none of it.
    """
    return frozenset(links if service != "broker" else ())


def _consequences(injection: Injection, grudge: Grudge) -> list[Look]:
    members = injection.cluster.members
    if not members.zookeepers:  # on an external cluster no session or quorum is seen
        return []
    lost = [one for one in members.ensembles if not shapes.keeps_quorum(grudge, one)]
    if lost:
        # No server is left to expire a session.
        return [proofs.zookeeper_silent(injection, lost)]
    cut_off = shapes.without_zookeeper(grudge, members)
    looks = [proofs.expired(injection, cut_off), proofs.running(injection, cut_off)]
    # With every broker cut off there is no controller that could write down another leader.
    some_left = len(cut_off) < len(members.brokers)
    return [*looks, proofs.deposed(injection, cut_off)] if some_left else looks


def at_stake(links: Sequence[Link], members: Members) -> list[str]:
    """Return the brokers whose links to ZooKeeper were cut.

    Where links between ZooKeeper servers were cut, these are all brokers. Where it is not known
    which servers keep the metadata, any broker at the end of a link may be one of them.
    """
    ends = [{link.source, link.target} for link in links]
    zookeepers = set(members.zookeepers)
    if not zookeepers:
        return [b for b in members.brokers if any(b in pair for pair in ends)]
    if any(pair <= zookeepers for pair in ends):
        return list(members.brokers)
    return [b for b in members.brokers if any(b in pair and pair & zookeepers for pair in ends)]


def expired_and_shrunk_ms(timings: Timings) -> int:
    """Return the time by which sessions have expired and the ISR has shrunk."""
    return max(expiry_ms(timings), shrink_ms(timings))


# --- the shapes ----------------------------------------------------------------------------------


def _direction(parameters: Parameters) -> Direction:
    assert isinstance(parameters, CutParameters)
    return parameters.direction


def _isolate(
    members: Members,
    target: Target,
    parameters: Parameters,
    rng: random.Random,  # noqa: ARG001
) -> CutShape:
    grudge = shapes.apart(target.nodes, members.servers, _direction(parameters))
    others = [client for client in members.clients if client not in target.nodes]
    reachable = [server for server in target.nodes if server in members.servers]
    if len(reachable) < len(target.nodes):  # with other clients the cluster still talks
        reachable += [broker for broker in members.brokers if broker not in target.nodes][:1]
    # The first client stands for all of them. A node that reached no client would be a broker off
    # the network.
    reached = tuple(Link(client, server) for server in reachable for client in others[:1])
    return CutShape(grudge=grudge, spares=reached)


def _cut(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,  # noqa: ARG001
    rng: random.Random,  # noqa: ARG001
) -> CutShape:
    return CutShape(grudge=frozenset(target.links))


def _minority(
    members: Members,
    target: Target,
    parameters: Parameters,
    rng: random.Random,
) -> CutShape:
    _, few = shapes.halves(_shuffled(target, rng), "minority")
    rest = [name for name in members.servers if name not in few]
    grudge = shapes.apart(few, rest, _direction(parameters))
    reached = tuple(Link(client, node) for node in few for client in members.clients[:1])
    among_themselves = shapes.open_pairs(grudge, few)
    return CutShape(grudge=grudge, spares=(*reached, *among_themselves))


def _halves(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,
    rng: random.Random,
) -> CutShape:
    most, rest = shapes.halves(_shuffled(target, rng))
    grudge = shapes.apart(rest, most, _direction(parameters))
    return CutShape(grudge=grudge, spares=shapes.open_pairs(grudge, target.nodes))


def _majorities_ring(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,  # noqa: ARG001
    rng: random.Random,
) -> CutShape:
    grudge = shapes.majorities_ring(_shuffled(target, rng))
    return CutShape(grudge=grudge, spares=shapes.open_pairs(grudge, target.nodes))


def _bridge(
    members: Members,  # noqa: ARG001
    target: Target,
    parameters: Parameters,  # noqa: ARG001
    rng: random.Random,
) -> CutShape:
    grudge = shapes.bridge(_shuffled(target, rng))
    return CutShape(grudge=grudge, spares=shapes.open_pairs(grudge, target.nodes))


def _shuffled(target: Target, rng: random.Random) -> list[str]:
    return rng.sample(sorted(target.nodes), len(target.nodes))


ISOLATE = NetworkFault(
    name="isolate",
    summary="cut nodes off from all servers; brokers, which clients still reach, or client nodes",
    aim=Aim.NODES,
    parameters=ServiceCutParameters,
    shape=_isolate,
    full_effect_ms=expiry_ms,
)
CUT = NetworkFault(
    name="cut",
    summary="cut links; A -> B in one direction, A <-> B in both",
    aim=Aim.LINKS,
    parameters=ServiceParameters,
    shape=_cut,
    full_effect_ms=expired_and_shrunk_ms,
)
MINORITY = NetworkFault(
    name="minority",
    summary="cut a minority of the target off; no other server reaches it, but clients do",
    aim=Aim.SERVERS,
    parameters=CutParameters,
    shape=_minority,
    full_effect_ms=expiry_ms,
)
HALVES = NetworkFault(
    name="halves",
    summary="split nodes into a majority and a minority; the direction is the minority's",
    aim=Aim.NODES,
    parameters=CutParameters,
    shape=_halves,
    full_effect_ms=expired_and_shrunk_ms,
)
MAJORITIES_RING = NetworkFault(
    name="majorities-ring",
    summary="let each node reach a different majority",
    aim=Aim.NODES,
    parameters=Parameters,
    shape=_majorities_ring,
    full_effect_ms=expired_and_shrunk_ms,
)
BRIDGE = NetworkFault(
    name="bridge",
    summary="split nodes into halves joined by one node",
    aim=Aim.NODES,
    parameters=Parameters,
    shape=_bridge,
    full_effect_ms=expired_and_shrunk_ms,
)
CUTS = (ISOLATE, CUT, MINORITY, HALVES, MAJORITIES_RING, BRIDGE)
