"""Cut brokers off from ZooKeeper and from the other brokers, while clients still reach them."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from infra.interface import Capability, Server, Timings
from nemesis import proof
from nemesis.interface import Cluster, Evidence, Target


class Isolate:
    """Drops all packets, both ways, between each target and every server it talks to.

    The target becomes a zombie: it runs, believes that it leads, and goes on acknowledging what
    does not need its followers, while the others elect a new leader. Proven when new connections
    between them fail, a client still gets through, ZooKeeper has expired the target's session,
    and what it led is led by others, with its process still running.
    """

    name: ClassVar[str] = "isolate"
    summary: ClassVar[str] = (
        "cut brokers off from ZooKeeper and the other brokers, both ways; clients still reach them"
    )
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.CUT_LINKS})

    def inject(self, cluster: Cluster, target: Target) -> None:
        for server, peer in _pairs(cluster, target):
            cluster.backend.cut(server.node, peer.node)
            cluster.backend.cut(peer.node, server.node)

    def verify(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        links = {
            f"{server.name}->{peer.name}": _reaches(cluster, server, peer)
            for server, peer in _pairs(cluster, target)
        }
        clients = {
            f"{client.name}->{server.name}": cluster.backend.reaches(
                client, server.node, server.port
            )
            for server in target.servers
            for client in cluster.clients[:1]
        }
        cut = not any(links.values()) and all(clients.values())

        def observe() -> tuple[bool, Mapping[str, object]]:
            expired = {
                server.name: not proof.registered(cluster.system, server)
                for server in target.servers
            }
            still_leads = {
                server.name: proof.leads(cluster.system, server) for server in target.servers
            }
            running = {server.name: proof.serving(server) for server in target.servers}
            proven = (
                cut
                and all(expired.values())
                and not any(still_leads.values())
                and all(running.values())
            )
            return proven, {
                "links": links,
                "clients": clients,
                "registration_expired": expired,
                "still_leads": still_leads,
                "running": running,
            }

        return proof.wait_for(observe, timeout=timeout, why="the isolated brokers to be deposed")

    def heal(self, cluster: Cluster, target: Target) -> None:
        for server, peer in _pairs(cluster, target):
            cluster.backend.heal(server.node, peer.node)
            cluster.backend.heal(peer.node, server.node)

    def verify_healed(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        def observe() -> tuple[bool, Mapping[str, object]]:
            links = {
                f"{server.name}->{peer.name}": _reaches(cluster, server, peer)
                for server, peer in _pairs(cluster, target)
            }
            registered = {
                server.name: proof.registered(cluster.system, server) for server in target.servers
            }
            healed = all(links.values()) and all(registered.values())
            return healed, {"links": links, "registered": registered}

        return proof.wait_for(observe, timeout=timeout, why="the links and registrations to return")

    def hold_ms_min(self, timings: Timings) -> int:
        return proof.expiry_ms(timings)


def _pairs(cluster: Cluster, target: Target) -> Iterator[tuple[Server, Server]]:
    peers = [*cluster.system.zookeepers, *cluster.system.brokers]
    for server in target.servers:
        for peer in peers:
            if peer.name != server.name:
                yield server, peer


def _reaches(cluster: Cluster, server: Server, peer: Server) -> bool:
    return cluster.backend.reaches(server.node, peer.node, peer.port)
