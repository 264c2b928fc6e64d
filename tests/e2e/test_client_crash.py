"""A client that a fault has crashed: what it recorded counts, its own cell has no evidence from
then on, and no other client is blamed. And clients that are paused, cut off, and replaced."""

import json

import pyarrow.compute as pc
import pytest

from ackproof.history import reader

pytestmark = pytest.mark.e2e

INCONCLUSIVE = 3
SOON = {
    "zookeeper.session.timeout.ms": 2000,
    "replica.lag.time.max.ms": 2000,
    "offsets.topic.num.partitions": 1,
}


@pytest.mark.long
def test_client_crash_affects_its_own_cell_only(ackproof) -> None:
    ackproof.vary(
        {
            "cells": {"acks": "all", "min.insync.replicas": [1, 2], "partitions": 2},
            "schedule": {"warmup": "3s", "gap": "2s", "tail": "2s", "order": "listed"},
            "faults": [
                {"fault": "crash-client", "target": "clients"},
                {"fault": "restart", "target": "one", "parameters": {"signal": "terminate"}},
            ],
        }
    )
    result = ackproof("run", "small.yaml", "--out", "results")
    assert result.returncode == INCONCLUSIVE, result.stdout + result.stderr
    assert "ended by itself" not in result.stdout + result.stderr
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    crashed, lives_on = sorted(document["cells"], key=lambda cell: cell["verdict"])
    assert (crashed["verdict"], lives_on["verdict"]) == ("inconclusive", "pass"), document
    silent = "no client sends to this cell after crash-client#1, which crashed its last client"
    assert any(silent in reason for reason in crashed["reasons"]), crashed["reasons"]
    assert not any("its writer did not close it" in reason for reason in crashed["reasons"])
    assert crashed["acked"] > 0, "what it recorded counts"
    assert crashed["lost"] == 0, "of what it recorded"
    assert not any(guarantee["broken"] for guarantee in crashed["guarantees"])


@pytest.mark.long
def test_clients_suffer_as_servers_do(ackproof) -> None:
    """One node of clients is paused, one is cut off, all producers die: the others go on, or others
    come in their place, and what was acknowledged is there."""
    ackproof.vary(
        {
            "cluster": {"clients": 2, "properties": SOON},
            "cells": {"acks": "all", "min.insync.replicas": 2, "partitions": 2},
            "workload": {"rate": 100, "producers": 2, "readers": 1},
            "schedule": {"warmup": "3s", "gap": "2s", "tail": "2s", "order": "listed"},
            "faults": [
                {
                    "fault": "pause-client",
                    "target": "client-1",
                    "parameters": {"clients": "all"},
                    "hold": "3s",
                },
                {"fault": "isolate", "target": "client-2", "hold": "3s"},
                {
                    "fault": "crash-client",
                    "target": "clients",
                    "parameters": {"clients": "all", "role": "producer", "comes_back": True},
                    "hold": "1s",
                },
            ],
        }
    )
    result = ackproof("run", "small.yaml", "--out", "results")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "was silent" not in result.stdout + result.stderr
    sends = reader.read(ackproof.directory / "results" / "runs" / "1" / "history", "sends")
    acked = sends.filter(pc.equal(sends["type"], "ok"))
    assert set(acked["producer"].to_pylist()) == {0, 1, 2, 3}, "two, and two in their place"
    first = sends.group_by("producer").aggregate([("sequence", "min")])
    assert set(first["sequence_min"].to_pylist()) == {0}
    document = json.loads((ackproof.directory / "results" / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert (cell["verdict"], cell["lost"]) == ("pass", 0), document
