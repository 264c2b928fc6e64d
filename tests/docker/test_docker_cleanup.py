"""Cleaning up beside a run that lives, and beside another clean-up."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from ackproof.infra.api.interface import Command
from ackproof.infra.backends.docker.backend import DockerBackend
from tests.support.backends.containers import owned_things

pytestmark = pytest.mark.docker

KILLED = """
import os, signal, sys
from pathlib import Path
from ackproof.infra.backends.docker.backend import DockerBackend
backend = DockerBackend(Path(sys.argv[1]))
for name in "abcd":
    backend.node(name)
os.kill(os.getpid(), signal.SIGKILL)
"""
AT_ONCE = 3


def clean(directory: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "ackproof.harness", "clean", "--all"],
        env={**os.environ, "ACKPROOF_STATE_DIRECTORY": str(directory / "state")},
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_clean_leaves_the_living_alone(tmp_path: Path) -> None:
    """``--all`` too: it ends the runs of its own registry, and ours is in another."""
    with closing(DockerBackend(tmp_path / "results")) as backend:
        node = backend.node("a")
        mine = {name for name in owned_things() if name not in owned_things(dead=True)}
        cleaned = clean(tmp_path)
        _, said = cleaned.communicate()
        assert cleaned.returncode == 0, said
        assert mine <= set(owned_things())
        assert node.start(Command(name="true", argv=["true"])).wait(10) == 0
    assert not mine & set(owned_things())


def test_several_clean_at_once(tmp_path: Path) -> None:
    """An engine refuses to remove what it is removing already: that is no failure of theirs."""
    killed = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "results")])
    assert killed.wait() == -signal.SIGKILL
    assert len(owned_things(by=[killed.pid])) == len(("a network", *"abcd"))
    cleaning = [clean(tmp_path) for _ in range(AT_ONCE)]
    said = [process.communicate() for process in cleaning]
    assert [process.returncode for process in cleaning] == [0] * AT_ONCE, said
    assert not owned_things(by=[killed.pid])
