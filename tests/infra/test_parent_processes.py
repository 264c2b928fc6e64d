"""Programs that do not outlive who started them."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ackproof.infra.agent.parents import dying_with
from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

PROJECT = Path(__file__).parents[2]
STARTS_ONE = """
import os, subprocess, sys
from ackproof.infra.agent.parents import dying_with
child = subprocess.Popen([*dying_with(os.getpid()), "sleep", "1000"])
print(child.pid, flush=True)
child.wait()
"""


def test_command_runs_unchanged_while_its_parent_lives() -> None:
    told = [*dying_with(os.getpid()), sys.executable, "-c", "import sys; print(sys.argv[1:])"]
    done = subprocess.run([*told, "a  b", "$PPID", "'"], capture_output=True, text=True, check=True)
    assert done.stdout == "['a  b', '$PPID', \"'\"]\n"


def test_unknown_program_ends_with_127() -> None:
    done = subprocess.run(
        [*dying_with(os.getpid()), "no-such-program"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


def test_command_is_not_run_if_its_parent_has_ended(tmp_path: Path) -> None:
    """Another one has adopted it, which is not the one that it belongs to."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    told = [*dying_with(ended.pid), "touch", str(tmp_path / "made")]
    assert subprocess.run(told, check=False).returncode != 0
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("_again", range(5))
def test_command_is_killed_with_its_parent(_again: int) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTS_ONE], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_until(lambda: not child.is_running() or child.status() == "zombie", PATIENCE_S, "its end")
