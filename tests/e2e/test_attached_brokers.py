"""Apache Kafka on hosts of its operator, with the agent beside each broker while a run lasts."""

import json
import os
import signal

import pytest

from ackproof.infra.agent.impairments import CUT
from ackproof.infra.backends.ssh.connection import SshChannels
from ackproof.infra.backends.ssh.inventory import DIRECTORY
from ackproof.infra.backends.ssh.preparation import bring_agent
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import AgentClient
from tests.support.clusters.kafka_on_hosts import LOGS, KafkaOnHosts, kafka_on_hosts
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kafka,
    pytest.mark.ssh,
    pytest.mark.timeout(2 * TEST_S),
]

CELLS = {"acks": "all", "min.insync.replicas": 2, "partitions": 2}
AROUND = {"warmup": "2s", "gap": "1s", "tail": "2s", "order": "listed", "settle": "1m"}
LIMITS = {"fault": "5m", "ready": "5m", "recover": "5m", "teardown": "2m"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with kafka_on_hosts(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


@pytest.fixture
def on_kafka(ackproof, tmp_path):
    """The command line, that has met no such cluster yet."""
    ackproof.environ["XDG_STATE_HOME"] = str(tmp_path / "known")
    return ackproof


def vary(ackproof, cluster, *faults):
    sections = {"cells": CELLS, "schedule": AROUND, "limits": LIMITS, "evidence": {"acked.min": 50}}
    ackproof.vary({**sections, "cluster": cluster, "faults": list(faults)})


def states(kafka: KafkaOnHosts) -> list[str]:
    return [kafka.state(number) for number in range(3)]


def test_faults_beside_brokers_are_proven_and_leave_nothing(kafka: KafkaOnHosts, on_kafka) -> None:
    vary(
        on_kafka,
        kafka.section(),
        {"fault": "isolate", "target": "leader(acks-all-minisr-2, any)", "hold": "10s"},
        {"fault": "cut", "target": "client-1 <-> broker-2", "hold": "5s"},
        {"fault": "slow", "target": "broker-2 -> broker-3", "hold": "5s"},
        {"fault": "disk-full", "target": "broker-1", "hold": "10s"},
    )
    before = states(kafka)
    result = on_kafka("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((on_kafka.directory / "results" / "verdict.json").read_text())
    assert [fault["proven"] for fault in document["faults"]] == [True] * 4
    assert document["cells"][0]["verdict"] == "pass"
    journal = (on_kafka.directory / "results" / "runs" / "1" / "external.jsonl").read_text()
    attached = [json.loads(line)["attached"] for line in journal.splitlines() if "attached" in line]
    assert [one is None for one in attached] == [False, True]
    assert states(kafka) == before
    assert kafka.topics() == set()


def test_faults_of_a_killed_run_are_undone_by_clean(kafka: KafkaOnHosts, on_kafka) -> None:
    vary(
        on_kafka, kafka.section(), {"fault": "cut", "target": "broker-1 -> broker-2", "hold": "9m"}
    )
    before = states(kafka)
    running = on_kafka.start("run", "small.yaml", "--out", "results", "--yes")
    on_kafka.wait_for_output("cut#1 verified")
    assert "drop" in kafka.state(1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = on_kafka("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert states(kafka) == before
    assert kafka.topics() == set()


def test_broker_that_the_agent_paused_is_resumed_by_clean(kafka: KafkaOnHosts, on_kafka) -> None:
    servers = kafka.servers(commands={"start": ["sudo", "-n", "systemctl", "start", "kafka"]})
    pause = {"fault": "pause", "target": "broker-2", "hold": "9m"}
    vary(on_kafka, kafka.section(servers=servers), pause)
    running = on_kafka.start("run", "small.yaml", "--out", "results", "--yes")
    on_kafka.wait_for_output("pause#1 verified")
    assert kafka.process_state(1) == "T"
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = on_kafka("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.process_state(1) != "T"
    wait_until(kafka.complete, PATIENCE_S, "all brokers to serve")
    assert kafka.topics() == set()


def test_host_undoes_faults_when_its_lease_ends(kafka: KafkaOnHosts) -> None:
    before = kafka.state(0)
    with kafka.hosts.logged_in(0) as connection:
        brought = bring_agent(connection, DIRECTORY, installs=False)
        base = str(brought.base)
        brought.agent.ask("acquire", base=base, run="r", holder="test", lease_s=5.0, env={})
        argv = [*brought.program, "connect", f"{base}/run/agent.sock"]
        agent = AgentClient("host", SshChannels(connection, argv, at_once=1))
        agent.ask("impair", addresses=[kafka.hosts.addresses[1]], impairment=CUT._asdict())
        agent.ask("fill_directory", directory=LOGS)
        assert agent.ask("directory_refuses_writes", directory=LOGS) == "ENOSPC"
        wait_until(
            lambda: connection.run(["ls", f"{base}/run"]).status != 0, PATIENCE_S, "the guard", 0.5
        )
        assert brought.agent.ask("directory_refuses_writes", directory=LOGS) is None
        brought.agent.ask("purge", base=base)
    kafka.restart(0)  # its log directory has failed
    assert kafka.state(0) == before


def test_host_of_another_broker_is_refused(kafka: KafkaOnHosts, on_kafka) -> None:
    servers = dict(kafka.servers())
    servers["broker-1"], servers["broker-2"] = servers["broker-2"], servers["broker-1"]
    vary(on_kafka, kafka.section(servers=servers))
    before = states(kafka)
    result = on_kafka("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode != 0
    address = kafka.hosts.addresses[1]
    assert f"{address} is not the host of broker-1" in result.stdout, result.stdout + result.stderr
    assert states(kafka) == before
