"""Files of a partition in pieces that can be read one by one: the row groups of a closed file, the
parts of one that was not closed."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.row_times import ANY, Expected
from ackproof.checkers.engine.reconcile import RARE_MAX
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.index import columns
from ackproof.checkers.index.columns import schema_of
from ackproof.checkers.index.indexing import Unindexed, index
from ackproof.checkers.index.partition_history import (
    LOG_COLUMNS,
    SEND_COLUMNS,
    Fate,
    PartitionHistory,
    first_positions,
)
from ackproof.history import storage
from ackproof.history.errors import DamagedFiles
from ackproof.history.names import CLOSED_SUFFIX
from ackproof.history.schema import TABLES
from ackproof.history.storage import AnyPath, located, whole

LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """``row_group``: None of a part; ``least``, ``greatest``: of one of its columns, as far apart
    as can be where nobody knows; ``nulls``: whether that column may have any."""

    table: str
    file: str
    row_group: int | None
    rows: int
    least: int
    greatest: int
    nulls: bool

    def holds(self, first: int, last: int) -> bool:
        """Whether it may have a row with a value from ``first`` to ``last``."""
        return self.least <= last and self.greatest >= first

    def within(self, first: int, last: int) -> bool:
        """Whether each of its rows has a value from ``first`` to ``last``."""
        return not self.nulls and first <= self.least and self.greatest <= last

    def read(self, names: Sequence[str]) -> pa.Table:
        """Some of its columns. Raises DamagedFiles."""
        return columns.read_file(self.table, located(self.file), names, self.row_group)


def pieces(table: str, files: Iterable[str], column: str) -> list[Piece]:
    """The pieces of files of a table, with what is known of a column of integers. Raises
    DamagedFiles."""
    return [piece for file in files for piece in _pieces(table, file, column)]


def _pieces(table: str, file: str, column: str) -> Iterator[Piece]:
    if not file.endswith(CLOSED_SUFFIX):
        yield _part(table, file, column)
        return
    try:
        footer = storage.parquet(located(file)).metadata
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedFiles({located(file): str(error)}) from None
    if not set(TABLES[table].names) <= set(footer.schema.to_arrow_schema().names):
        # Of a former day, without a column: who knows how to read that reads all of it.
        yield _part(table, file, column)
        return
    for number in range(footer.num_row_groups):
        yield _row_group(table, file, column, footer, number)


def _part(table: str, file: str, column: str) -> Piece:
    values = columns.read_file(table, located(file), [column])[column]
    told = pc.min_max(values).as_py()
    return Piece(
        table=table,
        file=file,
        row_group=None,
        rows=len(values),
        least=GREATEST if told["min"] is None else told["min"],
        greatest=LEAST if told["max"] is None else told["max"],
        nulls=values.null_count > 0,
    )


def _row_group(table: str, file: str, column: str, footer: pq.FileMetaData, number: int) -> Piece:
    group = footer.row_group(number)
    places = (group.column(place) for place in range(group.num_columns))
    told = next((place.statistics for place in places if place.path_in_schema == column), None)
    least, greatest = (
        (told.min, told.max) if told is not None and told.has_min_max else (LEAST, GREATEST)
    )
    return Piece(
        table=table,
        file=file,
        row_group=number,
        rows=group.num_rows,
        least=least,
        greatest=greatest,
        nulls=told is None or not told.has_null_count or told.null_count > 0,
    )


# --- ranges ---------------------------------------------------------------------------------------
#
# Into which ranges of sequence numbers a partition is cut.


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


# --- slices ---------------------------------------------------------------------------------------
#
# A slice of a partition: indexed alone, put aside as a file, and taken from there by whoever needs
# some of its records.
#
# Its files are Arrow's, not compressed, so that they are mapped, and only what is looked at is
# read: one of integers by record, one by row of the log. With them goes what others may look for in
# it.


_OF_HISTORY = (
    *("cell_of", "producer", "sequence", "fate", "acked_offset", "time", "asked", "answered"),
    *("due", "untold", "contradicted"),
)
_BY_RECORD = (*_OF_HISTORY, "first_offset", "stands", "epoch")
"""And where the first copy stands, whether one stands at the offset of the ack, in which epoch."""

_BY_ROW = ("log_offset", "log_epoch", "log_record")
_NARROW = {"fate": np.int8, "untold": np.int8, "contradicted": np.int8, "stands": np.int8}
_PRODUCER_BITS = 32

_RECORDS, _LOG = "records.arrow", "log.arrow"

Bounds = tuple[int, int] | None
"""The least and the greatest; None of nothing."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some of a slice. ``records``: by the names of :data:`_BY_RECORD`; ``log``: likewise its rows
    in the final log, in offset order, NONE as ``log_record`` of who has no name."""

    cell_names: Sequence[str]
    records: Mapping[str, Array]
    log: Mapping[str, Array]


@dataclass(frozen=True, kw_only=True)
class Slice(Part):
    """All of it. ``bounds``: of the offsets of named acks (``acked``), of the first copies of what
    was sent (``first``), of the sends and acks of those whose acks tell when (``asked``,
    ``answered``, and of their offsets ``told``), and of the rows in the log (``log``)."""

    bounds: Mapping[str, Bounds]

    @cached_property
    def named(self) -> Array:
        """As :attr:`PartitionHistory.named_acks`."""
        of = self.records
        acked = (of["fate"] == Fate.ACKED) & (of["acked_offset"] != NONE)
        return np.flatnonzero(acked & (of["contradicted"] == 0))

    @cached_property
    def telling(self) -> Array:
        """Of these, those whose send is recorded."""
        return np.extract(self.records["asked"][self.named] != NONE, self.named)

    @cached_property
    def standing(self) -> Array:
        """The records that were sent and stand in the log."""
        of = self.records
        return np.flatnonzero((of["first_offset"] != NONE) & (of["fate"] != Fate.NEVER_SENT))

    @cached_property
    def lost(self) -> Array:
        """As :attr:`PartitionHistory.lost`, of a complete read."""
        of = self.records
        acked = (of["fate"] == Fate.ACKED) & (of["contradicted"] == 0)
        return np.flatnonzero(acked & (of["first_offset"] == NONE))

    @cached_property
    def repeated(self) -> Array:
        """The records that were sent and stand in the log more than once."""
        record = self.log["log_record"]
        often = np.bincount(record[record != NONE], minlength=len(self.records["fate"]))
        return np.flatnonzero((often > 1) & (self.records["fate"] != Fate.NEVER_SENT))

    @cached_property
    def epochs_begin(self) -> Array:
        """The places of its first row in the log of each leader epoch."""
        places: Array = np.unique(self.log["log_epoch"], return_index=True)[1]
        return places

    @cached_property
    def streams(self) -> Mapping[tuple[str, int], int]:
        """Its producers by cell and number, with the code that :meth:`stream` has for each."""
        codes = np.unique(self.stream(np.arange(len(self.records["cell_of"]))))
        low = (1 << _PRODUCER_BITS) - 1
        numbers = (codes & low).astype(np.uint32).astype(np.int32)
        cells = (self.cell_names[cell] for cell in (codes >> _PRODUCER_BITS).tolist())
        return dict(zip(zip(cells, numbers.tolist(), strict=True), codes.tolist(), strict=True))

    def stream(self, records: Array) -> Array:
        """A code for cell and producer of each."""
        cells, producers = (self.records[name][records] for name in ("cell_of", "producer"))
        codes: Array = cells << _PRODUCER_BITS | (producers & 0xFFFFFFFF)
        return codes

    def rows_at(self, offsets: Array) -> Array:
        """The places of its rows in the log at these offsets."""
        held = self.log["log_offset"]
        within = self.bounds["log"]
        if within is None or not len(offsets):
            return np.empty(0, dtype=np.int64)
        wanted = np.unique(offsets[(offsets >= within[0]) & (offsets <= within[1])])
        begins, ends = (np.searchsorted(held, wanted, side=side) for side in ("left", "right"))
        counts = ends - begins
        before = np.cumsum(counts) - counts
        places: Array = np.repeat(begins - before, counts) + np.arange(counts.sum())
        return places

    def some(self, records: Array, rows: Array) -> Part:
        """Some of its records, with all their rows in the log; and these further rows, with their
        records as far as they stand there."""
        named = self.log["log_record"][rows]
        number = np.full(len(self.records["fate"]) + 1, NONE, dtype=np.int64)
        number[records] = 0
        taken = number[self.log["log_record"]] != NONE
        taken[rows] = True
        chosen = np.unique(np.concatenate([records, named[named != NONE]]))
        number[chosen] = np.arange(len(chosen))
        log = {name: self.log[name][taken] for name in _BY_ROW}
        return Part(
            cell_names=self.cell_names,
            records={name: self.records[name][chosen] for name in _BY_RECORD},
            log={**log, "log_record": number[log["log_record"]]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What all slices of a partition have to know of the whole. ``sends``, ``log``: their pieces,
    by sequence; ``last_recorded``: as for :func:`checkers.index.partition_history.index`;
    ``rare_max``: so many rare records are judged together."""

    item: WorkItem
    ranges: Sequence[Range]
    sends: Sequence[Piece]
    log: Sequence[Piece]
    last_recorded: Mapping[tuple[str, int], int]
    rare_max: int = RARE_MAX

    @property
    def read(self) -> FinalRead:
        """The final read; complete where all that it got is there."""
        item = self.item
        rows = sum(piece.rows for piece in self.log)
        complete = item.read.complete and item.log_whole and item.records == rows
        return replace(item.read, complete=complete)


