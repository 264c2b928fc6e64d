"""Boundary records: the records of another slice that the rules need in order to judge one's own.

Each function serves one rule or a part of one. Like the rule, it decides which record is the
boundary record, and which one is named if there are several. Pairs of slices whose bounds rule out
a boundary record are skipped. That is the usual case, because sequence numbers, offsets and times
all grow together.
"""

from collections.abc import Callable, Iterator

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.engine.slices import Bounds, Slice

_NOTHING = np.empty(0, dtype=np.int64)


def boundary_records(
    own: Slice, other: Slice, later: bool, timeline: PartitionTimeline
) -> tuple[Array, Array]:
    """Return the boundary records of another slice, and the log rows that the other slice must
    provide. ``later`` says whether its sequence numbers are the higher ones. ``timeline`` is that
    of the partition."""
    kinds: list[Callable[[], Array]] = [lambda: acked_at_same_offset(own, other)]
    if later:
        kinds.append(lambda: standing_before(own, other))
    else:
        kinds.append(lambda: acked_beyond(own, other))
    if timeline.tells_of_acks:
        bound = timeline.clock_bound_ns or 0
        kinds.append(lambda: acked_below_since(own, other, 2 * bound))
        kinds.append(lambda: acked_above_before(own, other, 2 * bound))
    records = np.concatenate([kind() for kind in kinds])
    return records, other.rows_at(own.records["acked_offset"][_moved(own)])


def acked_at_same_offset(own: Slice, other: Slice) -> Array:
    """Return the records that were acked at the offset of one of the slice's own acks, for
    ``offset-mismatch``."""
    if not _overlap(own.bounds["acked"], other.bounds["acked"]):
        return _NOTHING
    mine = np.unique(own.records["acked_offset"][own.named])
    theirs = other.records["acked_offset"][other.named]
    places = np.minimum(np.searchsorted(mine, theirs), len(mine) - 1)
    return np.extract(mine[places] == theirs, other.named)


def standing_before(own: Slice, other: Slice) -> Array:
    """Return, for each of the slice's own records, the latest-sent record that precedes it in the
    log although it was sent later, for ``reordered``."""
    if not _below(other.bounds["first"], own.bounds["first"]):
        return _NOTHING
    found = [_NOTHING]
    for mine, theirs in _by_stream(own, other, own.standing, other.standing):
        key, value = (
            [of.records[name][some] for of, some in ((own, mine), (other, theirs))]
            for name in ("first_offset", "sequence")
        )
        found.append(theirs[_greatest_below(key[0], value[0], key[1], value[1], strictly=True)])
    return np.concatenate(found)


def acked_beyond(own: Slice, other: Slice) -> Array:
    """Return, for each of the slice's own records, the earlier-sent record that was acked at the
    highest offset, for ``nonmonotonic-send``."""
    if not _below(own.bounds["acked"], other.bounds["acked"]):
        return _NOTHING
    found = [_NOTHING]
    for mine, theirs in _by_stream(own, other, own.named, other.named):
        key, value = (
            [of.records[name][some] for of, some in ((own, mine), (other, theirs))]
            for name in ("sequence", "acked_offset")
        )
        found.append(theirs[_greatest_below(key[0], value[0], key[1], value[1], strictly=True)])
    return np.concatenate(found)


def acked_below_since(own: Slice, other: Slice, bound: int) -> Array:
    """Return, for each ack of the slice, the record acked at the lowest offset among those sent at
    least ``bound`` nanoseconds after that ack, for ``watermark-regressed``."""
    since, asked = own.bounds["answered"], other.bounds["asked"]
    told, theirs = own.bounds["told"], other.bounds["told"]
    if since is None or asked is None or told is None or theirs is None:
        return _NOTHING
    if asked[1] <= since[0] + bound or theirs[0] > told[1]:
        return _NOTHING
    acked = own.records["acked_offset"][own.telling]
    when = own.records["answered"][own.telling] + bound
    # The rule names the first of several records. The order is therefore reversed, because the last
    # one counts.
    others = other.telling[::-1]
    offsets, sent = (other.records[name][others] for name in ("acked_offset", "asked"))
    found: Array = others[_greatest_below(-when, -acked, -sent, -offsets, strictly=False)]
    return found


def acked_above_before(own: Slice, other: Slice, bound: int) -> Array:
    """Return, for each record of the slice that is not at its acked offset, the record of each
    epoch that is at its own acked offset, was acked at the highest offset, and was acked at least
    ``bound`` nanoseconds before the slice's own was sent. It serves ``stale-leader-ack``."""
    gone = own.telling[own.records["stands"][own.telling] == 0]
    if not len(gone) or other.bounds["told"] is None:
        return _NOTHING
    there = other.telling[other.records["stands"][other.telling] == 1]
    since, acked = own.records["asked"][gone] - bound, own.records["acked_offset"][gone]
    found = [_NOTHING]
    for epoch in np.unique(other.records["epoch"][there]):
        some = there[other.records["epoch"][there] == epoch]
        answered, offsets = (other.records[name][some] for name in ("answered", "acked_offset"))
        found.append(some[_greatest_below(since, acked, answered, offsets, strictly=False)])
    return np.concatenate(found)


def _moved(own: Slice) -> Array:
    """Return the records for which ``offset-mismatch`` names the record that is at their acked
    offset."""
    of = own.records
    named = own.standing[of["acked_offset"][own.standing] != NONE]
    return np.extract(of["stands"][named] == 0, named)


def _greatest_below(
    own_key: Array, own_value: Array, key: Array, value: Array, *, strictly: bool
) -> Array:
    """Return the places of the greatest values below the keys of the slice's own records.

    For each own key, the candidates are the other records with lower keys. The place of the
    candidate with the greatest value is returned if that value is greater than the own value, or,
    unless ``strictly``, equal to it. If several candidates have the greatest value, the last one is
    taken.
    """
    if not len(own_key) or not len(key):
        return _NOTHING
    least = own_value.min()
    near = np.flatnonzero((key < own_key.max()) & (value > least if strictly else value >= least))
    if not len(near):
        return _NOTHING
    order = near[np.argsort(key[near], kind="stable")]
    highest = np.maximum.accumulate(value[order])
    holds_it = np.where(value[order] == highest, np.arange(len(order)), 0)
    holder = np.maximum.accumulate(holds_it)
    before = np.searchsorted(key[order], own_key, side="left") - 1
    told = np.maximum(before, 0)
    beaten = highest[told] > own_value if strictly else highest[told] >= own_value
    return np.unique(order[holder[before[(before >= 0) & beaten]]])


def _by_stream(
    own: Slice, other: Slice, own_records: Array, other_records: Array
) -> Iterator[tuple[Array, Array]]:
    """Yield the records of each producer that both slices have."""
    both = own.streams.keys() & other.streams.keys()
    own_codes, other_codes = own.stream(own_records), other.stream(other_records)
    for stream in sorted(both):
        yield (
            own_records[own_codes == own.streams[stream]],
            other_records[other_codes == other.streams[stream]],
        )


def _overlap(one: Bounds, other: Bounds) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def _below(one: Bounds, other: Bounds) -> bool:
    """Return whether any value of ``one`` is below any value of ``other``."""
    return one is not None and other is not None and one[0] < other[1]
