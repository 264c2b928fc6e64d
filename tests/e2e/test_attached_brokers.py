"""Apache Kafka on hosts of its operator, with the agent beside each broker while a run lasts."""

import json

import pytest

from tests.support.clusters.kafka_on_hosts import KafkaOnHosts, kafka_on_hosts
from tests.support.processes.deadlines import TEST_S

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


def test_agents_come_and_go_with_a_run(kafka: KafkaOnHosts, on_kafka) -> None:
    vary(on_kafka, kafka.section(), {"fault": "create-topic", "target": "all", "hold": "2s"})
    before = states(kafka)
    result = on_kafka("run", "small.yaml", "--out", "results", "--yes")
    assert result.returncode == 0, result.stdout + result.stderr
    journal = (on_kafka.directory / "results" / "runs" / "1" / "external.jsonl").read_text()
    attached = [json.loads(line)["attached"] for line in journal.splitlines() if "attached" in line]
    assert [one is None for one in attached] == [False, True]
    assert states(kafka) == before
    assert kafka.topics() == set()


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
