"""Requests about consumer groups: from members, from tools without a member, and with a false
identity."""

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
