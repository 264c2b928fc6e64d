"""BrokerConnection against a socket that answers as the test says."""

import asyncio
import gc

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.wire.codec import write_response
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from tests.support.clients.frames import read_frame, read_request

ASK = ControlledShutdownRequest(broker_id=1)
DEADLINE_S = 60
ANSWER = ControlledShutdownResponse(error_code=ErrorCode.none, remaining_partitions=())


class Peer:
    """Hands every request's correlation id to the test, which writes the bytes of the answer."""

    async def __aenter__(self):
        self.asked = asyncio.Queue()
        self.connections = 0
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.connection = BrokerConnection("127.0.0.1", port, "test", max_frame_bytes=1000)
        return self

    async def __aexit__(self, *_):
        await self.connection.close()
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer):
        self.connections += 1
        while (payload := await read_frame(reader)) is not None:
            header, _ = read_request(ControlledShutdownRequest, payload)
            self.asked.put_nowait((header.correlation_id, writer))
        writer.close()

    def call(self, timeout_s=DEADLINE_S):
        return asyncio.create_task(self.connection.call(ASK, timeout_s))

    async def answer(self):
        correlation_id, writer = await self.asked.get()
        writer.write(write_response(correlation_id, ANSWER, ASK.version))


def run(main):
    asyncio.run(asyncio.wait_for(main(), DEADLINE_S))


def test_calls_are_pipelined_over_one_connection():
    async def main():
        async with Peer() as peer:
            calls = [peer.call() for _ in range(3)]
            asked = [await peer.asked.get() for _ in calls]
            for correlation_id, writer in asked:
                writer.write(write_response(correlation_id, ANSWER, ASK.version))
            assert await asyncio.gather(*calls) == [ANSWER] * 3
            assert peer.connections == 1

    run(main)


def test_timeout_fails_every_waiting_call_and_the_next_one_reconnects():
    async def main():
        async with Peer() as peer:
            slow = peer.call()
            await peer.asked.get()  # connected: from here on, time only passes at the peer
            hasty = peer.call(timeout_s=0.2)
            await peer.asked.get()
            with pytest.raises(Disconnected, match=r"no answer from .* within 0\.2 s"):
                await hasty
            with pytest.raises(Disconnected):
                await slow
            again = peer.call()
            await peer.answer()
            assert await again == ANSWER
            assert peer.connections == 2

    run(main)


def test_a_call_has_all_its_time_though_an_earlier_one_s_is_over():
    async def main():
        async with Peer() as peer:
            hasty = peer.call(timeout_s=0.2)
            await peer.answer()
            assert await hasty == ANSWER
            patient = peer.call(timeout_s=0.4)
            with pytest.raises(Disconnected, match=r"no answer from .* within 0\.4 s"):
                await patient
            assert peer.connections == 1

    run(main)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda _: (2000).to_bytes(4), "frame of 2000 bytes"),
        (lambda cid: write_response(cid + 7, ANSWER, ASK.version), "correlation id"),
        (lambda cid: (4).to_bytes(4) + cid.to_bytes(4), "a malformed answer"),
    ],
)
def test_nonsense_fails_the_call(answer, why):
    async def main():
        async with Peer() as peer:
            call = peer.call()
            correlation_id, writer = await peer.asked.get()
            writer.write(answer(correlation_id))
            with pytest.raises(Disconnected, match=why):
                await call

    run(main)


def test_closed_by_either_side():
    async def main():
        async with Peer() as peer:
            call = peer.call()
            _, writer = await peer.asked.get()
            writer.close()
            with pytest.raises(Disconnected, match="closed by the other side"):
                await call
            call = peer.call()
            await peer.asked.get()
            await peer.connection.close()
            with pytest.raises(Disconnected, match="closed"):
                await call

    run(main)


def test_cancelled_call_does_not_disturb_the_others():
    async def main():
        async with Peer() as peer:
            given_up, other = peer.call(), peer.call()
            asked = [await peer.asked.get() for _ in range(2)]
            given_up.cancel()
            for correlation_id, writer in asked:
                writer.write(write_response(correlation_id, ANSWER, ASK.version))
            assert await other == ANSWER

    run(main)


def test_connection_to_a_closed_port_is_refused():
    async def main():
        with pytest.raises(Disconnected, match="cannot reach 127"):
            await BrokerConnection("127.0.0.1", 1, "test").call(ASK, DEADLINE_S)

    run(main)


def test_failed_call_of_a_departed_caller_is_not_logged():
    """Test a process that is killed between the end of a connection and the next turn of the
    loop."""

    async def main():
        troubles = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: troubles.append(context["message"]))
        async with Peer() as peer:
            first = peer.call()
            await peer.answer()
            await first
            caller = peer.connection.call(ASK, DEADLINE_S)
            caller.send(None)
            await peer.connection.close()
            caller.close()
            gc.collect()
            assert troubles == []

    run(main)
