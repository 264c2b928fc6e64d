"""SyncGroup (api 14), versions 0 to 5.

Behaviour: :mod:`broker.groups.requests.membership`. Members get what the leader assigns them, once
that is stored.

v3 group_instance_id, v4 flexible, v5 protocol_type and protocol_name.
"""

from ackproof.broker.groups.events import Sync, SyncAnswer
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupResponse,
)


async def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
    """Answers when the leader has spoken."""
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
