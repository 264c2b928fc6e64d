"""Cleaning up beside a run that lives."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from containers import owned_things

from infra.docker.backend import DockerBackend
from infra.interface import Command

pytestmark = pytest.mark.docker


def test_clean_leaves_the_living_alone(tmp_path: Path) -> None:
    """``--all`` too: it ends the runs of its own registry, and ours is in another."""
    with closing(DockerBackend(tmp_path / "results")) as backend:
        node = backend.node("a")
        mine = {name for name in owned_things() if name not in owned_things(dead=True)}
        cleaned = subprocess.run(
            [sys.executable, "-m", "harness", "clean", "--all"],
            env={**os.environ, "ACKPROOF_STATE_DIRECTORY": str(tmp_path / "state")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert cleaned.returncode == 0, cleaned.stderr
        assert mine <= set(owned_things())
        assert node.start(Command(name="true", argv=["true"])).wait(10) == 0
    assert not mine & set(owned_things())
