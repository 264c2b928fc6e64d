"""Heartbeat (api 12), versions 0 to 4.

Behaviour: :mod:`broker.groups.requests.membership`. While groups are loaded, every member is
believed.

v3 group_instance_id, v4 flexible.
"""

from ackproof.broker.groups.events import ErrorAnswer, Heartbeat
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.heartbeat import (
    HeartbeatRequest,
    HeartbeatResponse,
)


async def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
    """Answers at once."""
    heard = await context.groups.ask(
        Heartbeat,
        ErrorAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return HeartbeatResponse(error_code=heard.error)
