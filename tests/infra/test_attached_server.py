"""A server that the agent did not start: found by its port, limited, its disk filled; undone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ackproof.harness.running.processes import exit_status
from ackproof.infra.agent import attached, cgroups
from ackproof.infra.agent.stat import stat
from ackproof.infra.api.capabilities import LimitedResource
from ackproof.infra.api.interface import InfraError, ProcessState
from ackproof.infra.backends.localhost import LocalhostBackend
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.attached import FoundProcess, LogDirectoryDisk, ServerLimits
from ackproof.infra.node.node import AgentNode
from tests.support.processes.deadlines import PATIENCE_S
from tests.support.processes.process import free_port

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's"),
]

SERVES = "import socket, sys; s = socket.create_server(('', int(sys.argv[1])))\nwhile True: pass"
CPU = LimitedResource.CPU


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentNode]:
    """A node whose agent is in the directory in which it notes its changes."""
    monkeypatch.chdir(tmp_path)
    with closing(LocalhostBackend(tmp_path / "nodes")) as backend:
        yield backend.node("client-1")


@pytest.fixture
def port(node: AgentNode) -> Iterator[int]:
    """The port of a server that is no child of the agent, in a control group of its own."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-c", SERVES, str(port)])
    groups = list(groups_of_its_own())
    try:
        for group in groups:
            (group / "cgroup.procs").write_text(str(server.pid))
        wait_until(lambda: found(node, port) == server.pid, PATIENCE_S, "the server")
        yield port
    finally:
        server.kill()
        server.wait()
        for group in groups:
            ended = lambda group=group: not (group / "cgroup.procs").read_text()  # noqa: E731
            wait_until(ended, PATIENCE_S, "its end")
            group.rmdir()


def groups_of_its_own() -> Iterator[Path]:
    """Make a group in each hierarchy: with version 2 of control groups there is one for both."""
    for hierarchy in {cgroups.hierarchy_of(what) for what in LimitedResource}:
        if hierarchy.version == 2:
            Path(hierarchy.top, "cgroup.subtree_control").write_text("+cpu +memory")
        group = Path(hierarchy.top, f"ackproof-test-{os.getpid()}")
        group.mkdir()
        yield group


def found(node: AgentNode, port: int) -> int | None:
    pid: int | None = node.agent.ask("listener", port=port)
    return pid


def settings(port: int, node: AgentNode) -> dict[str, str]:
    pid = found(node, port)
    assert pid is not None
    return cgroups.ForeignGroup(pid, CPU).settings()


def test_limit_is_on_the_server_s_own_group_and_is_lifted(node: AgentNode, port: int) -> None:
    limits, before = ServerLimits(node.agent, port), settings(port, node)
    for _ in range(2):
        limits.limit(CPU, 20)
    wait_until(lambda: limits.counted(CPU)["throttled"] > 3, PATIENCE_S, "the kernel to throttle")
    assert settings(port, node) != before
    for _ in range(2):
        limits.lift(CPU)
    assert limits.counted(CPU) == {}
    assert settings(port, node) == before


def test_memory_limit_is_beyond_the_present_use(node: AgentNode, port: int) -> None:
    limits = ServerLimits(node.agent, port)
    limits.limit(LimitedResource.MEMORY, 64 << 20)
    assert limits.counted(LimitedResource.MEMORY)["killed"] == 0
    limits.lift(LimitedResource.MEMORY)
    assert found(node, port) is not None


def test_changes_of_a_killed_agent_are_undone(node: AgentNode, port: int, tmp_path: Path) -> None:
    before = settings(port, node)
    ServerLimits(node.agent, port).limit(CPU, 20)
    during = settings(port, node)
    attached.restore(str(tmp_path))
    assert settings(port, node) == before != during
    attached.restore(str(tmp_path))


def test_paused_server_of_a_killed_agent_is_resumed(
    node: AgentNode, port: int, tmp_path: Path
) -> None:
    pid = found(node, port)
    assert pid is not None
    node.agent.ask("pause_server", port=port)
    wait_until(lambda: stat(pid).letter == "T", PATIENCE_S, "the stop")
    assert found(node, port) == pid
    attached.restore(str(tmp_path))
    wait_until(lambda: stat(pid).letter != "T", PATIENCE_S, "the process to go on")


