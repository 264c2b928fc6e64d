"""Processes that are run, asked to stop, and waited for."""

import signal
import threading
from pathlib import Path

import pytest

from ackproof.harness.subprocesses import ChildProcesses, Interrupted
from ackproof.infra.machine.waiting import wait_until

ASKED_AND_WAITED_FOR = "trap 'echo asked; kill $!; exit 7' TERM; echo ready; sleep 600 & wait"
GIVE_UP_S = 120


def test_child_output_and_exit_status_are_returned(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as output:
        status = ChildProcesses().run(["sh", "-c", "echo $WHO; exit 5"], output, {"WHO": "me"})
    assert (status, said.read_text()) == (5, "me\n")


def test_running_child_is_asked_to_stop_once_and_awaited(tmp_path: Path) -> None:
    children, said = ChildProcesses(), tmp_path / "said"

    def ask() -> None:
        wait_until(lambda: said.exists() and "ready" in said.read_text(), GIVE_UP_S, "its start")
        children._receive(signal.SIGTERM, None)

    asking = threading.Thread(target=ask)
    asking.start()
    with said.open("wb") as output:
        status = children.run(["sh", "-c", ASKED_AND_WAITED_FOR], output)
    asking.join()
    assert (status, said.read_text()) == (7, "ready\nasked\n")
    with pytest.raises(Interrupted):
        children.check()


def test_nothing_is_started_after_that(tmp_path: Path) -> None:
    children = ChildProcesses()
    children._receive(signal.SIGINT, None)
    with pytest.raises(Interrupted):
        children.run(["touch", str(tmp_path / "started")])
    assert not (tmp_path / "started").exists()
