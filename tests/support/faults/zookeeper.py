"""Faults on the ensemble and on brokers' sessions, on a real cluster of any backend."""

from pathlib import Path

from ackproof.infra.api.interface import Backend
from ackproof.infra.machine.waiting import wait_until
from ackproof.nemesis.examples import EXAMPLES
from tests.support.faults.injection import SESSION_MS, TOPIC, nothing_is_lost, striker, with_records
from tests.support.processes.deadlines import PATIENCE_S


def the_ensemble_loses_servers(backend: Backend, scratch: Path) -> None:
    """Its leader, its quorum, all of it; shorter and longer than a session."""
    with striker(backend, scratch, zookeepers=3) as cluster:
        known = with_records(cluster)
        modes = cluster.system.ensemble.modes
        for fault, who, hold_ms in (
            ("pause", "zk-leader", SESSION_MS // 4),
            ("pause", "zk-leader", None),
            ("kill", "zk-leader", 0),
            ("pause", "majority(zookeeper)", SESSION_MS // 4),
            ("pause", "majority(zookeeper)", None),
            ("restart", "minority(zookeeper)", 0),
            ("kill", "majority(zookeeper)", None),
            ("terminate", "zookeeper", 0),
        ):
            cluster.through(fault, who, hold_ms)
            # Who was left alone asks ever more rarely whether there are others again.
            wait_until(lambda: len(modes()) == 3, PATIENCE_S, "every server in its place")
        nothing_is_lost(cluster, known)


def sessions_end_in_the_brokers_place(backend: Backend, scratch: Path) -> None:
    """Check ended sessions of a leader, of the controller and of all at once, and znodes owned by
    other sessions."""
    with striker(backend, scratch, zookeepers=3) as cluster:
        known = with_records(cluster)
        targets = [e.target for e in EXAMPLES if e.fault == "expire-session"]
        for who in (*targets, "controller", "all"):
            entry = cluster.strike("expire-session", who)
            cluster.mend(entry)
            cluster.await_whole(TOPIC)
        targets = [e.target for e in EXAMPLES if e.fault == "conflicted-node"]
        for who in (*targets, f"leader({TOPIC}, 0)", f"isr({TOPIC}, 1)"):
            cluster.through("conflicted-node", who)
            cluster.await_whole(TOPIC)
        conflict = cluster.strike("conflicted-node", f"follower({TOPIC}, 0)")
        cluster.through("restart", conflict.target.nodes[0], 0)
        assert cluster.bitten(conflict).proven, "it came back to the same node"
        cluster.heal(conflict)
        nothing_is_lost(cluster, known)
        held = set(cluster.system.view().brokers.values())
        assert len(held - cluster.system.ensemble.ours) == 3


CASES = (the_ensemble_loses_servers, sessions_end_in_the_brokers_place)
