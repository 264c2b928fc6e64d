"""Processes on nodes, told from outside what to say to each other."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ackproof.infra.api.interface import Command, Node
from ackproof.infra.machine.waiting import wait_until
from tests.support.backends import peer_process
from tests.support.backends.peer_process import CONTROL_PORT, PORT
from tests.support.processes.deadlines import PATIENCE_S

__all__ = ["PORT", "Peer", "peers"]


class Peer:
    """Asked by way of its control port: the harness's own traffic is never cut."""

    def __init__(self, address: str) -> None:
        self.address = address

    def connect(self, other: "Peer") -> None:
        """Open the one connection to another peer."""
        self._ask("connect", other.address)

    def send(self, text: str) -> None:
        """Say something on the connection; returns before it arrives."""
        self._ask("send", text)

    def received(self) -> str:
        """All that came by the connection so far."""
        return self._ask("received", "")

    def listens(self) -> bool:
        with suppress(OSError):
            self.received()
            return True
        return False

    def _ask(self, verb: str, argument: str) -> str:
        with (
            socket.create_connection((self.address, CONTROL_PORT), timeout=10) as control,
            control.makefile("rw") as stream,
        ):
            stream.write(json.dumps([verb, argument]) + "\n")
            stream.flush()
            answer: str = json.loads(stream.readline())
            return answer


@contextmanager
def peers(*nodes: Node) -> Iterator[list[Peer]]:
    """A peer on each node, listening already."""
    with ExitStack() as stack:
        yield [stack.enter_context(_peer(node)) for node in nodes]


@contextmanager
def _peer(node: Node) -> Iterator[Peer]:
    source = Path(peer_process.__file__).read_text(encoding="utf-8")
    argv = [node.software.python, "-c", source, node.address]
    process = node.start(Command(name="peer", argv=argv))
    found = Peer(node.address)
    wait_until(found.listens, PATIENCE_S, f"the peer on {node.name} to listen")
    try:
        yield found
    finally:
        with suppress(ProcessLookupError):
            process.signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
