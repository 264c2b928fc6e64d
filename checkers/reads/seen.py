"""What one consumer was shown of a partition, row by row, beside the final log.

Nearly all that consumers are shown stands in the final log where it was shown. So each row is first
held against the log at its offset, which is one comparison of arrays; what record the others are is
looked up. Records that neither the sends nor the final log name are strangers: they get numbers
behind those of the history, the same for all consumers of the partition.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.partition.numbering import record_numbers

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
