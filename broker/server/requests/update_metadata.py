"""UpdateMetadata (api 6), version 7, from the controller.

Behaviour: refused from a stale controller, on a connection that it has given up, and for a previous
registration of this broker; else it becomes what Metadata requests are answered from. Groups forget
their offsets in deleted partitions.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)


def handle(
    request: UpdateMetadataRequest, context: Context, connection: int
) -> UpdateMetadataResponse:
    """Answers at once."""
    error = context.fence.admit(request, connection)
    if error is ErrorCode.none:
        context.groups.partitions_deleted(context.metadata.update(request))
    return UpdateMetadataResponse(error_code=error)
