"""Which reads of a consumer belong together: what it was shown from where it began to read until it
began anew.

It begins anew where it is assigned the partition, and where it found nothing to go on with and took
another place (``out-of-range``): what comes after that may well be lower than what came before, or
far beyond it. The same holds within a poll during which the partition was taken away and given
again: its records may be from before or from after, so no step within it, into it or out of it is
judged (Jepsen ignores the keys in the rebalance log of an operation). Where the partition was only
taken away, what the poll still returns goes on as before; where it was only given, nothing of it
was under way.

Empty polls are not counted, so that a poll which is left out here mostly came after all that was
over, and is all from after.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.reads.seen import Seen

BEGINS = ("assigned", "out-of-range")
ENDS = ("revoked", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of ``assignments`` on the partition, as the schema has it; ``offset``: where the client
    begins to read, None where that is not recorded; ``time`` in nanoseconds, by its clock."""

    event: str
    poll: int
    offset: int | None
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Some reads of a consumer that belong together.

    Attributes:
        rows: Their positions among all that it was shown, in that order; never empty.
        begun: Where it began to read, NONE where nobody knows.
    """

    rows: Array
    begun: int


def spans(seen: Seen, events: Sequence[Event]) -> list[Span]:
    """The spans of what a consumer was shown. ``events``: all of the partition, in their order."""
    number = assignment_of(seen.poll, events, BEGINS)
    mixed = np.isin(seen.poll, list(_mixed(events)))
    begun = [NONE, *(_begun(one) for one in _begins(events, BEGINS))]
    found = []
    for rows in _together(np.flatnonzero(~mixed), number):
        first = rows[0]
        went_on = first > 0 and mixed[first - 1] and number[first - 1] == number[first]
        found.append(Span(rows=rows, begun=NONE if went_on else begun[number[first]]))
    return found


def assignment_of(polls: Array, events: Sequence[Event], begins: Iterable[str]) -> Array:
    """Which of those that begin something each of these polls came after, counted from 1; 0 for one
    before all."""
    begun = np.array([one.poll for one in _begins(events, begins)], dtype=np.int64)
    number: Array = np.searchsorted(begun, polls, side="left")
    return number


def _begins(events: Sequence[Event], begins: Iterable[str]) -> list[Event]:
    return sorted((one for one in events if one.event in begins), key=lambda one: one.poll)


def _mixed(events: Sequence[Event]) -> set[int]:
    """The polls during which the partition may have been taken away and given again."""
    given = {one.poll for one in events if one.event in BEGINS}
    return {one.poll + 1 for one in events if one.event in ENDS and one.poll in given}


def _begun(one: Event) -> int:
    # Below 0 it is a word of Kafka's (the beginning, the end) and no offset.
    return NONE if one.offset is None or one.offset < 0 else one.offset


def _together(rows: Array, number: Array) -> list[Array]:
    """Rows of one assignment each; what is shown of one after another was is of that one."""
    bounds = np.flatnonzero(np.diff(number[rows])) + 1
    return [some for some in np.split(rows, bounds) if len(some)]
