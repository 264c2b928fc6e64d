"""The reads of consumers from a partition, row by row: the records that the rows name, the rows
that belong together, and errors in their order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.index.partition_history import Fate, PartitionHistory, record_numbers

COLUMNS = ("poll", "time", "offset", "leader_epoch", "cell", "producer", "sequence")
"""The columns of ``polls`` that are needed."""

Stranger = tuple[str, int, int]
"""The cell, producer and sequence number of a record that the history does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerReads:
    """Rows of polls in the order in which the consumer read them.

    Attributes:
        poll, time, offset: As in ``polls``.
        record: The number of the record. NONE if the payload is damaged or was not written by a
            client; two such payloads cannot be told apart.
        epoch: The leader epoch in which the record was appended, or NONE if the client did not
            receive it.
        position: The place of that record at that offset in the arrays of the final log, or NONE.
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


class ReadRecords:
    """The records that the consumers of one partition read, by number."""

    def __init__(self, history: PartitionHistory) -> None:
        self._history = history
        self._strangers: dict[Stranger, int] = {}
        self._named: list[Stranger] = []

    def seen(self, rows: pa.Table) -> ConsumerReads:
        """Return the rows of ``polls`` (COLUMNS) of one consumer with the numbers of their
        records."""
        offset = numbers_of(rows["offset"])
        ours = _ours(rows)
        position = self._standing(rows, offset, ours)
        record = np.full(len(offset), NONE, dtype=np.int64)
        there = position != NONE
        record[there] = self._history.log_record[position[there]]
        others = np.flatnonzero(ours & ~there)
        record[others] = self._looked_up(rows.take(pa.array(others)))
        return ConsumerReads(
            poll=numbers_of(rows["poll"]),
            time=numbers_of(rows["time"]),
            offset=offset,
            record=record,
            epoch=numbers_of(rows["leader_epoch"]),
            position=position,
        )

    def name(self, record: int) -> str:
        """Return the name of a record. NONE stands for a payload that no client wrote."""
        if record == NONE:
            return "a payload that no client sent"
        known = len(self._history.sequence)
        if record < known:
            return self._history.name(record)
        cell, producer, sequence = self._named[record - known]
        words = f"producer {producer} sequence {sequence}"
        return words if cell == self._history.cell else f"cell {cell} {words}"

    def sent(self, records: Array) -> Array:
        """Return the earliest time at which each record was passed to its producer, or 0 if it is
        unknown."""
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
        # A final read that was resumed may have two records at one offset.
        for copy in range(int(copies.max(initial=0))):
            there = np.flatnonzero(copies > copy)
            at = left[there] + copy
            same = _same(history, history.log_record[at], ours[there], [s[there] for s in shown])
            position[there[same]] = at[same]
        return position

    def _looked_up(self, rows: pa.Table) -> Array:
        """Return the numbers of records that clients wrote, wherever they are in the log."""
        if not len(rows):
            return np.empty(0, dtype=np.int64)
        history = self._history
        known = len(history.sequence)
        names = {name: code for code, name in enumerate(history.cell_names)}
        identity_columns = [rows[name].to_pylist() for name in ("cell", "producer", "sequence")]
        cells = np.array(
            [names.setdefault(name, len(names)) for name in identity_columns[0]], dtype=np.int64
        )
        # The records of the history are distinct and come first, so they keep their numbers.
        found, _ = record_numbers(
            np.concatenate([history.cell_of, cells]),
            np.concatenate([history.producer, numbers_of(rows["producer"])]),
            np.concatenate([history.sequence, numbers_of(rows["sequence"])]),
        )
        found = found[known:]
        for row in np.flatnonzero(found >= known):
            stranger = identity_columns[0][row], identity_columns[1][row], identity_columns[2][row]
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
# Spans of a consumer's reads. A span contains the reads from a position at which the consumer began
# to read until it began at another position.
#
# A consumer begins when it is assigned the partition, and when it finds no record at its position
# and takes another one (``out-of-range``). Later reads may then be at lower offsets than earlier
# ones, or far beyond them. The same holds within a poll during which the partition was revoked and
# assigned again: its records may be from before or after, so no step within it, into it or out of
# it is judged (Jepsen ignores the keys in the rebalance log of an operation). If the partition was
# only revoked, the rest of the poll continues as before. If it was only assigned, no read of it was
# in progress.
#
# Empty polls are not counted. A poll that is left out here therefore usually came after the whole
# change, and all of its records are from after it.


BEGINS = ("assigned", "out-of-range")
ENDS = ("revoked", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of ``assignments`` about the partition, with the columns of the schema. ``offset`` is
    where the client begins to read, or None if it is not recorded. ``time`` is in nanoseconds, by
    the client's clock."""

    event: str
    poll: int
    offset: int | None
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpan:
    """A span of a consumer's reads.

    Attributes:
        rows: The places of its rows among all reads of the consumer, in order; never empty.
        begun: The offset at which it began to read, or NONE if it is unknown.
        since: The time at which it began to read, in nanoseconds, or 0 if it is unknown.
    """

    rows: Array
    begun: int
    since: int


