"""The order in which one consumer was shown a partition, and whether it was shown all of it.

What is passed over is looked for in all of a span, not from one record to the next: 0, 2, 1, 3 is a
step back and passes over nothing. Of consumers that ask for committed transactions alone, what is
not committed is passed over by right.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.partition.indexes import Fate, PartitionHistory
from ackproof.checkers.reads.seen import Seen
from ackproof.checkers.reads.spans import Span


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
