"""Services on a link, by their ports, so that one port can be cut off or tried.

Brokers have one listener, for clients and for each other. On the links between brokers, that
service is replication alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ackproof.infra.api.interface import Node, Server
from ackproof.nemesis.interface import Cluster, Link, Members, Unplannable
from ackproof.nemesis.network.grudge import Grudge

Service = Literal["broker", "zookeeper", "quorum"]
"""A service, by the ports at which it listens.

``broker`` is at a broker's listener, and ``zookeeper`` at ZooKeeper's client port. ``quorum`` is at
the ports by which ZooKeeper's servers follow and elect their leader.

With KRaft, ``quorum`` is at a controller's listener, on the links between controllers. Where the
controllers are brokers, too, it includes what those brokers say to the active one.
"""


@dataclass(frozen=True, slots=True)
class ConnectionAttempt:
    """A way to try a connection over a link, in one direction or the other.

    A connection needs both directions, so either one shows a cut.
    """

    source: str
    target: str
    port: int


def nodes(cluster: Cluster, between: Link | ConnectionAttempt) -> tuple[Node, Node]:
    """Return the node that the way or link leads from, and the node that it leads to."""
    return cluster.node(between.source), cluster.node(between.target)


def carrying(grudge: Grudge, members: Members, service: Service | None) -> Grudge:
    """Return the links of a grudge over which the service goes, either way.

    Raise Unplannable where none is left.
    """
    if service is None:
        return grudge
    if service == "zookeeper" and members.kraft:
        raise Unplannable("with KRaft there is no ZooKeeper; cut the links completely")
    carry = frozenset(link for link in grudge if _carries(link, members, service))
    if grudge and not carry:
        raise Unplannable(f"the service {service} uses none of the links")
    return carry


def ports(cluster: Cluster, service: Service | None) -> tuple[int, ...]:
    """Return the ports of all servers that have the service.

    They are empty for None, which is all packets. Raise LookupError when no server has it.
    """
    if service is None:
        return ()
    system = cluster.system
    servers = (*system.brokers, *system.zookeepers)
    found = {port for server in servers for port in _of(server, service, cluster)}
    if not found:
        raise LookupError(f"no server has the service {service}")
    return tuple(sorted(found))


def way(cluster: Cluster, link: Link, service: Service | None = None) -> ConnectionAttempt | None:
    """Return how to try a connection of that service, or None where no server listens at either
    end."""
    return _first_way(cluster, link, lambda server: _of(server, service, cluster))


def other_way(cluster: Cluster, link: Link, service: Service) -> ConnectionAttempt | None:
    """Return how to try a connection to another service over the same link."""

    def others(server: Server) -> Sequence[int]:
        there = (*server.service_ports, *server.peer_ports[:1])
        return [port for port in there if port not in _of(server, service, cluster)]

    return _first_way(cluster, link, others)


def _carries(link: Link, members: Members, service: Service) -> bool:
    ends = (link.source, link.target)
    zookeepers = sum(end in members.zookeepers for end in ends)
    if service == "broker":
        apart = set(members.zookeepers) - set(members.brokers)
        return apart.isdisjoint(ends) and any(end in members.brokers for end in ends)
    return zookeepers == (1 if service == "zookeeper" else 2)


def _of(server: Server, service: Service | None, cluster: Cluster) -> Sequence[int]:
    """Return the server's ports of a service, first the one at which it always listens."""
    if service is None:
        return [server.port]
    members = cluster.members
    if service == "quorum":
        return server.peer_ports if server.name in members.zookeepers else []
    serves = members.zookeepers if service == "zookeeper" else members.brokers
    return server.service_ports if server.name in serves else []


def _first_way(
    cluster: Cluster, link: Link, of: Callable[[Server], Sequence[int]]
) -> ConnectionAttempt | None:
    for one in (link, link.back):
        if one.target not in cluster.members.servers:
            continue
        if there := of(cluster.server(one.target)):
            return ConnectionAttempt(one.source, one.target, there[0])
    return None