def test_half_written_note_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    note = json.dumps({"remove": str(tmp_path / "file")})
    (tmp_path / "changes.jsonl").write_text(f'{note}\n{{"remo')
    attached.restore(str(tmp_path))
    assert not (tmp_path / "file").exists()


def test_group_with_other_processes_is_not_limited(node: AgentNode, port: int) -> None:
    pid = found(node, port)
    assert pid is not None
    group = Path(cgroups.ForeignGroup(pid, CPU).path)
    other = subprocess.Popen(["sleep", "1000"])
    try:
        (group / "cgroup.procs").write_text(str(other.pid))
        with pytest.raises(InfraError, match=f"has other processes, too: {other.pid}"):
            ServerLimits(node.agent, port).limit(CPU, 20)
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()


def test_absent_server_is_not_found(node: AgentNode) -> None:
    absent = free_port()
    assert found(node, absent) is None
    with pytest.raises(InfraError, match=f"no process listens on port {absent}"):
        ServerLimits(node.agent, absent).limit(CPU, 20)


def test_disk_of_a_log_directory_is_filled_and_emptied(node: AgentNode, tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", logs], check=True)
    try:
        (logs / "t-0").mkdir()
        disk = LogDirectoryDisk(node.agent, logs)
        (logs / "t-0" / "0.log").write_bytes(bytes(1 << 16))
        for _ in range(2):
            disk.fill()
        assert disk.refuses_writes() == "ENOSPC"
        (logs / "t-0" / "0.log").unlink()  # as a server that ends may do
        assert disk.refuses_writes() == "ENOSPC"
        assert [path.name for path in logs.iterdir() if path.is_dir()] == ["t-0"]
        attached.restore(str(tmp_path))
        assert disk.refuses_writes() is None
        assert [path.name for path in logs.iterdir()] == ["t-0"]
        disk.empty()
        with pytest.raises(InfraError, match="is not Ackproof's: lose_power"):
            disk.lose_power("x", "lost")
    finally:
        subprocess.run(["umount", logs], check=True)


def test_process_is_seen_until_its_end(node: AgentNode, port: int) -> None:
    named = node.agent.ask("find_server", port=port)
    process = FoundProcess("broker-1", node.agent, **named)
    assert process.state() is ProcessState.RUNNING
    assert process.scheduled() is not None
    another = FoundProcess("broker-1", node.agent, named["pid"], named["start"] + 1)
    assert another.state() is ProcessState.EXITED, "its id was given to another process"
    os.kill(process.pid, signal.SIGSTOP)
    stopped = lambda: process.state() is ProcessState.STOPPED  # noqa: E731
    wait_until(stopped, PATIENCE_S, "the stop")
    os.kill(process.pid, signal.SIGKILL)
    ended = lambda: process.state() is ProcessState.EXITED  # noqa: E731
    wait_until(ended, PATIENCE_S, "the end")
    assert node.agent.ask("find_server", port=port) is None
    assert exit_status(process) is None


def test_log_lines_are_those_that_name_a_word(tmp_path: Path) -> None:
    put_aside = tmp_path / "server.log.2026-11-29-20"
    put_aside.write_text("first of orders-0\nfirst of others-0\n")
    os.utime(put_aside, times=(time.time() - 10, time.time() - 10))
    (tmp_path / "aside.log").write_text("orders-0 in a file that is not open\n")
    (tmp_path / "server.log").write_text("others-0\nlast of orders-0\n")
    (tmp_path / "00000000000000000000.log").write_text("orders-0 in a record\n")
    assert _log_lines_with_open() is None
    segment, log = tmp_path / "00000000000000000000.log", tmp_path / "server.log"
    assert _log_lines_with_open(segment) is None
    assert _log_lines_with_open(segment, log) == ["first of orders-0\n", "last of orders-0\n"]


def _log_lines_with_open(*paths: Path) -> list[str] | None:
    """Return the lines about orders-0 of a process that has ``paths`` open and no other file.

    The process of the test is not asked, because its output may go to a ``.log`` file.
    """
    opened = [path.open("a") for path in paths]
    with subprocess.Popen(
        ["cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[file.fileno() for file in opened],
    ) as process:
        lines = attached.log_lines(process.pid, ["orders-0"], 60)
        process.communicate()
    for file in opened:
        file.close()
    return lines
