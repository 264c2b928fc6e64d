"""The wheel has everything under one name, and finds it from any directory."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.harness.commands.options import shipped


@pytest.fixture(scope="module")
def installed(
    wheel: Path, decoys: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Call a command of the installed wheel in a directory full of decoys."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-P", "-m", "ackproof.harness", *arguments],
            cwd=decoys,
            env={**os.environ, "PYTHONPATH": str(site)},
            capture_output=True,
            text=True,
            check=False,
        )

    return call


def test_wheel_has_one_package(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ackproof"}


@pytest.mark.parametrize(
    "name",
    [
        "ackproof/campaigns/quick.yaml",
        "ackproof/campaigns/known-losses/stories.yaml",
        "ackproof/harness/campaign/docs/template.yaml",
        "ackproof/harness/campaign/plan/stories.yaml",
        "ackproof/harness/mutants/kafka/isr-joined-at-once.btm",
        "ackproof/harness/report/axis/axis.css",
        "ackproof/harness/report/axis/axis.js",
        "ackproof/harness/report/axis/uplot/LICENSE",
        "ackproof/harness/report/axis/uplot/uPlot.iife.min.js",
        "ackproof/harness/report/axis/uplot/uPlot.min.css",
        "ackproof/infra/backends/docker/Dockerfile",
        "ackproof/py.typed",
        "LICENSE",
    ],
)
def test_wheel_has_the_files_that_are_no_modules(wheel: Path, name: str) -> None:
    assert any(one.endswith(name) for one in zipfile.ZipFile(wheel).namelist())


def test_wheel_has_no_tests_and_no_development_tools(wheel: Path) -> None:
    left_out = ("/tests/", "simulation/", "tools/mutation/", ".patch")
    # Clojure names files after Jepsen's namespaces, such as jepsen.tests.cycle.
    names = [one for one in zipfile.ZipFile(wheel).namelist() if not one.endswith(".clj")]
    assert not [name for name in names if any(part in name for part in left_out)]


def test_campaigns_are_found_by_name_beside_decoys(installed) -> None:
    listed = installed("campaigns")
    assert listed.returncode == 0, listed.stderr
    assert all(f" {name} " in listed.stdout for name in shipped())
    planned = installed("run", "quick", "--seed", "1", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "isolate" in planned.stdout


def test_unknown_campaign_is_refused_with_the_name_that_was_meant(installed) -> None:
    refused = installed("run", "qick")
    assert refused.returncode == 2
    assert "did you mean quick?" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_first_campaign_is_written_and_validated_beside_decoys(installed) -> None:
    assert installed("init", "mine.yaml").returncode == 0
    right = installed("validate", "mine.yaml")
    assert (right.returncode, right.stdout.splitlines()[0]) == (0, "mine.yaml: right")
    assert "acks-all-minisr-2" in right.stdout
