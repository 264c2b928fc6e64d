"""The wheel, built from the sources of this checkout."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.builders.installations import lay_decoys

PROJECT = Path(__file__).parents[2]
TIMEOUT_S = 1_500
_BUILD = "from setuptools import build_meta; print(build_meta.build_wheel({!r}))"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the wheel. A build leaves files beside the sources, so it has a copy of them."""
    directory = tmp_path_factory.mktemp("wheel")
    sources = directory / "sources"
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, listed):
        if (PROJECT / name).is_symlink() or (PROJECT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(PROJECT / name, sources / name, follow_symlinks=False)
    code = _BUILD.format(str(directory))
    built = subprocess.run(
        [sys.executable, "-c", code], cwd=sources, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return directory / built.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def decoys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a package for each of ours, which cannot be imported."""
    directory = tmp_path_factory.mktemp("decoys")
    lay_decoys(directory)
    return directory


def _seconds_of(name: str, command: Sequence[str], **how: Any) -> str:
    began = time.monotonic()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, **how
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    sys.stdout.write(f"{name}: {time.monotonic() - began:.0f} s\n")
    return done.stdout


@pytest.fixture(scope="session")
def seconds_of() -> Callable[..., str]:
    """Run a command that must succeed, print how long it took, and return what it printed."""
    return _seconds_of


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that has the wheel and what it requires. It takes minutes."""
    directory = tmp_path_factory.mktemp("environment")
    _seconds_of("venv", [sys.executable, "-m", "venv", str(directory)])
    pip = [str(directory / "bin" / "pip"), "install", "--quiet"]
    constraints = ["--constraint", str(PROJECT / "constraints.txt")]
    _seconds_of("install", [*pip, *constraints, str(wheel)])
    megabytes = sum(f.lstat().st_size for f in directory.rglob("*") if f.is_file()) / 1e6
    sys.stdout.write(f"installed: {megabytes:.0f} MB\n")
    return directory


@pytest.fixture
def settings(environment: Path, tmp_path: Path) -> Mapping[str, str]:
    """The environment variables of a stranger, whose PATH begins with the virtual environment."""
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TERM") if name in os.environ}
    path = f"{environment / 'bin'}:{os.environ['PATH']}"
    return {**kept, "PATH": path, "XDG_STATE_HOME": str(tmp_path / "state")}
