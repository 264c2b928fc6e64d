"""Apache Kafka in pods that the harness did not deploy: pods are deleted, kept down, and return."""

import json
import os
import signal

import pytest

from tests.support.clusters.kafka_in_pods import KafkaInPods, kafka_in_pods
from tests.support.clusters.operator import check_found_loss, lose_by_an_unclean_election
from tests.support.processes.deadlines import PATIENCE_S, TEST_S
from tests.support.processes.process import until

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kubernetes,
    pytest.mark.timeout(2 * TEST_S),
    pytest.mark.skipif(
        not os.environ.get("KUBECONFIG", "").startswith("/tmp/ackproof-kubernetes"),
        reason="the nodes must see this machine's files, as those of tests/tools/kubernetes do",
    ),
]

CELLS = {"acks": "all", "min.insync.replicas": 2, "partitions": 2}
AROUND = {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed", "settle": "1m"}
LIMITS = {"fault": "5m", "ready": "5m", "recover": "5m", "teardown": "2m"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    image = os.environ["ACKPROOF_KUBERNETES_IMAGE"]
    with kafka_in_pods(tmp_path_factory.mktemp("kafka"), image) as cluster:
        yield cluster


def vary(ackproof, cluster, *faults):
    sections = {"cells": CELLS, "schedule": AROUND, "limits": LIMITS, "evidence": {"acked.min": 50}}
    ackproof.vary({**sections, "cluster": cluster, "faults": list(faults)})


def test_faults_on_pods_are_proven_and_undone(kafka: KafkaInPods, ackproof) -> None:
    """Broker 0 keeps its address, by which clients find the cluster."""
    vary(
        ackproof,
        kafka.section(),
        {"fault": "kill", "target": "broker-1", "hold": "12s"},
        {"fault": "terminate", "target": "broker-2", "hold": "5s"},
        {"fault": "restart", "target": "broker-1", "hold": "1s"},
    )
    before = kafka.uids()
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    assert [fault["proven"] for fault in document["faults"]] == [True] * 3
    assert document["cells"][0]["verdict"] == "pass"
    changed = [old != new for old, new in zip(before, kafka.uids(), strict=True)]
    assert changed == [False, True, True]
    assert kafka.finalizers() == []
    assert kafka.topics() == set()


def test_pod_of_a_killed_run_comes_back_by_clean(kafka: KafkaInPods, ackproof) -> None:
    vary(ackproof, kafka.section(), {"fault": "kill", "target": "broker-1", "hold": "9m"})
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("kill#1 verified")
    assert kafka.finalizers() == ["ackproof/held-down"]
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.finalizers() == []
    until("all brokers serve", kafka.complete, PATIENCE_S)
    assert kafka.topics() == set()


def test_pods_that_differ_from_the_file_are_refused(kafka: KafkaInPods, ackproof) -> None:
    keeper = {"namespace": kafka.namespace, "selector": "app notin (kafka)", "id": "ordinal+1"}
    vary(ackproof, kafka.section(kubernetes=keeper), {"fault": "kill", "target": "broker-1"})
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "the pod keeper has no broker.id by its ordinal+1" in result.stderr, result.stderr


def test_agents_in_pods_prove_faults_and_end(kafka: KafkaInPods, ackproof) -> None:
    """The agent follows broker 1 into its next pod."""
    vary(
        ackproof,
        kafka.section(agent=True),
        {"fault": "cut", "target": "broker-1 <-> broker-2", "hold": "12s"},
        {"fault": "pause", "target": "broker-2", "hold": "12s"},
        {"fault": "kill", "target": "broker-1", "hold": "5s"},
        {"fault": "slow", "target": "broker-1 -> broker-2", "hold": "5s"},
    )
    before = kafka.rules(2)
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    assert [fault["proven"] for fault in document["faults"]] == [True] * 4
    assert document["cells"][0]["verdict"] == "pass"
    run = ackproof.directory / "results" / "runs" / "1"
    for broker in range(3):
        assert list(run.glob(f"replicas/broker-{broker}/*/*.log")), "its replicas were read"
    until("all agents have ended", lambda: not any(kafka.agents()), PATIENCE_S)
    assert kafka.rules(2) == before == kafka.rules(1)
    assert kafka.topics() == set()


def test_agent_of_a_killed_run_is_ended_by_clean(kafka: KafkaInPods, ackproof) -> None:
    cut = {"fault": "cut", "target": "broker-1 -> broker-2", "hold": "9m"}
    vary(ackproof, kafka.section(agent=True), cut)
    before = kafka.rules(2)
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("cut#1 verified")
    assert "drop" in kafka.rules(2)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    until("all agents have ended", lambda: not any(kafka.agents()), PATIENCE_S)
    assert kafka.rules(2) == before
    assert kafka.topics() == set()


def test_records_lost_by_an_unclean_election_in_pods_are_found(
    kafka: KafkaInPods, ackproof
) -> None:
    replicated = {"min.insync.replicas": 1, "replication.factor": 2, "partitions": 1}
    schedule = {**AROUND, "tail": "2m"}
    sections = {"schedule": schedule, "limits": LIMITS, "workload": {"rate": 50}, "faults": []}
    cells = {"acks": "all", **replicated}
    ackproof.vary({**sections, "cells": cells, "cluster": kafka.section(agent=True)})
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    topic, leader, follower = lose_by_an_unclean_election(kafka)

    assert running.wait(PATIENCE_S) == 1, ackproof.output.read_text()
    cell = check_found_loss(ackproof.directory / "results", topic, leader, follower)
    held = {one["name"]: one["held"] for one in cell["guarantees"]}
    assert held["servers-stay-up"] is False, "the operator killed one"
    assert held["replicas-agree"] is True
    unknown = {name for name, one in held.items() if one is None}
    assert unknown.isdisjoint(
        {"committed-stays", "deposed-leaders-stop", "min-isr-kept", "one-leader-an-epoch"}
    )
