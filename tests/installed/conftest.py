"""The wheel, built from the sources of this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from decoys import lay_decoys

PROJECT = Path(__file__).parents[2]
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