def indexed(split: Split, own: Range) -> PartitionHistory:
    """A slice of the partition, indexed alone. Raises DamagedFiles."""
    item = split.item
    slice_ = Unindexed(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        sends=_own_rows("sends", split.sends, SEND_COLUMNS, own, item.expected),
        log=_own_rows("log", split.log, LOG_COLUMNS, own),
        read=split.read,
        sends_whole=item.sends_whole,
        last_recorded=split.last_recorded,
        faults=FaultWindows(bounds=tuple(item.fault_bounds), labels=tuple(item.fault_labels)),
        timeline=item.timeline,
    )
    return index([slice_])[0]


def _own_rows(
    table: str,
    pieces: Sequence[Piece],
    columns: Sequence[str],
    own: Range,
    expected: Expected = ANY,
) -> pa.Table:
    found = [schema_of(table, columns).empty_table()]
    for piece in pieces:
        if piece.nulls or piece.holds(own.first, own.last):
            rows = piece.read(columns)
            if (words := expected.problem(rows)) is not None:
                raise DamagedFiles({located(piece.file): words})
            if piece.within(own.first, own.last):
                found.append(rows)
                continue
            named = rows["sequence"].is_valid().to_numpy()
            mine = own.holds(numbers_of(rows["sequence"]), numbers_of(rows["offset"]), named)
            found.append(rows.filter(pa.array(mine)))
    return pa.concat_tables(found)


