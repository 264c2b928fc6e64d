"""A connection to a host by SSH, which is opened again when it was lost.

It has two users: :meth:`Connection.run` for the few programs that are needed before the agent runs,
and :class:`SshChannels` for agents. What fails because of a lost connection is done once more over
a new one. Agents recognise a repeated request, and files are copied again.
"""

import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

import paramiko

from ackproof.infra.agent.wire import Wire
from ackproof.infra.api.interface import InfraError
from ackproof.infra.backends.ssh.inventory import Host
from ackproof.infra.backends.ssh.login import TrustedHosts, Unreachable, log_in
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.agent_client import AgentConnection

T = TypeVar("T")

_LOST = (OSError, EOFError, paramiko.SSHException, Unreachable)
_PATIENCE_S = 30.0
_RETRY_EVERY_S = 0.5
_RUN_TIMEOUT_S = 15.0
_LAST_WORDS_BYTES = 4096


class _HostState(Enum):
    """The state of the host; the value is the share of the patience that it gets."""

    NEW = 1 / 3
    MET = 1.0
    GIVEN_UP = 0.0


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """The result of a program."""

    status: int
    output: str


@dataclass(frozen=True, slots=True, eq=False)
class OpenConnection:
    """A connection while it lives. ``closing`` closes it and the connections on the way to it."""

    transport: paramiko.Transport
    closing: ExitStack


class HostConnection(Protocol):
    """A way to run programs where an agent is brought."""

    @property
    def host(self) -> object:
        """Return the place, whose text is its name in errors."""

    def run(
        self, argv: Sequence[str], content: bytes = b"", timeout: float = _RUN_TIMEOUT_S
    ) -> ProgramResult:
        """Run a program with ``content`` as its input, and return its exit status and all its
        output."""

    def channels(self, argv: Sequence[str], at_once: int) -> AgentConnection:
        """Return a connection to an agent: ``argv`` starts the program that is its other end, of
        which there are so many at once."""

    def is_gone(self) -> bool:
        """Return whether the place is known to be gone, with all that an agent did there."""

    def is_elsewhere(self) -> bool:
        """Return whether that is so, and what ran there runs at another place by now."""

    def close(self) -> None:
        """Close it for good. Idempotent."""


