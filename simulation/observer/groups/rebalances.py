"""How a group comes from one generation to the next, whoever asks for what.

* **OneLeads**: whoever leads is a member; who is told the members is told all of them; and who has
  led and comes again leads on, under his new id as well.
* **MembersStay**: a member goes when it leaves, when its session is over, or when it has not come
  in the time that a rebalance leaves it; a static one only by the first two. Until then it is
  whoever it was.
* **SessionsAreTouched**: a session runs anew from whatever a member says that is taken, and from
  nothing else.
* **GenerationsFollow**: a generation begins when all have joined, or when the time for it is over;
  all who have are in it, and hear of it. What its leader assigns is what is given out.
* **AllAreCalled**: who comes, goes, or wants something else has all others join again.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.groups.config import GroupConfig
from broker.groups.events import (
    NO_MEMBER_ID,
    Answer,
    Commit,
    Event,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinedMember,
    Leave,
    Stored,
    Sync,
    SyncAnswer,
    Tick,
)
from broker.groups.pending import PendingAssignments, PendingReturn
from broker.groups.state import GroupState
from simulation.observer.groups.view import Seen, View, part
from simulation.violation import Violation

EMPTY, PREPARING = GroupState.EMPTY, GroupState.PREPARING_REBALANCE
COMPLETING, STABLE = GroupState.COMPLETING_REBALANCE, GroupState.STABLE
NEWCOMER_MS: Final = 300_000
"""How long one may wait for its first generation, before it has a session."""
SETTLED: Final = frozenset({(COMPLETING, STABLE), (COMPLETING, PREPARING), (STABLE, PREPARING)})
"""How a state changes within a generation, but for who calls an empty group."""


class Step(NamedTuple):
    """What happened to a group."""

    name: str
    config: GroupConfig
    before: View
    after: View
    event: Event
    error: ErrorCode
    """With which ``event`` was refused, if it was."""
    told: Mapping[int, Answer]

    @property
    def now(self) -> float:
        return self.event.at.now

    @property
    def begins(self) -> bool:
        """A generation, with whoever is in it."""
        return self.after.generation > self.before.generation and self.after.state is COMPLETING

    @property
    def begins_and_ends(self) -> bool:
        """A generation, of which some went who were in it, at once."""
        ended = self.after.state in (PREPARING, STABLE)
        return self.after.generation > self.before.generation and ended

    @property
    def is_taken(self) -> bool:
        """Nothing was refused."""
        return self.error is ErrorCode.none

    @property
    def renamed(self) -> Mapping[str, str]:
        """Static members that have another id now: who comes without one has a new one, which is
        taken back if it cannot be stored."""
        event, members = self.event, self.before.members
        if isinstance(event, Join) and self.is_taken and not event.member_id:
            old = self.before.statics.get(event.instance_id or "")
            return {} if old is None else {old: event.new_member_id}
        if isinstance(event, Stored) and event.error is not ErrorCode.none:
            pending = self.before.storing.get(event.token)
            if isinstance(pending, PendingReturn) and self.before.state is STABLE:
                new = pending.event.member_id
                if new in members and members[new].join == pending.event.request:
                    return {new: pending.before.member_id}
        return {}

    @property
    def joining(self) -> str | None:
        """Whose JoinGroup this is, under the id that it has now."""
        if isinstance(self.event, Join) and self.is_taken:
            return self.event.member_id or self.event.new_member_id
        return None

    def has_joined(self, member_id: str) -> bool:
        """A member that is there now, for the next generation."""
        seen = self.before.members.get(member_id)
        return member_id == self.joining or (seen is not None and seen.join is not None)

    def require(self, condition: bool, invariant: str, what: str) -> None:
        """Raises Violation unless that is so."""
        if not condition:
            why = f"{what}; {type(self.event).__name__} made {self.before} {self.after}"
            raise Violation(invariant, f"group {self.name}: {why}")


def check(step: Step) -> None:
    """Raises Violation."""
    _is_whole(step)
    _members_stay(step)
    _sessions_are_touched(step)
    _generations_follow(step)
    _all_are_called(step)
    _assignments_are_the_leaders(step)


def _is_whole(step: Step) -> None:
    """Whatever happened to it."""
    after, members = step.after, step.after.members
    leads = after.leader in members if members else after.leader is None
    step.require(leads, "OneLeads", f"{after.leader} leads {sorted(members)}")
    named = [seen.instance_id for seen in members.values() if seen.instance_id is not None]
    step.require(len(named) == len(set(named)), "MembersStay", f"{sorted(named)} are there twice")
    is_there = bool(members) or after.state in (EMPTY, PREPARING)
    step.require(is_there, "MembersStay", f"{after.state.value} without members")
    step.require(after.state is not EMPTY or not members, "MembersStay", "empty, with members")
    if after.state in (COMPLETING, STABLE):
        knows = all(any(p.name == after.protocol for p in s.protocols) for s in members.values())
        step.require(knows, "GenerationsFollow", f"{after.protocol} is not all members' protocol")
    if after.state is PREPARING and after.extendable is None:
        missing = after.given or any(seen.join is None for seen in members.values())
        step.require(bool(missing), "GenerationsFollow", "all have joined, and still wait")
    if isinstance(step.event, Tick) and after.ends is not None:
        step.require(after.ends > step.now, "GenerationsFollow", "time is over, and nothing ends")
    over = step.before.ends is not None and step.before.ends <= step.now
    if isinstance(step.event, Tick) and over and _goes_on(step):
        silent = [name for name, seen in members.items() if seen.sync is None]
        step.require(not silent, "GenerationsFollow", f"{silent} are waited for for ever")


def _goes_on(step: Step) -> bool:
    """With the generation that there was."""
    state = step.after.state
    return step.after.generation == step.before.generation and state in (COMPLETING, STABLE)


# --- members --------------------------------------------------------------------------------------


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
            asked.instance_id, asked.session_timeout_ms, asked.rebalance_timeout_ms, asked.protocols
        )  # fmt: skip
        if _goes_on(step) and not renamed:
            due = before.members[asked.member_id].wants
        step.require(seen_now.wants == due, "MembersStay", f"{step.joining} wants {due}")
    if isinstance(step.event, Tick):
        over = [n for n, seen in after.members.items() if _is_over(step, seen)]
        step.require(not over, "MembersStay", f"the sessions of {over} are over")
        late = [n for n, until in after.given.items() if until <= step.now]
        step.require(not late, "MembersStay", f"{late} are waited for, who were only given ids")


def _is_over(step: Step, seen: Seen) -> bool:
    """Who waits for the coordinator is alive, but for who has not been in a generation yet."""
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
    waits = not seen.is_new and (seen.join is not None or seen.sync is not None)
    if isinstance(event, Tick) and seen.deadline <= step.now and not waits:
        return True
    over = before.ends is not None and before.ends <= step.now
    if before.state is COMPLETING:
        return over and isinstance(event, Tick) and seen.sync is None
    static = seen.instance_id is not None
    return before.state is PREPARING and over and seen.join is None and not static


def _sessions_are_touched(step: Step) -> None:
    """Exactly, in ms: each begins when something is taken."""
    if step.begins_and_ends:
        return
    heard, renamed = _heard(step), {new: old for old, new in step.renamed.items()}
    for name, seen in step.after.members.items():
        former = step.before.members.get(renamed.get(name, name))
        due = step.now + seen.session_ms
        if not (step.begins or name in heard):
            due = step.now + NEWCOMER_MS if former is None else former.deadline
        what = f"the session of {name} ends at {seen.deadline}, not at {due}"
        step.require(seen.deadline == due, "SessionsAreTouched", what)


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
        case Stored() if (before.state, step.after.state) == (COMPLETING, STABLE):
            return {name for name, seen in before.members.items() if seen.sync is not None}
        case _:
            return set()


# --- generations ----------------------------------------------------------------------------------


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
    """Nobody else leads while whoever does is a member."""
    leader = step.renamed.get(step.before.leader or "", step.before.leader)
    if leader in step.after.members:
        step.require(step.after.leader == leader, "OneLeads", f"{leader} leads no longer")


def _is_due(step: Step) -> None:
    before, after = step.before, step.after
    waits = before.extendable is not None
    over = before.ends is not None and before.ends <= step.now
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
    """By protocol that all know: how many like it best of those."""
    names = [[each.name for each in seen.protocols] for seen in after.members.values()]
    common = set.intersection(*map(set, names)) if names else set()
    best = [next(name for name in each if name in common) for each in names if common]
    return {name: best.count(name) for name in common}


def _all_are_told(step: Step) -> None:
    """Of the generation, and of who leads it; the leader of all of them."""
    after, event = step.after, step.event
    shown = tuple(
        JoinedMember(name, seen.instance_id, part(seen, after.protocol))
        for name, seen in after.members.items()
    )
    for name in after.members:
        asked = step.before.members.get(name)
        number = event.request if isinstance(event, Join) and name == step.joining else None
        number = asked.join if number is None and asked is not None else number
        if number is None:
            continue  # a static one that has not come
        due = JoinAnswer(
            member_id=name, generation=after.generation, protocol_type=after.protocol_type,
            protocol=after.protocol, leader=after.leader or NO_MEMBER_ID,
            members=shown if name == after.leader else (),
        )  # fmt: skip
        told = step.told.get(number)
        step.require(told == due, "OneLeads", f"{name} is told {told}, due is {due}")
    empty = all(not seen.assignment for seen in after.members.values())
    step.require(empty, "GenerationsFollow", "something is assigned already")


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
        called_for = _must_call(step) or _failed(step) or _may_change(step)
        step.require(called_for, "AllAreCalled", "for nothing")
        more = max(after.timeout_ms - delay, 0) if first else None
        step.require(after.extendable == more, "AllAreCalled", f"or {after.extendable} more")
        waits = [name for name, seen in after.members.items() if seen.sync is not None]
        step.require(not waits, "AllAreCalled", f"{waits} wait for assignments that never come")
    if _goes_on(step):
        step.require(not _must_call(step), "AllAreCalled", "and nobody is called")


def _is_liked(step: Step) -> bool:
    """The present protocol, as well as any."""
    votes = _votes(step.after)
    return votes.get((step.after if step.begins else step.before).protocol or "", -1) == max(
        votes.values(), default=0
    )


def _may_change(step: Step) -> bool:
    """As many would have another protocol, since a member comes again."""
    votes = sorted(_votes(step.after).values())
    return bool(step.renamed) and len(votes) > 1 and votes[-1] == votes[-2]


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
    """What its leader has assigned could not be stored."""
    event = step.event
    pending = step.before.storing.get(event.token) if isinstance(event, Stored) else None
    return isinstance(pending, PendingAssignments)


def _assignments_are_the_leaders(step: Step) -> None:
    """Which are stored by then."""
    before, after, event = step.before, step.after, step.event
    pending = before.storing.get(event.token) if isinstance(event, Stored) else None
    is_stored = isinstance(event, Stored) and event.error is ErrorCode.none
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
    elif _goes_on(step) or after.generation == before.generation:
        old = {new: former for former, new in step.renamed.items()}
        for name, seen in after.members.items():
            former = before.members.get(old.get(name, name))
            due = b"" if former is None else former.assignment
            step.require(seen.assignment == due, "GenerationsFollow", f"{name} had {due!r}")
