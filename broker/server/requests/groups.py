"""Requests about groups: of members, about offsets (commit, fetch, delete), and of administrators
(list, describe, delete).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    ErrorAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaving,
    OffsetAndMetadata,
    OffsetsAnswer,
    Protocol,
    Sync,
    SyncAnswer,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.members import Member
from ackproof.broker.groups.offsets import CommittedOffset
from ackproof.broker.groups.state import GroupState
from ackproof.broker.server.admin import Refused
from ackproof.broker.server.requests.context import Client, Context, by_topic
from ackproof.broker.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from ackproof.broker.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ackproof.broker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ackproof.broker.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ackproof.broker.wire.messages.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
)
from ackproof.broker.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ackproof.broker.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from ackproof.broker.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ackproof.broker.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ackproof.broker.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ackproof.broker.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ackproof.broker.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupResponse,
)

# --- members --------------------------------------------------------------------------------------
#
# Members find the coordinator, join, get an assignment, send heartbeats, and leave.


# --- FindCoordinator ------------------------------------------------------------------------------
#
# FindCoordinator (api 10), versions 0 to 4.
#
# Behaviour: a group's coordinator is the broker that leads its partition of ``__consumer_offsets``.
# The topic is created on the first call. COORDINATOR_NOT_AVAILABLE until the topic exists and has
# leaders, and as long as fewer brokers are alive than it needs replicas.
#
# Not modelled: transactions; a transaction's coordinator is never available.
#
# v1 key_type, error_message, v3 flexible, v4 several keys at once.


GROUP = 0
"""The ``key_type`` of a group. 1 is a transaction."""

KEYS_SINCE = 4
NOWHERE = BrokerId(-1)


async def handle_find_coordinator(
    request: FindCoordinatorRequest, context: Context
) -> FindCoordinatorResponse:
    """Answer when the topic exists, after creating it if necessary."""
    if request.version >= KEYS_SINCE:
        return FindCoordinatorResponse(
            coordinators=tuple(
                [await _find(key, request.key_type, context) for key in request.coordinator_keys]
            )
        )
    found = await _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(key: str, key_type: int, context: Context) -> Coordinator:
    unavailable = ErrorCode.coordinator_not_available
    if key_type != GROUP:
        return _no_coordinator(key, unavailable, "Transactions are not supported.")
    if not key:
        return _no_coordinator(key, ErrorCode.invalid_group_id, "A group id is not empty.")
    try:
        broker = await context.groups.topic.coordinator(key)
    except Refused as refused:
        return _no_coordinator(key, unavailable, str(refused))
    return Coordinator(
        key=key,
        node_id=broker.id,
        host=broker.listener.host,
        port=broker.listener.port,
        error_code=ErrorCode.none,
        error_message=None,
    )


def _no_coordinator(key: str, error: ErrorCode, why: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NOWHERE, host="", port=-1, error_code=error, error_message=why
    )


# --- JoinGroup ------------------------------------------------------------------------------------
#
# JoinGroup (api 11), versions 0 to 9.
#
# Behaviour: :mod:`broker.groups.membership`. The answer waits until all members have joined or the
# rebalance timeout is over. Before v1 the session timeout serves as the rebalance timeout.
#
# Not modelled: the reason (v8) is not logged.
#
# v1 rebalance_timeout, v4 MEMBER_ID_REQUIRED, v5 group_instance_id, v6 flexible, v7 protocol_type,
# v9 skip_assignment.


REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


async def handle_join_group(
    request: JoinGroupRequest, context: Context, client: Client
) -> JoinGroupResponse:
    """Answer when the generation begins."""
    version = request.version
    session_timeout = request.session_timeout_ms
    rebalance_timeout = session_timeout
    if version >= REBALANCE_TIMEOUT_SINCE:
        rebalance_timeout = request.rebalance_timeout_ms
    instance_id = request.group_instance_id
    joined = await context.groups.ask(
        Join,
        JoinAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=client.id,
        client_host=client.host,
        session_timeout_ms=session_timeout,
        rebalance_timeout_ms=rebalance_timeout,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(p.name, p.metadata) for p in request.protocols),
        new_member_id=f"{instance_id or client.id}-{context.new_uuid()}",
        requires_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE,
        supports_skipping_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )
    return _join_response(request, joined)


def _join_response(request: JoinGroupRequest, joined: JoinAnswer) -> JoinGroupResponse:
    has_null = request.version >= NULL_PROTOCOL_SINCE
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if has_null else joined.protocol or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ),
    )


# --- SyncGroup ------------------------------------------------------------------------------------
#
# SyncGroup (api 14), versions 0 to 5.
#
# Behaviour: :mod:`broker.groups.membership`. Members get the leader's assignments, once these are
# stored.
#
# v3 group_instance_id, v4 flexible, v5 protocol_type and protocol_name.


async def handle_sync_group(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    """Answer when the leader's assignments are stored."""
    synced = await context.groups.ask(
        Sync,
        SyncAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments={a.member_id: a.assignment for a in request.assignments},
    )
    return SyncGroupResponse(
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )


