"""The GitHub Action, executed step by step as a runner does, and the workflow of docs/ci.md."""

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.processes.ci_snippets import github_jobs
from tests.support.processes.github_runner import Runner

pytestmark = pytest.mark.e2e

PROJECT = Path(__file__).parents[2]
OURS = "OWNER/ackproof@v0.2.0"
BASELINE = {"faults": [], "schedule": {"tail": "5s"}, "evidence": {"acked.min": 100}}


@pytest.fixture
def runner(ackproof) -> Callable[[], Runner]:
    """Make a runner that has Ackproof already: the sources of this checkout."""
    here = ackproof.directory

    def made() -> Runner:
        runner = Runner(
            here / "runner",
            here,
            {**ackproof.environ, "PATH": os.environ["PATH"]},
            actions={OURS: PROJECT},
            contexts={"github.run_id": "7", "github.run_attempt": "1"},
            prepared={"Install Ackproof"},
        )
        program = runner.temp / "ackproof" / "bin" / "ackproof"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m ackproof.harness "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return runner

    return made


# The next test walks through the same steps; tests/harness has campaigns, nights and histories.
@pytest.mark.long
def test_nightly_workflow_of_the_page_runs_a_baseline_campaign_and_keeps_a_history(
    ackproof, runner
) -> None:
    ackproof.vary(BASELINE)
    (ackproof.directory / "tests").mkdir()
    (ackproof.directory / "small.yaml").rename(ackproof.directory / "tests" / "acks.yaml")
    github = runner()
    github.job(github_jobs()["nightly"])
    assert not github.failed, github.said
    assert github.summary.startswith("## Ackproof: small, seed ")
    results = ackproof.directory / "acks-results"
    assert "A baseline" in (results / "report.html").read_text(encoding="utf-8")
    assert "a baseline: no fault was injected on purpose" in github.said
    document = json.loads((results / "verdict.json").read_text(encoding="utf-8"))
    assert document["baseline"]
    assert [cell["lost"] for cell in document["cells"]] == [0, 0]
    (line,) = (ackproof.directory / "acks-history.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line)["verdict"] == "pass"
    assert (ackproof.directory / "trend.html").is_file()
    assert list(github.listed) == [
        "actions/checkout@v4",
        "actions/cache/restore@v4",
        "actions/setup-python@v5",
        "actions/setup-java@v4",
        "actions/upload-artifact@v4",
        "actions/cache/save@v4",
    ]
    assert github.listed["actions/cache/save@v4"]["key"] == "acks-history-7-1"


def test_nightly_workflow_keeps_existing_results_if_a_campaign_is_wrong(ackproof, runner) -> None:
    (ackproof.directory / "tests").mkdir()
    (ackproof.directory / "tests" / "acks.yaml").write_text("name: bad\n", encoding="utf-8")
    github = runner()
    github.job(github_jobs()["nightly"])
    assert github.failed
    assert "::error title=Ackproof::the campaign was not checked: exit status 2" in github.said
    assert "actions/cache/save@v4" in github.listed
    assert "Traceback" not in github.said


def test_action_fails_with_the_status_of_a_wrong_campaign(ackproof, runner) -> None:
    (ackproof.directory / "bad.yaml").write_text("name: bad\n")
    github = runner()
    outputs = github.action(PROJECT, {"campaign": "bad.yaml", "fail-on": "broken"})
    assert github.failed
    assert outputs == {"verdict": "", "status": "2", "report": "ackproof-results/report.html"}
    assert github.listed["actions/upload-artifact@v4"]["path"] == "ackproof-results"


def test_action_uploads_nothing_where_the_artifact_has_no_name(ackproof, runner) -> None:
    (ackproof.directory / "bad.yaml").write_text("name: bad\n")
    github = runner()
    github.action(PROJECT, {"campaign": "bad.yaml", "artifact": ""})
    assert "actions/upload-artifact@v4" not in github.listed


def test_action_refuses_an_unknown_threshold(runner) -> None:
    github = runner()
    github.action(PROJECT, {"fail-on": "brokn"})
    assert github.failed
    assert "fail-on is broken or inconclusive, not 'brokn'" in github.said


def test_pull_request_workflow_of_the_page_gives_the_action_inputs_that_it_has() -> None:
    checkout, step = github_jobs()["acks"]["steps"]
    assert checkout["uses"] == "actions/checkout@v4"
    assert step["uses"] == OURS
    assert step["with"].keys() <= {"campaign", "system", "seed", "fail-on", "results", "artifact"}
