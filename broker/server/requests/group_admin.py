"""Requests of administrators about groups: list, describe, delete."""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import DeleteGroup, ErrorAnswer
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.members import Member
from ackproof.broker.groups.state import GroupState
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from ackproof.broker.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ackproof.broker.wire.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

# --- ListGroups -----------------------------------------------------------------------------------
#
# ListGroups (api 16), versions 0 to 4.
#
# Behaviour: the groups that this broker coordinates, in any of the requested states. A client that
# wants all groups asks all brokers. COORDINATOR_LOAD_IN_PROGRESS when there may be more.
#
# v3 flexible, v4 group_state and states_filter.


def handle_list_groups(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    """Answer at once."""
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


# --- DescribeGroups -------------------------------------------------------------------------------
#
# DescribeGroups (api 15), versions 0 to 5.
#
# Behaviour: state, protocol and members of each group; subscriptions and assignments only while it
# is stable. A group that does not exist is described as dead.
#
# Not modelled: authorized operations (v3).
#
# v4 group_instance_id, v5 flexible.


def handle_describe_groups(
    request: DescribeGroupsRequest, context: Context
) -> DescribeGroupsResponse:
    """Answer at once."""
    return DescribeGroupsResponse(
        groups=tuple(_describe(group_id, context) for group_id in request.groups),
    )


def _describe(group_id: str, context: Context) -> DescribedGroup:
    shard = context.groups.shard(group_id)
    if isinstance(shard, ErrorCode):
        return _nothing(group_id, shard, "")
    group = shard.groups.by_id.get(group_id)
    if group is None:
        return _nothing(group_id, ErrorCode.none, GroupState.DEAD.value)
    stable = group.state is GroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.none,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=tuple(_member(member, group, stable) for member in group.members),
    )


def _nothing(group_id: str, error: ErrorCode, state: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=error,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def _member(member: Member, group: Group, stable: bool) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(group.protocol) if stable else b"",
        member_assignment=member.assignment if stable else b"",
    )


# --- DeleteGroups ---------------------------------------------------------------------------------
#
# DeleteGroups (api 42), versions 0 to 2.
#
# Behaviour: :mod:`broker.groups.commits`. Only empty groups are deleted, with all that they
# committed.
#
# v2 flexible.


async def handle_delete_groups(
    request: DeleteGroupsRequest, context: Context
) -> DeleteGroupsResponse:
    """Answer when the groups are gone from the log, too."""
    outcomes = await asyncio.gather(
        *(context.groups.ask(DeleteGroup, ErrorAnswer, name) for name in request.groups_names)
    )
    return DeleteGroupsResponse(
        results=tuple(
            DeletableGroupResult(group_id=name, error_code=outcome.error)
            for name, outcome in zip(request.groups_names, outcomes, strict=True)
        ),
    )
