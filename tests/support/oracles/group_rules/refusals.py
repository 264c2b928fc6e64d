"""**RefusedByState**: what is refused, and with which word, follows from the state that a group is
in, as in Kafka's ``GroupCoordinator``; and what is refused leaves it as it was.

A member that goes by the wrong word stops, or joins again under another id, or commits what it has
not read: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS and FENCED_INSTANCE_ID are
different orders.
"""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import (
    Answer,
    Commit,
    DeleteGroup,
    DeleteOffsets,
    Heartbeat,
    Join,
    Leave,
    LeaveAnswer,
    Request,
    Sync,
)
from ackproof.broker.groups.state import GroupState
from simulation.violation import Violation
from tests.support.oracles.group_rules.step import DEAD
from tests.support.oracles.group_rules.view import BLANK, View, subscribed

INVARIANT: Final = "RefusedByState"
NONE: Final = ErrorCode.none
REBALANCING: Final = ErrorCode.rebalance_in_progress


def check(
    name: str,
    config: GroupConfig,
    before: View | None,
    after: View,
    event: Request,
    told: Answer | None,
) -> ErrorCode:
    """Check the immediate answer to ``event``; ``told`` is the given one, or None. ``before`` None:
    the group did not exist. Raise Violation."""
    dying = before is not None and before.state is DEAD
    if isinstance(event, Leave) and not dying:
        due = LeaveAnswer(members=tuple(_of_leavers(before or BLANK, event)))
        if told != due:
            raise Violation(INVARIANT, f"group {name}: {told} to {event.leaving}, due is {due}")
        return NONE
    error, said = refusal(config, before, event), NONE if told is None else told.error
    if said is not error:
        state = "there is none" if before is None else f"{before.state.value}, {before.generation}"
        what = f"{said.name} to {event}, due is {error.name} ({state})"
        raise Violation(INVARIANT, f"group {name}: {what}")
    if error is NONE or (isinstance(event, Heartbeat) and error is REBALANCING):
        return error
    left = before or BLANK
    if error is ErrorCode.member_id_required and isinstance(event, Join):
        until = event.at.now + event.session_timeout_ms
        left = left._replace(given={**left.given, event.new_member_id: until})
    if after != left:
        raise Violation(INVARIANT, f"group {name}: {error.name}, and {left} is {after}")
    return error


def refusal(config: GroupConfig, before: View | None, event: Request) -> ErrorCode:
    """Return the error due at once; NONE: the request is carried out, now or later."""
    known = before or BLANK
    if known.state is DEAD:  # ask again: whatever becomes of it, it is not decided yet
        return ErrorCode.coordinator_not_available
    match event:
        case Join():
            return _of_join(config, before, event)
        case Commit() if before is None:
            return NONE if event.generation < 0 else ErrorCode.illegal_generation
        case Commit():
            return _of_commit(known, event)
        case DeleteGroup() | DeleteOffsets() if before is None:
            return ErrorCode.group_id_not_found
        case DeleteGroup() | DeleteOffsets():
            may = known.state is GroupState.EMPTY or _tells_topics(known, event)
            return NONE if may else ErrorCode.non_empty_group
        case Sync():
            return _of_sync(known, event)
        case Heartbeat():
            error = _of_member(known, event)
            calls = known.state is GroupState.PREPARING_REBALANCE
            return REBALANCING if error is NONE and calls else error
        case _:
            return NONE


def _tells_topics(before: View, event: DeleteGroup | DeleteOffsets) -> bool:
    """Offsets of other topics than a group's members subscribe to go at any time."""
    return isinstance(event, DeleteOffsets) and subscribed(before) is not None


def _of_protocols(before: View, event: Join) -> ErrorCode:
    if not event.protocol_type or not event.protocols:
        return ErrorCode.inconsistent_group_protocol
    known = [{each.name for each in seen.protocols} for seen in before.members.values()]
    common = set.intersection({each.name for each in event.protocols}, *known)
    if known and (not common or event.protocol_type != before.protocol_type):
        return ErrorCode.inconsistent_group_protocol
    return NONE


def _of_join(config: GroupConfig, before: View | None, event: Join) -> ErrorCode:
    known = before or BLANK
    if before is None and event.member_id:
        return ErrorCode.unknown_member_id
    lowest, highest = config.min_session_timeout_ms, config.max_session_timeout_ms
    if not lowest <= event.session_timeout_ms <= highest:
        return ErrorCode.invalid_session_timeout
    comes_again = event.member_id in known.members or event.instance_id in known.statics
    if not comes_again and len(known.members) >= config.max_size:
        return ErrorCode.group_max_size_reached
    error = _of_protocols(known, event)
    was_given = event.member_id in known.given and event.instance_id is None
    if error is not NONE or was_given:
        return error
    if event.member_id:
        return speaks(known, event.member_id, event.instance_id)
    is_nobody = event.instance_id is None and event.requires_known_member_id
    return ErrorCode.member_id_required if is_nobody else NONE


def _of_sync(before: View, event: Sync) -> ErrorCode:
    error = _of_member(before, event)
    if error is not NONE:
        return error
    asked, known = (event.protocol_type, event.protocol), (before.protocol_type, before.protocol)
    if any(one not in (None, other) for one, other in zip(asked, known, strict=True)):
        return ErrorCode.inconsistent_group_protocol
    begun = before.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
    return NONE if begun else REBALANCING


def _of_commit(before: View, event: Commit) -> ErrorCode:
    from_outside = event.generation < 0
    if from_outside and before.state is GroupState.EMPTY:
        return NONE
    if from_outside and not event.member_id and event.instance_id is None:
        return ErrorCode.unknown_member_id
    error = _of_member(before, event)
    begins = before.state is GroupState.COMPLETING_REBALANCE
    return REBALANCING if error is NONE and begins else error


def _of_member(before: View, event: Heartbeat | Sync | Commit) -> ErrorCode:
    error = speaks(before, event.member_id, event.instance_id)
    if error is NONE and event.generation != before.generation:
        return ErrorCode.illegal_generation
    return error


def speaks(before: View, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether the sender is the member that it claims to be (KIP-345)."""
    holder = member_id if instance_id is None else before.statics.get(instance_id)
    if holder not in (None, member_id):
        return ErrorCode.fenced_instance_id
    is_member = member_id in before.members and holder == member_id
    return NONE if is_member else ErrorCode.unknown_member_id


def _of_leavers(before: View, event: Leave) -> list[ErrorCode]:
    members: Mapping[str, object] = before.members
    told = []
    for member_id, instance_id in event.leaving:
        left = before._replace(members={n: s for n, s in before.members.items() if n in members})
        gone = member_id or left.statics.get(instance_id or "", "")
        is_given = gone in before.given
        error = NONE if is_given else speaks(left, gone, instance_id)
        members = {n: s for n, s in members.items() if error is not NONE or n != gone}
        told.append(error)
    return told
