"""Znodes of the bundled broker, key by key beside those of Apache Kafka 3.9, and the topic id in
the log beside the one in ZooKeeper."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kazoo.client import KazooClient

from tests.support.clusters.apache_kafka import java
from tests.support.clusters.bundled import (
    TIMEOUT_S,
    Broker,
    Process,
    free_port,
    running_cluster,
    until,
)

pytestmark = [pytest.mark.integration, pytest.mark.kafka]

OF_ITS_OWN_KIND = {"timestamp", "port", "endpoints", "topic_id", "id"}
"""Keys whose values differ from cluster to cluster."""

NEWER = {
    "/controller": {"kraftControllerEpoch", "version"},
    "/brokers/topics/t/partitions/0/state": {"leader_recovery_state"},
}
"""What Apache Kafka has added for unclean recoveries (KIP-704) and the way to KRaft (KIP-866);
``/controller`` has another version by that."""

OURS = {"/brokers/topics/t/partitions/0/state": {"isr_broker_epochs"}}
"""What the bundled broker has added (in the spirit of KIP-903). Apache Kafka picks its keys by
name, and leaves this one out when it writes the node."""


def change(bootstrap: str) -> None:
    """Make the same changes on both clusters: a topic with settings, and other settings."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = NewTopic("t", 1, 1, config={"retention.ms": "1000000"})
    admin.create_topics([new], operation_timeout=30)["t"].result(TIMEOUT_S)
    entry = ConfigEntry("flush.ms", "5000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def tree(client: KazooClient, root: str, path: str = "") -> dict[str, Any]:
    """Content by path: parsed JSON, or text."""
    data, _ = client.get(f"{root}{path}" or "/")
    found: dict[str, Any] = {path: _parsed(data or b"")}
    for child in client.get_children(f"{root}{path}" or "/"):
        found |= tree(client, root, f"{path}/{child}")
    return found


def _parsed(data: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(data)
    return data.decode()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("znodes")


@pytest.fixture(scope="module")
def trees(directory: Path) -> Iterator[tuple[dict, dict]]:
    """ZooKeeper's content for Apache Kafka and for ours, after the same life."""
    with running_cluster(directory, brokers=0) as cluster:
        connect = cluster.zookeeper_connect
        with contextlib.closing(KazooClient(connect, timeout=20)) as client:
            client.start(TIMEOUT_S)
            client.create("/ours")
            ours = Broker(1, directory / "ours", f"{connect}/ours", {"broker.rack": "r"})
            apache_port, apache = _apache(directory, f"{connect}/apache")
            try:
                for process, port in ((ours, ours.port), (apache, apache_port)):
                    process.start()
                    bootstrap = f"127.0.0.1:{port}"
                    until(f"{bootstrap} serves", lambda b=bootstrap: _serves(b))
                    change(bootstrap)
                yield tree(client, "/apache"), tree(client, "/ours")
            finally:
                ours.kill()
                apache.kill()
                client.stop()


def _apache(directory: Path, zookeeper: str) -> tuple[int, Process]:
    port = free_port()
    path = directory / "apache.properties"
    path.write_text(
        f"broker.id=1\nbroker.rack=r\nlisteners=PLAINTEXT://127.0.0.1:{port}\n"
        f"log.dirs={directory / 'apache-logs'}\nzookeeper.connect={zookeeper}\n"
    )
    return port, Process(java("kafka.Kafka", path), directory / "apache.log")


def _serves(bootstrap: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with contextlib.suppress(Exception):
        return bool(admin.list_topics(timeout=2).brokers)
    return False


SHARED = [
    "/brokers/ids/1",
    "/brokers/topics/t",
    "/brokers/topics/t/partitions",
    "/brokers/topics/t/partitions/0",
    "/brokers/topics/t/partitions/0/state",
    "/cluster/id",
    "/config/changes/config_change_0000000000",
    "/config/topics/t",
    "/controller",
    "/controller_epoch",
]


@pytest.mark.parametrize("path", SHARED)
def test_the_content_is_apache_kafkas(trees: tuple[dict, dict], path: str) -> None:
    apache, ours = (tree[path] for tree in trees)
    if not isinstance(apache, dict):
        assert ours == apache
        return
    newer = NEWER.get(path, set())
    added = OURS.get(path, set())
    assert added <= ours.keys()
    assert ours.keys() - newer - added == apache.keys() - newer
    for key in ours.keys() - newer - added - OF_ITS_OWN_KIND:
        assert ours[key] == apache[key], key


def test_ours_writes_nothing_that_apache_kafka_does_not(trees: tuple[dict, dict]) -> None:
    apache, ours = trees
    assert ours.keys() <= apache.keys()


@pytest.mark.parametrize("whose", ["apache-logs", "ours/logs"])
def test_the_logs_know_the_topics_id(directory: Path, trees: tuple[dict, dict], whose: str) -> None:
    topic_id = trees[whose.startswith("ours")]["/brokers/topics/t"]["topic_id"]
    file = directory / whose / "t-0" / "partition.metadata"
    until(f"{file} is there", file.exists)  # Apache Kafka writes it in the background
    assert file.read_bytes() == f"version: 0\ntopic_id: {topic_id}".encode()
