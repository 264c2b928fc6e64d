"""The controller's way to one registration of one broker.

Requests leave one after the other and each is tried again until the broker has answered: a broker
must not hear of a newer state before an older one, nor miss one. What ends a channel is the
broker's registration going away, or the controller's own end; then the rest is dropped, because
the broker will be told everything anew.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from kio.schema.errors import ErrorCode

from broker.controller.events import Request
from broker.server.network.broker_connection import BrokerConnection, Disconnected
from broker.server.schedule import Spawn
from broker.types import BrokerId, ControllerEpoch
from broker.wire.interbroker import LeaderAndIsrRequest, StopReplicaRequest

log = logging.getLogger(__name__)
state_change = logging.getLogger("state.change.logger")

RETRY_BACKOFF_S = 0.1

Answered = Callable[[BrokerId, Request, Any], None]


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
                log.exception("controller: broker %d: %s given up", self._broker, request)

    async def _deliver(self, request: Request) -> Any:
        while True:
            try:
                return await self._connection.call(request, self._timeout_s)
            except Disconnected as error:
                log.warning("controller: broker %d: %s; trying again", self._broker, error)
                await asyncio.sleep(RETRY_BACKOFF_S)


def log_request(
    event: str, broker: BrokerId, request: Request, error: ErrorCode | None = None
) -> None:
    """State-change lines of a request: who asks whom for what, in which epochs."""
    for change in _changes(request):
        record = {
            "event": event,
            "request": type(request).__name__.removesuffix("Request"),
            "to": broker,
            "controller": request.controller_id,
            "controller_epoch": request.controller_epoch,
            **change,
            "error": None if error in (None, ErrorCode.none) else error.name,
        }
        state_change.info(json.dumps({k: v for k, v in record.items() if v is not None}))


def log_tenure(event: str, controller: BrokerId, epoch: ControllerEpoch) -> None:
    """State-change line: ``elected`` or ``resigned``."""
    record = {"event": event, "controller": controller, "controller_epoch": epoch}
    state_change.info(json.dumps(record))


def _changes(request: Request) -> Iterator[dict[str, Any]]:
    """LeaderAndIsr and StopReplica by partition, UpdateMetadata as a whole."""
    if isinstance(request, LeaderAndIsrRequest):
        for topic in request.topic_states:
            for role in topic.partition_states:
                yield {
                    "partition": f"{topic.topic_name}-{role.partition_index}",
                    "leader": role.leader,
                    "leader_epoch": role.leader_epoch,
                    "isr": role.isr,
                    "zk_version": role.zk_version,
                }
    elif isinstance(request, StopReplicaRequest):
        for stopped in request.topic_states:
            for stop in stopped.partition_states:
                yield {
                    "partition": f"{stopped.topic_name}-{stop.partition_index}",
                    "leader_epoch": stop.leader_epoch,
                    "delete": stop.delete_partition,
                }
    else:
        count = sum(len(topic.partition_states) for topic in request.topic_states)
        yield {"partitions": count, "live_brokers": [b.id for b in request.live_brokers]}
