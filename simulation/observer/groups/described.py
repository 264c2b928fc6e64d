"""**DescribedAsItIs**: what DescribeGroups tells is what a group is at that moment: who is in it,
under which ids, and what is assigned while that is settled."""

from typing import Any, Final

from ackproof.broker.groups.state import GroupState
from ackproof.broker.wire.messages.describe_groups import DescribedGroup
from simulation.observer.groups.view import View, part
from simulation.violation import Violation

INVARIANT: Final = "DescribedAsItIs"


def check(told: DescribedGroup, view: View | None) -> None:
    """``view`` None: there is no such group here. Raises Violation."""
    due: tuple[Any, ...] = GroupState.DEAD.value, "", "", {}
    if view is not None:
        settled = view.state is GroupState.STABLE
        members = {
            name: (
                seen.instance_id,
                seen.client,
                part(seen, view.protocol) if settled else b"",
                seen.assignment if settled else b"",
            )
            for name, seen in view.members.items()
        }
        protocol = view.protocol if settled else None
        due = view.state.value, view.protocol_type or "", protocol or "", members
    said = {
        each.member_id: (
            each.group_instance_id,
            (each.client_id, each.client_host),
            each.member_metadata,
            each.member_assignment,
        )
        for each in told.members
    }
    is_told = told.group_state, told.protocol_type, told.protocol_data, said
    if is_told != due:
        raise Violation(INVARIANT, f"group {told.group_id} is {due}, and {is_told} is told")
