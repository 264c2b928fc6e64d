"""Topics are created as soon as there is a controller."""

import json
import threading
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient
from kazoo.client import KazooClient

from ackproof.history.cell import Cell
from ackproof.workloads.topics import create_topics
from tests.support.clusters.bundled import PATIENT, Cluster
from tests.support.processes.process import TIMEOUT_S, listens, until

pytestmark = pytest.mark.integration

CELL = Cell(name="c", topic="late", settings={"acks": "all", "replication.factor": 1})
ABSENT_BROKER = json.dumps({"version": 1, "brokerid": 99, "timestamp": "0"}).encode()


def test_a_controller_that_is_elected_late_is_waited_for(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, 1, PATIENT)
    (broker,) = cluster.brokers.values()
    try:
        cluster.zookeeper.start()
        office = KazooClient(cluster.zookeeper_connect, timeout=60)
        office.start(TIMEOUT_S)
        try:
            office.create("/controller", ABSENT_BROKER, ephemeral=True)
            broker.start()
            until("the broker serves", lambda: listens(broker.port))
            creating = threading.Thread(
                target=create_topics, args=(cluster.bootstrap, [CELL], TIMEOUT_S)
            )
            before = connections(broker.port)
            creating.start()
            until("a client asks", lambda: connections(broker.port) > before)
        finally:
            office.stop()
            office.close()
        creating.join(TIMEOUT_S)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        assert "late" in admin.list_topics(timeout=TIMEOUT_S).topics
    finally:
        broker.kill()
        cluster.zookeeper.kill()


def connections(port: int) -> int:
    """Return the number of clients' connections to a port of this machine."""
    ends = (c for c in psutil.net_connections("tcp4") if c.status == psutil.CONN_ESTABLISHED)
    return sum(c.laddr.port == port for c in ends)
