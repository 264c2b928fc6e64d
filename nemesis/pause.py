"""SIGSTOP, and SIGCONT."""

import signal
from collections.abc import Mapping
from typing import ClassVar

from infra.interface import Capability, ProcessState, Server, System, Timings, ViewUnavailable
from nemesis import proof
from nemesis.interface import Cluster, Evidence, Target
from nemesis.kill import wait_until_back


class Pause:
    """Stops server processes with SIGSTOP, so that their connections stay open and silent.

    Held past the session timeout, a paused broker loses its session, and a paused ZooKeeper
    makes every broker doubt its own. Proven when the kernel says state T and: a broker's
    registration has expired, ZooKeeper answers nobody. Healed when everything runs and every
    broker is registered; the sessions that were lost meanwhile are in the evidence.
    """

    name: ClassVar[str] = "pause"
    summary: ClassVar[str] = "SIGSTOP the target's processes, SIGCONT them at the end"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.SIGNALS})

    def inject(self, cluster: Cluster, target: Target) -> None:  # noqa: ARG002
        for server in target.servers:
            server.process.signal(signal.SIGSTOP)

    def verify(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        def observe() -> tuple[bool, Mapping[str, object]]:
            states = {server.name: server.process.state().value for server in target.servers}
            if any(state != ProcessState.STOPPED for state in states.values()):
                return False, {"states": states}
            felt, how = _felt(cluster, target)
            return felt, {"states": states, **how}

        return proof.wait_for(observe, timeout=timeout, why="the pause to be felt")

    def heal(self, cluster: Cluster, target: Target) -> None:  # noqa: ARG002
        for server in target.servers:
            if server.process.state() is ProcessState.STOPPED:
                server.process.signal(signal.SIGCONT)

    def verify_healed(self, cluster: Cluster, target: Target, timeout: float) -> Evidence:
        back = wait_until_back(cluster, target, timeout)
        if not back.proven:
            return back
        return Evidence(
            proven=True,
            observations={**back.observations, "sessions_lost": _sessions_lost(cluster, target)},
        )

    def hold_ms_min(self, timings: Timings) -> int:
        return proof.expiry_ms(timings)


def _felt(cluster: Cluster, target: Target) -> tuple[bool, Mapping[str, object]]:
    if _has_quorum(cluster.system, [s for s in target.servers if s in cluster.system.zookeepers]):
        expired = {
            server.name: not proof.registered(cluster.system, server)
            for server in target.servers
            if server in cluster.system.brokers
        }
        return all(expired.values()), {"registration_expired": expired}
    try:
        cluster.system.view()
    except ViewUnavailable as silence:
        return True, {"zookeeper": str(silence)}
    return False, {"zookeeper": "answers"}


def _has_quorum(system: System, without: list[Server]) -> bool:
    return 2 * (len(system.zookeepers) - len(without)) > len(system.zookeepers)


def _sessions_lost(cluster: Cluster, target: Target) -> list[str]:
    """Brokers whose registration is held by another session than before the fault."""
    before = target.facts.get("sessions")
    if not isinstance(before, Mapping):
        return []
    after = cluster.system.view().brokers
    return sorted(
        f"broker-{broker}" for broker, held in after.items() if before.get(str(broker)) != hex(held)
    )
