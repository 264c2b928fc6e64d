"""What consumers were shown of a partition, row by row: the records that the rows name, which rows
belong together, and what is wrong with their order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.index.partition_history import Fate, PartitionHistory, record_numbers

COLUMNS = ("poll", "time", "offset", "leader_epoch", "cell", "producer", "sequence")
"""Of ``polls``."""

Stranger = tuple[str, int, int]
"""Cell, producer and sequence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Rows in the order in which they were shown.

    Attributes:
        poll, time, offset: As in ``polls``.
        record: Number of the record that was shown; NONE where the payload was none of ours, or
            damaged. Two such payloads are the same for all that is known.
        epoch: The leader epoch in which it was appended, NONE where the client was not told.
        position: Where the final log holds that record at that offset, in its arrays; NONE where it
            does not.
        highest: The highest offset, NONE without rows.
    """

    poll: Array
    time: Array
    offset: Array
    record: Array
    epoch: Array
    position: Array

    @property
    def highest(self) -> int:
        return int(self.offset.max(initial=NONE))


class Records:
    """The records that the consumers of one partition were shown, by number."""

    def __init__(self, history: PartitionHistory) -> None:
        self._history = history
        self._strangers: dict[Stranger, int] = {}
        self._named: list[Stranger] = []

    def seen(self, rows: pa.Table) -> Seen:
        """Rows of ``polls`` (COLUMNS), as they were shown to one consumer."""
        offset = numbers_of(rows["offset"])
        ours = _ours(rows)
        position = self._standing(rows, offset, ours)
        record = np.full(len(offset), NONE, dtype=np.int64)
        there = position != NONE
        record[there] = self._history.log_record[position[there]]
        others = np.flatnonzero(ours & ~there)
        record[others] = self._looked_up(rows.take(pa.array(others)))
        return Seen(
            poll=numbers_of(rows["poll"]),
            time=numbers_of(rows["time"]),
            offset=offset,
            record=record,
            epoch=numbers_of(rows["leader_epoch"]),
            position=position,
        )

    def name(self, record: int) -> str:
        """A record in words; NONE is a payload of nobody's."""
        if record == NONE:
            return "a payload of no client"
        known = len(self._history.sequence)
        if record < known:
            return self._history.name(record)
        cell, producer, sequence = self._named[record - known]
        words = f"producer {producer} sequence {sequence}"
        return words if cell == self._history.cell else f"cell {cell} {words}"

    def sent(self, records: Array) -> Array:
        """When each was handed to its producer, at the earliest; 0 where nobody knows."""
        times = np.zeros(len(records), dtype=np.int64)
        known = (records != NONE) & (records < len(self._history.sequence))
        times[known] = np.maximum(self._history.asked[records[known]], 0)
        return times

    def _standing(self, rows: pa.Table, offset: Array, ours: Array) -> Array:
        history = self._history
        left = np.searchsorted(history.log_offset, offset, side="left")
        copies = np.searchsorted(history.log_offset, offset, side="right") - left
        names = pa.array(history.cell_names, pa.string())
        cell = numbers_of(pc.index_in(rows["cell"], value_set=names))
        shown = cell, numbers_of(rows["producer"]), numbers_of(rows["sequence"])
        position = np.full(len(offset), NONE, dtype=np.int64)
        # A final read that was taken up again may have met two records at one offset.
        for copy in range(int(copies.max(initial=0))):
            there = np.flatnonzero(copies > copy)
            at = left[there] + copy
            same = _same(history, history.log_record[at], ours[there], [s[there] for s in shown])
            position[there[same]] = at[same]
        return position

    def _looked_up(self, rows: pa.Table) -> Array:
        """Of records of ours, wherever they stand."""
        if not len(rows):
            return np.empty(0, dtype=np.int64)
        history = self._history
        known = len(history.sequence)
        names = {name: code for code, name in enumerate(history.cell_names)}
        told = [rows[name].to_pylist() for name in ("cell", "producer", "sequence")]
        cells = np.array([names.setdefault(name, len(names)) for name in told[0]], dtype=np.int64)
        # The history's are all different and come first: so its numbers are what they are there.
        found, _ = record_numbers(
            np.concatenate([history.cell_of, cells]),
            np.concatenate([history.producer, numbers_of(rows["producer"])]),
            np.concatenate([history.sequence, numbers_of(rows["sequence"])]),
        )
        found = found[known:]
        for row in np.flatnonzero(found >= known):
            stranger = told[0][row], told[1][row], told[2][row]
            if stranger not in self._strangers:
                self._strangers[stranger] = known + len(self._named)
                self._named.append(stranger)
            found[row] = self._strangers[stranger]
        return found


