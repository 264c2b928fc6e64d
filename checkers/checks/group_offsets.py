"""Commits of a group's members for one partition, and the committed offsets that the coordinator
returned to them later.

The committed offset is that of the last commit. The order of two commits is known in two cases: one
was answered before the other was requested, by the members' clocks, or one client's library made
both, one after the other. A commit with an unknown outcome may have been stored at any time after
its request, even after commits that were answered meanwhile. A returned offset is therefore in
order as long as some commit of that offset may have come last.

The time of a later lookup is that of the request, not of the answer, so a commit of the returned
offset may have come at any time. The memory of a deposed coordinator is not judged: a lookup reads
it far more often than an assignment does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.reads import Event
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.validity import Stale
from ackproof.history.names import SendType

COLUMNS = ("time", "group", "commit", "type", "offset", "poll", "error")
"""The columns of ``commits`` that are needed, beside topic and partition."""

FETCHED = "fetched"
LOOKED = "looked"
NOTHING = -1
"""The offset of an answer that says that nothing is committed."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """The commits of one member for a partition.

    Attributes:
        client: The name of the client.
        rows: The rows of ``commits`` with COLUMNS, in their order.
        events: The events of its assignments of the partition.
        whole: Whether ``rows`` is complete, except for the last moments of a crashed member.
        shown_whole: Whether its reads and events are complete, with the same exception.
        cut: Whether the member was crashed.
        reached: The offset after its last read, or NONE if it read nothing.
        last_poll: The number of the poll of that read, or 0.
        highest: The highest offset that it read, or NONE.
    """

    client: str
    rows: Sequence[Row]
    events: Sequence[Event]
    whole: bool
    shown_whole: bool
    cut: bool
    reached: int
    last_poll: int
    highest: int = NONE

    @property
    def unrecorded(self) -> int:
        """The offset from which on the member may have read records or committed without a trace,
        in the last moments before it was crashed."""
        if not self.cut:
            return FOREVER
        held = self.events[-1:] if self.shown_whole else ()
        if not held or held[0].event != "assigned":
            return 0
        if self.last_poll > held[0].poll:
            return self.reached
        return held[0].offset or 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """An answer to a member that says less than had been committed, or an offset that cannot have
    been committed.

    Attributes:
        client: The member that received the answer.
        time: The time of the answer.
        offset: The committed offset in the answer, or NOTHING.
        committed: The offset that had been committed. None if ``offset`` is beyond everything that
            members read and committed, so that it cannot have been committed.
        by: The member that made that commit.
        answered: The time at which that commit was answered.
        certain: Whether the answer certainly came from the coordinator of that time.
    """

    client: str
    time: int
    offset: int
    committed: int | None
    by: str
    answered: int
    certain: bool

    @property
    def lost(self) -> bool:
        """Whether the answer says that nothing is committed. Otherwise it has an older offset."""
        return self.offset == NOTHING


def read_back(
    members: Sequence[Committed], stale: Sequence[Stale] = (), *, whole: bool
) -> Iterator[ReadBack]:
    """Yield the answers that say less than had been committed, and those with an offset that no
    member can have committed.

    Args:
        members: The members of the group.
        stale: The periods in which a deposed coordinator may still have answered from its memory.
            It then knows every commit before its term ended, and none that its successor stored.
        whole: Whether all commits of the group are recorded. If not, an unrecorded commit may
            explain a returned offset, but nothing explains an answer that nothing is committed.
    """
    commits = _Commits(members)
    reached = _reached(members, commits)
    for member in members:
        for row in _read(member):
            look, time, offset = row["type"] == LOOKED, row["time"], row["offset"]
            if offset != NOTHING and not (whole and commits.recorded(offset, members)):
                continue
            if offset > reached:
                yield ReadBack(
                    client=member.client,
                    time=time,
                    offset=offset,
                    committed=None,
                    by="",
                    answered=time,
                    certain=True,
                )
                continue
            until = FOREVER if look else time
            found = commits.contradicted(offset, until, time)
            deposed = any(
                commits.remembered(offset, until, one)
                for one in stale
                if one.start <= time < one.end
            )
            if found is not None and not (look and deposed):
                yield ReadBack(
                    client=member.client,
                    time=time,
                    offset=offset,
                    committed=int(commits.offset[found]),
                    by=members[commits.client[found]].client,
                    answered=int(commits.answered[found]),
                    certain=not deposed,
                )


def read_back_after_a_commit(members: Sequence[Committed]) -> int:
    """Return how many answers with a committed offset came after a commit had been answered."""
    answered = _Commits(members).answered
    first = int(answered.min(initial=FOREVER))
    return sum(row["time"] > first for member in members for row in _read(member))


def _read(member: Committed) -> Iterator[Row]:
    """Return the rows in which a member received a committed offset."""
    return (row for row in member.rows if row["type"] in (FETCHED, LOOKED) and row["error"] is None)


def _reached(members: Sequence[Committed], commits: "_Commits") -> int:
    """Return the highest offset that a member can have committed: a requested one, or the one after
    a read. If not all reads are known, any offset is possible."""
    if not all(member.shown_whole for member in members):
        return FOREVER
    shown = (member.highest + 1 for member in members)
    return max([int(commits.offset.max(initial=NONE)), *shown])


class _Commits:
    """The commits of a group that may have been stored, as arrays."""

    def __init__(self, members: Sequence[Committed]) -> None:
        made = [
            (client, *commit) for client, member in enumerate(members) for commit in _kept(member)
        ]
        table = np.array(made, dtype=np.int64).reshape(-1, 5)
        self.client, self.offset, self.asked, self.known_asked, self.answered = table.T

    def recorded(self, offset: int, members: Sequence[Committed]) -> bool:
        """Return whether every member that may have committed an offset is known."""
        return all(offset < member.unrecorded for member in members)

    def contradicted(self, offset: int, until: int, since: int) -> int | None:
        """Return the last commit that was answered before ``since`` if an offset that was returned
        by ``until`` contradicts it, otherwise None. Of several commits that were answered at the
        same time, the highest offset counts."""
        answered = np.flatnonzero(self.answered < since)
        if not len(answered):
            return None
        in_order = np.lexsort([self.offset[answered], self.answered[answered]])
        last = int(answered[in_order[-1]])
        if offset == NOTHING:
            return last
        others = answered[self.offset[answered] != offset]
        same = np.flatnonzero((self.offset == offset) & (self.asked < until))
        if not len(others) or any(not self._superseded(int(one), others) for one in same):
            return None
        older = len(same) or offset < self.offset[others].max()
        return last if older else None

    def remembered(self, offset: int, until: int, stale: Stale) -> bool:
        """Return whether a deposed coordinator may have returned an offset by ``until``: the offset
        contradicts no commit that it knew and was not committed with its successor only."""
        if self.contradicted(offset, until, stale.start) is not None:
            return False
        return offset == NOTHING or bool((self.asked[self.offset == offset] <= stale.seen).any())

    def _superseded(self, one: int, others: Array) -> bool:
        """Return whether one of the others was certainly stored later."""
        asked = others[self.known_asked[others] == 1]
        own = others[self.client[others] == self.client[one]]
        return bool(
            (self.asked[asked] > self.answered[one]).any()
            or (self.answered[own] > self.answered[one]).any()
        )


def _kept(member: Committed) -> Iterator[tuple[int, int, int, int]]:
    """Yield for each commit that may have been stored: the offset, the earliest time of the
    request, whether that time is known, and the time of the answer (FOREVER if it is unknown
    whether it was stored)."""
    asked = {row["commit"]: row["time"] for row in member.rows if row["type"] == SendType.INVOKE}
    outcomes = {SendType.OK, SendType.FAIL, SendType.INFO}
    ended = {row["commit"] for row in member.rows if row["type"] in outcomes}
    for row in member.rows:
        kind, begun = row["type"], asked.get(row["commit"], 0)
        known = int(row["commit"] in asked)
        if kind == SendType.OK:
            yield row["offset"], begun, known, row["time"]
        elif kind == SendType.INFO or (kind == SendType.INVOKE and row["commit"] not in ended):
            yield row["offset"], begun, known, FOREVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Furthest:
    """The progress of a group: the offset ``offset[n]`` was committed by the time ``answered[n]``,
    by the member ``client[n]``."""

    offset: Array
    answered: Array
    client: Array

    def past(self, offsets: Array) -> Array:
        """Return the position of the first commit beyond each of these offsets, or the number of
        commits if there is none."""
        found: Array = np.searchsorted(self.offset, offsets, side="right")
        return found


def furthest(members: Sequence[Committed]) -> Furthest:
    """Return those of the answered commits that went further than all commits before."""
    commits = _Commits(members)
    answered = np.flatnonzero(commits.answered < FOREVER)
    order = answered[np.argsort(commits.answered[answered], kind="stable")]
    reached = np.maximum.accumulate(commits.offset[order])
    further = order[np.diff(reached, prepend=NONE) > 0]
    return Furthest(
        offset=commits.offset[further],
        answered=commits.answered[further],
        client=commits.client[further],
    )


def told_until(members: Sequence[Committed]) -> int:
    """Return the offset below which the reads of all members are known."""
    return min((member.unrecorded for member in members), default=FOREVER)
