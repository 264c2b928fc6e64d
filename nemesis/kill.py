"""kill -9, and start again."""

import signal
from collections.abc import Mapping
from typing import ClassVar

from infra.interface import Capability, ProcessState, Server, Timings
from nemesis import proof
from nemesis.interface import Cluster, Evidence, Target


class Kill:
    """Kills server processes with SIGKILL and starts them again, on the same data.

    Proven when the kernel says that signal 9 ended them and, for brokers, ZooKeeper has expired
    the session that held their registration. Healed when they are registered again.
    """

    name: ClassVar[str] = "kill"
    summary: ClassVar[str] = "kill -9 the target's processes, start them again at the end"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})

    def inject(self, cluster: Cluster, target: Target) -> None:  # noqa: ARG002
        for server in target.servers:
            server.process.signal(signal.SIGKILL)

    def verify(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        def observe() -> tuple[bool, Mapping[str, object]]:
            exits = {server.name: server.process.exit_code() for server in target.servers}
            killed = all(code == -signal.SIGKILL for code in exits.values())
            brokers = [server for server in target.servers if server in cluster.system.brokers]
            expired = {
                server.name: not proof.registered(cluster.system, server)
                for server in (brokers if killed else [])
            }
            return killed and all(expired.values()), {
                "exit_codes": exits,
                "registration_expired": expired,
            }

        return proof.wait_for(observe, timeout=timeout, why="the killed processes to be missed")

    def heal(self, cluster: Cluster, target: Target) -> None:  # noqa: ARG002
        for server in target.servers:
            if server.process.state() is ProcessState.EXITED:
                server.start()

    def verify_healed(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        return wait_until_back(cluster, target, timeout)

    def hold_ms_min(self, timings: Timings) -> int:
        return proof.expiry_ms(timings)


def wait_until_back(cluster: Cluster, target: Target, timeout: float) -> Evidence:
    """Wait until every target runs, and every broker of the cluster that runs is registered."""

    def observe() -> tuple[bool, Mapping[str, object]]:
        running = {server.name: proof.serving(server) for server in target.servers}
        up = all(running.values())
        registered = {
            server.name: proof.registered(cluster.system, server)
            for server in (_expected(cluster) if up else [])
        }
        return up and all(registered.values()), {"running": running, "registered": registered}

    return proof.wait_for(observe, timeout=timeout, why="the targets to be back")


def _expected(cluster: Cluster) -> list[Server]:
    return [server for server in cluster.system.brokers if proof.serving(server)]
