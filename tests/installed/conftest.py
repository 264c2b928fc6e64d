"""The wheel, built from the sources of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
DECOYS = (
    *("ackproof", "broker", "campaigns", "checkers", "harness", "history", "infra", "nemesis"),
    *("plugins", "testing", "workloads"),
)
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
    for name in DECOYS:
        (directory / name).mkdir()
        (directory / name / "__init__.py").write_text("raise ImportError('this is a decoy')\n")
    return directory
