"""A client connection to another broker.

Kafka answers the requests of one connection in their order, so waiting calls stand in a queue and
the correlation id is only a check. A connection either works or is gone: whatever goes wrong (a
timeout too, as in Kafka's NetworkClient) closes it and fails every call that waits on it, because
nobody knows which of them the other side has seen. The next call connects anew. Retrying is the
caller's business.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kio.static.protocol import RequestPayload

from broker.wire.codec import read_response, write_request
from broker.wire.framing import read_frame

SOCKET_REQUEST_MAX_BYTES = 100 * 1024 * 1024
"""Default of ``socket.request.max.bytes``; no frame may be longer."""


class Disconnected(ConnectionError):
    """The connection is gone; whether the request was carried out is unknown."""


@dataclass(slots=True)
class _Waiting:
    correlation_id: int
    request_type: type[Any]
    response: asyncio.Future[Any]


@dataclass(slots=True)
class _Link:
    """One TCP connection with the calls that wait on it."""

    name: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    max_frame_bytes: int
    waiting: deque[_Waiting] = field(default_factory=deque)
    task: asyncio.Task[None] | None = None

    async def read_responses(self) -> None:
        """Hand out responses until something goes wrong."""
        try:
            while True:
                payload = await read_frame(self.reader, self.max_frame_bytes)
                if payload is None:
                    raise EOFError("closed by the other side")
                self.take(payload)
        except (OSError, EOFError) as error:
            self.fail(f"connection to {self.name} lost: {error}")
        except ValueError as error:
            self.fail(f"{self.name} sent what cannot be understood: {error}")

    def take(self, payload: bytes) -> None:
        if not self.waiting:
            raise ValueError("a response nobody asked for")
        call = self.waiting.popleft()
        try:
            correlation_id, response = read_response(call.request_type, payload)
            if correlation_id != call.correlation_id:
                raise ValueError(f"correlation id {correlation_id}, not {call.correlation_id}")
        except ValueError:
            self.waiting.appendleft(call)
            raise
        if not call.response.done():
            call.response.set_result(response)

    def fail(self, why: str) -> None:
        """Close, and fail every waiting call; harmless when done twice."""
        self.writer.close()
        while self.waiting:
            call = self.waiting.popleft()
            if not call.response.done():
                call.response.set_exception(Disconnected(why))

    async def close(self, why: str) -> None:
        self.fail(why)
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class BrokerConnection:
    """Calls to the broker at ``host:port``, several at a time over one connection.

    ``client_id`` goes into each request's header; ``max_frame_bytes`` bounds a response.
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str,
        max_frame_bytes: int = SOCKET_REQUEST_MAX_BYTES,
    ) -> None:
        self.name = f"{host}:{port}"
        self._address = (host, port)
        self._client_id = client_id
        self._max_frame_bytes = max_frame_bytes
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()
        self._next_correlation_id = 0

    async def call(self, request: RequestPayload, timeout_s: float) -> Any:
        """Send ``request`` and return the response entity that belongs to its type.

        Connects when there is no connection. Calls may overlap; they leave in the order in which
        they were made.

        Raises:
            Disconnected: no connection, no answer within ``timeout_s``, or no sense in the answer.
        """
        used: _Link | None = None

        def use(link: _Link) -> None:
            nonlocal used
            used = link

        try:
            async with asyncio.timeout(timeout_s):
                return await self._exchange(request, use)
        except TimeoutError as error:
            why = f"no answer from {self.name} within {timeout_s} s"
            if used is not None:
                await used.close(why)
            raise Disconnected(why) from error
        except Disconnected:
            raise
        except OSError as error:
            raise Disconnected(f"cannot reach {self.name}: {error}") from error

    async def _exchange(self, request: RequestPayload, use: Callable[[_Link], None]) -> Any:
        link = await self._connected()
        use(link)
        self._next_correlation_id = (self._next_correlation_id + 1) % 2**31
        correlation_id = self._next_correlation_id
        frame = write_request(request, correlation_id, self._client_id)
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        link.waiting.append(_Waiting(correlation_id, type(request), response))
        link.writer.write(frame)
        await link.writer.drain()
        return await response

    async def _connected(self) -> _Link:
        async with self._connecting:
            if self._link is None or self._link.writer.is_closing():
                await self.close()
                reader, writer = await asyncio.open_connection(*self._address)
                self._link = _Link(self.name, reader, writer, self._max_frame_bytes)
                self._link.task = asyncio.create_task(
                    self._link.read_responses(), name=f"responses of {self.name}"
                )
            return self._link

    async def close(self) -> None:
        """Close the connection, failing the calls that wait on it; a later call reconnects."""
        link, self._link = self._link, None
        if link is not None:
            await link.close(f"connection to {self.name} closed")
