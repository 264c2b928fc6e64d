"""Faults that only Apache Kafka supports, from file to report."""

import json
import os
import sys
from collections.abc import Mapping, Sequence

import pytest

from ackproof.infra.systems import prepare

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

_PROPERTIES = {
    # Small, so that a limited move takes more than one fetch.
    "replica.fetch.max.bytes": 8192,
    "replica.lag.time.max.ms": 8000,
    "offsets.topic.num.partitions": 1,
}
_CELLS = {"acks": "all", "min.insync.replicas": 2, "partitions": 1}
_TOPIC = "acks-all-minisr-2"
_MOVES = [
    {"fault": "move-log-dir", "target": f"topic({_TOPIC})", "parameters": {"replicas": "all"}},
    {"story": "killed-while-moving-logs", "topic": _TOPIC},
    {"story": "log-directory-fails-while-moving", "topic": _TOPIC},
]
_VOTERS = [
    {"fault": "remove-voter", "target": "quorum-leader", "hold": "5s"},
    {
        "fault": "remove-voter",
        "target": "one(quorum)",
        "parameters": {"replace": True},
        "hold": "5s",
    },
]
_DISKS = [
    {"fault": "power-failure", "target": "majority(quorum)", "hold": "2s"},
    {"fault": "disk-full", "target": "controller", "hold": "5s"},
    {"fault": "disk-failure", "target": "controller", "hold": "5s"},
    {"fault": "read-only", "target": "one(quorum - controller)", "hold": "5s"},
    {"fault": "slow-disk", "target": "controller", "hold": "5s"},
]


def _run(
    ackproof, system: str, cluster: Mapping[str, object], faults: Sequence[object]
) -> Mapping[str, object]:
    """Run a campaign with these faults, and return its verdict: each fault must be proven."""
    prepare(system, sys.stdout.write)
    ackproof.vary(
        {
            "cluster": {"system": system, "properties": _PROPERTIES, **cluster},
            "cells": _CELLS,
            "schedule": {"order": "listed", "warmup": "10s", "settle": "60s", "tail": "2s"},
            "limits": {"fault": "2m", "deploy": "4m", "recover": "3m"},
            "faults": faults,
        }
    )
    result = ackproof("run", "small.yaml", "--seed", "1", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    unproven = [one["name"] for one in document["faults"] if not one["proven"]]
    unhealed = [one["name"] for one in document["faults"] if one["healed"] is None]
    assert (unproven, unhealed) == ([], [])
    (cell,) = document["cells"]
    assert (cell["lost"], cell["verdict"]) == (0, "pass")
    return document


@pytest.mark.skipif(os.geteuid() != 0, reason="disks that fail need root")
@pytest.mark.parametrize(
    ("system", "quorum"), [("kafka:3.9.2", "zookeeper"), ("kafka:4.4.0", "isolated-kraft")]
)
def test_replicas_move_between_log_directories_while_servers_fail(
    ackproof, system: str, quorum: str
) -> None:
    disks = {"per.broker": 2, "megabytes": 256}
    _run(ackproof, system, {"metadata.quorum": quorum, "disks": disks}, _MOVES)


@pytest.mark.parametrize("system", ["kafka:3.9.2", "kafka:4.4.0"])
def test_controllers_leave_the_quorum_and_join_it_again(ackproof, system: str) -> None:
    _run(ackproof, system, {"metadata.quorum": "dynamic-kraft", "zookeepers": 3}, _VOTERS)


@pytest.mark.skipif(os.geteuid() != 0, reason="disks that fail need root")
@pytest.mark.parametrize(
    ("system", "quorum"), [("kafka:3.9.2", "isolated-kraft"), ("kafka:4.4.0", "dynamic-kraft")]
)
def test_disks_of_controllers_fail_and_return(ackproof, system: str, quorum: str) -> None:
    cluster = {"metadata.quorum": quorum, "zookeepers": 3, "disks": {"megabytes": 256}}
    _run(ackproof, system, cluster, _DISKS)
