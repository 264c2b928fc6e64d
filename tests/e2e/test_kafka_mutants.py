"""Mutants of Apache Kafka in real servers: their rules fit the release, load, and take effect."""

import json
import subprocess
from pathlib import Path

import pytest

from ackproof.harness.mutants.catalogue import catalogue, fetch_byteman, write_agent
from ackproof.infra.machine.software import find_java
from ackproof.infra.systems import artifacts, prepare
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = [pytest.mark.kafka, pytest.mark.e2e]

RELEASE = "kafka:4.4.0"
MUTANT = "acks-all-answered-at-append"


def test_every_rule_fits_the_release(tmp_path: Path) -> None:
    """Byteman's own check finds each class and method, and checks the types of each expression."""
    prepare(RELEASE, print)
    byteman = fetch_byteman(print)
    (kafka,) = artifacts(RELEASE)
    rules = "\n".join(one.script for one in catalogue().values())
    write_agent(rules, byteman, tmp_path)
    class_path = f"{byteman}:{kafka.path}/*"
    check = ("org.jboss.byteman.check.TestScript", "-v", str(tmp_path / "rules.btm"))
    done = subprocess.run(
        [str(find_java()), "-cp", class_path, *check],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert "TestScript: no errors" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("Type checked rule") == rules.count("ENDRULE")


def test_mutant_takes_effect_and_is_judged_beside_the_release(ackproof) -> None:
    prepare(RELEASE, print)
    fetch_byteman(print)
    options = ("--campaign", "small.yaml", "--within", "all", "--results", "mutants")
    result = ackproof("mutants", MUTANT, *options)
    assert result.returncode in (0, 3), result.stdout + result.stderr
    release = ackproof.directory / "mutants" / "kafka-4.4.0"
    (unmutated,) = release.glob("unmutated-*/seed-1.json")
    assert json.loads(unmutated.read_text())["detection"] != "found"
    (finding,) = release.glob(f"{MUTANT}-*/seed-1.json")
    assert json.loads(finding.read_text())["effective_on"], "each broker leads a partition"
    page = (ackproof.directory / "mutants" / "kafka-mutants.md").read_text()
    assert f"| `{MUTANT}` | not run |" not in page
    assert "| `isr-joined-at-once` | not run |" in page
    again = ackproof("mutants", MUTANT, *options)
    assert (again.returncode, again.stdout.splitlines()[-1]) == (
        result.returncode,
        result.stdout.splitlines()[-1],
    ), "nothing is run again"
