"""A loss planted by hand on a cluster of an operator: it is found with its root cause, by the
metadata log, the replicas' logs and the brokers' processes."""

import pytest

from tests.support.clusters.kafka_on_hosts import KafkaOnHosts, kafka_on_hosts
from tests.support.clusters.operator import check_found_loss, lose_by_an_unclean_election
from tests.support.processes.deadlines import PATIENCE_S, TEST_S

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.kafka,
    pytest.mark.ssh,
    pytest.mark.timeout(2 * TEST_S),
]

BROKEN = 1
SECTIONS = {
    "cells": {"acks": "all", "min.insync.replicas": 1, "replication.factor": 2, "partitions": 1},
    "schedule": {"warmup": "2s", "gap": "1s", "tail": "2m", "order": "listed", "settle": "1m"},
    "limits": {"ready": "5m", "recover": "5m", "teardown": "2m"},
    "workload": {"rate": 50},
    "faults": [],
}
FORMERLY_UNCHECKED = (
    *("replicas-agree", "committed-stays", "deposed-leaders-stop", "min-isr-kept"),
    *("one-leader-an-epoch", "epochs-rise", "servers-stay-up"),
)
"""The guarantees that clients alone cannot check."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    with kafka_on_hosts(tmp_path_factory.mktemp("kafka")) as cluster:
        yield cluster


def test_records_lost_by_an_unclean_election_are_found(kafka: KafkaOnHosts, ackproof) -> None:
    cluster = kafka.section(controllers={"quorum.voters": kafka.voters})
    ackproof.vary({**SECTIONS, "cluster": cluster})
    running = ackproof.start("run", "small.yaml", "--out", "results", "--yes")
    topic, leader, follower = lose_by_an_unclean_election(kafka)

    assert running.wait(PATIENCE_S) == BROKEN, ackproof.output.read_text()
    cell = check_found_loss(ackproof.directory / "results", topic, leader, follower)
    held = {one["name"]: one["held"] for one in cell["guarantees"]}
    assert held["no-acked-record-lost"] is False
    assert held["servers-stay-up"] is False, "the operator killed one"
    assert held["replicas-agree"] is True
    assert None not in {held[name] for name in FORMERLY_UNCHECKED}, held
