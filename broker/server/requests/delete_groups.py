"""DeleteGroups (api 42), versions 0 to 2.

Behaviour: :mod:`broker.groups.commits`; only empty groups go, and with them all they committed.

v2 flexible.
"""

import asyncio
from typing import Any

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

from broker.groups.events import DeleteGroup, ErrorAnswer
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context


async def handle(request: DeleteGroupsRequest, context: Context) -> Any:
    """Answers when the groups are gone from the log, too."""
    answer = Answer.to(request)
    outcomes = await asyncio.gather(
        *(context.groups.ask(DeleteGroup, ErrorAnswer, name) for name in request.groups_names)
    )
    return answer(
        "DeleteGroupsResponse",
        throttle_time=NO_THROTTLE,
        results=tuple(
            answer("DeletableGroupResult", group_id=name, error_code=outcome.error)
            for name, outcome in zip(request.groups_names, outcomes, strict=True)
        ),
    )
