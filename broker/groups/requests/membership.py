"""What members do once they have joined: SyncGroup, Heartbeat, LeaveGroup."""

from collections.abc import Callable
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import (
    NO_MEMBER_ID,
    ErrorAnswer,
    Heartbeat,
    Leave,
    LeaveAnswer,
    Leaving,
    Moment,
    Stored,
    Sync,
    SyncAnswer,
)
from ackproof.broker.groups.group import Group
from ackproof.broker.groups.pending import PendingAssignments
from ackproof.broker.groups.requests.failures import of_group
from ackproof.broker.groups.state import GroupState

SyncStep: TypeAlias = Callable[[Group, Sync], None]


def sync(group: Group, event: Sync, step: SyncStep) -> None:
    """Checks who asks, and for which generation; then ``step``."""
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
    """Too late: the generation is over."""
    group.respond(event.request, SyncAnswer(error=ErrorCode.rebalance_in_progress))


def sync_completing(group: Group, event: Sync) -> None:
    """Waits for the leader; the leader's assignments are stored before anyone gets them."""
    member = group.members[event.member_id]
    group.answer_sync(member, SyncAnswer(error=ErrorCode.rebalance_in_progress))
    member.sync = event.request
    member.synced = True
    if group.members.leader == member.member_id:
        assignments = {m.member_id: event.assignments.get(m.member_id, b"") for m in group.members}
        pending = PendingAssignments(generation=group.generation, assignments=assignments)
        group.store((group.record(event.at, assignments),), pending)


def give_out(group: Group, stored: Stored, pending: PendingAssignments) -> None:
    """The leader's assignments are stored: everyone gets theirs. If not, all are to join again."""
    overtaken = group.state is not GroupState.COMPLETING_REBALANCE
    if overtaken or group.generation != pending.generation:
        return
    if stored.error is ErrorCode.none:
        group.assign(pending.assignments, stored.at)
        return
    error = of_group(stored.error)
    for member in group.members:
        group.end_wait(member, SyncAnswer(error=error), stored.at)
    group.prepare_rebalance(stored.at)


def sync_stable(group: Group, event: Sync) -> None:
    """Everything is there."""
    member = group.members[event.member_id]
    member.synced = True
    group.touch(member, event.at)
    group.respond(event.request, group.assigned(member))


def heartbeat(group: Group, event: Heartbeat, answer: ErrorCode) -> None:
    """Notes that the member lives, and says ``answer``, unless it has no place here."""
    error = group.members.check(event.member_id, event.instance_id)
    if error is ErrorCode.none and event.generation != group.generation:
        error = ErrorCode.illegal_generation
    if error is ErrorCode.none:
        group.touch(group.members[event.member_id], event.at)
        error = answer
    group.respond(event.request, ErrorAnswer(error=error))


def leave(group: Group, event: Leave) -> None:
    """Lets members go, each by itself."""
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
