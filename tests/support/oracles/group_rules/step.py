"""One step of a coordinator, as it concerns one group."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.groups.config import GroupConfig
from ackproof.broker.groups.events import Answer, Event, Join, Stored
from ackproof.broker.groups.pending import Pending, PendingReturn
from ackproof.broker.groups.state import GroupState
from simulation.violation import Violation
from tests.support.oracles.group_rules.view import View

EMPTY: Final = GroupState.EMPTY
PREPARING: Final = GroupState.PREPARING_REBALANCE
COMPLETING: Final = GroupState.COMPLETING_REBALANCE
STABLE: Final = GroupState.STABLE
DEAD: Final = GroupState.DEAD


class Step(NamedTuple):
    """One event of a group, with the states before and after it."""

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
        """A generation, with its members."""
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
    def goes_on(self) -> bool:
        """With the generation that there was."""
        same = self.after.generation == self.before.generation
        return same and self.after.state in (COMPLETING, STABLE)

    @property
    def is_over(self) -> bool:
        """The time for which those were waited for who had to come."""
        return self.before.ends is not None and self.before.ends <= self.now

    @property
    def pending(self) -> Pending | None:
        """Return the pending write that the event reports as stored or failed."""
        event = self.event
        return self.before.storing.get(event.token) if isinstance(event, Stored) else None

    @property
    def is_stored(self) -> bool:
        """The event says so."""
        return isinstance(self.event, Stored) and self.event.error is ErrorCode.none

    @property
    def renamed(self) -> Mapping[str, str]:
        """Static members that have another id now: who comes without one has a new one, which is
        taken back if it cannot be stored."""
        event, members, pending = self.event, self.before.members, self.pending
        if isinstance(event, Join) and self.is_taken and not event.member_id:
            old = self.before.statics.get(event.instance_id or "")
            return {} if old is None else {old: event.new_member_id}
        stable = self.before.state is STABLE
        if isinstance(pending, PendingReturn) and not self.is_stored and stable:
            new = pending.event.member_id
            if new in members and members[new].join == pending.event.request:
                return {new: pending.before.member_id}
        return {}

    @property
    def joining(self) -> str | None:
        """Return the member of this JoinGroup, by its present id."""
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
