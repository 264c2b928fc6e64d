"""A broker that loses what it acknowledged is found out: the cell, the fault, the records.

It answers acks=all when the leader has appended, and not when the ISR has. One line of a copy of
the sources is changed for that; everything else is what always runs.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.ssh.hosts import ssh_hosts

LEADER = "broker/replication/leader.py"
WAITS = "        if event.acks != -1:\n"
ANSWERS_EARLY = "        if event.acks is not None:\n"

CELL = "acks-all.minisr-2"
CAMPAIGN = {
    "cells": {"acks": "all", "min.insync.replicas": 2, "partitions": 2},
    "faults": [{"fault": "isolate", "target": "leader(acks-all-minisr-2, any)", "hold": "7s"}],
}


@pytest.fixture
def early(ackproof, patched: Callable[[str, str, str], Path]):
    """The command line, with brokers that answer early."""
    ackproof.with_sources(patched(LEADER, WAITS, ANSWERS_EARLY))
    ackproof.vary(CAMPAIGN)
    return ackproof


def found_out(early, *options: str) -> None:
    """Run the campaign: it says so everywhere that the cell, the guarantee and the records are
    named."""
    result = early("run", "small.yaml", "--seed", "1", "--out", "results", *options)
    assert result.returncode == 1, result.stdout + result.stderr
    directory = early.directory / "results"
    document = json.loads((directory / "verdict.json").read_text())
    (cell,) = document["cells"]
    assert (document["verdict"], cell["verdict"], cell["cell"]) == ("fail", "fail", CELL)
    assert cell["lost"] > 0
    broken = {one["name"] for one in cell["guarantees"] if one["promised"] and one["held"] is False}
    assert "no-acked-record-lost" in broken
    page = (directory / "report.html").read_text()
    assert "records lost" in result.stdout
    assert "attributed to isolate#1" in result.stdout
    for shown in (CELL, "no-acked-record-lost", "isolate#1"):
        assert shown in page
    assert len(set(re.findall(r"producer 0 sequence \d+", page))) >= min(cell["lost"], 100)


@pytest.mark.e2e
def test_found_out_on_this_machine(early) -> None:
    found_out(early)


@pytest.mark.docker
def test_found_out_on_containers(early) -> None:
    found_out(early, "--backend", "docker")


@pytest.mark.ssh
def test_found_out_on_hosts(early, tmp_path: Path) -> None:
    (tmp_path / "hosts").mkdir()
    with ssh_hosts(tmp_path / "hosts", 5) as hosts:
        inventory = tmp_path / "hosts.yaml"
        inventory.write_text(yaml.safe_dump(hosts.document()), encoding="utf-8")
        found_out(early, "--backend", "ssh", "--inventory", str(inventory))
