"""Apache Kafka in pods that the harness did not deploy: pods are deleted, kept down, and return."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from kubernetes import client as kube

from ackproof.history.schema import LOST_WITH_POD
from tests.e2e.conftest import PROJECT
from tests.support.clusters.kafka_in_pods import (
    BROKERS,
    RACKS,
    KafkaInPods,
    Operator,
    kafka_in_pods,
)
from tests.support.clusters.network_plugin import NetworkPlugin
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


def vary(ackproof, cluster, *faults, cells=CELLS, limits=LIMITS):
    sections = {"cells": cells, "schedule": AROUND, "limits": limits}
    ackproof.vary(
        {**sections, "evidence": {"acked.min": 50}, "cluster": cluster, "faults": list(faults)}
    )


def start_and_wait(ackproof, cluster, *then, limits=LIMITS) -> tuple[subprocess.Popen, Path]:
    """Start a run that begins its further faults, or ends, when the returned file exists."""
    over = ackproof.directory / "over"
    lasting = {"inject": ["true"], "verify": ["test", "-e", str(over)], "heal": ["true"]}
    command = {"fault": "command", "target": "broker-2", "hold": "1s", "parameters": lasting}
    vary(ackproof, cluster, command, *then, limits=limits)
    arguments = ("--out", "results", "--yes", "--allow-commands")
    running = ackproof.start("run", "small.yaml", *arguments)
    ackproof.wait_for_output("command#1 injected")
    return running, over


def verdict_of(ackproof) -> dict[str, Any]:
    return json.loads((ackproof.directory / "results" / "verdict.json").read_text())


def seen_of_faults(ackproof) -> list[dict[str, Any]]:
    """Return what was seen of faults, a row each."""
    return [
        json.loads(row["evidence"])
        for table in (ackproof.directory / "results").glob("runs/1/history/faults*")
        for row in pq.read_table(table).to_pylist()
        if row["evidence"]
    ]


def test_faults_on_pods_are_proven_and_undone(kafka: KafkaInPods, ackproof) -> None:
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
    assert held["servers-stay-up"] is True, "an administrator deleted the pod of one"
    (restart,) = verdict_of(ackproof)["faults"]
    assert (restart["name"], restart["proven"]) == ("unordered-restart#1", True)
    assert held["replicas-agree"] is True
    unknown = {name for name, one in held.items() if one is None}
    assert unknown.isdisjoint(
        {"committed-stays", "deposed-leaders-stop", "min-isr-kept", "one-leader-an-epoch"}
    )


def test_brokers_are_rolled_impatiently_and_a_zone_fails(kafka: KafkaInPods, ackproof) -> None:
    zone = {"story": "zone-failure", "rack": "r0"}
    vary(ackproof, kafka.section(racks=RACKS), {"story": "impatient-roll"}, zone)
    before = kafka.uids()
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = verdict_of(ackproof)
    faults = document["faults"]
    rolled = sorted(fault["servers"] for fault in faults[:-1])
    assert rolled == [["broker-0"], ["broker-1"], ["broker-2"]]
    assert faults[-1]["servers"] == ["broker-0", "broker-2"]
    assert all(fault["proven"] for fault in faults), faults
    assert document["cells"][0]["verdict"] == "pass"
    assert not set(before) & set(kafka.uids())


def test_loss_of_the_storage_of_a_pod_is_foretold_and_counted(ackproof) -> None:
    """Kafka 4 lets a broker that returns empty lead nothing before it has caught up."""
    warned = (
        "warning: the log.dirs of kafka-0, kafka-1, kafka-2 are on the emptyDir volume data, which "
        "is lost with the pod. kill will empty these brokers"
    )
    storage = "the emptyDir volume data"
    with kafka_in_pods(None, os.environ["ACKPROOF_KUBERNETES_IMAGE"]) as kafka:
        kill = {"fault": "kill", "target": "leader(any, 0)", "hold": "12s"}
        vary(ackproof, kafka.section(), kill)
        asked = ackproof("run", "small.yaml", "--preflight", "--yes")
        assert asked.returncode == 0, asked.stdout + asked.stderr
        assert warned in asked.stdout, asked.stdout
        result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    assert warned in result.stdout, result.stdout
    document = verdict_of(ackproof)
    ((server,),) = [fault["servers"] for fault in document["faults"]]
    assert document["cells"][0]["verdict"] == "pass"
    exposure = [(one["kind"], one["fault"]) for one in document["exposure"]]
    assert ("lost disks", "kill#1") in exposure, exposure
    assert any(one.get(LOST_WITH_POD) == {server: storage} for one in seen_of_faults(ackproof))
    page = (ackproof.directory / "results" / "report.html").read_text()
    assert f"({server}: {storage}). The loss of a record" in page


STRIMZI = PROJECT / "deploy" / "strimzi"


def by_account(kafka: KafkaInPods, ackproof, name: str, *files: str) -> None:
    """Let the harness have the rights of these examples alone."""
    path = ackproof.directory / "kubeconfig"
    path.write_text(kafka.account(name, [STRIMZI / file for file in files]))
    ackproof.environ["KUBECONFIG"] = str(path)


# --- limits ---------------------------------------------------------------------------------------

STARVED = {"fault": "starve-cpu", "target": "broker-1", "hold": "12s"}


@pytest.mark.parametrize("agent", [False, True], ids=["alone", "with agents"])
def test_starved_broker_is_throttled_and_gets_its_former_cpu_back(
    kafka: KafkaInPods, ackproof, agent: bool
) -> None:
    by_account(kafka, ackproof, f"cpu-{int(agent)}", "ackproof.yaml")
    vary(ackproof, kafka.section(agent=agent), STARVED)
    before, uids = kafka.limits(), kafka.uids()
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = verdict_of(ackproof)
    (fault,) = document["faults"]
    assert (fault["proven"], fault["servers"]) == (True, ["broker-1"])
    assert document["cells"][0]["verdict"] == "pass"
    (seen,) = [one for one in seen_of_faults(ackproof) if "limit in force" in one]
    assert seen["limit in force"] == {"broker-1": "20m"}
    assert seen["short of cpu"]["broker-1"]["throttled"] > 0
    assert (kafka.limits(), kafka.uids()) == (before, uids)


def test_limit_of_a_killed_run_is_lifted_by_clean(kafka: KafkaInPods, ackproof) -> None:
    vary(ackproof, kafka.section(), {**STARVED, "hold": "9m"})
    before = kafka.limits()
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("starve-cpu#1 verified")
    assert kafka.limits()[1][0]["limits"] == {"cpu": "20m"}
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.limits() == before
    assert kafka.topics() == set()


def test_preflight_reports_the_missing_right_to_resize(kafka: KafkaInPods, ackproof) -> None:
    text = (STRIMZI / "ackproof.yaml").read_text()
    assert "pods/resize" in text
    lesser = ackproof.directory / "lesser.yaml"
    lesser.write_text(text.replace("pods/resize", "pods/status"))
    by_account(kafka, ackproof, "no-resize", str(lesser))
    vary(ackproof, kafka.section(), STARVED)
    result = ackproof("run", "small.yaml", "--preflight", "--yes")
    assert result.returncode == 2, result.stdout + result.stderr
    assert 'cannot patch resource "pods/resize"' in result.stderr, result.stderr


# --- links by NetworkPolicies ---------------------------------------------------------------------

CUT = {"fault": "cut", "target": "broker-1 <-> broker-2", "hold": "12s"}


def policies(kafka: KafkaInPods) -> list[str]:
    found = kube.NetworkingV1Api(kafka.core.api_client).list_namespaced_network_policy(
        kafka.namespace
    )
    return [one.metadata.name for one in found.items]


def test_cluster_that_enforces_no_policies_is_refused_before_the_run(
    kafka: KafkaInPods, ackproof
) -> None:
    vary(ackproof, kafka.section(), CUT)
    result = ackproof("run", "small.yaml", "--preflight", "--yes")
    assert result.returncode == 2, result.stdout + result.stderr
    for broker in range(BROKERS):
        why = "the network plug-in of this cluster enforces no NetworkPolicies"
        assert f"no cut-links: kafka-{broker}: {why}" in result.stdout, result.stdout
    assert "cut needs cut-links, but the brokers' pods do not offer it" in result.stderr
    assert policies(kafka) == []


def test_plugin_that_leaves_open_connections_alone_is_refused(kafka: KafkaInPods, ackproof) -> None:
    vary(ackproof, kafka.section(), CUT)
    with NetworkPlugin(kafka.core, kafka.namespace, keeps_open=True):
        result = ackproof("run", "small.yaml", "--preflight", "--yes")
    assert result.returncode == 2, result.stdout + result.stderr
    assert "applies NetworkPolicies to new connections alone" in result.stdout, result.stdout
    assert policies(kafka) == []


def test_links_are_cut_by_policies_without_an_agent(kafka: KafkaInPods, ackproof) -> None:
    by_account(kafka, ackproof, "policies", "ackproof.yaml")
    vary(ackproof, kafka.section(), CUT, {"fault": "halves", "target": "all", "hold": "12s"})
    with NetworkPlugin(kafka.core, kafka.namespace):
        result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = verdict_of(ackproof)
    assert [fault["proven"] for fault in document["faults"]] == [True, True]
    assert document["cells"][0]["verdict"] == "pass"
    (seen, _) = [one for one in seen_of_faults(ackproof) if "open connections" in one]
    links = ("broker-1->broker-2", "broker-2->broker-1")
    assert seen["links closed"] == dict.fromkeys(links, "closed")
    assert seen["open connections"] == dict.fromkeys(links, "silent")
    assert policies(kafka) == []


@contextmanager
def policy_of_others(kafka: KafkaInPods) -> Iterator[None]:
    """Let another policy allow brokers everything, as long as this lasts."""
    brokers = {"podSelector": {"matchLabels": {"app": "kafka"}}}
    spec = {**brokers, "policyTypes": ["Ingress", "Egress"], "ingress": [{}], "egress": [{}]}
    policies_api = kube.NetworkingV1Api(kafka.core.api_client)
    policies_api.create_namespaced_network_policy(
        kafka.namespace, {"metadata": {"name": "others"}, "spec": spec}
    )
    try:
        yield
    finally:
        policies_api.delete_namespaced_network_policy("others", kafka.namespace)


def test_link_that_another_policy_allows_is_not_proven_to_be_cut(
    kafka: KafkaInPods, ackproof
) -> None:
    cut, limits = {**CUT, "hold": "1s"}, {**LIMITS, "fault": "1m"}
    with NetworkPlugin(kafka.core, kafka.namespace):
        running, over = start_and_wait(ackproof, kafka.section(), cut, limits=limits)
        with policy_of_others(kafka):
            over.touch()
            assert running.wait(PATIENCE_S) == 3, ackproof.output.read_text()
    _, fault = verdict_of(ackproof)["faults"]
    assert (fault["injected"], fault["proven"]) == (True, False)
    (seen,) = [one for one in seen_of_faults(ackproof) if "open connections" in one]
    links = ("broker-1->broker-2", "broker-2->broker-1")
    assert seen["open connections"] == dict.fromkeys(links, "new connections succeed")
    assert policies(kafka) == []


def test_policies_of_a_killed_run_are_removed_by_clean(kafka: KafkaInPods, ackproof) -> None:
    vary(ackproof, kafka.section(), {**CUT, "hold": "9m"})
    with NetworkPlugin(kafka.core, kafka.namespace):
        running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
        ackproof.wait_for_output("cut#1 verified")
        assert policies(kafka) == ["ackproof-kafka-1", "ackproof-kafka-2"]
        os.kill(running.pid, signal.SIGKILL)
        running.wait(PATIENCE_S)
        cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert policies(kafka) == []
    assert kafka.topics() == set()


# --- rolls by the operator ------------------------------------------------------------------------

BY_OPERATOR = {"fault": "operator-roll", "target": "all"}


def test_ordered_roll_by_the_operator_replaces_all_pods(kafka: KafkaInPods, ackproof) -> None:
    by_account(kafka, ackproof, "roll", "ackproof.yaml")
    vary(ackproof, kafka.section(agent=True), BY_OPERATOR)
    before = kafka.uids()
    with Operator(kafka):
        result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = verdict_of(ackproof)
    (fault,) = document["faults"]
    assert (fault["proven"], len(fault["servers"])) == (True, BROKERS)
    assert document["cells"][0]["verdict"] == "pass"
    assert not set(before) & set(kafka.uids())
    assert kafka.orders() == []


def test_broker_that_crashes_in_its_pod_is_a_finding(kafka: KafkaInPods, ackproof) -> None:
    """Kubernetes starts its container again, and no agent sees the process."""
    running, over = start_and_wait(ackproof, kafka.section())
    kafka.crash(0)
    ackproof.wait_for_output("broker-0 ended by itself in its pod, exit code 137 (Error)")
    over.touch()
    assert running.wait(PATIENCE_S) == 0, ackproof.output.read_text()
    document = verdict_of(ackproof)
    assert "run 1: broker-0 ended by itself, exit code 137 (Error)" in document["findings"]
    (cell,) = document["cells"]
    held = {one["name"]: one["held"] for one in cell["guarantees"]}
    assert held["servers-stay-up"] is None


def test_roll_that_the_operator_begins_by_itself_is_a_fault_by_name(
    kafka: KafkaInPods, ackproof
) -> None:
    """The brokers have ended, though no fault ended them, and not by themselves."""
    by_account(kafka, ackproof, "unordered", "ackproof.yaml")
    running, over = start_and_wait(ackproof, kafka.section(agent=True))
    with Operator(kafka):
        for broker in range(2):
            kafka.annotate(broker)
            ackproof.wait_for_output(f"broker-{broker} is back in another pod")
        over.touch()
        assert running.wait(PATIENCE_S) == 0, ackproof.output.read_text()
    document = verdict_of(ackproof)
    found = [(one["name"], one["servers"], one["proven"]) for one in document["faults"]]
    restarts = [(f"unordered-restart#{n + 2}", [f"broker-{n}"], True) for n in range(2)]
    assert found == [("command#1", ["broker-2"], True), *restarts]
    (cell,) = document["cells"]
    held = {one["name"]: one["held"] for one in cell["guarantees"]}
    assert (cell["verdict"], held["servers-stay-up"]) == ("pass", True)
    page = (ackproof.directory / "results" / "report.html").read_text()
    assert "(broker-0: strimzi.io/cluster-operator: ManualRollingUpdate)" in page
    by = "was restarted, not by this campaign; by: strimzi.io/cluster-operator: ManualRollingUpdate"
    assert sum(by in one for one in document["findings"]) == 2, document["findings"]


def test_order_to_the_operator_is_withdrawn_by_clean(kafka: KafkaInPods, ackproof) -> None:
    vary(ackproof, kafka.section(), {**BY_OPERATOR, "parameters": {"within_ms": 600_000}})
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    until("the roll is ordered", lambda: len(kafka.orders()) == BROKERS, PATIENCE_S)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.orders() == []
    assert kafka.topics() == set()


# --- nodes ----------------------------------------------------------------------------------------

DRAIN = {"fault": "drain", "target": "broker-1", "hold": "12s"}


def on_node_of(kafka: KafkaInPods, broker: int) -> list[bool]:
    """Return of each broker whether it is on the node of that one."""
    nodes = kafka.nodes()
    return [node == nodes[broker] for node in nodes]


def test_drained_node_is_left_by_its_brokers_and_takes_pods_again(
    kafka: KafkaInPods, ackproof
) -> None:
    by_account(kafka, ackproof, "drain", "ackproof.yaml", "drain.yaml")
    vary(ackproof, kafka.section(), DRAIN)
    there, former, before = on_node_of(kafka, 1), kafka.nodes()[1], kafka.uids()
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    where = "are on the hostPath volume data, which stays on its node"
    assert f"{where}. A broker that drain moves" in result.stdout, result.stdout
    document = verdict_of(ackproof)
    (fault,) = document["faults"]
    assert fault["proven"] is True
    assert fault["servers"] == [f"broker-{n}" for n, affected in enumerate(there) if affected]
    page = (ackproof.directory / "results" / "report.html").read_text()
    assert f"{', '.join(fault['servers'])} on {former}</span>" in page
    assert document["cells"][0]["verdict"] == "pass"
    assert [old != new for old, new in zip(before, kafka.uids(), strict=True)] == there
    assert all(kafka.nodes()[n] != former for n, affected in enumerate(there) if affected)
    assert kafka.cordoned() == set()


def test_nodes_of_all_brokers_are_drained_in_turn(kafka: KafkaInPods, ackproof) -> None:
    """Afterwards no broker has the address that it had."""
    vary(ackproof, kafka.section(), {"story": "rolling-drain"})
    before = kafka.uids()
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = verdict_of(ackproof)
    assert [fault["proven"] for fault in document["faults"]] == [True] * BROKERS
    assert document["cells"][0]["verdict"] == "pass"
    assert not set(before) & set(kafka.uids())
    assert kafka.cordoned() == set()
    assert kafka.topics() == set()


def test_preflight_reports_the_missing_rights_of_a_drain(kafka: KafkaInPods, ackproof) -> None:
    by_account(kafka, ackproof, "other", "ackproof.yaml")
    vary(ackproof, kafka.section(), DRAIN)
    result = ackproof("run", "small.yaml", "--preflight", "--yes")
    assert result.returncode == 2, result.stdout + result.stderr
    assert 'cannot create resource "pods/eviction"' in result.stderr, result.stderr
    assert "may not be cordoned" in result.stderr, result.stderr


def test_eviction_that_a_budget_forbids_is_no_drain(kafka: KafkaInPods, ackproof) -> None:
    short = {**DRAIN, "parameters": {"within_ms": 3000}}
    vary(ackproof, kafka.section(), short)
    before = kafka.uids()
    kafka.forbid_evictions()
    try:
        result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    finally:
        kafka.allow_evictions()
    assert result.returncode == 3, result.stdout + result.stderr
    (fault,) = verdict_of(ackproof)["faults"]
    assert (fault["injected"], fault["proven"]) == (False, None)
    errors = [str(one["error"]) for one in seen_of_faults(ackproof) if "error" in one]
    assert any("The disruption budget budget needs 3 healthy pods" in one for one in errors), errors
    assert kafka.uids() == before
    assert kafka.cordoned() == set()


def test_cordon_of_a_killed_run_is_undone_by_clean(kafka: KafkaInPods, ackproof) -> None:
    vary(ackproof, kafka.section(), {**DRAIN, "hold": "9m"})
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("drain#1 verified")
    assert len(kafka.cordoned()) == 1
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.cordoned() == set()
    until("all brokers serve", kafka.complete, PATIENCE_S)
    assert kafka.topics() == set()


def test_brokers_of_a_failed_node_vanish_without_a_goodbye(kafka: KafkaInPods, ackproof) -> None:
    vary(
        ackproof,
        kafka.section(agent=True),
        {"fault": "node-failure", "target": "broker-1", "hold": "20s"},
    )
    there, before = on_node_of(kafka, 1), kafka.uids()
    affected = [f"broker-{n}" for n, one in enumerate(there) if one]
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = verdict_of(ackproof)
    (fault,) = document["faults"]
    assert (fault["proven"], fault["servers"]) == (True, affected)
    assert document["cells"][0]["verdict"] == "pass"
    (seen,) = [one for one in seen_of_faults(ackproof) if "pod deleted" in one]
    assert seen["fenced without a goodbye"] == dict.fromkeys(affected, "by its silence")
    assert [old != new for old, new in zip(before, kafka.uids(), strict=True)] == there
    assert kafka.finalizers() == []
    until("all agents have ended", lambda: not any(kafka.agents()), PATIENCE_S)
    assert all("drop" not in kafka.rules(broker) for broker in range(3))


def test_brokers_of_a_failed_node_come_back_by_clean(kafka: KafkaInPods, ackproof) -> None:
    lasting = {"fault": "node-failure", "target": "broker-1", "hold": "9m"}
    vary(ackproof, kafka.section(agent=True), lasting)
    affected = sum(on_node_of(kafka, 1))
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("node-failure#1 verified")
    assert kafka.finalizers() == ["ackproof/held-down"] * affected
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.finalizers() == []
    until("all brokers serve", kafka.complete, PATIENCE_S)
    assert all("drop" not in kafka.rules(broker) for broker in range(3))