# --- Heartbeat ------------------------------------------------------------------------------------
#
# Heartbeat (api 12), versions 0 to 4.
#
# Behaviour: :mod:`broker.groups.membership`. While groups are loaded, every member is accepted.
#
# v3 group_instance_id, v4 flexible.


async def handle_heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    """Answer at once."""
    answer = await context.groups.ask(
        Heartbeat,
        ErrorAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return HeartbeatResponse(error_code=answer.error)


# --- LeaveGroup -----------------------------------------------------------------------------------
#
# LeaveGroup (api 13), versions 0 to 5.
#
# Behaviour: :mod:`broker.groups.membership`. Since v3 several members leave at once, each with an
# error of its own. An administrator names static members by their instance ids alone (KIP-345).
#
# Not modelled: the reason (v5) is not logged.
#
# v3 members, v4 flexible.


BATCH_SINCE = 3


async def handle_leave_group(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """Answer at once."""
    is_batch = request.version >= BATCH_SINCE
    leaving = (
        tuple(Leaving(m.member_id, m.group_instance_id) for m in request.members)
        if is_batch
        else (Leaving(request.member_id),)
    )
    left = await context.groups.ask(Leave, LeaveAnswer, request.group_id, leaving=leaving)
    error = left.error
    if not is_batch and error is ErrorCode.none:
        (error,) = left.members
    return LeaveGroupResponse(
        error_code=error,
        members=tuple(
            MemberResponse(
                member_id=who.member_id,
                group_instance_id=who.instance_id,
                error_code=member_error,
            )
            for who, member_error in zip(leaving, left.members, strict=False)
        )
        if is_batch
        else (),
    )


# --- offsets --------------------------------------------------------------------------------------


# --- OffsetCommit ---------------------------------------------------------------------------------
#
# OffsetCommit (api 8), versions 2 to 8.
#
# Behaviour: :mod:`broker.groups.commits`. The answer comes when the commit is in the log of every
# in-sync replica. Partitions that this broker has never heard of are rejected. A retention time
# sent by the client (v2 to v4) is ignored: ``offsets.retention.minutes`` counts for all (KIP-211).
#
# Not modelled: offsets committed in transactions.
#
# v6 committed_leader_epoch, v7 group_instance_id, v8 flexible.


async def handle_offset_commit(
    request: OffsetCommitRequest, context: Context
) -> OffsetCommitResponse:
    """Answer when the offsets are stored."""
    asked = {
        TopicPartition(topic.name, partition.partition_index): _offset(partition)
        for topic in request.topics
        for partition in topic.partitions
    }
    async with context.groups.turns.mine():
        await context.metadata.refresh({tp.topic for tp in asked})
        known = {tp: offset for tp, offset in asked.items() if tp in context.metadata}
        begun = context.groups.begin(
            Commit,
            request.group_id,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            offsets=known,
        )
    committed = await begun
    assert isinstance(committed, OffsetsAnswer)
    errors = dict.fromkeys(asked, ErrorCode.unknown_topic_or_partition)
    errors.update(dict.fromkeys(known, committed.error))
    errors.update(committed.partitions)
    return _commit_response(request, errors)


def _offset(partition: OffsetCommitRequestPartition) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
    )


def _commit_response(
    request: OffsetCommitRequest, errors: dict[TopicPartition, ErrorCode]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=errors[TopicPartition(topic.name, partition.partition_index)],
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


# --- OffsetFetch ----------------------------------------------------------------------------------
#
# OffsetFetch (api 9), versions 1 to 8.
#
# Behaviour: the stored offsets, -1 where there is none. Without topics (null, since v2), every
# partition with an offset. Groups that are not known here have committed nothing.
#
# Not modelled: transactions, so that no offset is unstable (v7 require_stable).
#
# v2 error_code, v5 committed_leader_epoch, v6 flexible, v8 several groups at once.


ERROR_CODE_SINCE = 2
GROUPS_SINCE = 8
NOTHING = OffsetAndMetadata(offset=-1)


def handle_offset_fetch(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
    """Answer at once."""
    if request.version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=tuple(_group(g, context) for g in request.groups))
    error, committed = _committed(request.group_id, context)
    named = None if request.topics is None else _named(request.topics)
    return OffsetFetchResponse(
        error_code=error,
        topics=()
        if error is not ErrorCode.none and request.version >= ERROR_CODE_SINCE
        else tuple(
            OffsetFetchResponseTopic(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=Offset(value.offset),
                        committed_leader_epoch=LeaderEpoch(value.leader_epoch),
                        metadata=value.metadata,
                        error_code=error,
                    )
                    for number, value in values
                ),
            )
            for topic, values in _fetched(named, committed)
        ),
    )


def _group(asked: OffsetFetchRequestGroup, context: Context) -> OffsetFetchResponseGroup:
    error, committed = _committed(asked.group_id, context)
    named = None if asked.topics is None else _named(asked.topics)
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        error_code=error,
        topics=()
        if error is not ErrorCode.none
        else tuple(
            OffsetFetchResponseTopics(
                name=topic,
                partitions=tuple(
                    OffsetFetchResponsePartitions(
                        partition_index=number,
                        committed_offset=Offset(value.offset),
                        committed_leader_epoch=LeaderEpoch(value.leader_epoch),
                        metadata=value.metadata,
                        error_code=error,
                    )
                    for number, value in values
                ),
            )
            for topic, values in _fetched(named, committed)
        ),
    )


