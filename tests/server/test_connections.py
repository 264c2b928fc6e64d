"""Responses in order, pipelining bounded, and one bad client harms no other."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ackproof.broker.config import Listener
from ackproof.broker.server.network.connections import (
    PIPELINE,
    CloseConnection,
    ConnectionConfig,
    ConnectionLimits,
    Connections,
    Later,
    Reply,
)

DEADLINE_S = 60
IDLE_MS = 1000
"""Longer than a machine at work lets a process wait for its turn: the busy must not seem idle."""
SMALL_REQUESTS = ConnectionConfig(max_request_bytes=1000)


def as_it_is(frame: bytes) -> bytes:
    return frame


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@contextlib.asynccontextmanager
async def serving(
    dispatch: Callable[[bytes], Reply], config: ConnectionConfig = SMALL_REQUESTS
) -> AsyncIterator[int]:
    connections = Connections(dispatch, config)
    connections.bind(Listener("127.0.0.1", 0))
    connections.accept()
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
                return Later(slow(payload), as_it_is)
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


def test_requests_that_arrive_in_one_piece_begin_in_their_order() -> None:
    """Test that the part of a coroutine before its first await precedes the next request."""

    async def test() -> None:
        begun: list[bytes] = []
        release = asyncio.Event()

        async def waited_for(payload: bytes) -> bytes:
            begun.append(payload)
            await release.wait()
            return frame(payload)

        def dispatch(view: bytes) -> Reply:
            payload = bytes(view)
            if payload.startswith(b"wait"):
                return Later(waited_for(payload), as_it_is)
            begun.append(payload)
            if payload == b"last":
                release.set()
            return frame(payload)

        sent = [b"wait-1", b"at once", b"wait-2", b"wait-3", b"last"]
        async with serving(dispatch) as port:
            pieces = b"".join(map(frame, sent))
            assert await ask(port, pieces) == pieces
        assert begun == sent

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
            if started == PIPELINE:
                full.set()
            return Later(wait(), as_it_is)

        async with serving(dispatch) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(frame(b"x") * PIPELINE * 4)
            await full.wait()
            for _ in range(100):  # time enough for the loop to start more, if it would
                await asyncio.sleep(0)
            assert started == PIPELINE
            release.set()
            assert len(await reader.readexactly(5 * PIPELINE * 4)) == 5 * PIPELINE * 4
            writer.close()

    run(test())


def echo(payload: bytes) -> bytes:
    return frame(payload)


@pytest.mark.parametrize(
    "bytes_sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(struct.pack(">i", 100)[:3], id="half a length"),
        pytest.param(frame(b"half")[:-1], id="half a frame"),
        pytest.param(frame(b"whole"), id="a request and then nothing"),
    ],
)
def test_silence_closes_a_connection(bytes_sent: bytes) -> None:
    config = ConnectionConfig(1000, max_idle_ms=IDLE_MS)

    async def test() -> None:
        async with serving(echo, config) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            silent_reader, silent_writer = await asyncio.open_connection("127.0.0.1", port)
            silent_writer.write(bytes_sent)
            silence = asyncio.ensure_future(silent_reader.read())
            while not silence.done():
                writer.write(frame(b"busy"))
                assert await reader.readexactly(8) == frame(b"busy")
                await asyncio.sleep(0)
            assert silence.result() == (bytes_sent if bytes_sent == frame(b"whole") else b"")
            writer.close()
            silent_writer.close()

    run(test())


def test_client_that_reads_no_responses_is_disconnected() -> None:
    config = ConnectionConfig(1000, max_idle_ms=IDLE_MS)

    async def test() -> None:
        connections = Connections(lambda _: bytes(2**23), config)
        connections.bind(Listener("127.0.0.1", 0))
        connections.accept()
        _, writer = await asyncio.open_connection("127.0.0.1", connections.port, limit=1)
        writer.write(frame(b"x") * 4)
        while not len(connections):
            await asyncio.sleep(0)
        while len(connections):
            await asyncio.sleep(0.01)
        writer.close()
        await connections.close()

    run(test())


def test_an_address_has_only_so_many_connections() -> None:
    limits = ConnectionLimits(per_ip=0, per_ip_overrides={"127.0.0.1": 2})

    async def test() -> None:
        async with serving(echo, ConnectionConfig(1000, limits=limits)) as port:
            first = await asyncio.open_connection("127.0.0.1", port)
            second = await asyncio.open_connection("127.0.0.1", port)
            for reader, writer in (first, second):
                writer.write(frame(b"in"))
                assert await reader.readexactly(6) == frame(b"in")
            third, third_writer = await asyncio.open_connection("127.0.0.1", port)
            assert await third.read() == b""
            third_writer.close()
            first[1].close()
            while True:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(frame(b"in"))
                with contextlib.suppress(ConnectionError):
                    if await reader.read(1):
                        break
                writer.close()
            writer.close()
            second[1].close()

    run(test())


def test_new_connection_waits_at_the_limit_until_another_closes() -> None:
    config = ConnectionConfig(1000, limits=ConnectionLimits(total=1))

    async def test() -> None:
        async with serving(echo, config) as port:
            first, first_writer = await asyncio.open_connection("127.0.0.1", port)
            second, second_writer = await asyncio.open_connection("127.0.0.1", port)
            second_writer.write(frame(b"in"))
            for _ in range(100):
                first_writer.write(frame(b"in"))
                assert await first.readexactly(6) == frame(b"in")
            waiting = asyncio.ensure_future(second.readexactly(6))
            await asyncio.sleep(0)
            assert not waiting.done()
            first_writer.close()
            assert await waiting == frame(b"in")
            second_writer.close()

    run(test())


@pytest.mark.parametrize("to_its_end", [True, False])
def test_request_of_a_departed_client_is_completed_or_cancelled(
    to_its_end: bool,
) -> None:
    """And given up at the latest when the broker ends."""

    async def test() -> None:
        begun, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Queue[str]()

        async def work(payload: bytes) -> bytes:
            begun.set()
            try:
                await release.wait()
            except asyncio.CancelledError:
                ended.put_nowait("given up")
                raise
            ended.put_nowait("carried out")
            return frame(payload)

        connections = Connections(
            lambda payload: Later(work(payload), as_it_is, to_its_end), SMALL_REQUESTS
        )
        connections.bind(Listener("127.0.0.1", 0))
        connections.accept()

        async def come_and_go() -> None:
            begun.clear()
            _, writer = await asyncio.open_connection("127.0.0.1", connections.port)
            writer.write(frame(b"x"))
            await begun.wait()
            writer.close()
            while len(connections):
                await asyncio.sleep(0)

        await come_and_go()
        release.set()
        assert await ended.get() == ("carried out" if to_its_end else "given up")
        release.clear()
        await come_and_go()
        await connections.close()
        assert ended.get_nowait() == "given up"

    run(test())
