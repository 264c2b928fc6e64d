"""Faults on processes, on a real cluster of any backend."""

from pathlib import Path

from kafka_clients import create_topic, produce, read_all
from striking import Known, Striker, striker

from infra.interface import Backend

TOPIC = "orders"
VALUES = [b"%d" % number for number in range(200)]


def processes_end_and_come_back(backend: Backend, scratch: Path) -> None:
    """Short and long, one and many, one right after the other, before replicas have caught up."""
    with striker(backend, scratch) as cluster:
        known = _with_records(cluster)
        cluster.through("terminate", f"leader({TOPIC}, 0)")
        for _ in range(3):
            cluster.through("restart", f"leader({TOPIC}, 0)", 0)
            cluster.through("restart", "controller", 0, signal="terminate")
        cluster.through("kill", "all", 0)
        cluster.through("terminate", "all", 0)
        cluster.through("pause", "all", 500)
        cluster.through("pause", f"partition({TOPIC}, 1)", 0)
        cluster.through("kill", f"partition({TOPIC}, 1)")
        cluster.through("terminate", "zookeeper", 0)
        _nothing_is_lost(cluster, known)


def replaced_machines_fetch_everything(backend: Backend, scratch: Path) -> None:
    """A follower, then leaders: for longer than their session, and back before it has ended."""
    with striker(backend, scratch) as cluster:
        known = _with_records(cluster)
        for who, hold_ms in (("follower", None), ("leader", None), ("leader", 0)):
            entry = cluster.through("replace", f"{who}({TOPIC}, 0)", hold_ms)
            cluster.await_whole(TOPIC)
            (name,) = entry.target.servers
            _has_what_the_others_have(cluster, name)
        _nothing_is_lost(cluster, known)


CASES = (processes_end_and_come_back, replaced_machines_fetch_everything)


def _with_records(cluster: Striker) -> Known:
    known = Known(cluster.system.bootstrap_servers)
    create_topic(known, TOPIC, partitions=2, replication_factor=3)
    for partition in (0, 1):
        outcomes = produce(known, TOPIC, VALUES, partition)
        assert set(outcomes.values()) == {None}
    return known


def _nothing_is_lost(cluster: Striker, known: Known) -> None:
    cluster.await_whole(TOPIC)
    assert cluster.all_run()
    for partition in (0, 1):
        assert read_all(known, TOPIC, partition) == VALUES


def _has_what_the_others_have(cluster: Striker, name: str) -> None:
    logs = [_log(cluster, server.name) for server in cluster.system.brokers]
    assert _log(cluster, name)
    assert len(set(logs)) == 1, [len(log) for log in logs]


def _log(cluster: Striker, name: str) -> bytes:
    broker = cluster.cluster.server(name)
    directory = cluster.system.replica_directories(broker) / f"{TOPIC}-0"
    return broker.node.read(directory / f"{0:020}.log")
