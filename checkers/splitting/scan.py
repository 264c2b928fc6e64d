"""The final log read once more in the order of offsets, stretch by stretch: its holes, and where
epochs go back. A stretch begins at the edge at which the one before it ended."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.rules.content import offset_gap
from ackproof.checkers.splitting.pieces import LEAST, Piece
from ackproof.checkers.splitting.slices import Split, nothing

_COLUMNS = ("offset", "leader_epoch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """``gaps``: rows of the rule ``offset-gap``; ``turns``: the offsets on both sides of each place
    where a leader epoch went back, ascending; ``repeats``: those that more than one row has."""

    gaps: pa.Table
    turns: Array
    repeats: Array


def scan(split: Split) -> Scanned:
    """Read it. ``split.log``: pieces by offset. Raises DamagedFiles."""
    read = split.read
    blank = nothing(split)
    edge = read.start
    gaps, turns, repeats = [], [], []
    known: tuple[int, int] | None = None
    stretches = list(_stretches(split.log))
    for number, stretch in enumerate(stretches or [[]]):
        offsets, epochs = _read(stretch)
        end = read.end if number + 1 >= len(stretches) else None
        stretch_read = replace(read, start=edge, end=end)
        gaps.append(offset_gap(replace(blank, log_offset=offsets, read=stretch_read)))
        repeats.append(np.unique(offsets[1:][np.diff(offsets) == 0]))
        told = epochs != NONE
        offsets_told, epochs_told = offsets[told], epochs[told]
        if known is not None:
            offsets_told = np.append(known[0], offsets_told)
            epochs_told = np.append(known[1], epochs_told)
        back = np.flatnonzero(np.diff(epochs_told) < 0)
        turns += [offsets_told[back], offsets_told[back + 1]]
        if len(offsets_told):
            known = (int(offsets_told[-1]), int(epochs_told[-1]))
        if len(offsets):
            edge = int(offsets[-1]) + 1
    return Scanned(
        gaps=pa.concat_tables(gaps),
        turns=np.unique(np.concatenate(turns)),
        repeats=np.concatenate(repeats),
    )


def at(history: PartitionHistory, offsets: Array) -> PartitionHistory:
    """A history with those rows of the log alone that stand at these offsets."""
    rows = np.isin(history.log_offset, offsets)
    return replace(
        history,
        log_offset=history.log_offset[rows],
        log_epoch=history.log_epoch[rows],
        log_record=history.log_record[rows],
    )


def _stretches(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces in the order of their offsets; those that overlap, as where a final read was taken up
    again, are one stretch."""
    some: list[Piece] = []
    reached = LEAST
    for piece in sorted((p for p in pieces if p.rows), key=lambda piece: piece.least):
        if some and piece.least > reached:
            yield some
            some = []
        some.append(piece)
        reached = max(reached, piece.greatest)
    if some:
        yield some


def _read(stretch: Sequence[Piece]) -> tuple[Array, Array]:
    rows = [piece.read(_COLUMNS) for piece in stretch]
    if not rows:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    table = pa.concat_tables(rows)
    offsets, epochs = numbers_of(table["offset"]), numbers_of(table["leader_epoch"])
    order = np.argsort(offsets, kind="stable")
    return offsets[order], epochs[order]
