"""Listening and accepted sockets, as far as the broker looks at them."""

import asyncio
from collections import deque
from collections.abc import Callable

from simulation.loop.loop import SimulatedLoop
from simulation.network.tcp import Address, Endpoint


class ListeningSocket:
    """What ``loop.sock_accept`` takes."""

    def __init__(
        self,
        loop: SimulatedLoop,
        address: Address,
        backlog: int,
        closed: Callable[[Address], object],
    ) -> None:
        self._loop = loop
        self._address = address
        self._backlog = backlog
        self._closed = closed
        self._queue: deque[Endpoint] = deque()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more may connect."""
        return len(self._queue) <= self._backlog

    def connected(self, endpoint: Endpoint) -> None:
        """Somebody connected."""
        self._queue.append(endpoint)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def accept(self) -> tuple["AcceptedSocket", Address]:
        """The next who connected, and its address."""
        while not self._queue:
            self._waiter = self._loop.create_future()
            await self._waiter
        endpoint = self._queue.popleft()
        return AcceptedSocket(endpoint), endpoint.remote

    def getsockname(self) -> Address:
        return self._address

    def close(self) -> None:
        """Who was not accepted yet is turned away."""
        self._closed(self._address)
        while self._queue:
            self._queue.popleft().close_by_kernel()


class AcceptedSocket:
    """What ``loop.connect_accepted_socket`` takes."""

    __slots__ = ("endpoint",)

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint

    def close(self) -> None:
        self.endpoint.close_by_kernel()
