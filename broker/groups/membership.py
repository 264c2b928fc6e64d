"""The join, synchronisation, heartbeat and departure of members."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    NO_MEMBER_ID,
    ErrorAnswer,
    Heartbeat,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    Leaving,
    Moment,
    Stored,
    Sync,
    SyncAnswer,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.members import Member
from ackproof.broker.groups.pending import PendingAssignments, PendingReturn, group_error
from ackproof.broker.groups.state import GroupState
from ackproof.broker.types import Millis

# --- heartbeats and leaving -----------------------------------------------------------------------
#
# The requests of members that have joined: SyncGroup, Heartbeat, LeaveGroup.


SyncStep: TypeAlias = Callable[[Group, Sync], None]


def sync(group: Group, event: Sync, step: SyncStep) -> None:
    """Check the member and the generation, then call ``step``."""
    error = _check(group, event)
    if error is not ErrorCode.none:
        group.respond(event.request, SyncAnswer(error=error))
    else:
        step(group, event)


def _check(group: Group, event: Sync) -> ErrorCode:
    error = group.members.check(event.member_id, event.instance_id)
    if error is not ErrorCode.none:
        return error
    if event.generation != group.generation:
        return ErrorCode.illegal_generation
    if event.protocol_type not in (None, group.protocol_type):
        return ErrorCode.inconsistent_group_protocol
    if event.protocol not in (None, group.protocol):
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.none


def sync_preparing(group: Group, event: Sync) -> None:
    """Reject a late SyncGroup, because the generation is over."""
    group.respond(event.request, SyncAnswer(error=ErrorCode.rebalance_in_progress))


def sync_completing(group: Group, event: Sync) -> None:
    """Wait for the leader. Its assignments are stored before any member gets them."""
    member = group.members[event.member_id]
    group.answer_sync(member, SyncAnswer(error=ErrorCode.rebalance_in_progress))
    member.sync = event.request
    member.synced = True
    if group.members.leader == member.member_id:
        assignments = {m.member_id: event.assignments.get(m.member_id, b"") for m in group.members}
        pending = PendingAssignments(generation=group.generation, assignments=assignments)
        group.store((group.record(event.at, assignments),), pending)


def give_out(group: Group, stored: Stored, pending: PendingAssignments) -> None:
    """Give out the leader's assignments if they are stored. If not, all members must join again."""
    overtaken = group.state is not GroupState.COMPLETING_REBALANCE
    if overtaken or group.generation != pending.generation:
        return
    if stored.error is ErrorCode.none:
        group.assign(pending.assignments, stored.at)
        return
    error = group_error(stored.error)
    for member in group.members:
        group.end_wait(member, SyncAnswer(error=error), stored.at)
    group.prepare_rebalance(stored.at)


def sync_stable(group: Group, event: Sync) -> None:
    """Answer at once with the assignment."""
    member = group.members[event.member_id]
    member.synced = True
    group.touch(member, event.at)
    group.respond(event.request, group.assigned(member))


def heartbeat(group: Group, event: Heartbeat, answer: ErrorCode) -> None:
    """Extend the member's session and answer with ``answer``, unless it is not a member."""
    error = group.members.check(event.member_id, event.instance_id)
    if error is ErrorCode.none and event.generation != group.generation:
        error = ErrorCode.illegal_generation
    if error is ErrorCode.none:
        group.touch(group.members[event.member_id], event.at)
        error = answer
    group.respond(event.request, ErrorAnswer(error=error))


def leave(group: Group, event: Leave) -> None:
    """Remove the leaving members, one by one."""
    errors = tuple(_leave(group, leaving, event.at) for leaving in event.leaving)
    group.respond(event.request, LeaveAnswer(members=errors))


def _leave(group: Group, leaving: Leaving, at: Moment) -> ErrorCode:
    member_id, instance_id = leaving
    if member_id == NO_MEMBER_ID:
        member_id = group.members.id_of(instance_id) or NO_MEMBER_ID
    if member_id in group.members.pending:
        group.forget_pending(member_id, at)
        return ErrorCode.none
    error = group.members.check(member_id, instance_id)
    if error is ErrorCode.none:
        group.remove(member_id, at)
    return error


# --- rebalances -----------------------------------------------------------------------------------
#
# JoinGroup: new members, members that join again, and static members under a new id.


Rejoin: TypeAlias = Callable[[Group, Join], None]


def join(group: Group, event: Join, rejoin: Rejoin) -> None:
    """Check a JoinGroup. Then a member does ``rejoin``, and a new member is added.

    An id with which no member has joined yet was given to a member without an instance id. Together
    with an instance id it stands for no member, or the instance is another member's. Kafka's
    coordinator raises an IllegalStateException then, and the client gets an unknown error.
    """
    error = _check_join(group, event)
    if error is not ErrorCode.none:
        _refuse(group, event, error)
    elif event.member_id == NO_MEMBER_ID:
        _enter(group, event)
    elif event.member_id in group.members.pending and event.instance_id is None:
        _add(group, event, event.member_id)
    else:
        error = group.members.check(event.member_id, event.instance_id)
        if error is not ErrorCode.none:
            _refuse(group, event, error)
        else:
            rejoin(group, event)


