"""ListGroups (api 16), versions 0 to 4.

Behaviour: the groups that this broker coordinates, in any of the states asked for; a client that
wants all asks all brokers. COORDINATOR_LOAD_IN_PROGRESS when there may be more.

v3 flexible, v4 group_state and states_filter.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Answers at once."""
    loading = context.groups.is_loading
    states = {state.lower() for state in request.states_filter}
    return ListGroupsResponse(
        error_code=ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none,
        groups=tuple(
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
            )
            for shard in context.groups.shards()
            for group in shard.groups.by_id.values()
            if not states or group.state.value.lower() in states
        ),
    )
