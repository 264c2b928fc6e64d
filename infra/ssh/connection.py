"""A host at the other end of SSH: kept open, opened again when it was lost.

Everything goes through three doors: :meth:`Connection.run` for the few programs that are needed
before the agent is there (the one place where a command line is quoted), :meth:`Connection.ask` for
the agent, :meth:`Connection.files` for SFTP. What fails because the connection was lost is done
once more over a new one: the agent's operations may be asked twice, and files are copied anew.
"""

import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import paramiko

from infra.interface import InfraError
from infra.ssh.channel import ERRORS, AgentChannel, Answer
from infra.ssh.inventory import Host
from infra.ssh.login import Trust, Unreachable, log_in
from infra.waiting import wait_until

T = TypeVar("T")

_LOST = (OSError, EOFError, paramiko.SSHException, Unreachable)
_PATIENCE_S = 30.0
_RETRY_EVERY_S = 0.5
ASK_TIMEOUT_S = 15.0
_SOCKET_CLOSED = "Socket is closed"


class _Standing(Enum):
    """What we know of the host; the value is the share of our patience that it has."""

    NEW = 1 / 3
    MET = 1.0
    GIVEN_UP = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a program."""

    status: int
    output: str


@dataclass(slots=True)
class _Opened:
    client: paramiko.SSHClient
    closing: ExitStack
    agent: AgentChannel | None = None
    sftp: paramiko.SFTPClient | None = None


class Connection:
    """One host. May be used by several threads; the agent and SFTP serve one at a time.

    Args:
        patience_s: How long a lost connection is tried to be had again, seconds; a third of that
            for the first one. A host that was given up is tried once at each further call.
    """

    def __init__(self, host: Host, trust: Trust, patience_s: float = _PATIENCE_S) -> None:
        self.host = host
        self._trust = trust
        self._patience = patience_s
        self._opening = threading.RLock()
        self._asking = threading.Lock()
        self._copying = threading.Lock()
        self._opened: _Opened | None = None
        self._standing = _Standing.NEW
        self._closed = False
        self._agent: Sequence[str] = ()

    def use_agent(self, argv: Sequence[str]) -> None:
        """Say how the agent is started, once it is on the host."""
        self._agent = argv

    def run(self, argv: Sequence[str], timeout: float = ASK_TIMEOUT_S) -> Outcome:
        """Run a program to its end; its exit status and all it has written. It is run once more
        when the connection is lost meanwhile."""

        def act(opened: _Opened) -> Outcome:
            transport = opened.client.get_transport()
            if transport is None:
                raise EOFError("not connected")
            with transport.open_session(timeout=timeout) as channel:
                channel.settimeout(timeout)
                channel.set_combine_stderr(True)
                channel.exec_command(shlex.join(argv))
                channel.shutdown_write()
                output = channel.makefile("rb").read()
                return Outcome(channel.recv_exit_status(), output.decode(errors="replace"))

        return self._persist(act)

    def ask(self, operation: str, *, timeout: float = ASK_TIMEOUT_S, **arguments: Any) -> Any:
        """The agent's answer. Raises what its error stands for: ProcessLookupError,
        FileNotFoundError, InfraError; the last also when the host is not to be had again."""

        def act(opened: _Opened) -> Answer:
            if opened.agent is None:
                opened.agent = AgentChannel(opened.client, shlex.join(self._agent))
            return opened.agent.ask(operation, arguments, timeout)

        with self._asking:
            answer = self._persist(act)
        if answer.error is not None:
            raise ERRORS[answer.error](f"{self.host}: {answer.text}")
        return answer.result

    def files(self, act: Callable[[paramiko.SFTPClient], T]) -> T:
        """``act`` with SFTP; once more from the start when the connection is lost meanwhile."""

        def attempt(opened: _Opened) -> T:
            if opened.sftp is None:
                opened.sftp = opened.client.open_sftp()
                channel = opened.sftp.get_channel()
                assert channel is not None
                channel.settimeout(ASK_TIMEOUT_S)
            return act(opened.sftp)

        with self._copying:
            return self._persist(attempt)

    def close(self) -> None:
        """Idempotent. Nothing is opened again afterwards."""
        self._closed = True
        with self._opening:
            self._drop(self._opened)

    def _persist(self, act: Callable[[_Opened], T]) -> T:
        results: list[T] = []
        reasons: list[str] = []

        def attempt() -> bool:
            if self._closed:
                raise InfraError(f"{self.host}: the connection is closed")
            opened: _Opened | None = None
            try:
                opened = self._open()
                results.append(act(opened))
            except _LOST as error:
                if opened is not None and _own_word(opened, error):
                    raise
                reasons.append(str(error) or f"no answer ({type(error).__name__})")
                self._drop(opened)
                return False
            return True

        try:
            wait_until(attempt, self._patience_s(), str(self.host), _RETRY_EVERY_S)
        except TimeoutError:
            self._standing = _Standing.GIVEN_UP
            raise InfraError(f"{self.host} cannot be reached: {reasons[-1]}") from None
        self._standing = _Standing.MET
        return results[0]

    def _patience_s(self) -> float:
        return self._standing.value * self._patience

    def _open(self) -> _Opened:
        with self._opening:
            if self._opened is None:
                client, closing = log_in(self.host, self._trust)
                self._opened = _Opened(client, closing)
            return self._opened

    def _drop(self, opened: _Opened | None) -> None:
        """Close what was lost; not what another thread has opened since."""
        with self._opening:
            if opened is not None and opened is self._opened:
                self._opened = None
                opened.closing.close()


def _own_word(opened: _Opened, error: Exception) -> bool:
    """Whether an error is the host's own or ours (no such file, disk full), and no lost
    connection."""
    transport = opened.client.get_transport()
    return (
        isinstance(error, OSError)
        and not isinstance(error, TimeoutError | ConnectionError)
        and str(error) != _SOCKET_CLOSED
        and transport is not None
        and transport.is_active()
    )
