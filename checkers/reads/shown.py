"""What one consumer was shown of one partition, beside the final log, as counts.

- ``shown``: how many records, each as often as it was shown.
- ``distinct``: at how many offsets.
- ``again``: how many offsets in several assignments, as a group shows them that went back to what
  it had committed.
- ``foreign``: at how many offsets the payload shown was none of ours, or damaged.
- ``unread``, of a tail reader: how many offsets of the final log above the highest that it was
  shown.

The others are how often a checker found what it looks for (``checkers.catalogue``), in what this
consumer was shown: ``nonmonotonic``, ``skipped``, ``vanished``, ``inconsistent``, ``unseen``.
``inconsistent`` are those offsets at which what it was shown is overruled by the final log, or by
what it was shown itself, or has overruled an ack; what others were shown is not asked.

None is what nobody knows. What a partial history shows all the same is told: a count of it is what
was found, and None where that is nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.reads import claims
from ackproof.checkers.reads.claims import Claims
from ackproof.checkers.reads.polls import Passed, Steps, nonmonotonic, skipped, unseen
from ackproof.checkers.reads.seen import Seen
from ackproof.checkers.reads.spans import Event, assignment_of, spans

COUNTS = (
    "shown",
    "distinct",
    "again",
    "nonmonotonic",
    "skipped",
    "foreign",
    "inconsistent",
    "vanished",
    "unseen",
    "unread",
)

Counts = Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a client was shown of a partition.

    Attributes:
        events: Of its assignments; None where they are not all known.
        whole: Whether ``seen`` is all, but for the last of a client that was crashed.
        cut: Whether it was crashed.
        all_of_it: Whether it is a tail reader, which is to be shown everything.
        claims: What of it the final log or an ack disagrees with.
    """

    seen: Seen
    events: Sequence[Event] | None
    whole: bool
    cut: bool
    all_of_it: bool
    claims: Claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What the checkers found in it; None where one could not look."""

    steps: Steps | None
    passed: Passed | None
    unseen: Array | None


def looked(shown: Shown, history: PartitionHistory) -> Looked:
    """What the checkers of one consumer find."""
    seen = shown.seen
    # A file that is missing leaves a hole in what is known to have been shown; one that holds more
    # than its writer closed, rows that were shown once.
    known = shown.events is not None and shown.whole
    together = spans(seen, shown.events or ()) if known else None
    return Looked(
        steps=None if together is None else nonmonotonic(seen, together),
        passed=None if together is None else skipped(seen, together, history),
        unseen=unseen(seen, history) if shown.all_of_it and shown.whole else None,
    )


def counts(
    shown: Shown, found: Looked, contested: Claims, history: PartitionHistory, compacted: bool
) -> Counts:
    """The counts of COUNTS. ``contested``: acks that the final log disagrees with; ``compacted``:
    whether the log is."""
    seen, whole, complete = shown.seen, shown.whole, history.read.complete
    everything = whole and complete and history.sends_whole
    wrong = claims.overruled(claims.together([shown.claims, contested]), history)
    vanished = len(claims.vanished(shown.claims, history, compacted))
    highest = seen.highest
    foreign = seen.offset[seen.record == NONE]
    known: dict[str, int | None] = {
        "shown": at_least(len(seen.offset), whole),
        "distinct": at_least(_distinct(seen.offset), whole),
        "again": _again(shown),
        "foreign": at_least(_distinct(foreign), whole),
        "inconsistent": at_least(_distinct(wrong.offset), everything),
        "vanished": at_least(vanished, whole) if complete and not compacted else None,
        "nonmonotonic": None,
        "skipped": None,
        "unseen": None,
        "unread": None,
    }
    if found.steps is not None:
        known["nonmonotonic"] = at_least(len(found.steps.rows), whole)
    if found.passed is not None:
        known["skipped"] = at_least(len(found.passed.positions), complete)
    if found.unseen is not None:
        known["unseen"] = at_least(len(found.unseen), everything)
        above = history.shown_to_consumers(np.flatnonzero(history.log_offset > highest))
        # What a client was shown in its last moments, before it was crashed, is recorded nowhere.
        known["unread"] = (
            None if shown.cut else at_least(_distinct(history.log_offset[above]), complete)
        )
    return {name: known[name] for name in COUNTS}


def at_least(count: int, known: bool) -> int | None:
    """What was found; None where that is nothing and not everything could be looked at."""
    return count if count or known else None


def added(counted: Iterable[int | None]) -> int | None:
    """Of several partitions together, as :func:`at_least`."""
    values = list(counted)
    known = [value for value in values if value is not None]
    return at_least(sum(known), len(known) == len(values))


def _again(shown: Shown) -> int | None:
    if shown.events is None:
        return None
    offset = shown.seen.offset
    number = assignment_of(shown.seen.poll, shown.events, ("assigned",))
    order = np.lexsort((number, offset))
    same = (np.diff(offset[order]) == 0) & (np.diff(number[order]) != 0)
    return at_least(_distinct(offset[order][1:][same]), shown.whole)


def _distinct(offsets: Array) -> int:
    return len(np.unique(offsets))
