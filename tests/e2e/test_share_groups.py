"""Share groups (KIP-932) on Apache Kafka: from file to report."""

import json
import sys

import pyarrow.compute as pc
import pytest
import yaml

from ackproof.history import reader
from ackproof.infra.systems import prepare
from tests.support.processes.deadlines import TEST_S

pytestmark = [
    *(pytest.mark.kafka, pytest.mark.e2e, pytest.mark.integration),
    pytest.mark.timeout(TEST_S),
]

VERSION = "4.4.0"
CAMPAIGN = {
    "name": "shared",
    "cluster": {
        "system": f"kafka:{VERSION}",
        "brokers": 3,
        "properties": {
            "offsets.topic.num.partitions": 1,
            "share.coordinator.state.topic.num.partitions": 1,
            "group.share.delivery.count.limit": 3,
            "group.share.min.record.lock.duration.ms": 2_000,
            "group.share.record.lock.duration.ms": 2_000,
        },
    },
    "cells": {"acks": "all", "min.insync.replicas": 2, "partitions": 2},
    "workload": {
        "rate": 50,
        "share.groups": [{"name": "queue", "members": 2, "releases": 0.3, "rejects": 0.05}],
    },
    "schedule": {"warmup": "5s", "settle": "10s", "tail": "20s"},
    "faults": [{"fault": "kill", "target": "leader(any, any)", "hold": "2s"}],
}


def test_share_group_is_shown_every_record_until_it_is_done_with_it(ackproof) -> None:
    prepare(f"kafka:{VERSION}", sys.stdout.write)
    (ackproof.directory / "shared.yaml").write_text(yaml.safe_dump(CAMPAIGN))
    result = ackproof("run", "shared.yaml", "--seed", "1", "--out", "results")
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    (cell,) = document["cells"]
    shared = {one["name"]: one for one in cell["guarantees"] if "-share-" in one["name"]}
    assert len(shared) == 4, result.stdout + result.stderr
    assert {one["held"] for one in shared.values()} == {True}, shared
    assert {one["plugin"] for one in shared.values()} == {None}
    history = ackproof.directory / "results" / "runs" / "1" / "history"
    rows = reader.read(history, "deliveries", ["event", "acknowledgement", "offset", "delivery"])
    confirmed = rows.filter(pc.equal(rows["event"].cast("string"), "ok"))
    how = set(confirmed["acknowledgement"].cast("string").to_pylist())
    assert how == {"accept", "release", "reject"}
    assert pc.min(rows["offset"]).as_py() == 0, "the group did not begin at the start of the log"
    assert pc.max(rows["delivery"]).as_py() == 3, "no record came to its limit"
