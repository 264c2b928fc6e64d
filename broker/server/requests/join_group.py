"""JoinGroup (api 11), versions 0 to 9.

Behaviour: :mod:`broker.groups.requests.joining`. The answer waits until all members have joined or
the rebalance timeout is over. Before v1 the session timeout serves as the rebalance timeout.
Not modelled: the reason (v8) is not logged.

v1 rebalance_timeout, v4 MEMBER_ID_REQUIRED, v5 group_instance_id, v6 flexible, v7 protocol_type,
v9 skip_assignment.
"""

from ackproof.broker.groups.events import Join, JoinAnswer, Protocol
from ackproof.broker.server.requests.client import Client
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

REBALANCE_TIMEOUT_SINCE = 1
MEMBER_ID_REQUIRED_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


async def handle(request: JoinGroupRequest, context: Context, client: Client) -> JoinGroupResponse:
    """Answers when the generation begins."""
    version = request.version
    session_timeout = request.session_timeout_ms
    rebalance_timeout = session_timeout
    if version >= REBALANCE_TIMEOUT_SINCE:
        rebalance_timeout = request.rebalance_timeout_ms
    instance_id = request.group_instance_id
    joined = await context.groups.ask(
        Join,
        JoinAnswer,
        request.group_id,
        member_id=request.member_id,
        instance_id=instance_id,
        client_id=client.id,
        client_host=client.host,
        session_timeout_ms=session_timeout,
        rebalance_timeout_ms=rebalance_timeout,
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(p.name, p.metadata) for p in request.protocols),
        new_member_id=f"{instance_id or client.id}-{context.new_uuid()}",
        requires_known_member_id=version >= MEMBER_ID_REQUIRED_SINCE,
        supports_skipping_assignment=version >= SKIP_ASSIGNMENT_SINCE,
    )
    return _respond(request, joined)


def _respond(request: JoinGroupRequest, joined: JoinAnswer) -> JoinGroupResponse:
    has_null = request.version >= NULL_PROTOCOL_SINCE
    return JoinGroupResponse(
        error_code=joined.error,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol if has_null else joined.protocol or "",
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in joined.members
        ),
    )
