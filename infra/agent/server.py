"""The server of the agent: each connection has a thread, and its requests are answered in order."""

import os
import signal
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from ackproof.infra.agent import children, files
from ackproof.infra.agent.verbs import Verbs
from ackproof.infra.agent.wire import Stream, Wire, error_of

_REMEMBERED = 256


class AgentServer:
    """A server that calls the functions in the table ``verbs``."""

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs
        self._once = AnswerMemory()
        self._asked_at = time.monotonic()

    def listen(self, listener: socket.socket, lease_s: float | None = None) -> None:
        """Serve every client until SIGTERM, and kill all processes below afterwards.

        With a lease, also end when no request has come for so many seconds: the harness is dead
        then, or cut off.
        """
        children.adopt_orphans()
        children.run(lambda: self._accept(listener, lease_s))
        children.end_all()

    def serve_one(self, stream: Stream) -> None:
        """Serve one connected client until its stream ends.

        Programs end then. Those that were started to outlive the agent go on.
        """
        children.run_while(lambda: self._converse(stream))

    def _expire(self, lease_s: float) -> None:
        while (left := self._asked_at + lease_s - time.monotonic()) > 0:
            time.sleep(left)
        os.write(2, f"no request of the harness for {lease_s:g} s: the agent ends\n".encode())
        os.kill(os.getpid(), signal.SIGTERM)

    def _accept(self, listener: socket.socket, lease_s: float | None) -> None:
        if lease_s is not None:
            threading.Thread(target=self._expire, args=(lease_s,), daemon=True).start()
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, stream: Stream) -> None:
        wire = Wire(stream)
        try:
            while True:
                self._answer(wire, wire.header())
        except (OSError, EOFError, ValueError):  # the client hung up, or sent nonsense
            wire.close()

    def _answer(self, wire: Wire, request: Mapping[str, Any]) -> None:
        self._asked_at = time.monotonic()
        body = wire.body()
        header: Mapping[str, Any] = {"result": None}
        if "ask" in request:
            list(body)
            header = self._once.answer(request["id"], lambda: self._asked(request))
        elif "write" in request:
            header = _answered(lambda: files.write(request["write"], body))
            list(body)  # the rest, which could not be written
        else:
            list(body)
            header = _sent(wire, request["read"])
        wire.end_body()
        wire.send_header(header)
        wire.flush()

    def _asked(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return _answered(lambda: self._verbs[request["ask"]](**request["arguments"]))


class AnswerMemory:
    """A memory of answers by the id of their request.

    A request whose answer was lost with its connection is sent again, and must not be executed
    twice. Otherwise the program would run twice, or a second SIGINT would make it give up its
    response to the first. A request that is still executed is waited for.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, _Answer] = OrderedDict()

    def answer(self, number: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        with self._lock:
            known = self._answers.get(number)
            answer = self._answers.setdefault(number, _Answer())
            while len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        if known is None:
            answer.header = act()
            answer.there.set()
        answer.there.wait()
        return answer.header


class _Answer:
    def __init__(self) -> None:
        self.there = threading.Event()
        self.header: dict[str, Any] = {}


def _answered(act: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"result": act()}
    except Exception as error:  # noqa: BLE001 - reported to the caller, which raises it
        return error_of(error)


def _sent(wire: Wire, path: str) -> dict[str, Any]:
    chunks = files.read(path)
    while True:
        try:
            chunk = next(chunks, b"")
        except Exception as error:  # noqa: BLE001 - reported to the caller, which raises it
            return error_of(error)
        if not chunk:
            return {"result": None}
        wire.send_chunk(chunk)
