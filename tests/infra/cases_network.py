"""Run inside by test_local_backend.py."""

import os
import signal
import socket
import sys
from pathlib import Path, PurePosixPath

import pytest

from infra.interface import Command, InfraError, ProcessState
from infra.local.backend import LocalBackend
from infra.local.node import LocalNode
from infra.waiting import wait_until

PORT = 9000
SILENCE_S = 0.5


def nodes_reach_each_other(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    a, b = backend.node("a"), backend.node("b")
    assert backend.node("a") is a
    assert not backend.reaches(a, b, PORT), "nobody listens yet"
    with _listen(b), _listen(a):
        assert backend.reaches(a, b, PORT)
        assert backend.reaches(b, a, PORT)
        assert backend.reaches(a, a, PORT), "a node reaches itself"
        socket.create_connection((a.address, PORT), timeout=5).close()
    backend.close()
    backend.close()


def cut_is_one_way_for_open_connections(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    a, b = backend.node("a"), backend.node("b")
    with _listen(b) as listener:
        near = a.namespace.call(lambda: socket.create_connection((b.address, PORT), timeout=5))
        far, _ = listener.accept()
        for end in (near, far):
            end.settimeout(10)
        backend.cut(a, b)
        backend.cut(a, b)
        near.sendall(b"a to b")
        far.sendall(b"b to a")
        assert near.recv(100) == b"b to a"
        assert _silent(far), "a's packets are dropped"
        assert not backend.reaches(a, b, PORT, timeout=0.3)
        # The harness is never cut.
        socket.create_connection((b.address, PORT), timeout=5).close()
        backend.heal(a, b)
        backend.heal(a, b)
        assert far.recv(100) == b"a to b"
        assert backend.reaches(a, b, PORT)
        near.close()
        far.close()
    backend.close()


def cut_leaves_other_links_alone(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    a, b, c = (backend.node(name) for name in "abc")
    with _listen(a), _listen(b), _listen(c):
        backend.cut(a, b)
        assert not backend.reaches(a, b, PORT, timeout=0.3)
        assert not backend.reaches(b, a, PORT, timeout=0.3), "the answers of a are dropped"
        for source, target in ((a, c), (c, a), (b, c), (c, b)):
            assert backend.reaches(source, target, PORT)
    backend.close()


def backends_follow_each_other(scratch: Path) -> None:
    """One campaign deploys many runs in the one router: no cut of the last one is left."""
    first = LocalBackend(scratch / "1")
    a, b = first.node("a"), first.node("b")
    addresses = (a.address, b.address)
    first.cut(a, b)
    process = a.start(Command(name="sleep", argv=["sleep", "1000"]))
    process.signal(signal.SIGSTOP)
    first.close()
    assert process.exit_code() == -signal.SIGKILL
    second = LocalBackend(scratch / "2")
    a, b = second.node("a"), second.node("b")
    assert (a.address, b.address) == addresses
    with _listen(b):
        assert second.reaches(a, b, PORT)
    second.close()


def processes(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    node = backend.node("a")
    os.environ["SECRET"] = "not for the nodes"
    show = "import os; print(os.getpid(), os.getcwd(), os.environ.get('SECRET'), os.environ['X'])"
    done = node.start(Command(name="show", argv=[sys.executable, "-c", show], env={"X": "y"}))
    assert done.wait(10) == 0
    expected = f"{done.pid} {node.directory} None y\n"
    assert node.read(node.log_directory / "show.log").decode() == expected
    again = node.start(Command(name="show", argv=[sys.executable, "-c", show], env={"X": "y"}))
    again.wait(10)
    assert node.read(node.log_directory / "show.log").decode().count("\n") == 2, "appended"
    missing = node.start(Command(name="missing", argv=["/nonexistent"]))
    assert missing.wait(10) == 127
    assert b"/nonexistent" in node.read(node.log_directory / "missing.log")
    backend.close()


def states(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    sleeper = backend.node("a").start(Command(name="sleep", argv=["sleep", "1000"]))
    assert sleeper.state() is ProcessState.RUNNING
    assert sleeper.exit_code() is None
    sleeper.signal(signal.SIGSTOP)
    wait_until(lambda: sleeper.state() is ProcessState.STOPPED, 10, "STOPPED")
    sleeper.signal(signal.SIGCONT)
    wait_until(lambda: sleeper.state() is ProcessState.RUNNING, 10, "RUNNING")
    with pytest.raises(TimeoutError, match="sleep"):
        sleeper.wait(0.05)
    sleeper.signal(signal.SIGKILL)
    wait_until(lambda: sleeper.state() is ProcessState.EXITED, 10, "EXITED")
    assert sleeper.wait(10) == sleeper.exit_code() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError, match=str(sleeper.pid)):
        sleeper.signal(signal.SIGCONT)
    backend.close()


def closing_kills_what_processes_started(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    fork = "import os, time; print(os.fork(), flush=True); time.sleep(1000)"
    node = backend.node("a")
    node.start(Command(name="forks", argv=[sys.executable, "-c", fork]))
    log = node.log_directory / "forks.log"
    wait_until(lambda: node.read(log).count(b"\n") == 2, 10, "both processes")
    child = max(map(int, node.read(log).split()))
    backend.close()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), 10, "its child to be gone")


def files(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    node = backend.node("a")
    assert list(Path(node.directory).iterdir()) == [Path(node.log_directory)]
    node.write(node.directory / "deep" / "file", b"content")
    assert node.read(node.directory / "deep" / "file") == b"content"
    node.fetch(node.directory / "deep", scratch / "copy" / "deep")
    node.fetch(node.directory / "deep" / "file", scratch / "copy" / "single")
    assert (scratch / "copy" / "deep" / "file").read_bytes() == b"content"
    assert (scratch / "copy" / "single").read_bytes() == b"content"
    for read in (node.read, lambda path: node.fetch(path, scratch / "x")):
        with pytest.raises(FileNotFoundError):
            read(PurePosixPath("/nonexistent"))
    backend.close()


def refusals(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    for name in ("", "A", "1a", "a/b", "..", "a b"):
        with pytest.raises(ValueError, match=f"node name {name!r}"):
            backend.node(name)
    node = backend.node("a")
    backend.close()
    with pytest.raises(InfraError, match="closed"):
        backend.node("b")
    with pytest.raises(InfraError, match="closed"):
        node.start(Command(name="x", argv=["true"]))


def ipv6_is_off(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    node = backend.node("a")
    addresses = Path("/proc/thread-self/net/if_inet6")
    if addresses.exists():
        assert node.namespace.call(addresses.read_text) == ""
        assert addresses.read_text() == ""
    backend.close()


def serves_the_host(scratch: Path) -> None:
    """Listens on a node until it is told to end; says where in ``scratch/address``."""
    backend = LocalBackend(scratch / "nodes")
    node = backend.node("a")
    subnet = backend.expose()
    with _listen(node):
        (scratch / "new").write_text(f"{subnet} {node.address} {PORT}")
        (scratch / "new").rename(scratch / "address")
        while True:
            signal.pause()


def _listen(node: LocalNode) -> socket.socket:
    return node.namespace.call(lambda: socket.create_server((node.address, PORT)))


def _silent(end: socket.socket) -> bool:
    end.settimeout(SILENCE_S)
    try:
        end.recv(100)
    except TimeoutError:
        return True
    finally:
        end.settimeout(10)
    return False
