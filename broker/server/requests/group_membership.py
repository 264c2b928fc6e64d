"""Requests of group members: find the coordinator, join, get an assignment, send heartbeats, and
leave."""

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    ErrorAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaving,
    Protocol,
    Sync,
    SyncAnswer,
)
from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Client, Context
from ackproof.broker.types import BrokerId
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
from ackproof.broker.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupResponse,
)

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
    return _respond(request, joined)


def _respond(request: JoinGroupRequest, joined: JoinAnswer) -> JoinGroupResponse:
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
