"""Three ZooKeepers and their brokers, on any backend: a case of the suite of all backends."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from ackproof.infra.api.interface import Backend, Server
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.bundled import BundledSystem
from ackproof.infra.systems.zookeeper import mode
from tests.support.clients.confluent import create_topic, produce, read_all
from tests.support.faults.injection import Known
from tests.support.processes.deadlines import PATIENCE_S

ZOOKEEPERS = 3
BROKERS = 2
NODES = ZOOKEEPERS + BROKERS
SESSION_MS = 3000
VALUES = [b"%d" % number for number in range(50)]


def three_zookeepers_survive_their_leader(backend: Backend, _scratch: Path) -> None:
    with _deployed(backend) as system, _session(system) as client:
        leader = _leader(system.zookeepers)
        others = [server for server in system.zookeepers if server is not leader]
        assert [_mode(server) for server in others] == ["follower", "follower"]
        client.create("/before", b"")
        _takes_records(system, "before")

        leader.process.signal(signal.SIGKILL)
        assert leader.process.wait(PATIENCE_S) == -signal.SIGKILL
        client.retry(client.ensure_path, "/after")
        assert _leader(others) in others
        _takes_records(system, "after")
        wait_until(
            lambda: len(system.view().brokers) == BROKERS, PATIENCE_S, "every broker in ZooKeeper"
        )

        leader.start()
        wait_until(lambda: _mode(leader) == "follower", PATIENCE_S, "the killed one to follow")
        assert {"before", "after"} <= set(client.retry(client.get_children, "/"))


CASES = (three_zookeepers_survive_their_leader,)


def _takes_records(system: BundledSystem, topic: str) -> None:
    """Makes a topic, which takes the controller and ZooKeeper, writes to all replicas, reads."""
    cluster = Known(system.bootstrap_servers)
    create_topic(cluster, topic, replication_factor=BROKERS)
    assert set(produce(cluster, topic, VALUES).values()) == {None}
    assert read_all(cluster, topic) == VALUES


def _mode(server: Server) -> str | None:
    return mode(f"{server.node.address}:{server.port}")


def _leader(servers: list[Server]) -> Server:
    def leaders() -> list[Server]:
        return [server for server in servers if _mode(server) == "leader"]

    wait_until(lambda: len(leaders()) == 1, PATIENCE_S, "a leader among the ZooKeepers")
    (leader,) = leaders()
    return leader


@contextmanager
def _deployed(backend: Backend) -> Iterator[BundledSystem]:
    properties = {
        "zookeeper.session.timeout.ms": str(SESSION_MS),
        "replica.lag.time.max.ms": "4000",
        "min.insync.replicas": str(BROKERS),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(BROKERS),
    }
    system = BundledSystem(backend, brokers=BROKERS, zookeepers=ZOOKEEPERS, properties=properties)
    try:
        system.deploy()
        yield system
    finally:
        system.close()


@contextmanager
def _session(system: BundledSystem) -> Iterator[KazooClient]:
    patience = KazooRetry(max_tries=-1, delay=0.1, max_delay=0.5, deadline=60, ignore_expire=True)
    client = KazooClient(
        system.zookeeper_connect,
        timeout=SESSION_MS / 1000,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=0.5),
        command_retry=patience,
    )
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()
