"""Which records come behind one that their producer sent later."""

import numpy as np

from checkers.numbering import Array, dense, streams_of

_NARROW = 2**15


def overtaken(cell_of: Array, producer: Array, rank: Array) -> tuple[Array, Array]:
    """Of records in some order: producer by producer, the places of those that rank lower than one
    of the same producer before them, and for each the place of the one before it that ranks
    highest."""
    by_stream, ends = _by_stream(streams_of(cell_of, producer))
    pairs = [_of_one(group, rank[group]) for group in np.split(by_stream, ends)]
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _by_stream(stream: Array) -> tuple[Array, Array]:
    """The places stream by stream, and where each but the last one ends."""
    codes, streams = dense(stream)
    rank = np.argsort(np.argsort(streams))
    # What is that narrow NumPy sorts by counting, in linear time.
    codes = rank[codes].astype(np.int16 if len(streams) < _NARROW else np.int64)
    by_stream = np.argsort(codes, kind="stable")
    return by_stream, np.flatnonzero(np.diff(codes[by_stream])) + 1


def _of_one(places: Array, rank: Array) -> tuple[Array, Array]:
    highest = np.maximum.accumulate(rank) if len(rank) else rank
    behind = np.flatnonzero(rank < highest)
    if not len(behind):
        return behind, behind
    holds_it = np.where(rank == highest, np.arange(len(rank)), 0)
    ahead = np.maximum.accumulate(holds_it)[behind]
    return places[behind], places[ahead]
