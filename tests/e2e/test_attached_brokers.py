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
USAGE, INCONCLUSIVE = 2, 3
LIMITS = {"fault": "5m", "ready": "5m", "recover": "5m", "teardown": "2m"}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with kafka_on_hosts(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


def vary(ackproof, cluster, *faults, **further):
    sections = {"cells": CELLS, "schedule": AROUND, "limits": LIMITS, "evidence": {"acked.min": 50}}
    ackproof.vary({**sections, "cluster": cluster, "faults": list(faults), **further})


def verdict(ackproof, *statuses):
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode in (0, *statuses), result.stdout + result.stderr
    return json.loads((ackproof.directory / "results" / "verdict.json").read_text())


def states(kafka: KafkaOnHosts) -> list[str]:
    return [kafka.state(number) for number in range(3)]


def test_faults_beside_brokers_are_proven_and_leave_nothing(kafka: KafkaOnHosts, ackproof) -> None:
    vary(
        ackproof,
        kafka.section(),
        {"fault": "isolate", "target": "leader(acks-all-minisr-2, any)", "hold": "10s"},
        {"fault": "cut", "target": "client-1 <-> broker-2", "hold": "5s"},
        {"fault": "slow", "target": "broker-2 -> broker-3", "hold": "5s"},
        {"fault": "disk-full", "target": "broker-1", "hold": "10s"},
    )
    before = states(kafka)
    document = verdict(ackproof)
    assert [fault["proven"] for fault in document["faults"]] == [True] * 4
    assert document["cells"][0]["verdict"] == "pass"
    journal = (ackproof.directory / "results" / "runs" / "1" / "external.jsonl").read_text()
    attached = [json.loads(line)["attached"] for line in journal.splitlines() if "attached" in line]
    assert [one is None for one in attached] == [False, True]
    assert states(kafka) == before
    assert kafka.topics() == set()


def test_controllers_and_racks_are_targets(kafka: KafkaOnHosts, ackproof) -> None:
    known = {"controllers": {"quorum.voters": kafka.voters}, "racks": {"a": [1, 3], "b": [2]}}
    vary(
        ackproof,
        kafka.section(**known),
        {"fault": "kill", "target": "controller", "hold": "12s"},
        {"fault": "isolate", "target": "controller", "hold": "12s"},
        {"fault": "pause", "target": "majority(quorum)", "hold": "12s"},
        {"story": "zone-cut-off", "rack": "b"},
    )
    document = verdict(ackproof)
    assert [fault["proven"] for fault in document["faults"]] == [True] * 4
    assert document["cells"][0]["verdict"] == "pass"
    assert kafka.topics() == set()


def test_controller_with_a_host_of_its_own_is_a_target(tmp_path_factory, ackproof) -> None:
    with kafka_on_hosts(tmp_path_factory.mktemp("apart"), apart=True) as kafka:
        vary(
            ackproof,
            kafka.section(controllers={"quorum.voters": kafka.voters}),
            {"fault": "kill", "target": "controller", "hold": "12s"},
            {"fault": "isolate", "target": "leader(acks-all-minisr-2, any)", "hold": "12s"},
            {"fault": "isolate", "target": "controller", "hold": "12s"},
        )
        before = [kafka.state(number) for number in range(4)]
        document = verdict(ackproof)
        assert [fault["proven"] for fault in document["faults"]] == [True] * 3
        assert document["cells"][0]["verdict"] == "pass"
        assert [kafka.state(number) for number in range(4)] == before


def test_rack_that_the_cluster_does_not_have_is_refused(kafka: KafkaOnHosts, ackproof) -> None:
    vary(ackproof, kafka.section(racks={"a": [1, 2], "b": [3]}))
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == USAGE
    assert "racks.a: says 1, 2, but this rack has the brokers 1, 3 on the cluster" in result.stderr


def test_ordered_unclean_election_is_proven(kafka: KafkaOnHosts, ackproof) -> None:
    cells = {"acks": "all", "min.insync.replicas": 1, "replication.factor": 2, "partitions": 1}
    vary(
        ackproof,
        kafka.section(controllers={"quorum.voters": kafka.voters}),
        {"story": "administrator-elects-uncleanly", "topic": "acks-all-minisr-1"},
        cells=cells,
    )
    document = verdict(ackproof)
    names = [fault["name"].partition("#")[0] for fault in document["faults"]]
    assert names == ["cut", "kill", "elect-unclean"]
    assert [fault["proven"] for fault in document["faults"]] == [True] * 3
    assert document["cells"][0]["verdict"] == "not-guaranteed"


def test_topics_that_forget_are_judged(kafka: KafkaOnHosts, ackproof) -> None:
    topic = {
        "cleanup.policy": ["delete", "compact"],
        "retention.ms": 20_000,
        "segment.ms": 5_000,
        "min.cleanable.dirty.ratio": 0.01,
        "min.compaction.lag.ms": 15_000,
    }
    vary(
        ackproof,
        kafka.section(),
        {"fault": "kill", "target": "leader(any, any)", "at": "40s", "hold": "10s"},
        cells={**CELLS, "topic": topic},
        workload={"rate": 100, "keys": 20, "readers": 1},
        schedule={**AROUND, "tail": "20s"},
    )
    # On a busy machine the starts of logs are seen too seldom to decide when records went.
    by_age, by_key = verdict(ackproof, INCONCLUSIVE)["cells"]
    for cell in (by_age, by_key):
        assert cell["forgotten"] > 0
        assert cell["lost"] == 0
        assert cell["verdict"] != "fail"
    held = {one["name"]: one["held"] for one in by_age["guarantees"]}
    assert held["kept-until-retention"] is not False
    assert by_key["topic.cleanup.policy"] == "compact"


def test_faults_of_a_killed_run_are_undone_by_clean(kafka: KafkaOnHosts, ackproof) -> None:
    vary(
        ackproof, kafka.section(), {"fault": "cut", "target": "broker-1 -> broker-2", "hold": "9m"}
    )
    before = states(kafka)
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("cut#1 verified")
    assert "drop" in kafka.state(1)
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert states(kafka) == before
    assert kafka.topics() == set()


def test_broker_that_the_agent_paused_is_resumed_by_clean(kafka: KafkaOnHosts, ackproof) -> None:
    servers = kafka.servers(commands={"start": ["sudo", "-n", "systemctl", "start", "kafka"]})
    pause = {"fault": "pause", "target": "broker-2", "hold": "9m"}
    vary(ackproof, kafka.section(servers=servers), pause)
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    ackproof.wait_for_output("pause#1 verified")
    assert kafka.process_state(1) == "T"
    os.kill(running.pid, signal.SIGKILL)
    running.wait(PATIENCE_S)

    cleaned = ackproof("clean")
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert kafka.process_state(1) != "T"
    wait_until(kafka.complete, PATIENCE_S, "all brokers to serve")
    assert kafka.topics() == set()


def test_host_undoes_faults_when_its_lease_ends(kafka: KafkaOnHosts) -> None:
    before = kafka.state(0)
    with kafka.hosts.logged_in(0) as connection:
        brought = bring_agent(connection, DIRECTORY, installs=False)
        base = str(brought.base)
        claim = {"run": "r", "holder": "test", "lease_s": 5.0, "env": {}, "ended_by": "clean"}
        brought.agent.ask("acquire", base=base, **claim)
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


def test_host_of_another_broker_is_refused(kafka: KafkaOnHosts, ackproof) -> None:
    servers = dict(kafka.servers())
    servers["broker-1"], servers["broker-2"] = servers["broker-2"], servers["broker-1"]
    vary(ackproof, kafka.section(servers=servers))
    before = states(kafka)
    result = ackproof("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode != 0
    address = kafka.hosts.addresses[1]
    assert f"{address} is not the host of broker-1" in result.stdout, result.stdout + result.stderr
    assert states(kafka) == before
