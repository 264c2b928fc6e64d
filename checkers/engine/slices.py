"""Slices of a partition, and the pieces of files from which they are read.

A piece can be read on its own. It is a row group of a closed file, or a whole part file of a table
whose writer did not close it.
"""

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
from ackproof.checkers.engine.reconcile import ANOMALOUS_MAX
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
    """A piece of a file.

    Attributes:
        table: The table that the file belongs to.
        file: The path of the file.
        row_group: The number of the row group, or None for a part file.
        rows: The number of rows.
        least: The lowest value of one column, or the lowest possible one if it is unknown.
        greatest: The highest value of that column, or the highest possible one if it is unknown.
        nulls: Whether that column may have null values.
    """

    table: str
    file: str
    row_group: int | None
    rows: int
    least: int
    greatest: int
    nulls: bool

    def holds(self, first: int, last: int) -> bool:
        """Return whether the piece may have a row with a value from ``first`` to ``last``."""
        return self.least <= last and self.greatest >= first

    def within(self, first: int, last: int) -> bool:
        """Return whether each row of the piece has a value from ``first`` to ``last``."""
        return not self.nulls and first <= self.least and self.greatest <= last

    def read(self, names: Sequence[str]) -> pa.Table:
        """Read some columns of the piece. Raises DamagedFiles."""
        return columns.read_file(self.table, located(self.file), names, self.row_group)


