"""What one consumer was shown of one partition, beside the final log: plain counts, no verdict.

An *assignment* is what a client was shown of a partition from one ``assigned`` to the next: within
it a consumer goes on from record to record, after it it may well begin lower than it had come.

- ``shown``: how many records, each as often as it was shown.
- ``distinct``: at how many offsets.

All others but ``back`` count offsets, each once:

- ``again``: shown more than once within one assignment.
- ``again_later``: shown in several assignments.
- ``back``: how often, within one assignment, an offset was lower than the one shown just before.
- ``skipped``: between where an assignment began (where that is not recorded: the lowest offset it
  was shown) and the highest that it was shown, there in the final log, and not shown in it.
- ``foreign``: where the payload shown was none of ours, or damaged.
- ``differs``: where the final log holds another record than was shown.
- ``vanished``: shown, and the final log has no record there.

And of a tail reader, which is to be shown everything:

- ``unseen``: in the final log below the highest that it was shown, and never shown to it.
- ``unread``: in the final log above that.

None is what nobody knows. What a partial history shows all the same is told: a count of it is what
was found, and None where that is nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.indexes import NONE, Array, PartitionHistory

COLUMNS = ("poll", "offset", "cell", "producer", "sequence")
"""Of ``polls``."""

COUNTS = (
    "shown",
    "distinct",
    "again",
    "again_later",
    "back",
    "skipped",
    "foreign",
    "differs",
    "vanished",
    "unseen",
    "unread",
)

Counts = Mapping[str, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """That a client was given a partition, after its poll of this number; ``offset``: where it
    began to read, None where that is not recorded; ``time`` in nanoseconds, by its clock."""

    poll: int
    offset: int | None
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a client was shown of a partition.

    Attributes:
        rows: COLUMNS of ``polls``, in the order in which it was shown them.
        assigned: In their order; None where they are not all known.
        whole: Whether ``rows`` are all, but for the last of a client that was crashed.
        cut: Whether it was crashed.
        all_of_it: Whether it is a tail reader.
    """

    rows: pa.Table
    assigned: Sequence[Assigned] | None
    whole: bool
    cut: bool
    all_of_it: bool


def counts(shown: Shown, history: PartitionHistory) -> Counts:
    """The counts of COUNTS."""
    offsets = shown.rows["offset"].to_numpy()
    seen = np.unique(offsets)
    ours = _ours(shown.rows)
    complete = history.read.complete
    found: dict[str, int | None] = {
        "shown": at_least(len(offsets), shown.whole),
        "distinct": at_least(len(seen), shown.whole),
        "foreign": at_least(_distinct(offsets[~ours]), shown.whole),
        "differs": at_least(
            _distinct(offsets[_differs(shown.rows, ours, history)]), shown.whole and complete
        ),
        "vanished": _vanished(seen, history, shown.whole),
        **_by_assignment(shown, offsets, history),
        **_of_a_tail_reader(shown, seen, history),
    }
    return {name: found[name] for name in COUNTS}


def at_least(count: int, known: bool) -> int | None:
    """What was found; None where that is nothing and not everything could be looked at."""
    return count if count or known else None


def added(counted: Iterable[int | None]) -> int | None:
    """Of several partitions together, as :func:`at_least`."""
    values = list(counted)
    known = [value for value in values if value is not None]
    return at_least(sum(known), len(known) == len(values))


def assignment_of(polls: Array, assigned: Sequence[Assigned]) -> Array:
    """Which assignment each of these polls was of, counted from 1; 0 for one before all."""
    begun = np.sort(np.array([one.poll for one in assigned], dtype=np.int64))
    number: Array = np.searchsorted(begun, polls, side="left")
    return number


def _vanished(seen: Array, history: PartitionHistory, whole: bool) -> int | None:
    if not history.read.complete:
        return None
    return at_least(len(np.setdiff1d(seen, history.log_offset)), whole)


