"""A server of the system under test: a command line that can be started again and again."""

import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from time import monotonic
from typing import NamedTuple

from ackproof.infra.api.capabilities import ClockQuery, Disk, FakeClock, ReportedTime
from ackproof.infra.api.interface import Command, Node, Process, ProcessState
from ackproof.infra.machine.waiting import wait_until


@dataclass(frozen=True, slots=True)
class ServerClock:
    """An ``infra.api.capabilities.Clock`` of a server.

    Attributes:
        clock: The clock of its node.
        ask: Returns the request for the time, a new one each time.
    """

    clock: FakeClock
    ask: Callable[[], ClockQuery]

    def run(self, offset_ms: int, rate: float = 1.0) -> None:
        self.clock.run(offset_ms, rate)

    def reported_time(self) -> ReportedTime:
        return self.clock.reported_time(self.ask())


# --- server -----------------------------------------------------------------------------------


class BrokerAddress(NamedTuple):
    """The place at which a broker takes orders, with its name for messages."""

    name: str
    host: str
    port: int


_LOG_TAIL_BYTES = 4000
_ALONE_S = 2.0


class NodeServer:
    """An ``infra.api.interface.Server``: one server on a node of its own.

    Args:
        server_id: ``broker.id`` or ZooKeeper's ``myid``.
        port: The port for its clients, on the node's address.
        peer_ports: The ports at which servers of its kind talk to each other.
        own_ports: Further ports at which a broker serves other brokers.
        command: The command that starts it. Its configuration is on the node before the first
            start.
        disks: The disks of its log directories; empty for the node's own.
        clock: The clock that it uses; None for the true time.
        knock: Returns the bytes that make it write a line into its log, and that line (see
            ``infra.api.capabilities.ClockQuery``).
        before_start: Called before each start; may wait.
    """

    def __init__(
        self,
        node: Node,
        server_id: int,
        port: int,
        command: Command,
        peer_ports: Sequence[int] = (),
        own_ports: Sequence[int] = (),
        disks: Sequence[Disk] = (),
        clock: FakeClock | None = None,
        knock: Callable[[], tuple[bytes, str]] = lambda: (b"", ""),
        before_start: Callable[[], None] = lambda: None,
    ) -> None:
        self.node = node
        self.name = node.name
        self.id = server_id
        self.port = port
        self.peer_ports = peer_ports
        self.service_ports = (port, *own_ports)
        self.disks = disks
        self.clock = None if clock is None else ServerClock(clock, self._question)
        self._command = command
        self._knock = knock
        self._before_start = before_start
        self._process: Process | None = None

    @property
    def distant(self) -> None:
        """Return None: its node can be asked."""

    @property
    def address(self) -> str:
        """Return ``host:port`` for its clients."""
        return f"{self.node.address}:{self.port}"

    @property
    def process(self) -> Process:
        """Return the process last started. Raises LookupError before the first start."""
        if self._process is None:
            raise LookupError(f"{self.name} was never started")
        return self._process

    def start(self) -> Process:
        self._before_start()
        if self.clock is None:
            self._process = self.node.start(self._command)
        else:
            fake = self.clock.clock
            argv = [*fake.under, *self._command.argv]
            self._process = self.node.start(replace(self._command, argv=argv))
            fake.started(self._process.pid)
        return self._process

    def use(self, command: Command) -> None:
        """Start it with another command from now on, which has the same name."""
        self._command = command

    @property
    def started(self) -> bool:
        """Return whether it was ever started."""
        return self._process is not None

    def exited(self) -> bool:
        """Return whether it was started and has ended."""
        return self._process is not None and self._process.state() is ProcessState.EXITED

    def ask_to_stop(self) -> None:
        """Send SIGTERM, to a stopped process too. Do nothing if the process is gone."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.signal(signal.SIGTERM)
            self._process.signal(signal.SIGCONT)

    def log(self) -> bytes:
        """Return its log from its first start on. Raises FileNotFoundError."""
        return self.node.read(self._log)

    def log_tail(self) -> str:
        """Return the end of its log."""
        try:
            log = self.log()
        except FileNotFoundError:
            return "(no log)"
        return log[-_LOG_TAIL_BYTES:].decode(errors="replace") or "(empty log)"

    @property
    def _log(self) -> PurePosixPath:
        return self.node.log_directory / f"{self._command.name}.log"

    def _question(self) -> ClockQuery:
        say, line = self._knock()
        return ClockQuery(
            address=self.node.address, port=self.port, say=say, line=line, log=self._log
        )


def stop_all(servers: Iterable[NodeServer], grace_s: float) -> None:
    """Stop servers together: gently first, by SIGKILL after ``grace_s``.

    When all brokers hand over their leaders, the last has no other broker to hand them to. It tries
    again until its retries are used up. The wait for the last one is therefore shorter.
    """
    started = [server for server in servers if server.started]
    for server in started:
        server.ask_to_stop()
    with suppress(TimeoutError):
        all_but_one = lambda: sum(not server.exited() for server in started) <= 1  # noqa: E731
        wait_until(all_but_one, grace_s, "all servers but one to end")
    deadline = monotonic() + min(grace_s, _ALONE_S)
    for server in started:
        try:
            server.process.wait(max(0.0, deadline - monotonic()))
        except TimeoutError:
            with suppress(ProcessLookupError):
                server.process.signal(signal.SIGKILL)
            server.process.wait()
