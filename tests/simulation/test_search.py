"""A search by the command ``python -m simulation``."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ackproof.infra.machine.waiting import wait_until
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.simulation


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.long), 2])
def test_background_search_reports_its_findings_on_interruption(tmp_path: Path, jobs: int) -> None:
    summary = tmp_path / "summary.json"
    endless = ["--seconds", "100000", "--jobs", str(jobs), "--summary", str(summary)]
    endless += ["--first", "8"]  # two short ones
    # As a shell that is not a terminal's starts a command that ends with &.
    ignoring = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    run = "os.execv(sys.executable, [sys.executable, '-m', 'simulation', *sys.argv[1:]])"
    with subprocess.Popen(
        [sys.executable, "-c", ignoring + run, *endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as search:
        try:
            wait_until(summary.exists, PATIENCE_S, "a seed")
            search.send_signal(signal.SIGINT)
            said, _ = search.communicate(timeout=PATIENCE_S)
        finally:
            search.kill()
    assert search.returncode == 0, said
    assert "0 failed" in said
    found = json.loads(summary.read_text())
    assert found["seeds"] >= 1
    assert found["failures"] == []
