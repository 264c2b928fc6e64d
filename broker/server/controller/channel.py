"""The controller's way to one registration of one broker.

Requests leave one after the other and each is tried again until the broker has answered: a broker
must not hear of a newer state before an older one, nor miss one. What ends a channel is the
broker's registration going away, or the controller's own end; then the rest is dropped, because
the broker will be told everything anew.
"""

import asyncio
import logging
from collections.abc import Callable

from ackproof.broker.controller.events import Request
from ackproof.broker.server.controller.state_changes import log_request
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.server.schedule import Spawn
from ackproof.broker.types import BrokerId
from ackproof.broker.wire.messages.leader_and_isr import LeaderAndIsrResponse
from ackproof.broker.wire.messages.stop_replica import StopReplicaResponse
from ackproof.broker.wire.messages.update_metadata import UpdateMetadataResponse

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.1

Response = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse
Answered = Callable[[BrokerId, Request, Response], None]


class Channel:
    """An ordered queue of requests to ``broker``.

    Args:
        spawn: starts the channel's task, and owns it.
        answered: called with each request's response.
    """

    def __init__(
        self,
        broker: BrokerId,
        connection: BrokerConnection,
        timeout_s: float,
        spawn: Spawn,
        answered: Answered,
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._timeout_s = timeout_s
        self._answered = answered
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._task = spawn(self._deliver_all())

    def send(self, request: Request) -> None:
        """Queue a request."""
        self._requests.put_nowait(request)

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._task.cancel()

    async def close(self) -> None:
        """Stop, and let go of the connection."""
        self.stop()
        await asyncio.wait([self._task])
        await self._connection.close()

    async def _deliver_all(self) -> None:
        while True:
            request = await self._requests.get()
            try:
                log_request("sent", self._broker, request)
                response = await self._deliver(request)
                log_request("acknowledged", self._broker, request, response.error_code)
                self._answered(self._broker, request, response)
            except Exception:
                # Not worth a broker: what cannot be said is said by no other controller either.
                logger.exception("controller: broker %d: %s given up", self._broker, request)

    async def _deliver(self, request: Request) -> Response:
        while True:
            try:
                response: Response = await self._connection.call(request, self._timeout_s)
                return response
            except Disconnected as error:
                logger.warning("controller: broker %d: %s; trying again", self._broker, error)
                await asyncio.sleep(RETRY_BACKOFF_S)
