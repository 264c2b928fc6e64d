"""The step of the GitHub Action, executed as a runner does."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.e2e

PROJECT = Path(__file__).parents[2]
BASELINE = {"faults": [], "schedule": {"tail": "5s"}, "evidence": {"acked.min": 100}}


@pytest.fixture
def step(ackproof):
    """Call the step that runs a campaign, with these inputs."""
    here = ackproof.directory
    program = here / "program"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m ackproof.harness "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    action = yaml.safe_load((PROJECT / "action.yml").read_text(encoding="utf-8"))
    defaults = {name: one["default"] for name, one in action["inputs"].items()}
    (run,) = [one for one in action["runs"]["steps"] if one.get("id") == "run"]

    def call(**inputs: str) -> "subprocess.CompletedProcess[str]":
        given = {**defaults, **{name.replace("_", "-"): text for name, text in inputs.items()}}
        named = {f"${{{{ inputs.{name} }}}}": text for name, text in given.items()}
        environ = {name: named.get(text, text) for name, text in run["env"].items()}
        return subprocess.run(
            ["bash", "-c", run["run"]],
            cwd=here,
            env={
                **ackproof.environ,
                **environ,
                "ACKPROOF": str(program),
                "GITHUB_ACTION_PATH": str(PROJECT),
                "GITHUB_STEP_SUMMARY": str(here / "summary.md"),
                "GITHUB_OUTPUT": str(here / "output"),
                "PATH": os.environ["PATH"],
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def output(directory: Path) -> dict[str, str]:
    lines = (directory / "output").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_action_runs_a_baseline_campaign_and_writes_its_summary(ackproof, step) -> None:
    ackproof.vary(BASELINE)
    done = step(campaign="small.yaml", seed="1", results="ci")
    assert done.returncode == 0, done.stdout + done.stderr
    assert output(ackproof.directory) == {
        "verdict": "pass",
        "status": "0",
        "report": "ci/report.html",
    }
    page = (ackproof.directory / "ci" / "report.html").read_text(encoding="utf-8")
    assert "A baseline" in page
    assert "a baseline: nothing was broken on purpose" in done.stdout
    document = json.loads((ackproof.directory / "ci" / "verdict.json").read_text(encoding="utf-8"))
    assert document["baseline"]
    assert [cell["lost"] for cell in document["cells"]] == [0, 0]
    summary = (ackproof.directory / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("## Ackproof: small, seed 1: pass\n")


def test_action_fails_with_the_status_of_a_wrong_campaign(ackproof, step) -> None:
    (ackproof.directory / "bad.yaml").write_text("name: bad\n")
    done = step(campaign="bad.yaml", fail_on="broken")
    assert done.returncode == 2
    assert output(ackproof.directory)["verdict"] == ""
    assert "::error title=Ackproof::the campaign was not checked: exit status 2" in done.stdout


def test_action_refuses_an_unknown_threshold(step) -> None:
    done = step(fail_on="brokn")
    assert done.returncode == 2
    assert "fail-on is broken or inconclusive, not 'brokn'" in done.stdout
