"""Entering namespaces: what passes through, and that nothing is left after any kill."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from ackproof.infra.backends.local import enter
from ackproof.infra.backends.local.processes import mark
from ackproof.infra.machine.registry import EntryKind, Registry
from ackproof.infra.run_control import clean, leftovers
from tests.support.backends.namespaces import AS_EACH_USER
from tests.support.processes.deadlines import PATIENCE_S

pytestmark = pytest.mark.integration

CASES = "cases_enter.py"


def _host() -> set[object]:
    """Return the possible leftovers of a run on the host besides processes: interfaces and mounts.
    Others come and go meanwhile: compare the new ones while the run lived. An interface is
    identified by its index, because its name is that of the subnet, which may be reused."""
    return {*socket.if_nameindex(), *Path("/proc/self/mountinfo").read_text().splitlines()}


def _ready(run, wait_for) -> None:
    wait_for((run.scratch / "inner").exists, "the case to be ready")


@AS_EACH_USER
def test_exit_status_passes_through(inside) -> None:
    assert inside.start(CASES, "exits_with_7").wait(PATIENCE_S) == 7


def test_death_by_a_signal_becomes_128_and_the_signal(inside) -> None:
    assert inside.start(CASES, "kills_itself").wait(PATIENCE_S) == 128 + signal.SIGKILL


def _python(inside, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python of the user that the cases run as, to its end."""
    return subprocess.run(
        [*inside.prefix, inside.python, *arguments],
        env=inside.environ,
        cwd=inside.directory,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def test_a_command_that_does_not_exist_is_127(inside) -> None:
    # no shell, no path
    code = "from ackproof.infra.backends.local.enter import enter; enter(['/nonexistent'], 'run')"
    done = _python(inside, "-c", code)
    assert done.returncode == 127
    assert "cannot start /nonexistent: No such file or directory" in done.stderr


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 21), (signal.SIGTERM, 41)])
def test_signals_reach_the_command_once(inside, wait_for, number: int, status: int) -> None:
    run = inside.start(CASES, "counts_signals")
    _ready(inside, wait_for)
    run.send_signal(number)
    assert run.wait(PATIENCE_S) == status


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 21), (signal.SIGTERM, 41)])
def test_signals_that_were_ignored_at_the_start_reach_the_command(
    inside, wait_for, number: int, status: int
) -> None:
    """Test a start by a script's shell: ``ackproof run ... &``."""
    run = inside.start(CASES, "counts_signals", ignored=[signal.SIGINT, signal.SIGTERM])
    _ready(inside, wait_for)
    run.send_signal(number)
    assert run.wait(PATIENCE_S) == status


def test_an_ignored_ctrl_c_interrupts_python_as_ever(inside, wait_for) -> None:
    run = inside.start(CASES, "is_interrupted", ignored=[signal.SIGINT])
    _ready(inside, wait_for)
    run.send_signal(signal.SIGINT)
    assert run.wait(PATIENCE_S) == 9


def test_a_hang_up_that_was_ignored_stays_so(inside, wait_for) -> None:
    """Test a start by ``nohup``."""
    run = inside.start(CASES, "counts_signals", ignored=[signal.SIGHUP])
    _ready(inside, wait_for)
    run.send_signal(signal.SIGHUP)
    run.send_signal(signal.SIGTERM)
    assert run.wait(PATIENCE_S) == 41


def test_a_crash_of_the_outer_process_breaks_no_guarantee(inside) -> None:
    """It is told of a run that the registry does not know."""
    crashed = _python(
        inside, "-P", "-m", "ackproof.infra.backends.local.outer", "unknown", "--", "true"
    )
    assert crashed.returncode == 5
    assert "the run unknown does not exist on this machine" in crashed.stderr


@pytest.mark.parametrize(
    ("case", "status"), [("breaks_a_guarantee", 1), ("fails_as_python_does", 5)]
)
def test_only_a_broken_guarantee_is_1(inside, case: str, status: int) -> None:
    assert inside.start(CASES, case, stderr=subprocess.DEVNULL).wait(PATIENCE_S) == status


def test_a_signal_to_the_whole_group_reaches_the_command_once(inside, wait_for) -> None:
    run = inside.start(CASES, "counts_signals", start_new_session=True)
    _ready(inside, wait_for)
    os.killpg(run.pid, signal.SIGTERM)
    assert run.wait(PATIENCE_S) == 41