def spans(seen: ConsumerReads, events: Sequence[Event]) -> list[ReadSpan]:
    """Return the spans of a consumer's reads. ``events`` has all events of the partition in their
    order."""
    number = assignment_of(seen.poll, events, BEGINS)
    mixed = np.isin(seen.poll, list(_mixed(events)))
    begins = _begins(events, BEGINS)
    begun = [(NONE, 0), *((_begun(one), one.time) for one in begins)]
    found = []
    for rows in _together(np.flatnonzero(~mixed), number):
        first = rows[0]
        went_on = first > 0 and mixed[first - 1] and number[first - 1] == number[first]
        offset, since = begun[number[first]]
        found.append(ReadSpan(rows=rows, begun=NONE if went_on else offset, since=since))
    return found


def assignment_of(polls: Array, events: Sequence[Event], begins: Iterable[str]) -> Array:
    """Return for each poll the number of the last begin that it came after, counted from 1, or 0 if
    it came before all of them."""
    begun = np.array([one.poll for one in _begins(events, begins)], dtype=np.int64)
    number: Array = np.searchsorted(begun, polls, side="left")
    return number


def _begins(events: Sequence[Event], begins: Iterable[str]) -> list[Event]:
    return sorted((one for one in events if one.event in begins), key=lambda one: one.poll)


def _mixed(events: Sequence[Event]) -> set[int]:
    """Return the polls during which the partition may have been revoked and assigned again."""
    given = {one.poll for one in events if one.event in BEGINS}
    return {one.poll + 1 for one in events if one.event in ENDS and one.poll in given}


def _begun(one: Event) -> int:
    # A negative offset is one of Kafka's constants (the beginning, the end).
    return NONE if one.offset is None or one.offset < 0 else one.offset


def _together(rows: Array, number: Array) -> list[Array]:
    """Return groups of rows, one for each assignment."""
    bounds = np.flatnonzero(np.diff(number[rows])) + 1
    return [some for some in np.split(rows, bounds) if len(some)]


# --- polls ----------------------------------------------------------------------------------------
#
# The order in which one consumer read a partition, and whether it read all of it.
#
# Skipped records are searched in a whole span and not from one record to the next: 0, 2, 1, 3 is a
# step back and skips nothing. Consumers that read committed records only may skip records that are
# not committed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of a consumer, from the row before each of ``rows`` to that row."""

    before: Array
    rows: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """The skipped records: their ``positions`` in the arrays of the final log, and for each of them
    the first row beyond it."""

    positions: Array
    rows: Array


def nonmonotonic(seen: ConsumerReads, spans: Iterable[ReadSpan]) -> Steps:
    """Return the steps to an offset that is not higher than the one before."""
    before, rows = [_NOTHING], [_NOTHING]
    for span in spans:
        back = np.flatnonzero(np.diff(seen.offset[span.rows]) <= 0)
        before.append(span.rows[back])
        rows.append(span.rows[back + 1])
    return Steps(before=np.concatenate(before), rows=np.concatenate(rows))


def skipped(seen: ConsumerReads, spans: Iterable[ReadSpan], history: PartitionHistory) -> Passed:
    """Return the records of the final log that a span skipped. They are between the begin of the
    span, or its lowest offset if the begin is unknown, and its highest offset."""
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


def unseen(seen: ConsumerReads, history: PartitionHistory) -> Array:
    """Return the numbers of the acked records in the final log, below the highest offset that a
    tail reader read, that it never read at any offset."""
    shown = records_shown(seen, history)
    missed = np.flatnonzero((history.fate == Fate.ACKED) & (history.first != NONE) & ~shown)
    if history.visible is not None:
        missed = missed[history.visible[history.first[missed]]]
    below: Array = missed[history.first_offset(missed) < seen.highest]
    return below[np.argsort(history.first[below])]


def records_shown(seen: ConsumerReads, history: PartitionHistory) -> Array:
    """Return whether a consumer read each record at any offset, by record number."""
    known = len(history.sequence)
    shown = np.zeros(known, dtype=bool)
    shown[seen.record[(seen.record != NONE) & (seen.record < known)]] = True
    return shown


_NOTHING = np.empty(0, dtype=np.int64)
