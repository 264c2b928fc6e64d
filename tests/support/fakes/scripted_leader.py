"""A leader that says what the test says: for what followers make of late and wrong answers."""

import asyncio
from typing import Any

from ackproof.broker.server.requests.dispatch import APIS
from ackproof.broker.wire.codec import first_fields, read_request, write_response
from tests.support.clients.frames import read_frame


class ScriptedLeader:
    """Takes what stands in a host's ``peers``. Requests wait in ``asked`` until answered."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[Any, asyncio.Future[Any]]] = asyncio.Queue()
        self.connections = 0
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        self.disconnect()
        await self._server.wait_closed()

    def disconnect(self) -> None:
        """All who are connected."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def next(self, kind: str) -> tuple[Any, asyncio.Future[Any]]:
        """The next request, which must be of this kind, and where its answer goes."""
        request, answer = await self.asked.get()
        assert type(request).__name__ == kind, request
        return request, answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while (payload := await read_frame(reader)) is not None:
                first = first_fields(payload)
                _, request = read_request(APIS[first.api_key].request, first, payload)
                answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
                self.asked.put_nowait((request, answer))
                writer.write(write_response(first.correlation_id, await answer, first.version))
        except (OSError, EOFError):
            pass
        finally:
            writer.close()
