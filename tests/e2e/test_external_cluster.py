"""A cluster that was there before, started by hand: campaigns through the command line, and what
they leave behind, killed or not."""

import json
import os
import signal

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ackproof.infra.machine.waiting import wait_until
from tests.support.clusters.external import your_cluster
from tests.support.faults.own_commands import addresses_struck, by_addresses
from tests.support.oracles.forecasts import contradictions
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [pytest.mark.e2e, pytest.mark.integration, pytest.mark.timeout(TEST_S)]

USAGE = 2
CELLS = {"acks": "all", "min.insync.replicas": 2, "partitions": 2}
AROUND = {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed", "settle": "1m"}
LIMITS = {"fault": "5m", "ready": "5m", "recover": "5m", "teardown": "2m"}
KILL = {"fault": "kill", "target": "leader(acks-all-minisr-2, any)", "hold": "12s"}
NOT_CHECKED = ("replicas-agree", "committed-stays", "epochs-rise", "servers-stay-up")


@pytest.fixture(scope="module")
def yours(tmp_path_factory):
    with your_cluster(tmp_path_factory.mktemp("yours")) as cluster:
        yield cluster


def vary(ackproof, cluster, *faults):
    sections = {"cells": CELLS, "schedule": AROUND, "limits": LIMITS, "evidence": {"acked.min": 50}}
    ackproof.vary({**sections, "cluster": cluster, "faults": list(faults)})


def test_orders_alone_reach_a_verdict_and_leave_nothing(yours, ackproof) -> None:
    orders = (
        {"fault": "alter-min-isr", "target": "topic(acks-all-minisr-2)", "hold": "2s"},
        {"fault": "create-topic", "target": "all", "hold": "2s", "parameters": {"topics": 1}},
        {"fault": "command", "target": "all", "hold": "2s", "parameters": by_addresses()},
    )
    vary(ackproof, yours.section(), *orders)
    before = yours.topics()

    asked = ackproof("run", "small.yaml", "--out", "results", "--allow-commands")
    assert asked.returncode == USAGE, asked.stdout + asked.stderr
    assert "first run on the cluster" in asked.stderr
    assert yours.topics() == before
    assert not (ackproof.directory / "results").exists()

    tried = ackproof("run", "small.yaml", "--preflight", "--yes", "--allow-commands")
    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert tried.stdout.endswith(": it can run here; nothing was started\n")
    assert all(address in tried.stdout for address in yours.bootstrap.split(","))
    (untried,) = (line for line in tried.stdout.splitlines() if line.startswith("not tried, "))
    # The bundled broker answers without authorized operations (KIP-430).
    assert "Describe on cluster" in untried
    assert "Write on topics" in untried
    assert "AlterConfigs" not in untried
    assert yours.topics() == before
    assert not (ackproof.directory / "results").exists()
    # It may also be the directory of the registry of runs, which must be private.
    assert (ackproof.directory / "known").stat().st_mode & 0o077 == 0

    result = ackproof("run", "small.yaml", "--out", "results", "--yes", "--allow-commands")
    assert result.returncode == 0, result.stdout + result.stderr
    assert contradictions(ackproof.directory / "results", complete=True) == []
    struck = addresses_struck(ackproof.directory / "struck")
    assert sorted(struck) == sorted(yours.bootstrap.split(","))
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    assert [fault["proven"] for fault in document["faults"]] == [True] * 3
    (cell,) = document["cells"]
    assert (cell["verdict"], cell["lost"]) == ("pass", 0)
    held = {guarantee["name"]: guarantee["held"] for guarantee in cell["guarantees"]}
    assert held["no-acked-record-lost"] is True
    assert [held[name] for name in NOT_CHECKED] == [None] * len(NOT_CHECKED)
    assert yours.topics() == before
    assert ackproof("clean").stdout == "nothing to remove\n"


def test_preflight_names_a_topic_that_would_not_be_created(yours, ackproof) -> None:
    vary(ackproof, yours.section())
    name = "ackproof-00000007-acks-all-minisr-2"
    with AdminClient({"bootstrap.servers": yours.bootstrap}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result()
        try:
            tried = ackproof("run", "small.yaml", "--preflight", "--yes", "--seed", "7")
        finally:
            admin.delete_topics([name])[name].result()
    assert tried.returncode == USAGE, tried.stdout + tried.stderr
    assert f"the cluster would not create the topic {name}: TOPIC_ALREADY_EXISTS" in tried.stderr


def test_actions_and_topics_of_a_killed_run_are_undone(yours, ackproof) -> None:
    kill = {**KILL, "hold": "10m"}
    vary(ackproof, yours.section(servers=yours.servers()), kill)
    before = yours.topics()
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("kill#1 verified")
    down = [broker for broker in (1, 2, 3) if not yours.runs(broker)]
    assert len(down) == 1
    assert yours.topics() > before
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert yours.runs(down[0])
    assert yours.topics() == before
    wait_until(yours.complete, PATIENCE_S, "all brokers to serve")


# The same kill is proven in the test of the killed run; tests/nemesis prove it both ways in memory.
@pytest.mark.long
def test_a_killed_leader_is_proven_from_outside_and_comes_back(yours, ackproof) -> None:
    vary(ackproof, yours.section(servers=yours.servers()), KILL)
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    (fault,) = document["faults"]
    assert fault["proven"] is True, fault
    assert all(map(yours.runs, (1, 2, 3)))
    told = (ackproof.directory / "results" / "runs" / "1" / "external.jsonl").read_text()
    assert [word for word in ('"down"', '"up"') if word in told] == ['"down"', '"up"']
