"""Heartbeat (api 12), versions 0 to 4.

Behaviour: :mod:`broker.groups.membership`. While groups are loaded, every member is believed.

v3 group_instance_id, v4 flexible.
"""

from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest

from broker.groups.events import ErrorAnswer, Heartbeat
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context

GROUP_INSTANCE_ID_SINCE = 3


async def handle(request: HeartbeatRequest, context: Context) -> Any:
    """Answers at once."""
    version = request.__version__
    heard = await context.groups.ask(
        Heartbeat,
        ErrorAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=request.group_instance_id if version >= GROUP_INSTANCE_ID_SINCE else None,
        generation=request.generation_id,
    )
    return Answer.to(request)(
        "HeartbeatResponse", throttle_time=NO_THROTTLE, error_code=heard.error
    )
