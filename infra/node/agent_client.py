"""The client of a node's agent, and the connection to an agent on this machine."""

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol, TypeVar

from ackproof.infra.agent.wire import CHUNK, ERRORS, Wire
from ackproof.infra.api.capabilities import ClockReading
from ackproof.infra.api.interface import InfraError
from ackproof.infra.machine.waiting import wait_until

T = TypeVar("T")

ANSWER_TIMEOUT_S = 15.0
_CLOCK_READINGS = 5


class NodeGone(InfraError):
    """The end of a node, with every process that ran there."""


class AgentConnection(Protocol):
    """A connection to an agent."""

    def use(self, act: Callable[[Wire], T], timeout: float) -> T:
        """Call ``act`` with a connection that no other thread uses, and return its result.

        Each answer comes within ``timeout`` seconds. After a lost connection, ``act`` may be called
        again from the start with another one. Raises InfraError without a connection.
        """

    def close(self) -> None:
        """Close every connection. Idempotent."""


class AgentClient:
    """A client of an agent. Several threads may use it at once.

    Args:
        who: The name of the node in errors.
    """

    def __init__(self, who: str, way: AgentConnection) -> None:
        self.who = who
        self._way = way
        self._us = secrets.token_hex(8)
        self._numbers = count()

    def ask(self, verb: str, *, timeout: float = ANSWER_TIMEOUT_S, **arguments: Any) -> Any:
        """Return the answer to a request; ``timeout`` in seconds.

        Raises the error that the agent reports: ProcessLookupError, FileNotFoundError or
        InfraError. Raises InfraError without an answer, too.
        """
        # The number is the same for every attempt, so that a repeated request is not executed
        # twice.
        number = f"{self._us}-{next(self._numbers)}"
        request = {"ask": verb, "arguments": arguments, "id": number}
        return self._result(self._way.use(lambda wire: _exchange(wire, request), timeout))

    def read(self, path: PurePosixPath) -> bytes:
        """Return a file's content. Raises FileNotFoundError, InfraError."""

        def act(wire: Wire) -> tuple[dict[str, Any], bytes]:
            _request(wire, {"read": str(path)})
            content = b"".join(wire.body())
            return wire.header(), content

        answer, content = self._way.use(act, ANSWER_TIMEOUT_S)
        self._result(answer)
        return content

    def fetch(self, path: PurePosixPath, target: Path) -> None:
        """Copy a file to this machine.

        Raises FileNotFoundError, InfraError, and OSError if it cannot be written here.
        """

        def act(wire: Wire) -> tuple[OSError | None, dict[str, Any]]:
            file.seek(0)
            file.truncate()
            _request(wire, {"read": str(path)})
            return _written(file, wire), wire.header()

        with target.open("wb") as file:
            trouble, answer = self._way.use(act, ANSWER_TIMEOUT_S)
        self._result(answer)
        if trouble is not None:
            raise trouble

    def write(self, path: PurePosixPath, content: bytes) -> None:
        """Write a file, which appears as a whole, and make its directories."""

        def act(wire: Wire) -> dict[str, Any]:
            wire.send_header({"write": str(path)})
            for start in range(0, len(content), CHUNK):
                wire.send_chunk(content[start : start + CHUNK])
            return _answer(wire)

        self._result(self._way.use(act, ANSWER_TIMEOUT_S))

    def clock(self) -> ClockReading:
        """Return the node's clock against this machine's, the best of several readings.

        An answer was given at some moment of its round trip. The middle of that is wrong by at most
        a half of it.
        """
        return min((self._read_clock() for _ in range(_CLOCK_READINGS)), key=_bound)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._way.close()

    def _read_clock(self) -> ClockReading:
        # The round trip is measured by the monotonic clock: the other one may be set in the middle
        # of it.
        before, begun = time.time_ns(), time.perf_counter_ns()
        there: int = self.ask("time_ns")
        half = (time.perf_counter_ns() - begun + 1) // 2
        return ClockReading(offset_ns=there - before - half, bound_ns=half)

    def _result(self, answer: dict[str, Any]) -> Any:
        if "error" in answer:
            raise ERRORS.get(answer["error"], InfraError)(f"{self.who}: {answer['text']}")
        return answer["result"]


def _bound(reading: ClockReading) -> int:
    return reading.bound_ns


def _exchange(wire: Wire, request: dict[str, Any]) -> dict[str, Any]:
    wire.send_header(request)
    return _answer(wire)


def _request(wire: Wire, request: dict[str, Any]) -> None:
    wire.send_header(request)
    wire.end_body()
    wire.flush()


def _answer(wire: Wire) -> dict[str, Any]:
    wire.end_body()
    wire.flush()
    for _ in wire.body():
        pass
    return wire.header()


def _written(file: BinaryIO, wire: Wire) -> OSError | None:
    """Write the body, and return the error of writing.

    The rest of the body is read after an error. If it were raised, it would be taken for a lost
    connection.
    """
    trouble: OSError | None = None
    for chunk in wire.body():
        if trouble is None:
            try:
                file.write(chunk)
            except OSError as error:
                trouble = error
    return trouble


# --- the way to an agent on this machine ------------------------------------------------------


_LISTENS_WITHIN_S = 30.0
_DIES_WITHIN_S = 5.0


class Sockets:
    """A ``infra.node.agent_client.AgentConnection`` by Unix sockets.

    Args:
        who: The name of the node in errors.
        address: The address where the agent listens, or soon will.
        last_words: Returns None while the agent lives, and then what it has left in its log.
    """

    def __init__(
        self, who: str, address: str | bytes, last_words: Callable[[], str | None]
    ) -> None:
        self._who = who
        self._address = address
        self._last_words = last_words
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self._closed = False

    def use(self, act: Callable[[Wire], T], timeout: float) -> T:
        wire = self._take()
        try:
            wire.stream.settimeout(timeout)
            result = act(wire)
        except BaseException as error:
            wire.close()
            if not isinstance(error, OSError | EOFError | ValueError):
                raise
            if isinstance(error, EOFError | ConnectionError):
                # The agent hung up. A killed one does so a moment before it is seen to be dead.
                with suppress(TimeoutError):
                    wait_until(lambda: self._last_words() is not None, _DIES_WITHIN_S, "its end")
            self._check_lives()
            raise InfraError(f"{self._who} does not answer: {error}") from error
        self._give_back(wire)
        return result

    def close(self) -> None:
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()

    def _take(self) -> Wire:
        with self._lock:
            if self._closed:
                raise InfraError(f"{self._who} is closed")
            if self._idle:
                return self._idle.pop()
        opened: list[socket.socket] = []

        def connects() -> bool:
            self._check_lives()
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._address)
            except OSError:
                connection.close()
                return False
            opened.append(connection)
            return True

        try:
            wait_until(connects, _LISTENS_WITHIN_S, f"the agent of {self._who}")
        except TimeoutError as error:
            raise InfraError(str(error)) from error
        return Wire(opened[0])

    def _give_back(self, wire: Wire) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(wire)
                return
        wire.close()

    def _check_lives(self) -> None:
        words = self._last_words()
        if words is not None:
            gone = f"the agent of {self._who} and every process below it are gone"
            raise InfraError(f"{gone}; its last output: {words.strip() or '(none)'}")
