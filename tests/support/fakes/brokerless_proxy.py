"""A way to brokers that now and then tell of no brokers at all, as those do that see all fenced."""

import asyncio
from contextlib import suppress
from functools import partial
from threading import Event, Thread

from ackproof.broker.wire.codec import first_fields
from tests.support.clients.frames import read_frame
from tests.support.clients.kio_peer import framed

METADATA = 3
FLEXIBLE = 9
INT = 4
BROKERS = INT + 1 + INT
"""Where their number stands: behind correlation id, no tagged fields, and throttle time."""
NONE = b"\1"
"""The length of a compact array without elements."""


class BlinkingWay:
    """Forwards connections to the brokers of a cluster, and has all that they tell of themselves
    lead here. While it blinks, every other answer about metadata names topics and no brokers."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._theirs = [one.rpartition(":")[::2] for one in bootstrap_servers.split(",")]
        self._ours: dict[bytes, bytes] = {}
        self._loop = asyncio.new_event_loop()
        self._listens = Event()
        self._closed = asyncio.Event()
        self._answers = 0
        self._carrying: set[asyncio.Task[None] | None] = set()
        """The loop itself remembers them for as long as they are waited for, and no longer."""
        self.blinks = False
        self._thread = Thread(target=self._loop.run_until_complete, args=[self._serve()])
        self._thread.start()
        self._listens.wait()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._closed.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        bootstrap, servers = [], []
        for host, port in self._theirs:
            connected = partial(self._connected, host, int(port))
            server = await asyncio.start_server(connected, host)
            servers.append(server)
            own_port = server.sockets[0].getsockname()[1]
            bootstrap.append(f"{host}:{own_port}")
            self._ours[_address(host, int(port))] = _address(host, own_port)
        self.bootstrap_servers = ",".join(bootstrap)
        self._listens.set()
        await self._closed.wait()
        for server in servers:
            server.close()
        for task in tuple(filter(None, self._carrying)):
            task.cancel()
        await asyncio.gather(*filter(None, self._carrying), return_exceptions=True)

    async def _connected(
        self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._carrying.add(task := asyncio.current_task())
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            try:
                there, to_there = await asyncio.open_connection(host, port)
                try:
                    while (request := await read_frame(reader)) is not None:
                        to_there.write(framed(request))
                        answer = await read_frame(there)
                        if answer is None:
                            return
                        writer.write(framed(self._told(request, answer)))
                finally:
                    to_there.close()
            finally:
                self._carrying.discard(task)
                writer.close()

    def _told(self, request: bytes, answer: bytes) -> bytes:
        for theirs, ours in self._ours.items():
            answer = answer.replace(theirs, ours)
        key, version, _ = first_fields(request)
        if key != METADATA or not self.blinks:
            return answer
        self._answers += 1
        return answer if self._answers % 2 else _without_brokers(version, answer)


def _address(host: str, port: int) -> bytes:
    return host.encode() + port.to_bytes(INT, "big")


def _without_brokers(version: int, answer: bytes) -> bytes:
    """The brokers cut out, each its id, host, port, rack and tagged fields (none). Not by kio: what
    librdkafka's own cluster answers has more at its end than its version has."""
    assert version >= FLEXIBLE, "strings have their lengths in two bytes"
    at = BROKERS + 1
    for _ in range(answer[BROKERS] - 1):
        rack = _behind_string(answer, at + INT) + INT
        at = _behind_string(answer, rack) + 1
    return answer[:BROKERS] + NONE + answer[at:]


def _behind_string(answer: bytes, at: int) -> int:
    """Return the position after a short string; null is as long as an empty one."""
    return at + max(1, answer[at])