def pieces(table: str, files: Iterable[str], column: str) -> list[Piece]:
    """Return the pieces of the files of a table, with the bounds of one integer column. Raises
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
        # The file was written by a former version that lacked a column. It is read as a whole, by
        # the function that fills such a column in.
        yield _part(table, file, column)
        return
    for number in range(footer.num_row_groups):
        yield _row_group(table, file, column, footer, number)


def _part(table: str, file: str, column: str) -> Piece:
    values = columns.read_file(table, located(file), [column])[column]
    bounds = pc.min_max(values).as_py()
    return Piece(
        table=table,
        file=file,
        row_group=None,
        rows=len(values),
        least=GREATEST if bounds["min"] is None else bounds["min"],
        greatest=LEAST if bounds["max"] is None else bounds["max"],
        nulls=values.null_count > 0,
    )


def _row_group(table: str, file: str, column: str, footer: pq.FileMetaData, number: int) -> Piece:
    group = footer.row_group(number)
    places = (group.column(place) for place in range(group.num_columns))
    statistics = next(
        (place.statistics for place in places if place.path_in_schema == column), None
    )
    least, greatest = (
        (statistics.min, statistics.max)
        if statistics is not None and statistics.has_min_max
        else (LEAST, GREATEST)
    )
    return Piece(
        table=table,
        file=file,
        row_group=number,
        rows=group.num_rows,
        least=least,
        greatest=greatest,
        nulls=statistics is None or not statistics.has_null_count or statistics.null_count > 0,
    )


# --- ranges ---------------------------------------------------------------------------------------
#
# The ranges of sequence numbers into which a partition is split.


SLICE_ROWS = 1_700_000
"""The rows of ``sends`` and ``log`` in one slice, about 570,000 records. A task that indexes and
judges them stays well below 1 GB, even if each of them is an anomaly."""

WHOLE_SLICES = 3
"""A partition with rows for at most this many slices is not split. A task with all of its rows also
stays below 1 GB, and splitting would double the cost."""

_SAMPLES = 200_000
"""The number of sequence numbers that are sampled to place the edges of the ranges. Their error is
then at most 0.05 % of the rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A range of sequence numbers.

    Attributes:
        number: The number of the range, from 0.
        count: The number of ranges. Rows without a sequence number are assigned to them in turn, by
            offset.
        first: The lowest sequence number.
        last: The highest sequence number.
    """

    number: int
    count: int
    first: int
    last: int

    def holds(self, sequences: Array, offsets: Array, named: Array) -> Array:
        """Return whether each row belongs to this range. ``named`` says which rows have a sequence
        number."""
        within = (sequences >= self.first) & (sequences <= self.last)
        return np.where(named, within, offsets % self.count == self.number)


def ranges(pieces: Sequence[Piece], slice_rows: int) -> list[Range]:
    """Return ranges that cover every possible number and have about ``slice_rows`` rows each.
    Return one range if the rows fill at most WHOLE_SLICES slices. Raises DamagedFiles."""
    rows = sum(piece.rows for piece in pieces)
    wanted = -(-rows // slice_rows)
    if wanted <= WHOLE_SLICES:
        return _between([])
    sampled = np.sort(np.concatenate([*_samples(pieces, max(rows // _SAMPLES, 1))]))
    places = np.arange(1, wanted) * len(sampled) // wanted
    return _between(np.unique(sampled[places]).tolist() if len(sampled) else [])


def _samples(pieces: Sequence[Piece], each: int) -> Iterator[Array]:
    """Yield every ``each``-th sequence number. Only one piece is in memory at a time."""
    for piece in pieces:
        column = piece.read(["sequence"])["sequence"]
        yield numbers_of(column.filter(column.is_valid()))[::each]


def _between(lasts: Sequence[int]) -> list[Range]:
    """Return ranges that end with these numbers, and a last one without a limit."""
    edges = [LEAST + NONE, *(last for last in lasts if last < GREATEST), GREATEST]
    return [
        Range(number=number, count=len(edges) - 1, first=before + 1, last=last)
        for number, (before, last) in enumerate(pairwise(edges))
    ]


# --- slices ---------------------------------------------------------------------------------------
#
# A slice of a partition is indexed alone and written to a directory. Other tasks read those of its
# records that they need from there.
#
# Its files are in Arrow's format and not compressed, so that they can be mapped and only the values
# in use are read. One file has integers by record, the other integers by row of the log. The bounds
# by which other tasks decide whether to search it are stored with them.


_OF_HISTORY = (
    *("cell_of", "producer", "sequence", "fate", "acked_offset", "time", "asked", "answered"),
    *("due", "untold", "contradicted"),
)
_BY_RECORD = (*_OF_HISTORY, "first_offset", "stands", "epoch")
"""The columns by record: those of the history, the offset of the first copy, whether a copy is at
the acked offset, and the leader epoch of that copy."""

_BY_ROW = ("log_offset", "log_epoch", "log_record")
_NARROW = {"fate": np.int8, "untold": np.int8, "contradicted": np.int8, "stands": np.int8}
_PRODUCER_BITS = 32

_RECORDS, _LOG = "records.arrow", "log.arrow"

Bounds = tuple[int, int] | None
"""The lowest and the highest value, or None if there are no values."""


@dataclass(frozen=True, kw_only=True)
class SlicePart:
    """Some of the records of a slice.

    Attributes:
        cell_names: The names of the cells, by their codes.
        records: The columns by record, by the names of :data:`_BY_RECORD`.
        log: The columns by row of the final log in offset order, by the names of :data:`_BY_ROW`.
            ``log_record`` is NONE for a row whose record is not among them.
    """

    cell_names: Sequence[str]
    records: Mapping[str, Array]
    log: Mapping[str, Array]


@dataclass(frozen=True, kw_only=True)
class Slice(SlicePart):
    """A whole slice.

    Attributes:
        bounds: Lowest and highest values: ``acked`` of the offsets of named acks, ``first`` of the
            offsets of first copies, ``told`` of the acked offsets of records whose send is
            recorded, ``asked`` of the times of their sends, ``answered`` of the times of their
            acks, ``log`` of the offsets in the log.
    """

    bounds: Mapping[str, Bounds]

    @cached_property
    def named(self) -> Array:
        """The records whose ack names an offset, as :attr:`PartitionHistory.named_acks`."""
        of = self.records
        acked = (of["fate"] == Fate.ACKED) & (of["acked_offset"] != NONE)
        return np.flatnonzero(acked & (of["contradicted"] == 0))

    @cached_property
    def telling(self) -> Array:
        """The records among ``named`` whose send is recorded."""
        return np.extract(self.records["asked"][self.named] != NONE, self.named)

    @cached_property
    def standing(self) -> Array:
        """The records that were sent and are in the log."""
        of = self.records
        return np.flatnonzero((of["first_offset"] != NONE) & (of["fate"] != Fate.NEVER_SENT))

    @cached_property
    def lost(self) -> Array:
        """The lost records, as :attr:`PartitionHistory.lost` of a complete read."""
        of = self.records
        acked = (of["fate"] == Fate.ACKED) & (of["contradicted"] == 0)
        return np.flatnonzero(acked & (of["first_offset"] == NONE))

    @cached_property
    def repeated(self) -> Array:
        """The records that were sent and are in the log more than once."""
        record = self.log["log_record"]
        often = np.bincount(record[record != NONE], minlength=len(self.records["fate"]))
        return np.flatnonzero((often > 1) & (self.records["fate"] != Fate.NEVER_SENT))

    @cached_property
    def epochs_begin(self) -> Array:
        """The places of the first log row of each leader epoch."""
        places: Array = np.unique(self.log["log_epoch"], return_index=True)[1]
        return places

    @cached_property
    def streams(self) -> Mapping[tuple[str, int], int]:
        """The producers by cell and number, with the code that :meth:`stream` returns for each."""
        codes = np.unique(self.stream(np.arange(len(self.records["cell_of"]))))
        low = (1 << _PRODUCER_BITS) - 1
        numbers = (codes & low).astype(np.uint32).astype(np.int32)
        cells = (self.cell_names[cell] for cell in (codes >> _PRODUCER_BITS).tolist())
        return dict(zip(zip(cells, numbers.tolist(), strict=True), codes.tolist(), strict=True))

    def stream(self, records: Array) -> Array:
        """Return a code for the cell and producer of each record."""
        cells, producers = (self.records[name][records] for name in ("cell_of", "producer"))
        codes: Array = cells << _PRODUCER_BITS | (producers & 0xFFFFFFFF)
        return codes

    def rows_at(self, offsets: Array) -> Array:
        """Return the places of the log rows at these offsets."""
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

    def some(self, records: Array, rows: Array) -> SlicePart:
        """Return some records with all their log rows. Include these further log rows, too, and
        their records as far as the log has them."""
        named = self.log["log_record"][rows]
        number = np.full(len(self.records["fate"]) + 1, NONE, dtype=np.int64)
        number[records] = 0
        read_slice = number[self.log["log_record"]] != NONE
        read_slice[rows] = True
        chosen = np.unique(np.concatenate([records, named[named != NONE]]))
        number[chosen] = np.arange(len(chosen))
        log = {name: self.log[name][read_slice] for name in _BY_ROW}
        return SlicePart(
            cell_names=self.cell_names,
            records={name: self.records[name][chosen] for name in _BY_RECORD},
            log={**log, "log_record": number[log["log_record"]]},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The properties of a split partition that all of its slices need.

    Attributes:
        item: The work item of the partition.
        ranges: The ranges of the slices.
        sends: The pieces of ``sends``, by sequence number.
        log: The pieces of ``log``, by sequence number.
        last_recorded: As for :func:`checkers.index.partition_history.index`.
        anomalous_max: The number of anomalous records that are judged together.
    """

    item: WorkItem
    ranges: Sequence[Range]
    sends: Sequence[Piece]
    log: Sequence[Piece]
    last_recorded: Mapping[tuple[str, int], int]
    anomalous_max: int = ANOMALOUS_MAX

    @property
    def read(self) -> FinalRead:
        """The final read. It is complete if the files hold as many records as it got."""
        item = self.item
        rows = sum(piece.rows for piece in self.log)
        complete = item.read.complete and item.log_whole and item.records == rows
        return replace(item.read, complete=complete)


