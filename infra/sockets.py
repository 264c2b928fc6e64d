"""The way to an agent on this machine: Unix sockets, opened when they are needed, and kept."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from ackproof.infra.agent.wire import Wire
from ackproof.infra.interface import InfraError
from ackproof.infra.waiting import wait_until

T = TypeVar("T")

_LISTENS_WITHIN_S = 30.0
_DIES_WITHIN_S = 5.0


class Sockets:
    """Implements ``infra.agent_client.Way``.

    Args:
        who: The node, in errors.
        address: Where the agent listens, or soon will.
        last_words: None as long as the agent lives; else what it has left in its log.
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
                # It hung up. One that is killed does so a moment before it is seen to be dead.
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
            gone = f"the agent of {self._who} is gone, and every process below it"
            raise InfraError(f"{gone}; its last words: {words.strip() or '(none)'}")
