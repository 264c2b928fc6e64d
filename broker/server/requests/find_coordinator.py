"""FindCoordinator (api 10), versions 0 to 4.

Behaviour: a group's coordinator is the broker that leads its partition of ``__consumer_offsets``,
which is made on the first call. COORDINATOR_NOT_AVAILABLE until it is there and led, and as long
as fewer brokers are alive than it needs replicas.
Not modelled: transactions; a transaction's coordinator is never available.

v1 key_type, error_message, v3 flexible, v4 several keys at once.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.admin.topics import Refused
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import BrokerId
from ackproof.broker.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP = 0
"""``key_type`` of a group; 1 is a transaction."""

KEYS_SINCE = 4
NOWHERE = BrokerId(-1)


async def handle(request: FindCoordinatorRequest, context: Context) -> FindCoordinatorResponse:
    """Answers when the topic is made, if it has to be."""
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
        return _nobody(key, unavailable, "Transactions are not supported.")
    if not key:
        return _nobody(key, ErrorCode.invalid_group_id, "A group id is not empty.")
    try:
        broker = await context.groups.topic.coordinator(key)
    except Refused as refused:
        return _nobody(key, unavailable, str(refused))
    return Coordinator(
        key=key,
        node_id=broker.id,
        host=broker.listener.host,
        port=broker.listener.port,
        error_code=ErrorCode.none,
        error_message=None,
    )


def _nobody(key: str, error: ErrorCode, why: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NOWHERE, host="", port=-1, error_code=error, error_message=why
    )