def slice_history(split: Split, own: Range) -> PartitionHistory:
    """Return the history of one slice, indexed alone. Raises DamagedFiles."""
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


def write_slice(history: PartitionHistory, path: AnyPath) -> Slice:
    """Write an indexed slice to a directory, from which :func:`read_slice` reads it. Raises
    OSError."""
    stands = history.at_acked_offset
    there = stands != NONE
    epoch = np.full(len(stands), NONE, dtype=np.int64)
    epoch[there] = history.log_epoch[stands[there]]
    first_offset = np.append(history.log_offset, NONE)[history.first]
    of_slice = {name: getattr(history, name) for name in _OF_HISTORY}
    of_slice |= {"first_offset": first_offset, "stands": there, "epoch": epoch}
    of_slice = {n: values.astype(_NARROW.get(n, np.int64)) for n, values in of_slice.items()}
    log = {name: getattr(history, name) for name in _BY_ROW}
    slice_ = Slice(cell_names=history.cell_names, records=of_slice, log=log, bounds={})
    bounds = _bounds(slice_)
    metadata = {"cells": json.dumps(list(history.cell_names)), "bounds": json.dumps(bounds)}
    path.mkdir(parents=True, exist_ok=True)
    _write(path / _LOG, log, {})
    _write(path / _RECORDS, of_slice, metadata)
    return replace(slice_, bounds=bounds)


