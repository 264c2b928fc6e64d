"""A stranger's first minutes: the wheel in a virtual environment of its own, and no checkout."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
TIMEOUT_S = 1_500
pytestmark = [pytest.mark.long, pytest.mark.e2e]


def seconds_of(name: str, command: list[str], **settings: object) -> str:
    """Run a command that must succeed, print how long it took, and return what it printed."""
    began = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, **settings
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    sys.stdout.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    return done.stdout


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel and what it requires."""
    directory = tmp_path_factory.mktemp("environment")
    seconds_of("venv", [sys.executable, "-m", "venv", str(directory)])
    pip = [str(directory / "bin" / "pip"), "install", "--quiet"]
    constraints = ["--constraint", str(PROJECT / "constraints.txt")]
    seconds_of("install", [*pip, *constraints, str(wheel)])
    megabytes = sum(f.lstat().st_size for f in directory.rglob("*") if f.is_file()) / 1e6
    sys.stdout.write(f"installed: {megabytes:.0f} MB\n")
    return directory


@pytest.fixture
def call(environment: Path, decoys: Path, tmp_path: Path) -> Callable[..., str]:
    """Call the installed command in a directory full of decoys."""
    settings = {name: os.environ[name] for name in ("HOME", "LANG", "TERM") if name in os.environ}
    settings |= {"PATH": f"{environment / 'bin'}:{os.environ['PATH']}"}
    settings |= {"XDG_STATE_HOME": str(tmp_path)}

    def call(*arguments: str) -> str:
        command = [str(environment / "bin" / "ackproof"), *arguments]
        return seconds_of(" ".join(arguments), command, cwd=decoys, env=settings)

    return call


def test_demo_ends_with_the_path_of_its_report(call, decoys: Path) -> None:
    report = decoys / call("demo").splitlines()[-1].strip()
    assert report.name == "report.html"
    assert report.is_file()


def test_first_campaign_runs_beside_decoys(call, decoys: Path) -> None:
    call("init", "mine.yaml")
    assert "mine.yaml: right" in call("validate", "mine.yaml")
    report = decoys / call("run", "mine.yaml", "--seed", "1").splitlines()[-1].strip()
    assert report.is_file()
