"""The transition of a group from one generation to the next, after any request.

* **OneLeads**: the leader is a member; it receives all members; and a leader that returns stays the
  leader, also under its new id.
* **GenerationsFollow**: a generation begins when all have joined, or when the time for it is over.
  All members that joined are in it and receive it. Its leader's assignments are the ones given out.
* **AllAreCalled**: when a member arrives, leaves, or changes its protocols, all others rejoin.
"""

from dataclasses import replace
from typing import Final

from ackproof.broker.groups.events import (
    NO_MEMBER_ID,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    SyncAnswer,
    Tick,
)
from ackproof.broker.groups.pending import PendingAssignments, PendingReturn
from tests.support.oracles.group_rules.step import COMPLETING, EMPTY, PREPARING, STABLE, Step
from tests.support.oracles.group_rules.view import View, part

SETTLED: Final = frozenset({(COMPLETING, STABLE), (COMPLETING, PREPARING), (STABLE, PREPARING)})
"""How a state changes within a generation, but for who calls an empty group."""


def check(step: Step) -> None:
    """Raises Violation."""
    _is_whole(step)
    _generations_follow(step)
    _who_comes_back_is_told(step)
    _all_are_called(step)
    _assignments_are_the_leaders(step)


def _is_whole(step: Step) -> None:
    """Whatever happened to it."""
    after, members = step.after, step.after.members
    leads = after.leader in members if members else after.leader is None
    step.require(leads, "OneLeads", f"{after.leader} leads {sorted(members)}")
    if after.state in (COMPLETING, STABLE):
        knows = all(any(p.name == after.protocol for p in s.protocols) for s in members.values())
        step.require(knows, "GenerationsFollow", f"{after.protocol} is not all members' protocol")
    if after.state is PREPARING and after.extendable is None:
        missing = after.given or any(seen.join is None for seen in members.values())
        step.require(bool(missing), "GenerationsFollow", "all have joined, and still wait")
    if isinstance(step.event, Tick) and after.ends is not None:
        step.require(after.ends > step.now, "GenerationsFollow", "time is over, and nothing ends")
    if isinstance(step.event, Tick) and step.is_over and step.goes_on:
        silent = [name for name, seen in members.items() if not seen.synced]
        step.require(not silent, "GenerationsFollow", f"{silent} are waited for for ever")


def _generations_follow(step: Step) -> None:
    before, after = step.before, step.after
    changes = (before.state, before.generation) != (after.state, after.generation)
    since = step.event.at.wall_ms if changes else before.since_ms
    step.require(after.since_ms == since, "GenerationsFollow", f"it is so since {since}")
    if after.generation == before.generation:
        change = before.state, after.state
        goes = change in SETTLED or change == (EMPTY, PREPARING) or change[0] is change[1]
        step.require(goes, "GenerationsFollow", f"{change[0].value} is {change[1].value}")
        step.require(
            after.protocol == before.protocol, "GenerationsFollow", "another protocol within it"
        )
        _leads_on(step)
        return
    at_most = before.generation + (2 if isinstance(step.event, Tick | Leave) else 1)
    follows = before.generation < after.generation <= at_most
    step.require(follows, "GenerationsFollow", f"{after.generation} follows {before.generation}")
    if step.begins:
        _is_due(step)
        _all_are_told(step)


def _leads_on(step: Step) -> None:
    """Check that the leader stays the leader while it is a member."""
    leader = step.renamed.get(step.before.leader or "", step.before.leader)
    if leader in step.after.members:
        step.require(step.after.leader == leader, "OneLeads", f"{leader} leads no longer")


def _is_due(step: Step) -> None:
    before, after = step.before, step.after
    waits = before.extendable is not None
    over = step.is_over
    if before.state is not PREPARING:  # called by this very word
        waits = before.state is EMPTY
        over = waits and step.config.initial_rebalance_delay_ms == 0
    missing = sorted(name for name in after.members if not step.has_joined(name))
    dynamic = [name for name in missing if after.members[name].instance_id is None]
    step.require(not dynamic, "GenerationsFollow", f"{dynamic} have not joined, and are in it")
    early = not over and (bool(missing) or bool(after.given) or waits)
    step.require(not early, "GenerationsFollow", f"it begins early, without {missing}")
    leader = step.renamed.get(before.leader or "", before.leader)
    if leader in after.members and leader not in missing:
        step.require(after.leader == leader, "OneLeads", f"{leader}, who has come, leads no longer")
    step.require(after.leader not in missing, "OneLeads", f"{after.leader} leads, and has not come")
    step.require(
        after.ends == step.now + after.timeout_ms, "GenerationsFollow", f"it ends at {after.ends}"
    )
    voted = f"{after.protocol} was chosen of {_votes(after)}"
    step.require(_is_liked(step), "GenerationsFollow", voted)


def _votes(after: View) -> dict[str, int]:
    """Return the number of votes of each protocol that all members know."""
    names = [[each.name for each in seen.protocols] for seen in after.members.values()]
    common = set.intersection(*map(set, names)) if names else set()
    best = [next(name for name in each if name in common) for each in names if common]
    return {name: best.count(name) for name in common}


