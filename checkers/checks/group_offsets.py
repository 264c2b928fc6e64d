"""What the members of a group committed of a partition, and what the coordinator told them of it
later.

What is committed is what was committed last. Which of two commits came last is known where one was
answered before the other was asked for, by the members' clocks; or where one client's own library
made both, one after the other. A commit of which nobody knows what became of it may have been kept
at any time after it was asked for, a late one over those that were answered meanwhile. So what is
read back is in order as long as some commit of that offset may have come last.

Of a look in between it is known when it was asked for, not when it was answered: a commit of the
offset that it was told may have come at any time. Nor is anything said of what a coordinator that
was deposed remembers: a look finds that far more often than who is assigned a partition."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.reads import Event
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.validity import Stale
from ackproof.history.schema import SendType

COLUMNS = ("time", "group", "commit", "type", "offset", "poll", "error")
"""Of ``commits``, beside topic and partition."""

FETCHED = "fetched"
LOOKED = "looked"
NOTHING = -1
"""Read back where nothing is committed."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What a member committed of a partition.

    Attributes:
        rows: COLUMNS of ``commits``, in their order.
        events: Of its assignments of the partition.
        whole: Whether ``rows`` are all, but for the last of a member that was crashed.
        shown_whole: Whether what it was shown and its events are all, likewise.
        cut: Whether it was crashed.
        reached: The next offset after the last that it was shown, NONE where it was shown nothing.
        last_poll: In which that was, 0 for none.
        highest: The highest offset that it was shown, NONE where it was shown nothing.
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
        """From which offset on it may have been shown records, or have committed, without a trace:
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
    """That a member was told less than what had been committed, or what nobody can have committed.

    Attributes:
        client: Who was told, at ``time``, that ``offset`` is committed; NOTHING for nothing.
        committed: What had been, by ``by``; ``answered``: when that was. None of an offset that is
            behind all that members were shown and committed: nobody can have committed it.
        certain: Whether it was for certain the coordinator of that moment who told.
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
        """Whether nothing is known of what was committed; else an older offset is."""
        return self.offset == NOTHING


def read_back(
    members: Sequence[Committed], stale: Sequence[Stale] = (), *, whole: bool
) -> Iterator[ReadBack]:
    """Yield what members were told less than what had been committed, and what no member can have
    committed.

    Args:
        stale: When a coordinator that was deposed may still have told what it remembers. That is
            everything that was kept before, and nothing that its successor was asked to keep.
        whole: Whether all that the group committed is recorded. If not, somebody else may have
            committed what is read back; nobody commits nothing.
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
    """Return how often members were told what is committed after a commit had been answered."""
    answered = _Commits(members).answered
    first = int(answered.min(initial=FOREVER))
    return sum(row["time"] > first for member in members for row in _read(member))


def _read(member: Committed) -> Iterator[Row]:
    """The rows in which a member was told what is committed."""
    return (row for row in member.rows if row["type"] in (FETCHED, LOOKED) and row["error"] is None)


def _reached(members: Sequence[Committed], commits: "_Commits") -> int:
    """Return the highest offset that a member can have committed: it was asked to be, or follows
    what it was shown. Where not all is known that they were shown, that is any."""
    if not all(member.shown_whole for member in members):
        return FOREVER
    shown = (member.highest + 1 for member in members)
    return max([int(commits.offset.max(initial=NONE)), *shown])


class _Commits:
    """The commits of a group that may have been kept, as arrays."""

    def __init__(self, members: Sequence[Committed]) -> None:
        made = [
            (client, *commit) for client, member in enumerate(members) for commit in _kept(member)
        ]
        table = np.array(made, dtype=np.int64).reshape(-1, 5)
        self.client, self.offset, self.asked, self.known_asked, self.answered = table.T

    def recorded(self, offset: int, members: Sequence[Committed]) -> bool:
        """Whether everybody who may have committed an offset is known to have."""
        return all(offset < member.unrecorded for member in members)

    def contradicted(self, offset: int, until: int, since: int) -> int | None:
        """Return the last of the commits answered before ``since``, of several at once the highest
        offset, if an offset that was told by ``until`` contradicts it; otherwise None."""
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
        """Return whether a coordinator that was deposed may have told an offset by ``until``: it
        contradicts nothing that it knew, and was not asked of its successor alone."""
        if self.contradicted(offset, until, stale.start) is not None:
            return False
        return offset == NOTHING or bool((self.asked[self.offset == offset] <= stale.seen).any())

    def _superseded(self, one: int, others: Array) -> bool:
        """Whether one of the others was certainly kept after it."""
        asked = others[self.known_asked[others] == 1]
        own = others[self.client[others] == self.client[one]]
        return bool(
            (self.asked[asked] > self.answered[one]).any()
            or (self.answered[own] > self.answered[one]).any()
        )


def _kept(member: Committed) -> Iterator[tuple[int, int, int, int]]:
    """Offset, when it was asked for at the earliest, whether that is known, and when it was
    answered (FOREVER where nobody knows whether it was kept)."""
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
    """How far a group had committed, by when: ``offset[n]`` from ``answered[n]`` on, by the member
    ``client[n]``."""

    offset: Array
    answered: Array
    client: Array

    def past(self, offsets: Array) -> Array:
        """Position of the first commit behind each of these offsets; as long as this where there is
        none."""
        found: Array = np.searchsorted(self.offset, offsets, side="right")
        return found


def furthest(members: Sequence[Committed]) -> Furthest:
    """Of the commits that were answered, each that went further than all before."""
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
    """Below this offset it is known what all members were shown."""
    return min((member.unrecorded for member in members), default=FOREVER)