def _check_join(group: Group, event: Join) -> ErrorCode:
    config = group.config
    if (
        not config.min_session_timeout_ms
        <= event.session_timeout_ms
        <= (config.max_session_timeout_ms)
    ):
        return ErrorCode.invalid_session_timeout
    is_known = event.member_id in group.members or group.members.id_of(event.instance_id)
    if not is_known and len(group.members) >= config.max_size:
        return ErrorCode.group_max_size_reached
    if not event.protocol_type or not event.protocols:
        return ErrorCode.inconsistent_group_protocol
    agrees = event.protocol_type == group.protocol_type and group.members.supports(event.protocols)
    if len(group.members) > 0 and not agrees:
        return ErrorCode.inconsistent_group_protocol
    return ErrorCode.none


def _enter(group: Group, event: Join) -> None:
    """Add a client without a member id: a new member, or a restarted static member."""
    old = group.members.id_of(event.instance_id)
    if old is not None:
        _return(group, event, old)
    elif event.instance_id is None and event.requires_known_member_id:
        group.members.pending[event.new_member_id] = Millis(event.at.now + event.session_timeout_ms)
        answer = JoinAnswer(error=ErrorCode.member_id_required, member_id=event.new_member_id)
        group.respond(event.request, answer)
    else:
        _add(group, event, event.new_member_id)


def _add(group: Group, event: Join, member_id: str) -> None:
    member = Member(
        member_id=member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        deadline=event.at.now,
        join=event.request,
    )
    group.add(member, event.protocol_type, event.at)


# --- members that come again ----------------------------------------------------------------


def rejoin_empty(group: Group, event: Join) -> None:
    """Reject a member id, because an empty group has no members."""
    _refuse(group, event, ErrorCode.unknown_member_id)


def rejoin_preparing(group: Group, event: Join) -> None:
    """Take over the request: all members were asked to join."""
    _update(group, event)
    group.prepare_rebalance(event.at)


def rejoin_completing(group: Group, event: Join) -> None:
    """Answer again if the answer was lost, or begin a rebalance if the member has other
    protocols."""
    member = group.members[event.member_id]
    if member.protocols == event.protocols:
        group.respond(event.request, group.joined(member))
    else:
        rejoin_preparing(group, event)


def rejoin_stable(group: Group, event: Join) -> None:
    """Begin a rebalance for the leader, which may request one at any time, for example for new
    topics. Answer other members again."""
    member = group.members[event.member_id]
    leads = group.members.leader == member.member_id
    if member.protocols == event.protocols and not leads:
        group.respond(event.request, group.joined(member))
    else:
        rejoin_preparing(group, event)


def _update(group: Group, event: Join) -> None:
    member = group.members[event.member_id]
    group.answer_join(member, JoinAnswer(error=ErrorCode.rebalance_in_progress))
    member.protocols = event.protocols
    member.session_timeout_ms = event.session_timeout_ms
    member.rebalance_timeout_ms = event.rebalance_timeout_ms
    member.client_id, member.client_host = event.client_id, event.client_host
    member.join = event.request


# --- static members under a new id ----------------------------------------------------------


def _return(group: Group, event: Join, old: str) -> None:
    """Give a restarted static member its old place. In a stable group no other member notices."""
    leader = group.members.leader or NO_MEMBER_ID
    before = replace(group.members[old])
    member = group.members.rename(old, event.new_member_id)
    fenced = ErrorCode.fenced_instance_id
    group.answer_join(member, JoinAnswer(error=fenced, member_id=old))
    group.answer_sync(member, SyncAnswer(error=fenced))
    event = replace(event, member_id=event.new_member_id)
    _update(group, event)
    group.touch(member, event.at)
    # Suppose one of two members prefers A and the other B, and the group uses A. A is as popular as
    # B whichever returns, though B may be named first now. That needs no rebalance.
    agrees = group.protocol in group.members.preferred_protocols()
    if group.state is not GroupState.STABLE or not agrees:
        group.prepare_rebalance(event.at)
        return
    # Suppose the member was told its generation 60 s ago, was restarted before it requested its
    # assignment, and returns when the time for that is over. It must not be removed. Kafka notes by
    # member id which members it waits for (``pendingSyncMembers``), and this one has a new id.
    # There the others join again when the old id has not synced. Here its session decides.
    member.synced = True
    pending = PendingReturn(event=event, before=before, leader=leader)
    group.store((group.record(event.at),), pending)


def settle_return(group: Group, stored: Stored, pending: PendingReturn) -> None:
    """Answer if the group is stored with the member's new id. If not, restore the member's old
    state."""
    event, before = pending.event, pending.before
    member_id = event.member_id
    overtaken = group.state is not GroupState.STABLE or member_id not in group.members
    if overtaken or group.members[member_id].join != event.request:
        return  # by a rebalance, which answers
    member = group.members[member_id]
    if stored.error is not ErrorCode.none:
        group.answer_join(member, JoinAnswer(error=group_error(stored.error), member_id=member_id))
        group.members.rename(member_id, before.member_id)
        member.protocols = before.protocols
        member.session_timeout_ms = before.session_timeout_ms
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.synced = before.synced
        return
    answer = group.joined(member)
    if event.supports_skipping_assignment:
        answer = replace(answer, skip_assignment=group.members.leader == member_id)
    else:  # under the old leader's id it does not consider itself the leader, and just syncs
        answer = replace(answer, leader=pending.leader, members=())
    group.answer_join(member, answer)


def _refuse(group: Group, event: Join, error: ErrorCode) -> None:
    group.respond(event.request, JoinAnswer(error=error, member_id=event.member_id))
