"""Hosts that echo through the broker's own connections over the simulated network."""

import asyncio
from random import Random
from typing import Any, cast

from kio.schema.errors import ErrorCode

from ackproof.broker.config import Listener
from ackproof.broker.server.network.broker_connection import BrokerConnection
from ackproof.broker.server.network.connections import ConnectionConfig, Connections, Later, Reply
from ackproof.broker.wire.codec import write_response
from ackproof.broker.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from simulation.loop import SimulatedLoop, SimulatedProcess
from simulation.network import SimulatedNetwork
from tests.support.clients.frames import read_request

PORT = 9092


class EchoWorld:
    """A loop, a network, and ``server``, which answers after ``serves_after_s``."""

    def __init__(self, seed: int = 1) -> None:
        random = Random(seed)
        self.loop = SimulatedLoop(random, steps_max=1_000_000)
        self.network = SimulatedNetwork(self.loop, random)
        self.trace: list[tuple[Any, ...]] = []
        """All observed events: time, host, description."""
        self.serves_after_s = 0.0
        self.connections: Connections | None = None
        """The connections of the server."""
        self.server = SimulatedProcess("server")
        self.client = SimulatedProcess("client-1")
        for host in ("server", "client-1"):
            self.network.add_host(host)

    def note(self, host: str, *what: Any) -> None:
        self.trace.append((self.loop.time(), host, *what))

    def start(self, process: SimulatedProcess, work: Any) -> asyncio.Task[Any]:
        return self.loop.create_task(work, context=process.context.copy())

    def serve(self) -> None:
        """Start listening, in the present process of ``server``."""
        self.start(self.server, self._serve(self.server))
        self.loop.run_for(0.001)

    async def _serve(self, process: SimulatedProcess) -> None:
        def dispatch(frame: bytes | memoryview) -> Reply:
            header, _request = read_request(HeartbeatRequest, frame)
            self.note("server", "asked", header.correlation_id)
            answer = write_response(
                header.correlation_id, HeartbeatResponse(error_code=ErrorCode.none), 0
            )
            if not self.serves_after_s:
                return answer
            return Later(asyncio.sleep(self.serves_after_s), lambda _none: answer)

        self.connections = Connections(
            dispatch,
            ConnectionConfig(max_request_bytes=2**20),
            listen=lambda listener, backlog: cast(
                Any, self.network.listen(listener.host, listener.port, backlog)
            ),
        )
        self.connections.bind(Listener("server", PORT))
        self.connections.accept(process.spawn)

    def die(self, process: SimulatedProcess) -> None:
        """Kill a process (SIGKILL)."""
        self.loop.kill(process)
        self.network.process_died(process)

    def lose_power(self, process: SimulatedProcess) -> None:
        self.loop.kill(process)
        self.network.power_lost(process.host)

    def restart_server(self) -> None:
        """Start another process of the server, on a host with power."""
        self.server = SimulatedProcess("server", self.server.incarnation + 1)
        self.network.power_restored("server")
        self.serve()

    def connection(self) -> BrokerConnection:
        return BrokerConnection("server", PORT, "tests")

    def ask(self, connection: BrokerConnection, timeout_s: float = 30.0) -> asyncio.Task[Any]:
        """Send one request from the client."""
        return self.start(self.client, self._ask(connection, timeout_s))

    async def _ask(self, connection: BrokerConnection, timeout_s: float) -> Any:
        try:
            answer = await connection.call(heartbeat(), timeout_s)
        except ConnectionError as error:
            self.note("client-1", str(error))
            raise
        self.note("client-1", "answered")
        return answer


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(version=0, group_id="g", generation_id=1, member_id="m")
