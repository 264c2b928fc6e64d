"""Clients over the real wire code: each has a host, connections and metadata.

They record their requests and the answers (:class:`~simulation.model.history.ClientHistory`).
"""

from collections.abc import Sequence
from typing import Final, TypeVar

from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from simulation.model.history import ClientHistory

R = TypeVar("R", bound=Response)

PORT: Final = 9092
CALL_S: Final = 4.0
PAUSE_S: Final = 0.1


def host_of(broker: int) -> str:
    """Return the host of a broker."""
    return f"broker-{broker}"


class SimulatedClient:
    """A client that sends requests to brokers. ``name`` is its ``client.id``."""

    def __init__(self, name: str, brokers: Sequence[int], history: ClientHistory) -> None:
        self.name = name
        self.history = history
        self.brokers = tuple(brokers)
        self._connections: dict[int, BrokerConnection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._next = 0

    async def ask(self, broker: int, request: Request[R], timeout_s: float = CALL_S) -> R:
        """Send a request to a broker, and return the response. Raises Disconnected."""
        connection = self._connections.get(broker)
        if connection is None:
            connection = BrokerConnection(host_of(broker), PORT, self.name)
            self._connections[broker] = connection
        return await connection.call(request, timeout_s)

    async def ask_any(self, request: Request[R]) -> R:
        """Send a request to one broker after the other until one answers. Raises Disconnected if
        none does."""
        for _ in self.brokers[1:]:
            try:
                return await self.ask(self._any(), request)
            except Disconnected:
                pass
        return await self.ask(self._any(), request)

    def _any(self) -> int:
        self._next = (self._next + 1) % len(self.brokers)
        return self.brokers[self._next]

    async def leader(self, tp: TopicPartition) -> int | None:
        """Return the leader by the cached metadata, which is requested if it is missing."""
        known = self._leaders.get(tp)
        if known is not None:
            return known
        request = MetadataRequest(
            version=9,
            topics=(MetadataRequestTopic(name=tp.topic),),
            allow_auto_topic_creation=False,
        )
        try:
            response = await self.ask_any(request)
        except Disconnected:
            return None
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.leader_id in self.brokers:
                    found = TopicPartition(topic.name, partition.partition_index)
                    self._leaders[found] = partition.leader_id
        return self._leaders.get(tp)

    def forget(self, tp: TopicPartition) -> None:
        """Drop the cached leader, because another broker may lead the partition now."""
        self._leaders.pop(tp, None)

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()