def _by_assignment(shown: Shown, offsets: Array, history: PartitionHistory) -> Counts:
    if shown.assigned is None:
        return dict.fromkeys(("again", "again_later", "back", "skipped"))
    number = assignment_of(shown.rows["poll"].to_numpy(), shown.assigned)
    order = np.lexsort((number, offsets))
    same = np.diff(offsets[order]) == 0
    within = np.diff(number[order]) == 0
    repeated = offsets[order][1:]
    lower = (np.diff(offsets) < 0) & (np.diff(number) == 0)
    skipped = None
    # A file that is missing leaves a hole in what is known to have been shown.
    if shown.whole:
        passed = _passed_over(shown.assigned, number, offsets, history)
        skipped = at_least(_distinct(passed), history.read.complete)
    return {
        "again": at_least(_distinct(repeated[same & within]), shown.whole),
        "again_later": at_least(_distinct(repeated[same & ~within]), shown.whole),
        "back": at_least(int(np.count_nonzero(lower)), shown.whole),
        "skipped": skipped,
    }


def _passed_over(
    assigned: Sequence[Assigned], number: Array, offsets: Array, history: PartitionHistory
) -> Array:
    in_order = sorted(assigned, key=lambda one: one.poll)
    begun = [NONE, *(NONE if one.offset is None else one.offset for one in in_order)]
    order = np.argsort(number, kind="stable")
    bounds = np.flatnonzero(np.diff(number[order])) + 1
    missed = [np.empty(0, dtype=np.int64)]
    for rows in np.split(order, bounds):
        if len(rows):
            mine = np.unique(offsets[rows])
            first = begun[number[rows[0]]]
            # Below 0 it is a word of Kafka's (the beginning, the end) and no offset.
            held = _held(history, mine[0] if first < 0 else first, mine[-1])
            missed.append(np.setdiff1d(held, mine))
    return np.concatenate(missed)


def _held(history: PartitionHistory, first: int, last: int) -> Array:
    """The final log's offsets from first to last."""
    left = np.searchsorted(history.log_offset, first, side="left")
    right = np.searchsorted(history.log_offset, last, side="right")
    held: Array = history.log_offset[left:right]
    return held


def _of_a_tail_reader(shown: Shown, seen: Array, history: PartitionHistory) -> Counts:
    if not (shown.all_of_it and shown.whole):
        return {"unseen": None, "unread": None}
    complete = history.read.complete
    highest = int(seen[-1]) if len(seen) else NONE
    below = history.log_offset[history.log_offset < highest]
    above = history.log_offset[history.log_offset > highest]
    return {
        "unseen": at_least(len(np.setdiff1d(below, seen)), complete),
        # What a client was shown in its last moments, before it was crashed, is recorded nowhere.
        "unread": None if shown.cut else at_least(_distinct(above), complete),
    }


def _distinct(offsets: Array) -> int:
    return len(np.unique(offsets))


def _ours(rows: pa.Table) -> Array:
    named = (rows[column].is_valid() for column in ("cell", "producer", "sequence"))
    cell, producer, sequence = named
    ours: Array = pc.and_(pc.and_(cell, producer), sequence).to_numpy()
    return ours


def _differs(rows: pa.Table, ours: Array, history: PartitionHistory) -> Array:
    """Whether the final log holds something at the offset of each row, and none of it is what was
    shown. Two payloads that are none of ours are the same for all that is known."""
    offsets = rows["offset"].to_numpy()
    left = np.searchsorted(history.log_offset, offsets, side="left")
    copies = np.searchsorted(history.log_offset, offsets, side="right") - left
    names = pa.array(history.cell_names, pa.string())
    cell = _numbers(pc.index_in(rows["cell"], value_set=names))
    identity = cell, _numbers(rows["producer"]), _numbers(rows["sequence"])
    same = np.zeros(len(offsets), dtype=bool)
    # A final read that was taken up again may have met two records at one offset.
    for copy in range(int(copies.max(initial=0))):
        there = np.flatnonzero(copies > copy)
        record = history.log_record[left[there] + copy]
        same[there] |= _same(record, ours[there], [one[there] for one in identity], history)
    differs: Array = (copies > 0) & ~same
    return differs


def _same(
    record: Array, ours: Array, identity: Sequence[Array], history: PartitionHistory
) -> Array:
    both = np.flatnonzero(ours & (record != NONE))
    same: Array = ~ours & (record == NONE)
    theirs = (history.cell_of, history.producer, history.sequence)
    pairs = zip(identity, theirs, strict=True)
    equal = [mine[both] == other[record[both]] for mine, other in pairs]
    same[both] = np.logical_and.reduce(equal)
    return same


def _numbers(column: Any) -> Array:
    numbers: Array = pc.fill_null(pc.cast(column, pa.int64()), NONE).to_numpy()
    return numbers
