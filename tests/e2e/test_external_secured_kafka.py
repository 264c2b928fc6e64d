"""Apache Kafka that was there before and rejects clients without TLS, SCRAM and ACLs: campaigns
through the command line, and where the secrets are visible meanwhile and afterwards."""

import json
import os
import signal
from contextlib import suppress

import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import ResourceType

from ackproof.infra.machine.waiting import wait_until
from tests.support.clusters.apache_kafka import KAFKA_4
from tests.support.clusters.secured_kafka import SECRETS, secured_kafka
from tests.support.processes.deadlines import PATIENCE_S, TEST_S
from tests.support.processes.visible_secrets import in_files, watching

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.e2e, pytest.mark.integration),
    pytest.mark.timeout(TEST_S),
]

USAGE, INFRASTRUCTURE = 2, 5
BY_METADATA = ("committed-stays", "deposed-leaders-stop", "min-isr-kept", "epochs-rise")
"""The guarantees that the metadata log shows, of those that clients do not."""
PASSWORD, PASSPHRASE = SECRETS["sasl.password"], SECRETS["ssl.key.password"]
CELLS = {"acks": "all", "min.insync.replicas": 2, "partitions": 2}
AROUND = {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed", "settle": "2m"}
LIMITS = {"fault": "5m", "ready": "5m", "recover": "5m", "teardown": "2m"}
WORKLOAD = {"rate": 100, "readers": 1, "groups": [{"name": "g", "members": 2}]}
LED = "leader(acks-all-minisr-2, any)"
FAULTS = (
    {"fault": "alter-min-isr", "target": "topic(acks-all-minisr-2)", "hold": "2s"},
    # Kafka is told by a request that librdkafka does not speak.
    {"fault": "elect-preferred", "target": "partition(acks-all-minisr-2, 0)", "hold": "2s"},
    {"fault": "kill", "target": LED, "hold": "12s"},
    {"fault": "pause", "target": LED, "hold": "12s"},
)


@pytest.fixture(scope="module")
def yours(tmp_path_factory):
    with secured_kafka(tmp_path_factory.mktemp("secured")) as cluster:
        yield cluster


@pytest.fixture
def on_yours(ackproof):
    """The command line, with one secret in the environment and one in a file."""
    ackproof.environ["KAFKA_PASSWORD"] = PASSWORD
    (ackproof.directory / "passphrase").write_text(f"{PASSPHRASE}\n")
    return ackproof


def vary(ackproof, yours, *faults):
    secrets = {
        "sasl.password": {"env": "KAFKA_PASSWORD"},
        # As it is written in the directory in which the command was given, and nowhere else.
        "ssl.key.password": {"file": "passphrase"},
    }
    cluster = yours.section(servers=yours.servers(), secrets=secrets, controllers=yours.controllers)
    sections = {"cells": CELLS, "schedule": AROUND, "limits": LIMITS, "evidence": {"acked.min": 50}}
    ackproof.vary({**sections, "cluster": cluster, "workload": WORKLOAD, "faults": list(faults)})


def test_run_without_the_right_to_read_the_metadata_log_is_refused(yours, on_yours) -> None:
    yours.allow_controllers(False)
    vary(on_yours, yours)
    refused = on_yours("run", "small.yaml", "--out", "results", "--yes")
    yours.allow_controllers(True)
    assert refused.returncode == INFRASTRUCTURE, refused.stdout + refused.stderr
    assert "this user needs the ACL ClusterAction on the cluster" in refused.stderr
    assert not (on_yours.directory / "results").exists()


def has_coordinators(yours) -> bool:
    """Ask about a group, which makes the coordinators' topic, and return whether it exists."""
    with yours.admin() as admin, suppress(KafkaException):
        admin.describe_consumer_groups(["any"])["any"].result(PATIENCE_S)
        return "__consumer_offsets" in admin.list_topics(timeout=PATIENCE_S).topics
    return False


@pytest.mark.parametrize(
    ("operation", "resource", "reason"),
    [
        ("ALTER_CONFIGS", ResourceType.TOPIC, "AlterConfigs on the topic ackproof-"),
        ("DELETE", ResourceType.GROUP, "Delete on the group ackproof-"),
    ],
)
def test_preflight_names_a_right_that_the_user_lacks(
    yours, on_yours, operation: str, resource: ResourceType, reason: str
) -> None:
    yours.allow_controllers(True)
    vary(on_yours, yours, *FAULTS)
    # Before the first group, a preflight does not ask about groups: that would make this topic.
    wait_until(lambda: has_coordinators(yours), PATIENCE_S, "the coordinators' topic")
    before = yours.topics()
    yours.allow(operation, resource, False)
    try:
        refused = on_yours("run", "small.yaml", "--preflight", "--yes")
    finally:
        yours.allow(operation, resource, True)
    assert refused.returncode == USAGE, refused.stdout + refused.stderr
    assert f"the user needs the ACL {reason}" in refused.stderr
    assert yours.topics() == before
    allowed = on_yours("run", "small.yaml", "--preflight", "--yes")
    assert allowed.returncode == 0, allowed.stdout + allowed.stderr
    assert "Write on topics" in allowed.stdout
    assert "on cluster" not in allowed.stdout


def test_a_secured_kafka_gets_its_verdict_and_no_secret_is_seen(yours, on_yours) -> None:
    yours.allow_controllers(True)
    vary(on_yours, yours, *FAULTS)
    before = yours.topics(), yours.groups()
    with watching(SECRETS.values()) as watch:
        result = on_yours("run", "small.yaml", "--out", "results", "--yes")
    results = on_yours.directory / "results"
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((results / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert (cell["verdict"], cell["lost"]) == ("pass", 0)
    assert document["versions"]["kafka"] == KAFKA_4.rpartition(".")[0]
    assert [fault["proven"] for fault in document["faults"]] == [True] * len(FAULTS)
    assert (yours.topics(), yours.groups()) == before
    held = {guarantee["name"]: guarantee["held"] for guarantee in cell["guarantees"]}
    assert {held[name] for name in BY_METADATA} == {True}, held
    changes = pq.read_table(results / "runs" / "1" / "history" / "cluster.harness.parquet")
    topics = set(changes["topic"].to_pylist()) - {None}
    assert all(topic.startswith(("ackproof-", "__consumer_offsets")) for topic in topics), topics

    assert any("ackproof.workloads.producing.producer" in program for program in watch.programs)
    assert watch.arguments == set()
    assert watch.environments == {PASSWORD}, "what is in a file is in no environment"
    (on_yours.directory / "passphrase").unlink()
    told = on_yours.directory / "told"
    told.write_text(result.stdout + result.stderr)
    assert in_files(on_yours.directory, SECRETS.values()) == {}


def test_leftovers_of_a_killed_run_are_removed_with_the_secrets_alone(yours, on_yours) -> None:
    vary(on_yours, yours, {"fault": "kill", "target": LED, "hold": "10m"})
    before = yours.topics()
    running = on_yours.start("run", "small.yaml", "--out", "results", "--yes")
    on_yours.wait_for_output("kill#1 verified")
    (down,) = (broker for broker in (1, 2, 3) if not yours.runs(broker))
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    password = on_yours.environ.pop("KAFKA_PASSWORD")
    without = on_yours("clean")
    assert without.returncode == INFRASTRUCTURE
    assert "KAFKA_PASSWORD is not set" in without.stdout
    assert yours.runs(down), "that takes no secret"
    assert yours.topics() > before

    on_yours.environ["KAFKA_PASSWORD"] = password
    cleaned = on_yours("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert yours.topics() == before
    wait_until(yours.complete, PATIENCE_S, "all brokers to serve")
    (on_yours.directory / "passphrase").unlink()
    assert in_files(on_yours.directory, SECRETS.values()) == {}
