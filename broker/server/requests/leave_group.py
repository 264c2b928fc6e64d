"""LeaveGroup (api 13), versions 0 to 5.

Behaviour: :mod:`broker.groups.requests.membership`. Since v3 several members leave at once, each
with an error of its own; an administrator names static members by their instance ids alone
(KIP-345).
Not modelled: the reason (v5) is not logged.

v3 members, v4 flexible.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Leave, LeaveAnswer, Leaving
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)

BATCH_SINCE = 3


async def handle(request: LeaveGroupRequest, context: Context) -> LeaveGroupResponse:
    """Answers at once."""
    is_batch = request.version >= BATCH_SINCE
    leaving = (
        tuple(Leaving(m.member_id, m.group_instance_id) for m in request.members)
        if is_batch
        else (Leaving(request.member_id),)
    )
    left = await context.groups.ask(Leave, LeaveAnswer, request.group_id, leaving=leaving)
    error = left.error
    if not is_batch and error is ErrorCode.none:
        (error,) = left.members
    return LeaveGroupResponse(
        error_code=error,
        members=tuple(
            MemberResponse(
                member_id=who.member_id,
                group_instance_id=who.instance_id,
                error_code=member_error,
            )
            for who, member_error in zip(leaving, left.members, strict=False)
        )
        if is_batch
        else (),
    )
