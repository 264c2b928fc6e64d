"""FindCoordinator (api 10), versions 0 to 4.

Behaviour: a group's coordinator is the broker that leads its partition of ``__consumer_offsets``,
which is made on the first call. COORDINATOR_NOT_AVAILABLE until it is there and led, and as long
as fewer brokers are alive than it needs replicas.
Not modelled: transactions; a transaction's coordinator is never available.

v1 key_type, error_message, v3 flexible, v4 several keys at once.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest

from broker.server.admin.topics import Refused
from broker.server.metadata_cache import BrokerMetadata
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context

GROUP = 0
"""``key_type`` of a group; 1 is a transaction."""

KEY_TYPE_SINCE = 1
KEYS_SINCE = 4


async def handle(request: FindCoordinatorRequest, context: Context) -> Any:
    """Answers when the topic is made, if it has to be."""
    answer = Answer.to(request)
    version = request.__version__
    key_type = request.key_type if version >= KEY_TYPE_SINCE else GROUP
    if version >= KEYS_SINCE:
        found = [(key, await _find(key, key_type, context)) for key in request.coordinator_keys]
        coordinators = tuple(
            answer("Coordinator", key=key, **_fields(outcome)) for key, outcome in found
        )
        return answer(
            "FindCoordinatorResponse", throttle_time=NO_THROTTLE, coordinators=coordinators
        )
    key = request.key  # type: ignore[attr-defined]  # as it was before v4
    outcome = await _find(key, key_type, context)
    return answer("FindCoordinatorResponse", throttle_time=NO_THROTTLE, **_fields(outcome))


async def _find(key: str, key_type: int, context: Context) -> BrokerMetadata | Refused:
    unavailable = ErrorCode.coordinator_not_available
    if key_type != GROUP:
        return Refused(unavailable, "Transactions are not supported.")
    if not key:
        return Refused(ErrorCode.invalid_group_id, "A group id is not empty.")
    try:
        return await context.groups.topic.coordinator(key)
    except Refused as refused:
        return Refused(unavailable, str(refused))


def _fields(outcome: BrokerMetadata | Refused) -> dict[str, object]:
    if isinstance(outcome, Refused):
        error, text = outcome.error, str(outcome)
        return {"error_code": error, "error_message": text, "node_id": -1, "host": "", "port": -1}
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "node_id": outcome.id,
        "host": outcome.listener.host,
        "port": outcome.listener.port,
    }
