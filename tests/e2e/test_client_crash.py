"""A client that a fault has crashed: what it recorded counts, its own cell has no evidence from
then on, and nobody else is blamed."""

import json

import pytest

pytestmark = pytest.mark.e2e

INCONCLUSIVE = 3


def test_it_costs_its_own_cell_alone(ackproof) -> None:
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
    silent = "nobody sends to this cell after crash-client#1, which crashed its last client"
    assert any(silent in reason for reason in crashed["reasons"]), crashed["reasons"]
    assert not any("not closed by its writer" in reason for reason in crashed["reasons"])
    assert crashed["acked"] > 0, "what it recorded counts"
    assert crashed["lost"] == 0, "of what it recorded"
    assert not any(guarantee["broken"] for guarantee in crashed["guarantees"])
