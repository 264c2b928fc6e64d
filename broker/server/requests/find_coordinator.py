"""FindCoordinator (api 10), versions 0 to 2.

Behaviour: there are no groups and no transactions yet, so the coordinator is not available. Served
because librdkafka's consumers look for one as soon as they have a ``group.id``, and take the lack
of this API for a broker too old to talk to.

v1 key_type, error_message.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v2.request import FindCoordinatorRequest

from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context


def handle(request: FindCoordinatorRequest, _context: Context) -> Any:
    """Answers at once."""
    return Answer.to(request)(
        "FindCoordinatorResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.coordinator_not_available,
        error_message=None,
        node_id=-1,
        host="",
        port=-1,
    )
