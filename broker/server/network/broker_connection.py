"""A client connection to another broker.

Kafka answers the requests of one connection in their order. Waiting calls are therefore in a queue,
and the correlation id is only a check. A connection either works or is gone. Any error (a timeout
too, as in Kafka's NetworkClient) closes it and fails every call that waits on it, because it is
unknown which of them the other broker has received. The next call connects again. Retrying is the
caller's task.
"""

import asyncio
from collections import deque
from typing import Generic, Protocol, TypeVar, cast

from ackproof.broker.wire.codec import read_response, write_request
from ackproof.broker.wire.framing import BytesLike, FrameBuffer
from ackproof.broker.wire.message import Request, Response

SOCKET_REQUEST_MAX_BYTES = 100 * 1024 * 1024
"""The default of ``socket.request.max.bytes``. No frame may be longer."""


class Disconnected(ConnectionError):
    """The loss of the connection. It is unknown whether the request was carried out."""


R = TypeVar("R", bound=Response)


class _Call(Generic[R]):
    """A request that was sent, and its future answer."""

    def __init__(
        self, request: Request[R], correlation_id: int, deadline: float, timeout_s: float
    ) -> None:
        self._request = request
        self._correlation_id = correlation_id
        self.deadline = deadline
        self.timeout_s = timeout_s
        self.response: asyncio.Future[R] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether no caller waits for the answer any more."""
        return self.response.done()

    def answered(self, payload: BytesLike) -> None:
        """Take the answer. Raise ValueError if it does not answer this request."""
        correlation_id, response = read_response(self._request, payload)
        if correlation_id != self._correlation_id:
            raise ValueError(f"correlation id {correlation_id}, not {self._correlation_id}")
        if not self.response.done():
            self.response.set_result(response)

    def fail(self, why: str) -> None:
        """Fail the call: there will be no answer."""
        if not self.response.done():
            self.response.set_exception(Disconnected(why))
            # The caller wakes up in the loop's next turn. If its process has ended before that, the
            # loop would report an exception that was never retrieved.
            self.response.exception()


class _Waiting(Protocol):
    """A call of any request. ``deadline`` is the loop's time by which it must be answered."""

    deadline: float
    timeout_s: float

    @property
    def is_over(self) -> bool: ...

    def answered(self, payload: BytesLike) -> None: ...

    def fail(self, why: str) -> None: ...


class _Link(asyncio.BufferedProtocol):
    """One TCP connection with its waiting calls, and one timer for all of them: nearly always they
    are answered long before it is due."""

    def __init__(self, name: str, max_frame_bytes: int) -> None:
        self._name = name
        self._frames = FrameBuffer(max_frame_bytes)
        self._waiting: deque[_Waiting] = deque()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, frame: bytes, call: _Waiting) -> None:
        """Send a request, and wait for its response."""
        if self._transport is None or self._transport.is_closing():
            raise Disconnected(f"connection to {self._name} lost")
        self._waiting.append(call)
        self._transport.write(frame)
        if self._timer is None or call.deadline < self._due:
            self._set_timer(call.deadline)

    def fail(self, why: str) -> None:
        """Close the connection, and fail every waiting call. A second call is harmless."""
        if self._transport is not None:
            self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            self._waiting.popleft().fail(why)

    def _set_timer(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        waiting = [call for call in self._waiting if not call.is_over]
        if not waiting:
            return
        first = min(waiting, key=lambda call: call.deadline)
        if first.deadline <= asyncio.get_running_loop().time():
            self.fail(f"no answer from {self._name} within {first.timeout_s} s")
        else:
            self._set_timer(first.deadline)

    # --- callbacks of the event loop --------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.fail(f"connection to {self._name} lost: {exc or 'closed by the other side'}")
        self._transport = None
        if not self.gone.done():
            self.gone.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        self._frames.filled(nbytes)
        try:
            while (payload := self._frames.next()) is not None:
                self._take(payload)
        except ValueError as error:
            self.fail(f"{self._name} sent a malformed answer: {error}")

    def _take(self, payload: BytesLike) -> None:
        if not self._waiting:
            raise ValueError("a response without a request")
        self._waiting[0].answered(payload)
        self._waiting.popleft()


class BrokerConnection:
    """Calls to the broker at ``host:port``, several at a time over one connection.

    ``client_id`` goes into each request's header, and ``max_frame_bytes`` limits a response.
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

    async def call(self, request: Request[R], timeout_s: float) -> R:
        """Send ``request`` and return its response.

        Connect when there is no connection. Calls may overlap, and are sent in the order in which
        they were made.

        Raises:
            Disconnected: no connection, no answer within ``timeout_s``, or an invalid answer.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        link = self._link
        if link is None or not link.is_open:
            link = await self._connected_within(timeout_s)
        self._next_correlation_id = (self._next_correlation_id + 1) % 2**31
        frame = write_request(request, self._next_correlation_id, self._client_id)
        call = _Call(request, self._next_correlation_id, deadline, timeout_s)
        link.send(frame, call)
        return await call.response

    async def _connected_within(self, timeout_s: float) -> _Link:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._connected()
        except TimeoutError as error:
            raise Disconnected(f"no answer from {self.name} within {timeout_s} s") from error
        except OSError as error:
            raise Disconnected(f"cannot reach {self.name}: {error}") from error

    async def _connected(self) -> _Link:
        if self._link is not None and self._link.is_open:
            return self._link
        async with self._connecting:
            if self._link is None or not self._link.is_open:
                await self.close()
                link = _Link(self.name, self._max_frame_bytes)
                loop = asyncio.get_running_loop()
                await loop.create_connection(lambda: link, *self._address)
                self._link = link
            return self._link

    async def close(self) -> None:
        """Close the connection, and fail its waiting calls. A later call reconnects."""
        link, self._link = self._link, None
        if link is not None:
            link.fail(f"connection to {self.name} closed")
            await link.gone
