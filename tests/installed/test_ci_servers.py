"""The whole GitHub Action, and the snippets of docs/ci.md for GitLab and Jenkins, executed as far
as a shell can."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from junitparser import JUnitXml

from tests.support.processes.ci_snippets import gitlab_jobs, snippets
from tests.support.processes.github_runner import Runner

pytestmark = [pytest.mark.long, pytest.mark.e2e]

PROJECT = Path(__file__).parents[2]
TIMEOUT_S = 1_500

CAMPAIGN = """
name: acks
cells: {acks: all, partitions: 1}
workload: {rate: 100}
faults: []
schedule: {warmup: 1s, tail: 5s}
evidence: {acked.min: 100}
"""
RECORDS = '#!/bin/sh\necho "$(basename "$0") $*" >> "$RECORDED"\n'

Execute = Callable[[Sequence[str], Sequence[str]], str]


@pytest.fixture
def workspace(wheel: Path, tmp_path: Path) -> Path:
    """The workspace of a job: a campaign, and the wheel where the page expects it."""
    workspace = tmp_path / "workspace"
    (workspace / "tests").mkdir(parents=True)
    (workspace / "tests" / "acks.yaml").write_text(CAMPAIGN, encoding="utf-8")
    shutil.copy(wheel, workspace)
    return workspace


@pytest.fixture
def recorders(tmp_path: Path) -> Path:
    """A directory of commands that would change the machine, and are only recorded."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("apt-get", "sudo"):
        (directory / name).write_text(RECORDS)
        (directory / name).chmod((directory / name).stat().st_mode | stat.S_IXUSR)
    return directory


@pytest.fixture
def execute(
    workspace: Path, settings: Mapping[str, str], recorders: Path, tmp_path: Path
) -> Execute:
    """Execute lines with a shell, and return what they print."""
    recorded = tmp_path / "recorded"
    path = f"{recorders}{os.pathsep}{settings['PATH']}"

    def executed(shell: Sequence[str], lines: Sequence[str]) -> str:
        done = subprocess.run(
            [*shell, "-c", "\n".join(lines)],
            cwd=workspace,
            env={**settings, "PATH": path, "RECORDED": str(recorded)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    return executed


@pytest.mark.parametrize("name", ["acks", "nightly"])
def test_gitlab_job_of_the_page(execute: Execute, workspace: Path, name: str) -> None:
    job = gitlab_jobs()[name]
    execute(("bash", "-eo", "pipefail"), [*job["before_script"], *job["script"]])
    execute(("bash", "-eo", "pipefail"), job["after_script"])
    artifacts = job["artifacts"]
    kept = [
        *artifacts["paths"],
        artifacts["reports"]["junit"],
        *job.get("cache", {}).get("paths", []),
    ]
    assert [path for path in kept if not (workspace / path).exists()] == []
    assert JUnitXml.fromfile(str(workspace / artifacts["reports"]["junit"])).failures == 0


def test_jenkins_stage_of_the_page_in_the_workspace_of_the_last_build(
    execute: Execute, workspace: Path
) -> None:
    (stage,) = snippets("Jenkins")
    (workspace / "results" / "acks").mkdir(parents=True)
    (workspace / "results" / "acks" / "junit.xml").write_text("<testsuites/>", encoding="utf-8")
    for line in re.findall(r"^ *sh '(.*)'$", stage, re.MULTILINE):
        execute(("sh", "-xe"), [line])
    (junit,) = re.findall(r"junit '(.*)'", stage)
    assert JUnitXml.fromfile(str(workspace / junit)).tests > 0
    (pattern,) = re.findall(r"archiveArtifacts '(.*)'", stage)
    assert (workspace / "results" / "acks" / "report.html") in list(workspace.glob(pattern + "/*"))


def test_action_installs_itself_and_runs_a_campaign(
    workspace: Path, settings: Mapping[str, str], recorders: Path, tmp_path: Path
) -> None:
    environ = {**settings, "PATH": f"{recorders}{os.pathsep}{os.environ['PATH']}"}
    environ |= {"RECORDED": str(tmp_path / "recorded")}
    runner = Runner(tmp_path / "runner", workspace, environ, timeout_s=TIMEOUT_S)
    outputs = runner.action(checkout_of(PROJECT, tmp_path), {"campaign": "tests/acks.yaml"})
    assert not runner.failed, runner.said
    assert outputs == {
        "verdict": "pass",
        "status": "0",
        "report": "ackproof-results/report.html",
    }
    assert (workspace / outputs["report"]).is_file()
    assert runner.summary.startswith("## Ackproof: acks, seed ")
    assert list(runner.listed) == [
        "actions/setup-python@v5",
        "actions/setup-java@v4",
        "actions/upload-artifact@v4",
    ]


def checkout_of(project: Path, directory: Path) -> Path:
    """Return a clean clone: a build leaves files beside the sources."""
    subprocess.run(["git", "clone", "--quiet", project, directory / "clone"], check=True)
    return directory / "clone"
