"""A matrix of two systems, for real: each has its results, one report has both, and what is there
is not run again."""

import json
import sys

import pytest

from ackproof.infra.systems import prepare
from ackproof.infra.systems.kafka import releases

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

KAFKA = f"kafka:{releases.VERSIONS[-1]}"
SYSTEMS = ("bundled", KAFKA)
CAMPAIGN = {
    "faults": [{"fault": "kill", "target": "leader(acks-all-minisr-2, any)", "hold": "4s"}],
}


def test_two_systems_side_by_side(ackproof) -> None:
    prepare(KAFKA, sys.stdout.write)
    ackproof.vary(CAMPAIGN)
    command = ("matrix", "--systems", ",".join(SYSTEMS), "small.yaml", "--out", "results")
    result = ackproof(*command, "--seed", "1")
    assert result.returncode == 0, result.stdout + result.stderr
    directory = ackproof.directory / "results"
    document = json.loads((directory / "matrix.json").read_text())
    assert [one["system"] for one in document["systems"]] == list(SYSTEMS)
    for one in document["systems"]:
        assert one["verdict"] == "pass"
        assert [fault["name"] for fault in one["faults"]] == ["kill#1"]
        own = json.loads((directory / one["results"] / "verdict.json").read_text())
        assert (own["system"], own["seed"]) == (one["system"], 1)
        assert own["cells"] == one["cells"]
    page = directory / "matrix.html"
    assert result.stdout.splitlines()[-1] == str(page)
    assert all(system in page.read_text() for system in SYSTEMS)
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("verdict.json")}
    again = ackproof(*command)
    assert again.returncode == 0, again.stdout + again.stderr
    assert {path: path.stat().st_mtime_ns for path in directory.rglob("verdict.json")} == before