def _same(history: PartitionHistory, record: Array, ours: Array, shown: list[Array]) -> Array:
    both = np.flatnonzero(ours & (record != NONE))
    same: Array = ~ours & (record == NONE)
    theirs = (history.cell_of, history.producer, history.sequence)
    equal = [mine[both] == other[record[both]] for mine, other in zip(shown, theirs, strict=True)]
    same[both] = np.logical_and.reduce(equal)
    return same


def _ours(rows: pa.Table) -> Array:
    named = (rows[column].is_valid() for column in ("cell", "producer", "sequence"))
    cell, producer, sequence = named
    ours: Array = pc.and_(pc.and_(cell, producer), sequence).to_numpy()
    return ours


# --- spans ----------------------------------------------------------------------------------------
#
# Which reads of a consumer belong together: what it was shown from where it began to read until it
# began anew.
#
# It begins anew where it is assigned the partition, and where it found nothing to go on with and
# took another place (``out-of-range``): what comes after that may well be lower than what came
# before, or far beyond it. The same holds within a poll during which the partition was taken away
# and given again: its records may be from before or from after, so no step within it, into it or
# out of it is judged (Jepsen ignores the keys in the rebalance log of an operation). Where the
# partition was only taken away, what the poll still returns goes on as before; where it was only
# given, nothing of it was under way.
#
# Empty polls are not counted, so that a poll which is left out here mostly came after all that was
# over, and is all from after.


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


# --- polls ----------------------------------------------------------------------------------------
#
# The order in which one consumer was shown a partition, and whether it was shown all of it.
#
# What is passed over is looked for in all of a span, not from one record to the next: 0, 2, 1, 3 is
# a step back and passes over nothing. Of consumers that ask for committed transactions alone, what
# is not committed is passed over by right.


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of a consumer: from the row before each of ``rows`` to that row."""

    before: Array
    rows: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """What a consumer passed over: ``positions`` in the final log's arrays, and for each of them
    the row that was the first beyond it."""

    positions: Array
    rows: Array


def nonmonotonic(seen: Seen, spans: Iterable[Span]) -> Steps:
    """The steps to an offset that is not higher than the one before."""
    before, rows = [_NOTHING], [_NOTHING]
    for span in spans:
        back = np.flatnonzero(np.diff(seen.offset[span.rows]) <= 0)
        before.append(span.rows[back])
        rows.append(span.rows[back + 1])
    return Steps(before=np.concatenate(before), rows=np.concatenate(rows))


def skipped(seen: Seen, spans: Iterable[Span], history: PartitionHistory) -> Passed:
    """What the final log holds between where a span began (where that is not known: the lowest
    offset in it) and the highest offset in it, and was not shown in it."""
    positions, rows = [_NOTHING], [_NOTHING]
    for span in spans:
        offsets = seen.offset[span.rows]
        shown = np.unique(offsets)
        first = shown[0] if span.begun == NONE else span.begun
        left = np.searchsorted(history.log_offset, first, side="left")
        right = np.searchsorted(history.log_offset, shown[-1], side="right")
        held = history.shown_to_consumers(np.arange(left, right))
        missed = held[~np.isin(history.log_offset[held], shown)]
        reached = np.maximum.accumulate(offsets)
        beyond = np.searchsorted(reached, history.log_offset[missed], side="right")
        positions.append(missed)
        rows.append(span.rows[beyond])
    return Passed(positions=np.concatenate(positions), rows=np.concatenate(rows))


def unseen(seen: Seen, history: PartitionHistory) -> Array:
    """Numbers of the acked records in the final log, below the highest offset that a consumer was
    shown, that it was never shown anywhere. For one that is to be shown everything."""
    shown = records_shown(seen, history)
    missed = np.flatnonzero((history.fate == Fate.ACKED) & (history.first != NONE) & ~shown)
    if history.visible is not None:
        missed = missed[history.visible[history.first[missed]]]
    below: Array = missed[history.first_offset(missed) < seen.highest]
    return below[np.argsort(history.first[below])]


def records_shown(seen: Seen, history: PartitionHistory) -> Array:
    """By record number: whether a consumer was shown it, at whatever offset."""
    known = len(history.sequence)
    shown = np.zeros(known, dtype=bool)
    shown[seen.record[(seen.record != NONE) & (seen.record < known)]] = True
    return shown


_NOTHING = np.empty(0, dtype=np.int64)
