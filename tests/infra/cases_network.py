"""Run inside by test_local_backend.py."""

import os
import signal
import sys
from pathlib import Path

from ackproof.infra.api.interface import Command, Node
from ackproof.infra.backends.local.backend import LocalBackend
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends.link_cases import cut
from tests.support.processes.deadlines import PATIENCE_S

PORT = 9000


def backends_follow_each_other(scratch: Path) -> None:
    """One campaign deploys many runs in the one router: no cut of the last one is left."""
    first = LocalBackend(scratch / "1")
    a, b = first.node("a"), first.node("b")
    addresses = (a.address, b.address)
    cut(first, a, b)
    process = a.start(Command(name="sleep", argv=["sleep", "1000"]))
    process.signal(signal.SIGSTOP)
    first.close()
    assert process.exit_code() == -signal.SIGKILL
    second = LocalBackend(scratch / "2")
    a, b = second.node("a"), second.node("b")
    assert (a.address, b.address) == addresses
    _listen(b)
    wait_until(lambda: second.reaches(a, b, PORT), PATIENCE_S, "the listener")
    second.close()


def our_environment_stays_ours(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    node = backend.node("a")
    os.environ["SECRET"] = "not for the nodes"
    show = "import os; print(os.environ.get('SECRET'), 'PATH' in os.environ)"
    done = node.start(Command(name="show", argv=[sys.executable, "-c", show]))
    assert done.wait(PATIENCE_S) == 0
    assert node.read(node.log_directory / "show.log").decode() == "None True\n"
    backend.close()


def ipv6_is_off(scratch: Path) -> None:
    backend = LocalBackend(scratch)
    node = backend.node("a")
    addresses = Path("/proc/self/net/if_inet6")
    if addresses.exists():
        assert node.start(Command(name="show", argv=["cat", str(addresses)])).wait(PATIENCE_S) == 0
        assert node.read(node.log_directory / "show.log") == b""
        assert addresses.read_text() == ""
    backend.close()


def serves_the_host(scratch: Path) -> None:
    """Listens on a node until it is told to end; says where in ``scratch/address``."""
    backend = LocalBackend(scratch / "nodes", exposed=True)
    node = backend.node("a")
    _listen(node)
    wait_until(lambda: backend.reaches(node, node, PORT), PATIENCE_S, "the listener")
    (scratch / "new").write_text(f"{backend.subnet} {node.address} {PORT}")
    (scratch / "new").rename(scratch / "address")
    while True:
        signal.pause()


def _listen(node: Node) -> None:
    code = f"import signal, socket; s = socket.create_server(({node.address!r}, {PORT}))"
    argv = [sys.executable, "-c", f"{code}; signal.pause()"]
    node.start(Command(name="listens", argv=argv))
