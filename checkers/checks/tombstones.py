"""The rules for tombstones: records without a value, which delete their key in a compacted log.

A tombstone that is the last record of its key stays for ``delete.retention.ms``, and then goes. The
values that it deletes go before it, and never come back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.catalogue import RESURRECTED_VALUE, TOO_EARLY
from ackproof.checkers.checks.reads import ConsumerReads, ReadSpan
from ackproof.checkers.checks.rows import NOTHING, rows
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.index.partition_history import Fate, PartitionHistory

_NS_PER_S = 1e9


def due_to_stand(history: PartitionHistory) -> Array:
    """Return the numbers of the acked tombstones that must be in the final log: each is committed,
    the last record of its key, and younger than ``delete.retention.ms`` at the end of the final
    read."""
    if history.deletes is None or history.tombstones is None or not history.read.complete:
        return history.named_acks[:0]
    named = history.named_acks[history.is_committed(history.named_acks)]
    acked = named[history.deletes[named] & history.read.covers(history.time[named])]
    offsets = history.acked_offset[acked]
    sent = history.asked[acked]
    due = ~history.tombstones.has_passed(sent, history.tombstones.read_over)
    due &= (offsets >= history.moved_from) & ~history.is_superseded(acked, offsets)
    found: Array = acked[due]
    return found


def vacated(history: PartitionHistory) -> Array:
    """Return the numbers of the absent tombstones that must be in the final log and that left a gap
    in it, as a cleaner does: no record is at the offset of their ack, and the log ends above it."""
    due = due_to_stand(history)
    gone = due[history.first[due] == NONE]
    offsets = history.acked_offset[gone]
    end = FOREVER if history.read.end is None else history.read.end
    vacant = ~np.isin(offsets, history.log_offset) & (offsets < end)
    found: Array = gone[vacant]
    return found


def removed_early(history: PartitionHistory) -> Array:
    """Return the numbers of the tombstones that compaction removed too early: the :func:`vacated`
    ones, unless an older record of their key is in the final log. A cleaner removes that first, so
    the tombstone was lost in another way, or the log is that of a replica that missed it."""
    gone = vacated(history)
    if not len(gone):
        return gone
    found: Array = gone[history.is_first_of_key(gone, history.acked_offset[gone])]
    return found


def too_early(history: PartitionHistory) -> pa.Table:
    """Return the tombstones that compaction removed too early. Each is also ``lost``."""
    gone = removed_early(history)
    if history.tombstones is None or not len(gone):
        return NOTHING
    ages = (history.tombstones.read_over - history.asked[gone]) / _NS_PER_S
    limit = history.tombstones.retention_ms
    details = (
        f"a tombstone, gone at an age of at most {age:.1f} s; delete.retention.ms={limit}"
        for age in ages.tolist()
    )
    return rows(
        history, TOO_EARLY, records=gone, offsets=history.acked_offset[gone], details=details
    )


def resurrected(history: PartitionHistory) -> pa.Table:
    """Return the values in the final log that are the last records of their keys there, although a
    tombstone was acked behind them, one row for each key. The time of a row is that of the last
    such ack. Only committed values and tombstones count."""
    if history.deletes is None or history.keys is None:
        return NOTHING
    gone = history.gone[history.deletes[history.gone] & history.is_committed(history.gone)]
    gone = gone[history.acked_offset[gone] >= history.moved_from]
    ours = np.flatnonzero(history.log_record != NONE)
    ours = ours[history.is_committed(history.log_record[ours])]
    deleted = _last_of_keys(history, gone, history.acked_offset[gone])
    standing = _last_of_keys(history, history.log_record[ours], history.log_offset[ours])
    both = (deleted != NONE) & (standing != NONE)
    tombstones, places = gone[deleted[both]], ours[standing[both]]
    behind = history.acked_offset[tombstones] > history.log_offset[places]
    back = np.flatnonzero(behind & ~history.deletes[history.log_record[places]])
    back = back[np.argsort(places[back])]
    tombstones, places = tombstones[back], places[back]
    details = (
        f"the last record of its key, but a tombstone was acked behind it, at offset "
        f"{history.acked_offset[one]} ({history.name(one)})"
        for one in tombstones.tolist()
    )
    return rows(
        history,
        RESURRECTED_VALUE,
        records=history.log_record[places],
        offsets=history.log_offset[places],
        details=details,
        times=history.time[tombstones],
    )


def _last_of_keys(history: PartitionHistory, records: Array, offsets: Array) -> Array:
    """Return for each key the place of its record with the highest offset among these records, or
    NONE."""
    assert history.keys is not None
    last = np.full(int(history.keys.max(initial=NONE)) + 2, NONE, dtype=np.int64)
    order = np.argsort(offsets, kind="stable")
    last[history.keys[records[order]]] = order
    return last[:-1]  # the last place takes those without a key


# --- reads ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """The tombstones that a consumer passed without reading them, by record number.

    Attributes:
        tombstones: Their numbers.
        values: For each of them, the row of the older value of its key that was read last.
        rows: For each of them, the first row beyond it.
    """

    tombstones: Array
    values: Array
    rows: Array


def missed(seen: ConsumerReads, spans: Iterable[ReadSpan], history: PartitionHistory) -> Missed:
    """Return the tombstones that a consumer had to read and did not.

    In one span, the consumer read a value as the last record of its key, and read on beyond an
    acked and committed tombstone of that key. When it did, ``delete.retention.ms`` had not passed
    since the tombstone was sent, or since the span began, whichever was later. No later record of
    the key had been sent. A tombstone that is in the final log is left out: it is a ``poll-skip``.
    """
    is_judged = history.tombstones is not None and history.read.complete
    found = [_missed_in(seen, span, history) for span in spans if is_judged]
    return Missed(
        tombstones=np.concatenate([_NOTHING, *(one.tombstones for one in found)]),
        values=np.concatenate([_NOTHING, *(one.values for one in found)]),
        rows=np.concatenate([_NOTHING, *(one.rows for one in found)]),
    )


def tombstones_read(seen: ConsumerReads, history: PartitionHistory) -> int:
    """Return how often a consumer read a tombstone."""
    if history.deletes is None:
        return 0
    known = (seen.record != NONE) & (seen.record < len(history.deletes))
    return int(np.count_nonzero(history.deletes[seen.record[known]]))


def _missed_in(seen: ConsumerReads, span: ReadSpan, history: PartitionHistory) -> Missed:
    assert history.keys is not None
    assert history.deletes is not None
    assert history.tombstones is not None
    known = (seen.record[span.rows] != NONE) & (seen.record[span.rows] < len(history.keys))
    read = span.rows[known]
    reached = np.maximum.accumulate(seen.offset[span.rows])
    passed = history.named_acks[history.is_committed(history.named_acks)]
    passed = passed[history.deletes[passed]]
    passed = passed[history.acked_offset[passed] < reached[-1]]
    shown = _last_of_keys(history, seen.record[read], seen.offset[read])
    deleted = _last_of_keys(history, passed, history.acked_offset[passed])
    keys = np.flatnonzero((shown != NONE) & (deleted != NONE))
    values, tombstones = read[shown[keys]], passed[deleted[keys]]
    offsets = history.acked_offset[tombstones]
    beyond = span.rows[np.searchsorted(reached, offsets, side="right")]
    since = np.maximum(history.asked[tombstones], span.since)
    times = seen.time[beyond]
    had_to = (seen.offset[values] < offsets) & (history.first[tombstones] == NONE)
    had_to &= ~history.deletes[seen.record[values]] & (history.asked[tombstones] != NONE)
    had_to &= ~history.tombstones.has_passed(since, times)
    had_to &= times < _next_sent(history, keys, tombstones)
    return Missed(tombstones=tombstones[had_to], values=values[had_to], rows=beyond[had_to])


def _next_sent(history: PartitionHistory, keys: Array, tombstones: Array) -> Array:
    """Return the earliest time at which a record was sent that may be behind the tombstone of each
    of these keys."""
    assert history.keys is not None
    count = int(history.keys.max(initial=NONE)) + 2
    behind = np.full(count, NONE, dtype=np.int64)
    behind[keys] = history.acked_offset[tombstones]
    places = np.append(history.log_offset, NONE)[history.first]
    places = np.where(history.acked_offset == NONE, places, history.acked_offset)
    later = (places == NONE) | (places > behind[history.keys])
    later &= (history.fate != Fate.FAILED) & (history.asked != NONE)
    sent = np.full(count, FOREVER, dtype=np.int64)
    np.minimum.at(sent, history.keys[later], history.asked[later])
    return sent[keys]


_NOTHING = np.empty(0, dtype=np.int64)
