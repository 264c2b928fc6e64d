"""Responses in order, pipelining bounded, and one bad client harms nobody else."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from broker.config import Listener
from broker.server.connections import PIPELINE, CloseConnection, Connections, Reply

DEADLINE_S = 10


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@contextlib.asynccontextmanager
async def serving(dispatch: Callable[[bytes], Reply]) -> AsyncIterator[int]:
    connections = Connections(dispatch, max_request_bytes=1000)
    await connections.start(Listener("127.0.0.1", 0))
    try:
        yield connections.port
    finally:
        await connections.close()


def run(test: Awaitable[None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test

    asyncio.run(bounded())


async def ask(port: int, payload: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(payload)
    try:
        return await reader.readexactly(len(payload))
    finally:
        writer.close()


def test_no_response_overtakes_another() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def slow(payload: bytes) -> bytes:
            await release.wait()
            return frame(payload)

        def dispatch(payload: bytes) -> Reply:
            if payload == b"slow":
                return slow(payload)
            release.set()
            return frame(payload)

        async with serving(dispatch) as port:
            both = frame(b"slow") + frame(b"fast")
            assert await ask(port, both) == both

    run(test())


def test_a_request_without_response_is_skipped() -> None:
    async def test() -> None:
        def dispatch(payload: bytes) -> Reply:
            return None if payload == b"acks=0" else frame(payload)

        async with serving(dispatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"acks=0") + frame(b"next"))
            assert await reader.readexactly(8) == frame(b"next")
            writer.close()

    run(test())


@pytest.mark.parametrize(
    "bytes_sent",
    [
        pytest.param(struct.pack(">i", 1001), id="oversized"),
        pytest.param(struct.pack(">i", -1), id="negative"),
        pytest.param(frame(b"refuse"), id="refused by the handler"),
        pytest.param(frame(b"crash"), id="handler failed"),
    ],
)
def test_a_bad_request_closes_its_connection_only(bytes_sent: bytes) -> None:
    async def test() -> None:
        def dispatch(payload: bytes) -> Reply:
            if payload == b"refuse":
                raise CloseConnection("as told")
            if payload == b"crash":
                raise RuntimeError("as told")
            return frame(payload)

        async with serving(dispatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            bad_reader, bad_writer = await asyncio.open_connection("127.0.0.1", port)
            bad_writer.write(bytes_sent)
            assert await bad_reader.read() == b""
            writer.write(frame(b"good"))
            assert await reader.readexactly(8) == frame(b"good")
            writer.close()
            bad_writer.close()

    run(test())


def test_a_truncated_request_is_no_request() -> None:
    async def test() -> None:
        seen: list[bytes] = []

        def dispatch(payload: bytes) -> Reply:
            seen.append(payload)
            return frame(payload)

        async with serving(dispatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"whole") + frame(b"truncated")[:-1])
            assert await reader.readexactly(9) == frame(b"whole")
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
        assert seen == [b"whole"]

    run(test())


def test_unanswered_requests_are_bounded() -> None:
    async def test() -> None:
        started = 0
        full = asyncio.Event()
        release = asyncio.Event()

        async def wait() -> bytes:
            await release.wait()
            return frame(b"x")

        def dispatch(_payload: bytes) -> Reply:
            nonlocal started
            started += 1
            if started > PIPELINE:
                full.set()
            return wait()

        async with serving(dispatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x") * PIPELINE * 4)
            await full.wait()
            for _ in range(100):  # time enough for the loop to start more, if it would
                await asyncio.sleep(0)
            assert started <= PIPELINE + 2  # one being answered, one waiting for its place
            release.set()
            assert len(await reader.readexactly(5 * PIPELINE * 4)) == 5 * PIPELINE * 4
            writer.close()

    run(test())
