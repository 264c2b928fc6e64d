"""Membership of a group, and its duration.

* **MembersStay**: a member goes when it leaves, when its session has ended, or when it has not
  rejoined in the time of a rebalance; a static one only by the first two. Until then it keeps its
  identity, and no two members have the same instance id.
* **SessionsAreTouched**: a session restarts with each accepted request of a member, and when a
  waiting member receives its assignment or an order to rejoin, and at no other time.
"""

from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.events import Commit, Heartbeat, Join, Leave, Sync, Tick
from ackproof.broker.groups.pending import PendingReturn
from tests.support.oracles.group_rules.step import COMPLETING, EMPTY, PREPARING, STABLE, Step
from tests.support.oracles.group_rules.view import Seen

NEWCOMER_MS: Final = 300_000
"""How long one may wait for its first generation, before it has a session."""


def check(step: Step) -> None:
    """Raises Violation."""
    _there_are_some(step)
    _members_stay(step)
    _sessions_are_touched(step)


def _there_are_some(step: Step) -> None:
    """Or the group is empty, or about to be."""
    after, members = step.after, step.after.members
    named = [seen.instance_id for seen in members.values() if seen.instance_id is not None]
    step.require(len(named) == len(set(named)), "MembersStay", f"{sorted(named)} are there twice")
    is_there = bool(members) or after.state in (EMPTY, PREPARING)
    step.require(is_there, "MembersStay", f"{after.state.value} without members")
    step.require(after.state is not EMPTY or not members, "MembersStay", "empty, with members")


def _members_stay(step: Step) -> None:
    before, after, renamed = step.before, step.after, step.renamed
    for name, seen in before.members.items():
        now = after.members.get(renamed.get(name, name))
        if now is None:
            step.require(_may_go(step, name, seen), "MembersStay", f"{name} is gone")
        elif renamed.get(name, name) != step.joining and name not in renamed:
            step.require(now.wants == seen.wants, "MembersStay", f"{name} is another one")
    came = after.members.keys() - {renamed.get(name, name) for name in before.members}
    step.require(came <= {step.joining}, "MembersStay", f"{sorted(came)} have not joined")
    if isinstance(step.event, Join) and step.is_taken:
        seen_now = after.members.get(step.joining or "")
        step.require(seen_now is not None, "MembersStay", f"{step.joining} has joined, and is not")
        assert seen_now is not None
        asked = step.event
        due: tuple[object, ...] = (
            asked.instance_id, (asked.client_id, asked.client_host),
            asked.session_timeout_ms, asked.rebalance_timeout_ms, asked.protocols,
        )  # fmt: skip
        if step.goes_on and not renamed:
            due = before.members[asked.member_id].wants
        step.require(seen_now.wants == due, "MembersStay", f"{step.joining} wants {due}")
    if isinstance(step.event, Tick):
        over = [n for n, seen in after.members.items() if _is_over(step, seen)]
        step.require(not over, "MembersStay", f"the sessions of {over} are over")
        late = [n for n, until in after.given.items() if until <= step.now]
        step.require(not late, "MembersStay", f"{late} are waited for, who were only given ids")


def _is_over(step: Step, seen: Seen) -> bool:
    """Return whether the session has ended. A member that waits for the coordinator is alive,
    unless it has been in no generation yet."""
    waits = seen.join is not None or seen.sync is not None
    return not waits and seen.deadline <= step.now


def _may_go(step: Step, name: str, seen: Seen) -> bool:
    before, event = step.before, step.event
    if isinstance(event, Leave):
        named = {
            each.member_id or before.statics.get(each.instance_id or "") for each in event.leaving
        }
        if name in named:
            return True
    waits = (seen.join is not None or seen.sync is not None) and not seen.is_new
    if isinstance(event, Tick) and seen.deadline <= step.now and not waits:
        return True
    if before.state in (COMPLETING, STABLE):
        return step.is_over and isinstance(event, Tick) and not seen.synced
    static = seen.instance_id is not None
    return before.state is PREPARING and step.is_over and seen.join is None and not static


def _sessions_are_touched(step: Step) -> None:
    """Exactly, in ms: each begins when something is taken."""
    if step.begins_and_ends:
        return
    heard, renamed = _heard(step) | _told(step), {new: old for old, new in step.renamed.items()}
    for name, seen in step.after.members.items():
        former = step.before.members.get(renamed.get(name, name))
        due = step.now + seen.session_ms
        if not (step.begins or name in heard):
            due = step.now + NEWCOMER_MS if former is None else former.deadline
        synced = _has_asked(step, name, former)
        step.require(seen.synced == synced, "MembersStay", f"has {name} asked for its part?")
        what = f"the session of {name} ends at {seen.deadline}, not at {due}"
        step.require(seen.deadline == due, "SessionsAreTouched", what)


def _has_asked(step: Step, name: str, former: Seen | None) -> bool:
    """For its part of this generation; or it need not, for it has come back in the middle of it."""
    if name in step.renamed.values() and step.goes_on:
        pending = step.pending
        return not isinstance(pending, PendingReturn) or pending.before.synced
    asks = isinstance(step.event, Sync) and step.is_taken and step.event.member_id == name
    return asks or (not step.begins and former is not None and former.synced)


def _heard(step: Step) -> set[str]:
    event, before = step.event, step.before
    match event:
        case Heartbeat() if step.error in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            return {event.member_id}
        case Sync() if step.is_taken and before.state is STABLE:
            return {event.member_id}
        case Commit() if step.is_taken:
            return {event.member_id}
        case Join():
            return set(step.renamed.values())
        case _:
            return set()


def _told(step: Step) -> set[str]:
    """Return the members that no longer wait for an assignment, without the one that asks for it
    again."""
    asks = step.event.member_id if isinstance(step.event, Sync) else None
    waited = {name for name, seen in step.before.members.items() if seen.sync in step.told}
    return waited - {asks}
