"""ListGroups (api 16), versions 0 to 4.

Behaviour: the groups that this broker coordinates, in any of the states asked for; a client that
wants all asks all brokers. COORDINATOR_LOAD_IN_PROGRESS when there may be more.

v3 flexible, v4 group_state and states_filter.
"""

from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v4.request import ListGroupsRequest

from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context

STATES_SINCE = 4


def handle(request: ListGroupsRequest, context: Context) -> Any:
    """Answers at once."""
    answer = Answer.to(request)
    loading = context.groups.is_loading
    wanted = request.states_filter if request.__version__ >= STATES_SINCE else ()
    states = {state.lower() for state in wanted}
    return answer(
        "ListGroupsResponse",
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none,
        groups=tuple(
            answer(
                "ListedGroup",
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
            )
            for shard in context.groups.shards()
            for group in shard.groups.by_id.values()
            if not states or group.state.value.lower() in states
        ),
    )
