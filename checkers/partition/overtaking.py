"""Which records come behind one that their producer sent later."""

import numpy as np

from ackproof.checkers.arrays import Array
from ackproof.checkers.partition.numbering import dense, streams_of

_NARROW = 2**15
_FAR = 2**62


def stream_numbers(cell_of: Array, producer: Array) -> Array:
    """Of each record a number for its cell and producer, as narrow as can be, for
    :func:`overtaken`."""
    codes, streams = dense(streams_of(cell_of, producer))
    rank = np.argsort(np.argsort(streams))
    # What is that narrow NumPy sorts by counting, in linear time.
    return rank.astype(np.int16 if len(streams) < _NARROW else np.int64)[codes]


def overtaken(stream: Array, rank: Array) -> tuple[Array, Array]:
    """Of records in some order: producer by producer, the places of those that rank lower than one
    of the same producer before them, and for each the place of the one before it that ranks
    highest. ``stream``: :func:`stream_numbers` of them."""
    by_stream = np.argsort(stream, kind="stable")
    least, greatest = (int(rank.min()), int(rank.max())) if len(rank) else (0, 0)
    span = greatest - least + 1
    last = int(stream[by_stream[-1]]) if len(stream) else 0
    if span * (last + 1) > _FAR:
        return one_by_one(stream, rank, by_stream)
    # Whoever comes later in this order ranks above all of the producers before, so that one running
    # maximum is each producer's own.
    above = (rank[by_stream] - least) + stream[by_stream].astype(np.int64) * span
    return _of_one(by_stream, above)


def one_by_one(stream: Array, rank: Array, by_stream: Array) -> tuple[Array, Array]:
    """Likewise whatever the ranks are. ``by_stream``: the places in the order of streams."""
    ends = np.flatnonzero(np.diff(stream[by_stream])) + 1
    pairs = [_of_one(group, rank[group]) for group in np.split(by_stream, ends)]
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _of_one(places: Array, rank: Array) -> tuple[Array, Array]:
    highest = np.maximum.accumulate(rank) if len(rank) else rank
    behind = np.flatnonzero(rank < highest)
    if not len(behind):
        return behind, behind
    holds_it = np.where(rank == highest, np.arange(len(rank)), 0)
    ahead = np.maximum.accumulate(holds_it)[behind]
    return places[behind], places[ahead]
