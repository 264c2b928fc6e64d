"""The release workflow, executed step by step in a clean clone. Nothing is published: `gh` and
`docker` are recorded. `make test-docker` builds the image from the same Dockerfile."""

import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.support.processes.github_runner import Runner

PROJECT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((PROJECT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
VERSION = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "version"
]
TIMEOUT_S = 1_500
RECORDS = '#!/bin/sh\necho "$(basename "$0") $*" >> "$RECORDED"\n'


@pytest.fixture
def release(tmp_path: Path) -> Callable[..., tuple[Runner, list[str]]]:
    """Execute the job for a tag in a clean clone; return the runner and what was recorded of the
    commands that change the machine or publish."""
    clone, tools, recorded = tmp_path / "clone", tmp_path / "tools", tmp_path / "recorded"
    subprocess.run(["git", "clone", "--quiet", PROJECT, clone], check=True)
    tools.mkdir()
    for name in ("docker", "gh", "sudo"):
        (tools / name).write_text(RECORDS)
        (tools / name).chmod((tools / name).stat().st_mode | stat.S_IXUSR)

    def released(tag: str, python: Path) -> tuple[Runner, list[str]]:
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        environ = {
            **kept,
            "PATH": os.pathsep.join([str(tools), str(python), os.environ["PATH"]]),
            "RECORDED": str(recorded),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "GITHUB_REF_NAME": tag,
        }
        runner = Runner(
            tmp_path / "runner",
            clone,
            environ,
            contexts={"github.token": "t"},
            timeout_s=TIMEOUT_S,
        )
        runner.job(WORKFLOW["jobs"]["release"])
        return runner, recorded.read_text().splitlines() if recorded.exists() else []

    return released


def test_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((PROJECT / "deploy/helm/ackproof/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)


def test_release_of_a_tag_that_is_not_the_version_ends_at_once(release) -> None:
    runner, recorded = release("v9.9.9", Path(sys.executable).parent)
    assert runner.failed
    assert [step.status for step in runner.steps if step.uses is None] == [1] + [None] * 5
    assert recorded == []


@pytest.mark.long
@pytest.mark.e2e
def test_release_builds_tries_and_publishes_wheel_and_sources(release, tmp_path: Path) -> None:
    python = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", python], check=True)
    runner, recorded = release(f"v{VERSION}", python / "bin")
    assert not runner.failed, runner.said
    assert [step.status for step in runner.steps if step.uses is None] == [0] * 6
    assert "report.html" in runner.said
    wheel = f"dist/ackproof-{VERSION}-py3-none-any.whl"
    image = f"dist/ackproof-v{VERSION}-image.tar.gz"
    sources = f"dist/ackproof-{VERSION}.tar.gz"
    assert all((tmp_path / "clone" / name).is_file() for name in (wheel, image, sources))
    attached = set(recorded[-1].removeprefix(f"gh release create v{VERSION} ").split())
    assert attached == {wheel, image, sources, "--verify-tag", "--generate-notes"}
    assert [line for line in recorded if line.startswith("docker")] == [
        f"docker build --tag ackproof:v{VERSION} .",
        f"docker run --rm --privileged ackproof:v{VERSION} run quick",
        f"docker save ackproof:v{VERSION}",
    ]
