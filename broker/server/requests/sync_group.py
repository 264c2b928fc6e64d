"""SyncGroup (api 14), versions 0 to 5.

Behaviour: :mod:`broker.groups.membership`. Members get what the leader assigns them, once that is
stored.

v3 group_instance_id, v4 flexible, v5 protocol_type and protocol_name.
"""

from typing import Any

from kio.schema.sync_group.v5.request import SyncGroupRequest

from broker.groups.events import Sync, SyncAnswer
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context

GROUP_INSTANCE_ID_SINCE = 3
PROTOCOL_SINCE = 5


async def handle(request: SyncGroupRequest, context: Context) -> Any:
    """Answers when the leader has spoken."""
    version = request.__version__
    synced = await context.groups.ask(
        Sync,
        SyncAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id if version >= GROUP_INSTANCE_ID_SINCE else None,
        generation=request.generation_id,
        protocol_type=request.protocol_type if version >= PROTOCOL_SINCE else None,
        protocol=request.protocol_name if version >= PROTOCOL_SINCE else None,
        assignments={a.member_id: a.assignment for a in request.assignments},
    )
    return Answer.to(request)(
        "SyncGroupResponse",
        throttle_time=NO_THROTTLE,
        error_code=synced.error,
        protocol_type=synced.protocol_type,
        protocol_name=synced.protocol,
        assignment=synced.assignment,
    )