def _all_are_told(step: Step) -> None:
    """Check that all members receive the generation and its leader, and the leader receives all
    members."""
    after, event = step.after, step.event
    for name in after.members:
        asked = step.before.members.get(name)
        number = event.request if isinstance(event, Join) and name == step.joining else None
        number = asked.join if number is None and asked is not None else number
        if number is None:
            continue  # a static one that has not come
        due = _place(after, name)
        told = step.told.get(number)
        step.require(told == due, "OneLeads", f"{name} is told {told}, due is {due}")
    empty = all(not seen.assignment for seen in after.members.values())
    step.require(empty, "GenerationsFollow", "something is assigned already")


def _place(after: View, name: str) -> JoinAnswer:
    """Return the answer to a member that has joined."""
    leads = name == after.leader
    shown = (
        JoinedMember(each, seen.instance_id, part(seen, after.protocol))
        for each, seen in after.members.items()
    )
    return JoinAnswer(
        member_id=name, generation=after.generation, protocol_type=after.protocol_type,
        protocol=after.protocol, leader=after.leader or NO_MEMBER_ID,
        members=tuple(shown) if leads else (),
    )  # fmt: skip


def _who_comes_back_is_told(step: Step) -> None:
    """Check the answer to a member that returns in a continuing generation: it still leads where it
    did, and need not assign (KIP-814). A client without that field receives another leader and asks
    for its assignment."""
    after, event, pending = step.after, step.event, step.pending
    if not step.goes_on or step.renamed:
        return
    if isinstance(event, Join) and event.request in step.told and step.is_taken:
        told, due = step.told[event.request], _place(after, event.member_id)
        step.require(told == due, "OneLeads", f"{event.member_id} is told {told}, due is {due}")
    if isinstance(pending, PendingReturn) and pending.event.request in step.told:
        told, due = step.told[pending.event.request], _place(after, pending.event.member_id)
        leads = pending.event.member_id == after.leader
        if pending.event.supports_skipping_assignment:
            due = replace(due, skip_assignment=leads)
        else:
            due = replace(due, leader=pending.leader, members=())
        step.require(told == due, "OneLeads", f"{pending.event.member_id} is told {told}, {due}")


def _all_are_called(step: Step) -> None:
    before, after = step.before, step.after
    calls = after.state is PREPARING and before.state is not PREPARING
    if calls and after.generation == before.generation:
        delay = step.config.initial_rebalance_delay_ms
        first = before.state is EMPTY
        latest = before.timeout_ms if isinstance(step.event, Tick | Leave) else after.timeout_ms
        due = (delay, delay) if first else (after.timeout_ms, max(latest, after.timeout_ms))
        lasts = (after.ends or 0) - step.now  # some who had longer may be gone by the same word
        step.require(due[0] <= lasts <= due[1], "AllAreCalled", f"for {lasts} ms, not {due}")
        called_for = _must_call(step) or _failed(step)
        step.require(called_for, "AllAreCalled", "for nothing")
        more = max(after.timeout_ms - delay, 0) if first else None
        step.require(after.extendable == more, "AllAreCalled", f"or {after.extendable} more")
        waits = [name for name, seen in after.members.items() if seen.sync is not None]
        step.require(not waits, "AllAreCalled", f"{waits} wait for assignments that never come")
    if step.goes_on:
        step.require(not _must_call(step), "AllAreCalled", "and no member is called")


def _is_liked(step: Step) -> bool:
    """The present protocol, as well as any."""
    votes = _votes(step.after)
    return votes.get((step.after if step.begins else step.before).protocol or "", -1) == max(
        votes.values(), default=0
    )


def _must_call(step: Step) -> bool:
    before, after, event = step.before, step.after, step.event
    if {step.renamed.get(name, name) for name in before.members} != set(after.members):
        return True
    if not isinstance(event, Join) or not step.is_taken:
        return False
    if step.renamed:
        return before.state is not STABLE or not _is_liked(step)
    known = before.members[event.member_id]
    leads = before.leader == event.member_id and before.state is STABLE
    return leads or known.protocols != event.protocols


def _failed(step: Step) -> bool:
    """Return whether the leader's assignments could not be stored."""
    return isinstance(step.pending, PendingAssignments)


def _assignments_are_the_leaders(step: Step) -> None:
    """Check that the stored assignments are the leader's."""
    before, after, pending, is_stored = step.before, step.after, step.pending, step.is_stored
    if isinstance(pending, PendingAssignments) and before.state is COMPLETING:
        current = pending.generation == before.generation
        state = (STABLE if is_stored else PREPARING) if current else COMPLETING
        begins_again = current and not is_stored and after.generation > before.generation
        what = f"assignments of {pending.generation} are {'' if is_stored else 'not '}stored"
        step.require(after.state is state or begins_again, "GenerationsFollow", what)
    if (before.state, after.state) == (COMPLETING, STABLE):
        assert isinstance(pending, PendingAssignments)
        for name, seen in after.members.items():
            due = pending.assignments.get(name, b"")
            step.require(seen.assignment == due, "GenerationsFollow", f"{name} is to have {due!r}")
            asked = before.members[name].sync
            if asked is not None:
                answer = SyncAnswer(
                    protocol_type=after.protocol_type, protocol=after.protocol, assignment=due
                )
                told = step.told.get(asked)
                step.require(told == answer, "GenerationsFollow", f"{name} is told {told}")
    elif step.goes_on or after.generation == before.generation:
        old = {new: former for former, new in step.renamed.items()}
        for name, seen in after.members.items():
            former = before.members.get(old.get(name, name))
            due = b"" if former is None else former.assignment
            step.require(seen.assignment == due, "GenerationsFollow", f"{name} had {due!r}")
