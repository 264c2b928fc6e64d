"""Clients over the real wire code: each has a host, connections and metadata.

They record their requests and the answers (:class:`~simulation.model.history.ClientHistory`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.group import SUBSCRIPTION_AT
from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.message import Request, Response
from ackproof.broker.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ackproof.broker.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from ackproof.broker.wire.messages.find_coordinator import FindCoordinatorRequest
from ackproof.broker.wire.messages.heartbeat import HeartbeatRequest
from ackproof.broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ackproof.broker.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ackproof.broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ackproof.broker.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ackproof.broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ackproof.broker.wire.writer import Writer
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


# --- requests of consumers ------------------------------------------------------------------------
#
# All of them raise Disconnected.

EARLIEST: Final = -2
LATEST: Final = -1


async def list_offset(
    client: SimulatedClient, leader: int, tp: TopicPartition, timestamp: int
) -> int:
    """Return the log start (EARLIEST), the high watermark (LATEST), or the first offset that is not
    older.

    The result is -1 if there is none, or if the question must be repeated.
    """
    answer = await _listed(client, leader, tp, timestamp)
    return int(answer.offset) if answer.error_code is ErrorCode.none else -1


async def end_offset(client: SimulatedClient, leader: int, tp: TopicPartition) -> tuple[int, int]:
    """Return the high watermark, and the leader epoch of the answer; -1 means that the question
    must be repeated."""
    answer = await _listed(client, leader, tp, LATEST)
    if answer.error_code is not ErrorCode.none:
        return -1, -1
    return int(answer.offset), int(answer.leader_epoch)


def list_offsets(
    tp: TopicPartition,
    timestamp: int = LATEST,
    epoch: LeaderEpoch = NO_EPOCH,
    *,
    version: int = 5,
) -> ListOffsetsRequest:
    """Return the request of a consumer for an offset."""
    part = ListOffsetsPartition(
        partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamp
    )
    topic = ListOffsetsTopic(name=tp.topic, partitions=(part,))
    return ListOffsetsRequest(
        version=version, replica_id=BrokerId(-1), isolation_level=0, topics=(topic,)
    )


async def _listed(
    client: SimulatedClient, leader: int, tp: TopicPartition, timestamp: int
) -> ListOffsetsPartitionResponse:
    response = await client.ask(leader, list_offsets(tp, timestamp))
    return response.topics[0].partitions[0]


async def fetch(
    client: SimulatedClient, leader: int, tp: TopicPartition, offset: int
) -> PartitionData:
    """Fetch as a consumer, and return the partition's part of the answer."""
    part = FetchPartition(
        partition=tp.partition, fetch_offset=Offset(offset), partition_max_bytes=2**20
    )
    request = FetchRequest(
        version=4,
        replica_id=BrokerId(-1),
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=2**20,
        isolation_level=0,
        topics=(FetchTopic(topic=tp.topic, partitions=(part,)),),
    )
    response = await client.ask(leader, request)
    return response.responses[0].partitions[0]


async def offsets_of(
    client: SimulatedClient, coordinator: int | None, group: str, tps: Sequence[TopicPartition]
) -> dict[TopicPartition, int] | None:
    """Return the committed offsets of a group, -1 for none. None means that the question must be
    repeated."""
    if coordinator is None:
        return None
    topic = tps[0].topic
    numbers = tuple(tp.partition for tp in tps)
    request = OffsetFetchRequest(
        version=5,
        group_id=group,
        topics=(OffsetFetchRequestTopic(name=topic, partition_indexes=numbers),),
    )
    response = await client.ask(coordinator, request)
    if response.error_code is not ErrorCode.none:
        return None
    parts = [part for topic in response.topics for part in topic.partitions]
    if any(part.error_code is not ErrorCode.none for part in parts):
        return None
    return {TopicPartition(topic, p.partition_index): p.committed_offset for p in parts}


# --- requests about consumer groups ---------------------------------------------------------------
#
# They come from members, from tools without a member, and with a false identity.

SESSION_MS: Final = 3_000
GROUP: Final = 0
"""The key type of a group in FindCoordinator. A transaction has another number."""
NO_GENERATION: Final = -1
NO_MEMBER: Final = ""


class GroupMembership(NamedTuple):
    """The identity that a member sends to its coordinator."""

    coordinator: int
    group: str
    generation: int
    member_id: str


def find_coordinator(group: str) -> FindCoordinatorRequest:
    """Return the request for the coordinator of a group."""
    return FindCoordinatorRequest(version=2, key=group, key_type=GROUP)


def join(
    group: str,
    member_id: str,
    *,
    instance_id: str | None = None,
    rebalance_ms: int = SESSION_MS,
) -> JoinGroupRequest:
    """Return the request to join, of a consumer that supports two assignment protocols."""
    return JoinGroupRequest(
        version=5,
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=protocols("share", "spare"),
    )


def protocols(*names: str) -> tuple[JoinGroupRequestProtocol, ...]:
    """Return protocols in the order of the member's preference, each with different metadata."""
    return tuple(JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in names)


def subscription(name: str, topic: str, user_data: bytes | None = None) -> JoinGroupRequestProtocol:
    """Return a protocol with the subscription to one topic."""
    writer = Writer()
    writer.put(bytes(SUBSCRIPTION_AT))  # version 0
    ConsumerProtocolSubscription(topics=(topic,), user_data=user_data).write(writer, 0)
    return JoinGroupRequestProtocol(name=name, metadata=writer.payload())


def sync(
    membership: GroupMembership, assignments: Mapping[str, bytes], instance_id: str | None = None
) -> SyncGroupRequest:
    """Return the request to sync. ``assignments`` is by member, and empty unless the member
    leads."""
    return SyncGroupRequest(
        version=3,
        group_id=membership.group,
        generation_id=membership.generation,
        member_id=membership.member_id,
        group_instance_id=instance_id,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=assigned)
            for member, assigned in assignments.items()
        ),
    )


def heartbeat(membership: GroupMembership, instance_id: str | None = None) -> HeartbeatRequest:
    """Return a heartbeat."""
    return HeartbeatRequest(
        version=3,
        group_id=membership.group,
        generation_id=membership.generation,
        member_id=membership.member_id,
        group_instance_id=instance_id,
    )


def without_member(group: str) -> GroupMembership:
    """Return the identity of a tool that is no member, such as one that resets offsets."""
    return GroupMembership(-1, group, NO_GENERATION, NO_MEMBER)


def commit(
    membership: GroupMembership,
    topic: str,
    offsets: Mapping[int, int],
    metadata: str | None = "",
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Return the request to commit the offsets of a topic's partitions under an identity."""
    parts = tuple(
        OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=Offset(offset), committed_metadata=metadata
        )
        for partition, offset in offsets.items()
    )
    return OffsetCommitRequest(
        version=7,
        group_id=membership.group,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=instance_id,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=parts),),
    )