def _write(path: AnyPath, columns: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    with (
        whole(path) as sink,
        pa.ipc.new_file(sink, table.schema.with_metadata(dict(metadata))) as writer,
    ):
        writer.write_table(table)


def read_slice(path: AnyPath) -> Slice:
    """Read a slice that was written by :func:`write_slice`. Raises OSError."""
    log, _ = _read(path / _LOG)
    records, metadata = _read(path / _RECORDS)
    bounds = json.loads(metadata[b"bounds"])
    return Slice(
        cell_names=json.loads(metadata[b"cells"]),
        records=records,
        log=log,
        bounds={name: pair and (pair[0], pair[1]) for name, pair in bounds.items()},
    )


def _read(path: AnyPath) -> tuple[dict[str, Array], Mapping[bytes, bytes]]:
    table = pa.ipc.open_file(storage.opened(path, mapped=True)).read_all()
    columns = {name: _array(table[name]) for name in table.column_names}
    return columns, table.schema.metadata or {}


def _array(column: pa.ChunkedArray) -> Array:
    """Return the values as they are mapped, without a copy."""
    if not column.num_chunks:
        return np.empty(0, dtype=column.type.to_pandas_dtype())
    values: Array = column.chunk(0).to_numpy()
    return values


def _bounds(slice_: Slice) -> dict[str, Bounds]:
    of = slice_.records
    return {
        "acked": _bound(of["acked_offset"][slice_.named]),
        "first": _bound(of["first_offset"][slice_.standing]),
        "told": _bound(of["acked_offset"][slice_.telling]),
        "asked": _bound(of["asked"][slice_.telling]),
        "answered": _bound(of["answered"][slice_.telling]),
        "log": _bound(slice_.log["log_offset"]),
    }


def _bound(values: Array) -> Bounds:
    return (int(values.min()), int(values.max())) if len(values) else None


def combined(split: Split, parts: Sequence[SlicePart], begun: int) -> PartitionHistory:
    """Return one history of several parts of a partition. No record may be in two of them.
    ``begun`` is the time of the first send to the partition."""
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


def empty_history(split: Split) -> PartitionHistory:
    """Return a history of the partition without records."""
    none = np.empty(0, dtype=np.int64)
    part = SlicePart(
        cell_names=(), records=dict.fromkeys(_BY_RECORD, none), log=dict.fromkeys(_BY_ROW, none)
    )
    return combined(split, [part], NONE)