def _committed(
    group_id: str, context: Context
) -> tuple[ErrorCode, Mapping[TopicPartition, CommittedOffset]]:
    shard = context.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return shard, {}
    group = shard.groups.by_id.get(group_id)
    return ErrorCode.none, group.offsets.committed if group else {}


def _named(
    topics: Iterable[OffsetFetchRequestTopic | OffsetFetchRequestTopics],
) -> Sequence[tuple[str, Sequence[int]]]:
    return [(topic.name, topic.partition_indexes) for topic in topics]


def _fetched(
    named: Sequence[tuple[str, Sequence[int]]] | None,
    committed: Mapping[TopicPartition, CommittedOffset],
) -> Sequence[tuple[str, Sequence[tuple[int, OffsetAndMetadata]]]]:
    """Return the offsets of the named partitions, or with None of all that have one."""
    if named is None:
        return [
            (topic, [(number, found.value) for number, found in offsets])
            for topic, offsets in by_topic(committed).items()
        ]
    return [
        (topic, [(number, _value(TopicPartition(topic, number), committed)) for number in numbers])
        for topic, numbers in named
    ]


def _value(
    tp: TopicPartition, committed: Mapping[TopicPartition, CommittedOffset]
) -> OffsetAndMetadata:
    found = committed.get(tp)
    return found.value if found else NOTHING


# --- OffsetDelete ---------------------------------------------------------------------------------
#
# OffsetDelete (api 47), version 0.
#
# Behaviour: :mod:`broker.groups.commits`. Offsets of topics that a member is subscribed to stay
# (KIP-496).


async def handle_offset_delete(
    request: OffsetDeleteRequest, context: Context
) -> OffsetDeleteResponse:
    """Answer when the offsets are gone from the log, too."""
    partitions = frozenset(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    async with context.groups.turns.mine():
        await context.metadata.refresh({tp.topic for tp in partitions})
        known = frozenset(tp for tp in partitions if tp in context.metadata)
        begun = context.groups.begin(DeleteOffsets, request.group_id, partitions=known)
    deleted = await begun
    assert isinstance(deleted, OffsetsAnswer)
    unknown = ErrorCode.unknown_topic_or_partition
    return OffsetDeleteResponse(
        error_code=deleted.error,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=deleted.partitions.get(
                            TopicPartition(topic.name, partition.partition_index), unknown
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
        if deleted.error is ErrorCode.none
        else (),
    )


# --- administration -------------------------------------------------------------------------------


# --- ListGroups -----------------------------------------------------------------------------------
#
# ListGroups (api 16), versions 0 to 4.
#
# Behaviour: the groups that this broker coordinates, in any of the requested states. A client that
# wants all groups asks all brokers. COORDINATOR_LOAD_IN_PROGRESS when there may be more.
#
# v3 flexible, v4 group_state and states_filter.


def handle_list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Answer at once."""
    loading = context.groups.is_loading
    states = {state.lower() for state in request.states_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none,
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
            )
            for shard in context.groups.shards()
            for group in shard.groups.by_id.values()
            if not states or group.state.value.lower() in states
        ),
    )


# --- DescribeGroups -------------------------------------------------------------------------------
#
# DescribeGroups (api 15), versions 0 to 5.
#
# Behaviour: state, protocol and members of each group; subscriptions and assignments only while it
# is stable. A group that does not exist is described as dead.
#
# Not modelled: authorized operations (v3).
#
# v4 group_instance_id, v5 flexible.


def handle_describe_groups(
    request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse:
    """Answer at once."""
    return DescribeGroupsResponse(
        groups=tuple(_describe(group_id, context) for group_id in request.groups),
    )


def _describe(group_id: str, context: Context) -> DescribedGroup:
    shard = context.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return _nothing(group_id, shard, "")
    group = shard.groups.by_id.get(group_id)
    if group is None:
        return _nothing(group_id, ErrorCode.none, GroupState.DEAD.value)
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=tuple(_member(member, group, stable) for member in group.members),
    )


def _nothing(group_id: str, error: ErrorCode, state: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _member(member: Member, group: Group, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )


# --- DeleteGroups ---------------------------------------------------------------------------------
#
# DeleteGroups (api 42), versions 0 to 2.
#
# Behaviour: :mod:`broker.groups.commits`. Only empty groups are deleted, with all that they
# committed.
#
# v2 flexible.


async def handle_delete_groups(
    request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse:
    """Answer when the groups are gone from the log, too."""
    outcomes = await asyncio.gather(
        *(context.groups.ask(DeleteGroup, ErrorAnswer, name) for name in request.groups_names)
    )
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=name, error_code=outcome.error)
            for name, outcome in zip(request.groups_names, outcomes, strict=True)
        ),
    )
