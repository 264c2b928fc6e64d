"""What is asked about consumer groups, whoever asks: members, tools without a member, and those who
only say that they are one."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ackproof.broker.groups.group import SUBSCRIPTION_AT
from ackproof.broker.types import Offset
from ackproof.broker.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ackproof.broker.wire.messages.find_coordinator import FindCoordinatorRequest
from ackproof.broker.wire.messages.heartbeat import HeartbeatRequest
from ackproof.broker.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ackproof.broker.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ackproof.broker.wire.writer import Writer

SESSION_MS: Final = 3_000
GROUP: Final = 0
"""What FindCoordinator has of a group; a transaction has another number."""
NO_GENERATION: Final = -1
NO_MEMBER: Final = ""


class Place(NamedTuple):
    """Where a member is: what it tells its coordinator of itself."""

    coordinator: int
    group: str
    generation: int
    member_id: str


def find_coordinator(group: str) -> FindCoordinatorRequest:
    """Who coordinates it."""
    return FindCoordinatorRequest(version=2, key=group, key_type=GROUP)


def join(
    group: str,
    member_id: str,
    *,
    instance_id: str | None = None,
    rebalance_ms: int = SESSION_MS,
) -> JoinGroupRequest:
    """As a consumer that knows two ways to share partitions out."""
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
    """Those that a member knows, the one that it likes best first, and in each says something
    else."""
    return tuple(JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in names)


def subscribed(name: str, topic: str, user_data: bytes | None = None) -> JoinGroupRequestProtocol:
    """A protocol that a member knows, and to what it subscribes in it."""
    writer = Writer()
    writer.put(bytes(SUBSCRIPTION_AT))  # version 0
    ConsumerProtocolSubscription(topics=(topic,), user_data=user_data).write(writer, 0)
    return JoinGroupRequestProtocol(name=name, metadata=writer.payload())


def sync(
    place: Place, assignments: Mapping[str, bytes], instance_id: str | None = None
) -> SyncGroupRequest:
    """``assignments``: by member; none of who does not lead."""
    return SyncGroupRequest(
        version=3,
        group_id=place.group,
        generation_id=place.generation,
        member_id=place.member_id,
        group_instance_id=instance_id,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=assigned)
            for member, assigned in assignments.items()
        ),
    )


def heartbeat(place: Place, instance_id: str | None = None) -> HeartbeatRequest:
    """That it lives."""
    return HeartbeatRequest(
        version=3,
        group_id=place.group,
        generation_id=place.generation,
        member_id=place.member_id,
        group_instance_id=instance_id,
    )


def from_outside(group: str) -> Place:
    """Of a tool that is no member, such as one that resets offsets: whoever coordinates it."""
    return Place(-1, group, NO_GENERATION, NO_MEMBER)


def commit(
    place: Place,
    topic: str,
    offsets: Mapping[int, int],
    metadata: str | None = "",
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Of offsets by partition of a topic, by who says that this is its place."""
    parts = tuple(
        OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=Offset(offset), committed_metadata=metadata
        )
        for partition, offset in offsets.items()
    )
    return OffsetCommitRequest(
        version=7,
        group_id=place.group,
        generation_id_or_member_epoch=place.generation,
        member_id=place.member_id,
        group_instance_id=instance_id,
        topics=(OffsetCommitRequestTopic(name=topic, partitions=parts),),
    )
