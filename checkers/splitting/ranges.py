"""Into which ranges of sequence numbers a partition is cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.splitting.pieces import GREATEST, LEAST, Piece

SLICE_ROWS = 1_700_000
"""Of ``sends`` and ``log`` together, about 570,000 records: a task that indexes and judges them
stays well below 1 GB, be it that a rule finds each of them."""

WHOLE_SLICES = 3
"""A partition that fills no more than so many is not split: a task that has all of its rows stays
below 1 GB, too, and splitting costs as much again."""

_SAMPLES = 200_000
"""So many sequence numbers tell where to cut, to a half of a thousandth of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Sequence numbers from ``first`` to ``last``, both included. Rows without one are the range's
    in turn, by offset: it is ``number`` of ``count``."""

    number: int
    count: int
    first: int
    last: int

    def holds(self, sequences: Array, offsets: Array, named: Array) -> Array:
        """Which rows are its own; ``named``: which have a sequence number."""
        within = (sequences >= self.first) & (sequences <= self.last)
        return np.where(named, within, offsets % self.count == self.number)


def ranges(pieces: Sequence[Piece], slice_rows: int) -> list[Range]:
    """Ranges with about so many rows each at the most, which cover every number there can be; one
    where rows do not fill more than WHOLE_SLICES. Raises DamagedFiles."""
    rows = sum(piece.rows for piece in pieces)
    wanted = -(-rows // slice_rows)
    if wanted <= WHOLE_SLICES:
        return _between([])
    sampled = np.sort(np.concatenate([*_samples(pieces, max(rows // _SAMPLES, 1))]))
    places = np.arange(1, wanted) * len(sampled) // wanted
    return _between(np.unique(sampled[places]).tolist() if len(sampled) else [])


def _samples(pieces: Sequence[Piece], each: int) -> Iterator[Array]:
    """One of so many sequence numbers; a piece in memory at a time."""
    for piece in pieces:
        column = piece.read(["sequence"])["sequence"]
        yield numbers_of(column.filter(column.is_valid()))[::each]


def _between(lasts: Sequence[int]) -> list[Range]:
    """Ranges of which all but the last one end with these."""
    edges = [LEAST + NONE, *(last for last in lasts if last < GREATEST), GREATEST]
    return [
        Range(number=number, count=len(edges) - 1, first=before + 1, last=last)
        for number, (before, last) in enumerate(pairwise(edges))
    ]
