"""ControlledShutdown (api 7), version 3, from a broker that wants to stop.

Behaviour: the controller moves the broker's leaderships to other replicas and answers with the
partitions that stay; elsewhere NOT_CONTROLLER.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)


async def handle(
    request: ControlledShutdownRequest, context: Context
) -> ControlledShutdownResponse:
    """Answers when the new leaders are chosen."""
    if not context.coordinator.active:
        return ControlledShutdownResponse(
            error_code=ErrorCode.not_controller, remaining_partitions=()
        )
    return await context.coordinator.controlled_shutdown(request)
