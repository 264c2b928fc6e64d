"""The agent itself, started here and asked: what conformance cannot see from outside of a node."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from ackproof.infra.agent.main import command_line
from ackproof.infra.agent.wire import Wire
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import AgentClient, Sockets
from tests.support.processes.deadlines import PATIENCE_S

PROJECT = Path(__file__).parents[2]
FAST_NS = 5 * 10**9
CLOCK_THAT_IS_FAST = f"""
import sys, time
sys.path.insert(0, {str(PROJECT)!r})
from ackproof.infra.agent import main
from ackproof.infra.agent.verbs import VERBS
main.take_on("listen", sys.argv[1:], {{**VERBS, "time_ns": lambda: time.time_ns() + {FAST_NS}}})
"""
SLOW_TO_HEAR = f"""
import sys, threading
sys.path.insert(0, {str(PROJECT)!r})
from ackproof.infra.agent import children, main
hear = children._hear_signals
children._hear_signals = lambda: (threading.Event().wait(0.5), hear())
main.main()
"""
LISTEN = command_line(sys.executable, str(PROJECT), "listen")


@dataclass(frozen=True)
class Started:
    client: AgentClient
    process: "subprocess.Popen[bytes]"
    way: Sockets
    directory: Path

    def start(self, *argv: str) -> int:
        """The number of a process that was started."""
        log = str(self.directory / "log")
        number: int = self.client.ask("start", argv=argv, env={}, directory="/", log=log)["number"]
        return number

    def below(self) -> Sequence[psutil.Process]:
        found = psutil.Process(self.process.pid).children(recursive=True)
        return [process for process in found if process.is_running()]

    def names_below(self) -> Sequence[str]:
        """Return the names of the processes that have not ended meanwhile."""
        found = []
        for process in self.below():
            with suppress(psutil.NoSuchProcess):
                found.append(process.name())
        return found


@pytest.fixture
def agent() -> Iterator[Callable[..., Started]]:
    """Starts agents, which are ended afterwards."""
    with ExitStack() as stack:

        def start(*command: str) -> Started:
            directory = Path(stack.enter_context(TemporaryDirectory(dir="/tmp")))  # a short path
            path = directory / "sock"
            process = subprocess.Popen([*(command or LISTEN), str(path)])
            stack.callback(ended, process)
            words = lambda: None if process.poll() is None else "x"  # noqa: E731
            way = stack.enter_context(closing(Sockets("node", str(path), words)))
            return Started(AgentClient("node", way), process, way, directory)

        yield start


def ended(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    assert process.wait(PATIENCE_S) == 0


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that answers no connection: as many wait to be accepted as may."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with suppress(BlockingIOError):
                waiting.connect(listener.getsockname())
        yield listener.getsockname()[1]


def test_repeated_request_is_carried_out_once(agent) -> None:
    """Test an answer that was lost with its connection: the request is repeated on another one."""
    there = agent()
    command = {"argv": ["sleep", "1000"], "env": {}, "directory": "/", "log": "/dev/null"}
    request = {"ask": "start", "arguments": command, "id": "the same"}
    answers = [there.way.use(lambda wire: exchange(wire, request), 10) for _ in range(3)]
    assert answers == answers[:1] * 3
    assert len(there.below()) == 1
    other = there.way.use(lambda wire: exchange(wire, {**request, "id": "another"}), 10)
    assert other["result"]["number"] == answers[0]["result"]["number"] + 1


def test_repeated_request_awaits_the_one_in_progress(agent, deaf: int) -> None:
    there = agent()
    probe = {"address": "127.0.0.1", "port": deaf, "within": 1.0}
    request = {"ask": "reaches", "id": "x", "arguments": probe}

    def ask(_: int) -> dict[str, Any]:
        return there.way.use(lambda wire: exchange(wire, request), 20)

    begun = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == [{"result": False}] * 4
    assert time.monotonic() - begun >= 1.0


def test_answer_is_remembered_and_the_probe_is_not_tried_again(agent) -> None:
    there = agent()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        probe = {"address": "127.0.0.1", "port": listener.getsockname()[1], "within": 60.0}

        def ask(number: str) -> dict[str, Any]:
            request = {"ask": "reaches", "id": number, "arguments": probe}
            return there.way.use(lambda wire: exchange(wire, request), 90)

        assert ask("x") == {"result": False}
        listener.listen()
        assert (ask("x"), ask("y")) == ({"result": False}, {"result": True})


def test_slow_request_does_not_delay_others(agent, deaf: int) -> None:
    there = agent()
    probe = {"address": "127.0.0.1", "port": deaf, "within": 60.0}
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(there.client.ask, "reaches", timeout=90.0, **probe)
        number = there.start("sleep", "1000")
        assert there.client.ask("state", number=number)["state"] == "running"
        assert not slow.done()
        there.process.terminate()
        with pytest.raises(InfraError):
            slow.result(30)


def test_a_process_outlives_the_connection_that_started_it(agent) -> None:
    """The parent-death signal comes when the thread that forked ends."""
    there = agent()
    number = there.start("sleep", "1000")
    there.way.close()
    again = Sockets("node", str(there.directory / "sock"), lambda: None)
    with closing(again):
        client = AgentClient("node", again)
        assert client.ask("state", number=number)["state"] == "running"
        exited = lambda: client.ask("state", number=number)["state"] == "exited"  # noqa: E731
        with pytest.raises(TimeoutError):
            wait_until(exited, 0.3, "what must not be")


def test_time_that_a_process_ran_is_counted_until_it_exits(agent) -> None:
    there = agent()
    number = there.start("sh", "-c", "while :; do :; done")
    times = lambda: there.client.ask("scheduled", number=number)  # noqa: E731
    wait_until(lambda: times()["ran_ns"] > 50_000_000, PATIENCE_S, "50 ms of processor time")
    assert times()["waited_ns"] >= 0
    there.client.ask("signal", number=number, signal_number=9)
    exited = lambda: there.client.ask("state", number=number)["state"] == "exited"  # noqa: E731
    wait_until(exited, PATIENCE_S, "its end")
    assert times() is None


def test_a_clock_that_is_fast_is_seen(agent) -> None:
    reading = agent(sys.executable, "-c", CLOCK_THAT_IS_FAST).client.clock()
    assert abs(reading.offset_ns - FAST_NS) <= reading.bound_ns < FAST_NS


def test_sigterm_ends_everything_below(agent) -> None:
    """Daemons, stopped ones; and while many end by themselves, whose SIGCHLD comes at the same
    time and may go to another thread."""
    there = agent()
    there.start("setsid", "--fork", "sleep", "1000")
    number = there.start("sleep", "1000")
    wait_until(lambda: there.names_below() == ["sleep"] * 2, PATIENCE_S, "two sleepers")
    there.client.ask("signal", number=number, signal_number=signal.SIGSTOP)
    below = there.below()
    for _ in range(50):
        there.start("true")
    there.process.terminate()
    assert there.process.wait(PATIENCE_S) == 0
    assert psutil.wait_procs(below, 5)[1] == []


def test_agent_without_requests_ends_with_its_lease() -> None:
    """And with it all processes below, whose harness is dead or cut off."""
    with TemporaryDirectory(dir="/tmp") as directory:
        path = f"{directory}/sock"
        process = subprocess.Popen([*LISTEN, path, "1"], stderr=subprocess.PIPE)
        assert process.stderr is not None
        with process.stderr, closing(Sockets("node", path, lambda: None)) as way:
            client = AgentClient("node", way)
            client.ask("start", argv=["sleep", "1000"], env={}, directory="/", log=f"{path}.log")
            (below,) = psutil.Process(process.pid).children()
            begun = time.monotonic()
            while time.monotonic() < begun + 2:  # longer than the lease
                client.clock()
            assert process.poll() is None, "each request renews the lease"
            assert process.wait(PATIENCE_S) == 0
            assert b"no request of the harness for 1 s" in process.stderr.read()
        assert psutil.wait_procs([below], 5)[1] == []


def test_agent_that_has_answered_can_be_terminated(agent) -> None:
    """It hears signals before it serves anybody, however long that takes it."""
    there = agent(sys.executable, "-c", SLOW_TO_HEAR, "listen")
    there.client.clock()  # for which the main thread has nothing to do
    there.process.terminate()
    assert there.process.wait(PATIENCE_S) == 0


def test_agent_reports_requests_that_it_cannot_carry_out(agent) -> None:
    client = agent().client
    with pytest.raises(InfraError, match="node: KeyError: 'fly'"):
        client.ask("fly")
    with pytest.raises(InfraError, match="node: TypeError"):
        client.ask("mkdir", wrong=1)
    with pytest.raises(FileNotFoundError, match="/nonexistent"):
        client.read(PurePosixPath("/nonexistent"))
    with pytest.raises(InfraError, match="Is a directory"):
        client.read(PurePosixPath("/tmp"))
    assert client.read(PurePosixPath("/proc/self/comm")), "a file whose size is said to be 0"


def test_peer_that_is_no_agent_is_reported() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"Welcome to this machine\n")
        with pytest.raises(ValueError, match="this is no agent, it begins with b'Welc'"):
            Wire(ours).header()
        theirs.close()


def test_agent_imports_few_modules() -> None:
    """A node is only there when its agent is."""
    heavy = {"dataclasses", "pathlib", "subprocess", "logging", "asyncio", "inspect", "tempfile"}
    first = "import sys; sys.path.insert(0, sys.argv[1])"
    show = (
        f"{first}; from ackproof.infra.agent import main, server, verbs; print(sorted(sys.modules))"
    )
    argv = [sys.executable, "-I", "-S", "-c", show, str(PROJECT)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "ackproof.infra.agent.children" in said
    assert {name for name in heavy if f"'{name}'" in said} == set()


def exchange(wire: Wire, request: dict[str, object]) -> dict[str, Any]:
    wire.send_header(request)
    wire.end_body()
    wire.flush()
    assert list(wire.body()) == []
    return wire.header()


def test_the_way_to_an_agent_that_dies_with_a_request_unread_just_ends() -> None:
    """The kernel resets such a connection, where it ends one of which everything was read."""
    with (
        TemporaryDirectory(dir="/tmp") as directory,  # a short path
        closing(socket.socket(socket.AF_UNIX)) as listener,
    ):
        path = f"{directory}/socket"
        listener.bind(path)
        listener.listen()
        way = subprocess.Popen(
            command_line(sys.executable, str(PROJECT), "connect", path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert way.stdin is not None
        way.stdin.write(b"a request")
        way.stdin.flush()
        connection, _ = listener.accept()
        connection.recv(1, socket.MSG_PEEK)  # it has come
        connection.close()
        output, errors = way.communicate(timeout=PATIENCE_S)
    assert (way.returncode, output, errors) == (0, b"", b"")