class Connection:
    """The connection to one host. Several threads may use it.

    Args:
        patience_s: How long a lost connection is tried again, in seconds; a third of that for the
            first one. A host that was given up is tried once at each further call.
    """

    def __init__(self, host: Host, trust: TrustedHosts, patience_s: float = _PATIENCE_S) -> None:
        self.host = host
        self._trust = trust
        self._patience = patience_s
        self._opening = threading.RLock()
        self._opened: OpenConnection | None = None
        self._standing = _HostState.NEW
        self._closed = False

    def run(
        self, argv: Sequence[str], content: bytes = b"", timeout: float = _RUN_TIMEOUT_S
    ) -> ProgramResult:
        """Run a program with ``content`` as its input, and return its exit status and all its
        output.

        It is run once more if the connection is lost meanwhile.
        """

        def act(opened: OpenConnection) -> ProgramResult:
            with opened.transport.open_session(timeout=timeout) as channel:
                channel.settimeout(timeout)
                channel.set_combine_stderr(True)
                channel.exec_command(shlex.join(argv))
                channel.sendall(content)
                channel.shutdown_write()
                output = channel.makefile("rb").read()
                return ProgramResult(channel.recv_exit_status(), output.decode(errors="replace"))

        return self.persist(act)

    def channels(self, argv: Sequence[str], at_once: int) -> "SshChannels":
        return SshChannels(self, argv, at_once)

    def is_gone(self) -> bool:
        """Return False: a host that does not answer may still be there."""
        return False

    def is_elsewhere(self) -> bool:
        return False

    def close(self) -> None:
        """Close it for good. Idempotent."""
        self._closed = True
        with self._opening:
            self._drop(self._opened)

    def persist(self, act: Callable[[OpenConnection], T]) -> T:
        """Call ``act`` with an open connection, and return its result.

        After a lost connection ``act`` is called again from the start, until the patience ends.
        Raises InfraError then.
        """
        results: list[T] = []
        reasons: list[str] = []

        def attempt() -> bool:
            if self._closed:
                raise InfraError(f"{self.host}: the connection is closed")
            opened: OpenConnection | None = None
            try:
                opened = self._open()
                results.append(act(opened))
            except _LOST as error:
                reasons.append(str(error) or f"no answer ({type(error).__name__})")
                # A program that was killed on the host ends its own channel and no other.
                if opened is None or _silent(opened, error):
                    self._drop(opened)
                return False
            return True

        try:
            wait_until(attempt, self._patience_s(), str(self.host), _RETRY_EVERY_S)
        except TimeoutError:
            self._standing = _HostState.GIVEN_UP
            raise InfraError(f"{self.host} cannot be reached: {reasons[-1]}") from None
        self._standing = _HostState.MET
        return results[0]

    def _patience_s(self) -> float:
        return self._standing.value * self._patience

    def _open(self) -> OpenConnection:
        with self._opening:
            if self._opened is None:
                client, closing = log_in(self.host, self._trust)
                transport = client.get_transport()
                if transport is None:
                    raise EOFError("not connected")
                self._opened = OpenConnection(transport, closing)
            return self._opened

    def _drop(self, opened: OpenConnection | None) -> None:
        """Close a lost connection, but not one that another thread has opened since."""
        with self._opening:
            if opened is not None and opened is self._opened:
                self._opened = None
                opened.closing.close()


def _silent(opened: OpenConnection, error: Exception) -> bool:
    return isinstance(error, TimeoutError) or not opened.transport.is_active()


class SshChannels:
    """An ``infra.node.agent_client.AgentConnection`` to an agent that is a program at the other end
    of a channel.

    The program lives as long as its channel.

    Args:
        argv: The command that starts it.
        at_once: The number of sshd's sessions (MaxSessions, 10) that may be used.
    """

    def __init__(self, connection: Connection, argv: Sequence[str], at_once: int) -> None:
        self._connection = connection
        self._command_line = shlex.join(argv)
        self._turn = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._idle: list[tuple[OpenConnection, Wire]] = []

    def use(self, act: Callable[[Wire], T], timeout: float) -> T:
        def attempt(opened: OpenConnection) -> T:
            wire = self._take(opened)
            try:
                wire.stream.settimeout(timeout)
                result = act(wire)
            except BaseException as error:
                self._explain(wire, error)
                raise
            with self._lock:
                self._idle.append((opened, wire))
            return result

        with self._turn:
            return self._connection.persist(attempt)

    def close(self) -> None:
        with self._lock:
            while self._idle:
                self._idle.pop()[1].close()

    def _take(self, opened: OpenConnection) -> Wire:
        with self._lock:
            # Channels of a lost connection are of no use.
            self._idle = [(of, wire) for of, wire in self._idle if of is opened]
            if self._idle:
                return self._idle.pop()[1]
        channel = opened.transport.open_session()
        channel.exec_command(self._command_line)
        return Wire(channel)

    def _explain(self, wire: Wire, error: BaseException) -> None:
        """Raise InfraError if another attempt would not help.

        That is the case if the program has ended by itself, or is no agent.
        """
        channel = wire.stream
        assert isinstance(channel, paramiko.Channel)
        words = ""
        if channel.exit_status_ready() and channel.recv_exit_status() > 0:
            channel.settimeout(1.0)
            words = channel.recv_stderr(_LAST_WORDS_BYTES).decode(errors="replace").strip()
        channel.close()
        if words or isinstance(error, ValueError):
            raise InfraError(f"{self._connection.host}: {words or error}") from error
