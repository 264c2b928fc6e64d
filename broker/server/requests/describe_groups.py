"""DescribeGroups (api 15), versions 0 to 5.

Behaviour: state, protocol and members of each group; subscriptions and assignments only while it
is stable. A group that does not exist is described as dead.
Not modelled: authorized operations (v3).

v4 group_instance_id, v5 flexible.
"""

from typing import Any

from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode

from broker.groups.group import Group
from broker.groups.members import Member
from broker.groups.state import GroupState
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context


def handle(request: DescribeGroupsRequest, context: Context) -> Any:
    """Answers at once."""
    answer = Answer.to(request)
    return answer(
        "DescribeGroupsResponse",
        throttle_time=NO_THROTTLE,
        groups=tuple(_describe(group_id, answer, context) for group_id in request.groups),
    )


def _describe(group_id: str, answer: Answer, context: Context) -> Any:
    shard = context.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return _described(group_id, answer, error_code=shard, group_state="")
    group = shard.groups.by_id.get(group_id)
    if group is None:
        return _described(group_id, answer, group_state=GroupState.DEAD.value)
    stable = group.state is GroupState.STABLE
    return _described(
        group_id,
        answer,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=tuple(_member(member, group, stable, answer) for member in group.members),
    )


def _described(group_id: str, answer: Answer, **fields: object) -> Any:
    unknown = {
        "error_code": ErrorCode.none,
        "protocol_type": "",
        "protocol_data": "",
        "members": (),
    }
    return answer("DescribedGroup", group_id=group_id, **(unknown | fields))


def _member(member: Member, group: Group, stable: bool, answer: Answer) -> Any:
    return answer(
        "DescribedGroupMember",
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )
