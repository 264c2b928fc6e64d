"""DeleteGroups (api 42), versions 0 to 2.

Behaviour: :mod:`broker.groups.requests.commits`; only empty groups go, and with them all they
committed.

v2 flexible.
"""

import asyncio

from ackproof.broker.groups.events import DeleteGroup, ErrorAnswer
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def handle(request: DeleteGroupsRequest, context: Context) -> DeleteGroupsResponse:
    """Answers when the groups are gone from the log, too."""
    outcomes = await asyncio.gather(
        *(context.groups.ask(DeleteGroup, ErrorAnswer, name) for name in request.groups_names)
    )
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=name, error_code=outcome.error)
            for name, outcome in zip(request.groups_names, outcomes, strict=True)
        ),
    )
