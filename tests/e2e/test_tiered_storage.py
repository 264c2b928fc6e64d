"""Apache Kafka with tiered storage, from file to report."""

import json
import sys

import pytest

from ackproof.infra.systems import prepare

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

SYSTEM = "kafka:4.3.1"
_PROPERTIES = {
    "remote.log.storage.system.enable": True,
    "remote.log.manager.task.interval.ms": 500,
    "log.retention.check.interval.ms": 500,
    "replica.lag.time.max.ms": 8000,
    "offsets.topic.num.partitions": 1,
}
_TOPIC = {
    "remote.storage.enable": True,
    "segment.ms": 2000,
    "segment.bytes": 1 << 20,
    "local.retention.ms": 2000,
}
_LEADER = "leader(acks-all-minisr-2, 0)"


def test_records_of_a_disturbed_remote_tier_are_read_back(ackproof) -> None:
    prepare(SYSTEM, sys.stdout.write, tiered=True)
    disturbed = [
        {
            "fault": "disturb-remote-tier",
            "target": _LEADER,
            "parameters": {"problem": problem, "delay_ms": 1000},
            "hold": "10s",
        }
        for problem in ("absent", "read-only", "slow")
    ]
    cells = {"acks": "all", "min.insync.replicas": 2, "partitions": 1, "topic": _TOPIC}
    cluster = {
        "system": SYSTEM,
        "metadata.quorum": "isolated-kraft",
        "brokers": 3,
        "properties": _PROPERTIES,
    }
    ackproof.vary(
        {
            "cluster": cluster,
            "cells": {**cells, "replication.factor": 3},
            "schedule": {"order": "listed", "warmup": "10s", "settle": "60s", "tail": "10s"},
            "limits": {"fault": "2m", "deploy": "4m", "recover": "3m"},
            "faults": disturbed,
        }
    )
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    assert [one["proven"] for one in document["faults"]] == [True] * 3
    (cell,) = document["cells"]
    # The verdict is only a pass if the tier alone had some records.
    assert (cell["lost"], cell["verdict"]) == (0, "pass")