def put_aside(history: PartitionHistory, path: AnyPath) -> Slice:
    """Write an indexed slice into a file, for :func:`taken`. Raises OSError."""
    stands = history.at_acked_offset
    there = stands != NONE
    epoch = np.full(len(stands), NONE, dtype=np.int64)
    epoch[there] = history.log_epoch[stands[there]]
    first_offset = np.append(history.log_offset, NONE)[history.first]
    of_slice = {name: getattr(history, name) for name in _OF_HISTORY}
    of_slice |= {"first_offset": first_offset, "stands": there, "epoch": epoch}
    of_slice = {n: values.astype(_NARROW.get(n, np.int64)) for n, values in of_slice.items()}
    log = {name: getattr(history, name) for name in _BY_ROW}
    made = Slice(cell_names=history.cell_names, records=of_slice, log=log, bounds={})
    bounds = _bounds(made)
    told = {"cells": json.dumps(list(history.cell_names)), "bounds": json.dumps(bounds)}
    path.mkdir(parents=True, exist_ok=True)
    _write(path / _LOG, log, {})
    _write(path / _RECORDS, of_slice, told)
    return replace(made, bounds=bounds)


def _write(path: AnyPath, columns: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    with (
        whole(path) as sink,
        pa.ipc.new_file(sink, table.schema.with_metadata(dict(metadata))) as writer,
    ):
        writer.write_table(table)


def taken(path: AnyPath) -> Slice:
    """What was put aside there. Raises OSError."""
    log, _ = _read(path / _LOG)
    records, told = _read(path / _RECORDS)
    bounds = json.loads(told[b"bounds"])
    return Slice(
        cell_names=json.loads(told[b"cells"]),
        records=records,
        log=log,
        bounds={name: pair and (pair[0], pair[1]) for name, pair in bounds.items()},
    )


def _read(path: AnyPath) -> tuple[dict[str, Array], Mapping[bytes, bytes]]:
    table = pa.ipc.open_file(storage.opened(path, mapped=True)).read_all()
    columns = {name: _array(table[name]) for name in table.column_names}
    return columns, table.schema.metadata or {}


def _array(column: pa.ChunkedArray) -> Array:
    """As it is mapped, not copied."""
    if not column.num_chunks:
        return np.empty(0, dtype=column.type.to_pandas_dtype())
    values: Array = column.chunk(0).to_numpy()
    return values


def _bounds(made: Slice) -> dict[str, Bounds]:
    of = made.records
    return {
        "acked": _bound(of["acked_offset"][made.named]),
        "first": _bound(of["first_offset"][made.standing]),
        "told": _bound(of["acked_offset"][made.telling]),
        "asked": _bound(of["asked"][made.telling]),
        "answered": _bound(of["answered"][made.telling]),
        "log": _bound(made.log["log_offset"]),
    }


def _bound(values: Array) -> Bounds:
    return (int(values.min()), int(values.max())) if len(values) else None


def together(split: Split, parts: Sequence[Part], begun: int) -> PartitionHistory:
    """One history of parts of a partition, of which no record is in two. ``begun``: of all of the
    partition."""
    cell_names: dict[str, int] = {}
    records: list[Mapping[str, Array]] = []
    log: list[Mapping[str, Array]] = []
    count = 0
    for part in parts:
        codes = [cell_names.setdefault(name, len(cell_names)) for name in part.cell_names]
        cells = np.array(codes, dtype=np.int64)[part.records["cell_of"]]
        records.append({**part.records, "cell_of": cells})
        own = part.log["log_record"]
        log.append({**part.log, "log_record": np.where(own == NONE, NONE, own + count)})
        count += len(cells)
    of = {name: np.concatenate([one[name] for one in records]) for name in _OF_HISTORY}
    rows = {name: np.concatenate([one[name] for one in log]) for name in _BY_ROW}
    order = np.argsort(rows["log_offset"], kind="stable")
    rows = {name: column[order] for name, column in rows.items()}
    of |= {name: of[name].astype(bool) for name in ("untold", "contradicted")}
    by_name: dict[str, Any] = {**of, **rows}
    item = split.item
    return PartitionHistory(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        read=split.read,
        sends_whole=item.sends_whole,
        faults=FaultWindows(bounds=tuple(item.fault_bounds), labels=tuple(item.fault_labels)),
        cell_names=tuple(cell_names),
        begun=begun,
        **by_name,
        first=first_positions(rows["log_record"], count),
        timeline=item.timeline,
    )


def nothing(split: Split) -> PartitionHistory:
    """A history of the partition without a record."""
    none = np.empty(0, dtype=np.int64)
    part = Part(
        cell_names=(), records=dict.fromkeys(_BY_RECORD, none), log=dict.fromkeys(_BY_ROW, none)
    )
    return together(split, [part], NONE)