@AS_EACH_USER
def test_ctrl_c_at_a_terminal_reaches_the_command_once(inside, wait_for) -> None:
    spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    terminal = subprocess.Popen(
        [sys.executable, "-c", spawn, *inside.argv(CASES, "counts_signals")],
        env=inside.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    _ready(inside, wait_for)
    assert terminal.stdin is not None
    terminal.stdin.write(b"\x03")
    terminal.stdin.flush()
    assert terminal.wait(PATIENCE_S) == 21
    terminal.stdin.close()


def test_orphans_are_reaped(inside) -> None:
    inside.check(CASES, "reaps_orphans")


@AS_EACH_USER
def test_killing_the_outer_process_leaves_nothing_that_runs(inside, wait_for) -> None:
    before = _host()
    run = inside.start(CASES, "busy")
    _ready(inside, wait_for)
    wait_for(lambda: len(inside.processes()) == 7, "outer, init, command and four others")
    new = _host() - before
    assert new or not inside.root, "the uplink is seen on the host, for root"
    run.kill()
    run.wait(PATIENCE_S)
    wait_for(lambda: inside.processes() == [], "every process to end")
    wait_for(lambda: not new & _host(), "the host to be as before")


@AS_EACH_USER
def test_clean_removes_the_leftovers_of_a_killed_run(inside, wait_for) -> None:
    run = inside.start(CASES, "busy")
    _ready(inside, wait_for)
    registry = Registry(inside.state)
    assert leftovers(registry) == []
    run.kill()
    run.wait(PATIENCE_S)
    assert [entry.run_id for entry in leftovers(registry)] == [inside.mark]
    lines: list[str] = []
    assert clean(registry, lines.append)
    assert lines == [f"{inside.mark}: removed, with {inside.scratch}"]
    assert not inside.scratch.exists()
    assert registry.run_ids() == []
    wait_for(lambda: inside.processes() == [], "every process to end")


def test_killing_the_command_leaves_nothing_at_all(inside, wait_for) -> None:
    before = _host()
    run = inside.start(CASES, "busy")
    _ready(inside, wait_for)
    new = _host() - before
    init = Registry(inside.state).get(inside.mark).init
    assert init is not None
    (command,) = [
        child
        for child in psutil.Process(init.pid).children()
        if "cases_enter.py" in str(child.cmdline())
    ]
    command.kill()
    assert run.wait(PATIENCE_S) == 128 + signal.SIGKILL
    assert inside.processes() == []
    assert not inside.scratch.exists()
    assert Registry(inside.state).run_ids() == []
    wait_for(lambda: not new & _host(), "the host to be as before")


def test_living_runs_are_left_alone_unless_asked(inside, wait_for) -> None:
    run = inside.start(CASES, "busy")
    _ready(inside, wait_for)
    registry = Registry(inside.state)
    lines: list[str] = []
    assert clean(registry, lines.append)
    assert run.poll() is None
    assert lines == [f"{inside.mark}: run is active (process {run.pid}) and was not changed"]
    assert clean(registry, lines.append, everything=True)
    run.wait(PATIENCE_S)
    assert inside.processes() == []
    assert registry.run_ids() == []


@AS_EACH_USER
def test_the_registry_tells_how_to_get_to_the_nodes(inside, wait_for) -> None:
    run = inside.start(CASES, "busy")
    _ready(inside, wait_for)
    entry = Registry(inside.state).get(inside.mark)
    assert entry.kind is EntryKind.RUN
    assert entry.outer.pid == run.pid
    seen = subprocess.run(
        [*inside.prefix, *entry.nsenter, "cat", "/proc/net/dev"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "node1:" in seen.stdout
    run.terminate()
    assert run.wait(PATIENCE_S) == 128 + signal.SIGTERM


def test_this_machine_lets_us_in() -> None:
    assert enter.can_enter() is None


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    reason = enter.can_enter()
    assert reason is not None
    assert "unshare, nsenter, setpriv, env" in reason
    assert "util-linux" in reason


def test_a_refusing_kernel_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, executable: Callable[[Path, str], None]
) -> None:
    executable(tmp_path / "unshare", "#!/bin/sh\necho 'unshare failed: no' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    reason = enter.can_enter()
    assert reason is not None
    assert "unshare failed: no" in reason
    assert "as root" in reason


def test_a_mark_carried_elsewhere_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in mark({}).items():
        monkeypatch.setenv(name, value)
        assert enter.inside()
        monkeypatch.setenv(name, value + "0")
        assert not enter.inside()


def test_signal_on_the_way_inside_ends_the_run_in_one_line(inside) -> None:
    code = (
        "import pathlib, signal, threading\n"
        "from ackproof.harness.campaign.backends import go_inside\n"
        "from ackproof.infra.machine.registry import EntryKind\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n"
        # To this thread alone: libraries have threads that block nothing.
        "signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "scratch = pathlib.Path('scratch')\n"
        "go_inside(['--version'], 'run', kind=EntryKind.RUN, scratch=scratch, results=None)\n"
    )
    done = _python(inside, "-c", code)
    assert (done.returncode, done.stderr) == (3, "ackproof: interrupted\n")
    assert not Registry(inside.state).run_ids()
    assert not inside.scratch.exists()
