"""The writer of a table. Whatever ends the process, flushed rows stay readable.

Rows gather in memory, one by one or in :class:`Columns`, and are flushed, one batch at
a time, to the end of a part (``history.stream``: an incomplete batch there does not count). A file
for every flush would soon make thousands of files, and closing would take as long as the run. At
close, the parts of one writer become one Parquet file:

1. The parts are copied into a file whose name begins with a dot.
2. That file is renamed to the closed name. From here on the parts no longer count.
3. The parts are removed.

A reader that finds the closed file ignores the parts of the same stem (``history.reader``), so
nothing is counted twice or lost wherever this stops. Then the writer records in the table
``closings`` how many rows it wrote, including none, and the digest of its file. A file that is
missing or changed later is therefore noticed. Pages have checksums, so a reader without the closing
also notices a change. Parts have none.

The caller's loop triggers the flushing (:meth:`TableWriter.flush_due`); there is no thread and no
clock in here. Files are not fsynced: they survive the end of the process but not a power failure of
the machine that runs the clients. A writer belongs to one thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy import ma
from numpy.typing import NDArray

from ackproof.history import storage, stream
from ackproof.history.errors import HistoryError, WriteFailed
from ackproof.history.names import FileStem
from ackproof.history.schema import TABLES, decoded
from ackproof.history.storage import written_aside

# --- columns --------------------------------------------------------------------------------------
#
# Rows in memory as columns, for a writer of many rows.
#
# Appending a row costs as much as appending its values. Adding many rows at once as arrays costs
# next to nothing. A value that is the same in all rows is given once, and the rows of all
# partitions stay together until they are written. A writer that records a thousand rows at once
# therefore needs a handful of calls, whatever partitions they belong to.


Many = np.ndarray[Any, Any] | Sequence[object]
"""The values of many rows. Null is None, or masked in a masked array."""
_SMALL = 2**15


class Columns:
    """Rows of a partitioned table that wait to be written.

    Args:
        table: A key of :data:`history.schema.TABLES`.
        constants: The values that are the same in all rows, by column name.
    """

    def __init__(self, table: str, constants: Mapping[str, object]) -> None:
        self._table = table
        self._schema = decoded(TABLES[table])
        self._constants = constants
        self._values: dict[str, list[Any]] = {
            name: [] for name in self._schema.names if name not in constants
        }
        self._blocks: list[_Block] = []
        self._repeated: dict[str, tuple[object, pa.Array]] = {}
        # This happens here and not while the first records are in progress. At the first array of
        # objects, pyarrow imports pandas if it is installed, which takes a third of a second. The
        # first use of pyarrow.compute takes a tenth.
        pa.array([]).take(pa.array([], pa.int64()))

    def __getitem__(self, name: str) -> list[Any]:
        """Return the list of a column's values, to which you may append; None stands for null.
        It is always the same list. Each row must have a value in every column when the rows are
        taken."""
        return self._values[name]

    def __len__(self) -> int:
        return sum(block.rows for block in self._blocks) + len(self._values["partition"])

    def extend(self, rows: int, **columns: object) -> None:
        """Add ``rows`` rows after the existing ones. Each column that is not constant takes an
        array or another sequence of so many values, or one value for all of these rows (None for
        null). Arrays are kept and not copied. Raises HistoryError for columns that are missing, too
        many or of another length."""
        if columns.keys() != self._values.keys():
            raise HistoryError(f"rows of {self._table} with columns {', '.join(columns)}")
        for name, values in columns.items():
            if _are_many(values) and len(values) != rows:
                raise HistoryError(f"{len(values)} values of {name} for {rows} rows")
        self._seal()
        self._blocks.append(_Block(rows, columns))

    def take(self) -> Mapping[int, pa.RecordBatch]:
        """Remove all rows and return them by partition, in the order in which they came. Raises
        HistoryError, and keeps the rows, if they do not fit the table's schema."""
        self._check()
        blocks = [*self._blocks, *self._appended()]
        if not blocks:
            return {}
        try:
            taken = self._by_partition(blocks)
        except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
            raise HistoryError(f"rows of {self._table} do not fit its schema: {error}") from error
        self._blocks.clear()
        for values in self._values.values():
            values.clear()
        return taken

    def _seal(self) -> None:
        """Make a block of the appended rows, so that later rows come after them."""
        self._check()
        self._blocks += self._appended(copied=True)
        for values in self._values.values():
            values.clear()

    def _check(self) -> None:
        # A longer column would pass its values on to rows of another moment.
        rows = len(self._values["partition"])
        if uneven := [name for name, values in self._values.items() if len(values) != rows]:
            raise HistoryError(
                f"there are {rows} rows of {self._table}, and not as many in {', '.join(uneven)}"
            )

    def _appended(self, copied: bool = False) -> list["_Block"]:
        rows = len(self._values["partition"])
        values = self._values
        if copied:
            values = {name: list(column) for name, column in values.items()}
        return [_Block(rows, values)] if rows else []

    def _by_partition(self, blocks: Sequence["_Block"]) -> Mapping[int, pa.RecordBatch]:
        rows = sum(block.rows for block in blocks)
        partitions, _ = _numbers(self._schema.field("partition"), blocks, rows)
        order = _order(partitions)
        partitions = partitions.take(order)
        ends = [*(np.flatnonzero(np.diff(partitions)) + 1), rows]
        columns = [self._column(field, blocks, order) for field in self._schema]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        return {
            int(partitions[begin]): batch.slice(begin, end - begin)
            for begin, end in pairwise([0, *ends])
        }

    def _column(
        self, field: pa.Field, blocks: Sequence["_Block"], order: NDArray[np.int64]
    ) -> pa.Array:
        if field.name in self._constants:
            return self._repeat(self._constants[field.name], field, len(order))
        if not pa.types.is_integer(field.type):
            words, codes = _words(field, blocks, len(order))
            if len(words) == 1:
                return self._repeat(words[0], field, len(order))
            return array(words, field).take(_plain(codes.take(order), pa.int64()))
        values, has_value = _numbers(field, blocks, len(order))
        nulls = None if has_value is None else has_value.take(order)
        return _plain(values.take(order), field.type, nulls)

    def _repeat(self, value: object, field: pa.Field, rows: int) -> pa.Array:
        """Return the value ``rows`` times. It is usually the same value as before."""
        known, column = self._repeated.get(field.name, (None, ()))
        if known != value or len(column) < rows:
            (one,) = array([value], field)
            # The next flush may have a few more rows.
            column = pa.repeat(one, 1 << rows.bit_length())
            self._repeated[field.name] = (value, column)
        return column[:rows]


class _Block(NamedTuple):
    """Rows that were added together."""

    rows: int
    columns: Mapping[str, object]


def _are_many(values: object) -> TypeGuard[Many]:
    return isinstance(values, np.ndarray | list | tuple | range)


def _order(partitions: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return an order of rows that brings those of a partition together, each partition in its own
    order."""
    # The rows come in runs, of which there are fewer than rows.
    begins = np.append(0, np.flatnonzero(np.diff(partitions)) + 1)
    firsts = partitions[begins]
    # numpy sorts two-byte integers several times as fast.
    small = firsts.astype(np.int16) if firsts.max() < _SMALL else firsts
    runs = np.argsort(small, kind="stable")
    lengths = np.diff(begins, append=len(partitions))[runs]
    order: NDArray[np.int64] = np.arange(len(partitions))
    order += np.repeat(begins[runs] - (np.cumsum(lengths) - lengths), lengths)
    return order


def _numbers(
    field: pa.Field, blocks: Sequence[_Block], rows: int
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Return a column of integers and which of its values are not null, or None if none is null.
    Raises as :func:`array`."""
    numbers = np.zeros(rows, field.type.to_pandas_dtype())
    is_null = None
    for place, values in _places(field, blocks):
        nulls: object = None
        if isinstance(values, np.ndarray):
            if not np.can_cast(values.dtype, numbers.dtype):
                raise TypeError(f"{values.dtype} in column {field.name}")
            numbers[place] = ma.getdata(values)
            nulls = ma.getmaskarray(values) if ma.isMaskedArray(values) else None
        elif type(values) is int:
            numbers[place] = values
        else:
            some = array(values if _are_many(values) else [values], field)
            numbers[place] = some.fill_null(0).to_numpy()
            nulls = some.is_null().to_numpy(zero_copy_only=False) if some.null_count else None
        if nulls is not None:
            is_null = np.zeros(rows, np.bool_) if is_null is None else is_null
            is_null[place] = nulls
    if is_null is None or not is_null.any():
        return numbers, None
    if not field.nullable:
        raise ValueError(f"null in column {field.name}")
    return numbers, ~is_null


def _words(
    field: pa.Field, blocks: Sequence[_Block], rows: int
) -> tuple[Sequence[object], NDArray[np.int64]]:
    """Return the distinct values of any other column, and the number of each row's value among
    them."""
    codes = np.empty(rows, np.int64)
    numbers: dict[object, int] = {}
    for place, values in _places(field, blocks):
        if _are_many(values):
            codes[place] = [numbers.setdefault(value, len(numbers)) for value in values]
        else:
            codes[place] = numbers.setdefault(values, len(numbers))
    return [*numbers], codes


def _places(field: pa.Field, blocks: Sequence[_Block]) -> Iterator[tuple[slice, object]]:
    begin = 0
    for block in blocks:
        yield slice(begin, begin + block.rows), block.columns[field.name]
        begin += block.rows


def _plain(
    values: NDArray[Any], kind: pa.DataType, has_value: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return an Arrow array of numbers that have Arrow's layout in memory, without copying them."""
    bits = None
    if has_value is not None:
        bits = pa.py_buffer(np.packbits(has_value, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def array(values: Many, field: pa.Field) -> pa.Array:
    """Return a column. Raises ValueError, TypeError, OverflowError or ArrowException for values
    that do not fit the ``field``."""
    made = pa.array(values, field.type)
    if made.null_count and not field.nullable:
        raise ValueError(f"null in column {field.name}")
    return made


# --- files ----------------------------------------------------------------------------------------


ROWS_MAX = 100_000
"""The number of rows in memory that are flushed, whatever their age."""

SECONDS_MAX = 1.0
"""The longest time that a row waits in memory."""

PART_BYTES = 256 * 1024
"""The size from which on a part gets no further batch. Where files are copied while they are
written, a part that has grown is copied as a whole."""

Row = tuple[object, ...]
"""The values of a row in the order of a table's schema, with None for null."""

MERGED_ROW_GROUP = 500_000
"""The number of rows in a row group of a closed file. It limits the memory that merging takes."""


class TableWriter:
    """A writer of one table, or of one partition of a partitioned table.

    Args:
        directory: The directory, which is created if it does not exist.
        table: A key of :data:`history.schema.TABLES`.
        writer: Unique name of the writer, ``[a-zA-Z0-9._-]``.
        partition: Topic and partition, for the partitioned tables.
        rows_max: The number of rows in memory that triggers a flush.
        seconds_max: The age of the oldest unflushed row, in seconds, at which :meth:`flush_due`
            flushes.
        part_bytes: The size of a part, in bytes, from which on another one is begun.
        closing: Whether to write its row of ``closings`` when it closes. False if its owner does
            that.

    Raises:
        HistoryError: The directory already holds files of this writer.
    """

    def __init__(
        self,
        directory: Path,
        table: str,
        writer: str,
        *,
        partition: tuple[str, int] | None = None,
        rows_max: int = ROWS_MAX,
        seconds_max: float = SECONDS_MAX,
        part_bytes: int = PART_BYTES,
        closing: bool = True,
    ) -> None:
        self._directory = directory
        self._stem = FileStem(table=table, writer=writer, partition=partition)
        self._schema = TABLES[table]
        self._rows: list[Row] = []
        self._batches: list[pa.RecordBatch] = []
        self._rows_max = rows_max
        self._interval = _Interval(seconds_max)
        self._parts: list[Path] = []
        self._part_bytes = part_bytes
        self._part_size = part_bytes
        self._written = 0
        self._digest: str | None = None
        self._closing = closing
        self._closed = False
        self._make_directory()

    @property
    def closing(self) -> Row:
        """The row of ``closings``: the rows written so far, and after closing the digest of the
        file."""
        topic, partition = self._stem.partition or (None, None)
        return (
            self._stem.table,
            self._stem.writer,
            topic,
            partition,
            self._written,
            self._digest,
        )

    def append(self, row: Row) -> None:
        """Add a row with its values in the schema's order and None for null."""
        self._rows.append(row)
        if len(self._rows) >= self._rows_max:
            self.flush()

    def extend(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows with the table's schema, without dictionaries. It stays in memory
        until the next flush and is written before rows that were appended individually since the
        last one."""
        self._batches.append(batch)

    def write(self, **columns: object) -> None:
        """Add one row by column names and flush it. Missing columns are null. This is for rare rows
        that must not be lost. Raises ValueError for a column that the table does not have."""
        if unknown := columns.keys() - set(self._schema.names):
            raise ValueError(f"table {self._stem.table} has no {', '.join(sorted(unknown))}")
        self.append(tuple(columns.get(name) for name in self._schema.names))
        self.flush()

    def flush_due(self, now: float) -> None:
        """Flush if the last flush was at least ``seconds_max`` ago. ``now`` is in seconds of any
        monotonic clock. Call this several times a second."""
        if self._interval.is_over(now):
            self.flush()

    def flush(self) -> None:
        """Write the rows in memory. Raises WriteFailed, and keeps the rows."""
        if self._closed:
            raise HistoryError(f"{self._stem} is closed")
        self._gather()
        while self._batches:
            self._append(self._batches[0])
            del self._batches[0]

    def close(self) -> None:
        """Flush, merge the parts into one file, and record its number of rows. Further calls do
        nothing. A writer without rows only leaves its closing.

        Raises WriteFailed; the parts flushed until then remain as the history.
        """
        if self._closed:
            return
        self.flush()
        if self._parts:
            closed = self._directory / self._stem.closed
            _write_aside(closed, self._merge)
            self._digest = _digest(closed)
        for part in self._parts:
            part.unlink(missing_ok=True)
        if self._closing:
            _write_closings(self._directory, _closings(self._stem), [self.closing])
        self._closed = True

    def _gather(self) -> None:
        if self._rows:
            self._batches.append(_batch(self._rows, decoded(self._schema), self._stem))
            self._rows.clear()

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._part_size >= self._part_bytes:
            self._parts.append(self._directory / self._stem.part(len(self._parts) + 1))
            self._part_size = 0
        try:
            self._part_size = stream.append_batches(self._parts[-1], self._part_size, batch)
        except OSError as error:
            raise WriteFailed(self._parts[-1], error) from error
        self._written += len(batch)

    def _merge(self, aside: Path) -> None:
        with pq.ParquetWriter(
            aside, self._schema, compression="zstd", write_page_checksum=True
        ) as merged:
            for table in _coalesced(self._parts, self._schema):
                merged.write_table(table)

    def _make_directory(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        mine = {self._stem.closed, self._stem.part(1), _closings(self._stem).closed}
        if taken := [name for name in sorted(mine) if (self._directory / name).exists()]:
            raise HistoryError(
                f"{self._directory} already holds {taken[0]}: a writer's name is used once"
            )


class PartitionedWriter:
    """The writers of several partitions (:class:`TableWriter`), which are flushed and closed
    together.

    Args:
        partitions: The topic and number of the partitions to open at once. One that never gets a
            row then also has a closing. Others are opened when they are first used.
        part_bytes: As of :class:`TableWriter`.
    """

    def __init__(
        self,
        directory: Path,
        table: str,
        writer: str,
        partitions: Iterable[tuple[str, int]] = (),
        part_bytes: int = PART_BYTES,
    ) -> None:
        self._directory = directory
        self._table = table
        self._writer = writer
        self._part_bytes = part_bytes
        self._writers: dict[tuple[str, int], TableWriter] = {}
        self._columns: list[tuple[str, Columns]] = []
        self._interval = _Interval(SECONDS_MAX)
        for topic, partition in partitions:
            self.partition(topic, partition)

    def partition(self, topic: str, partition: int) -> TableWriter:
        """Return the writer of one partition, which is opened at the first call."""
        key = (topic, partition)
        if key not in self._writers:
            self._writers[key] = TableWriter(
                self._directory,
                self._table,
                self._writer,
                partition=key,
                part_bytes=self._part_bytes,
                closing=False,
            )
        return self._writers[key]

    def columns(self, topic: str, partitions: int, constants: Mapping[str, object]) -> Columns:
        """Return the rows in memory for the first ``partitions`` partitions of a topic, and open
        their writers. ``constants`` has the values that are the same in all of these rows, by
        column, besides the topic."""
        for partition in range(partitions):
            self.partition(topic, partition)
        made = Columns(self._table, {"topic": topic, **constants})
        self._columns.append((topic, made))
        return made

    def flush_due(self, now: float) -> None:
        """Flush all writers as :meth:`TableWriter.flush_due`. Also flush them if there are
        :data:`ROWS_MAX` rows in columns, whatever their age."""
        rows = sum(len(columns) for _, columns in self._columns)
        if self._interval.is_over(now) or rows >= ROWS_MAX:
            self.flush()

    def flush(self) -> None:
        """Flush all writers as :meth:`TableWriter.flush`."""
        self._gather()
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Close all writers and write one file of their closings. If some fail, the others are
        still closed, with closings, and then the first failure is raised.

        Raises HistoryError, and closes none, for columns that do not fit the table's schema,
        because they may belong to any partition.
        """
        self._gather()
        failures = []
        closings = []
        for writer in self._writers.values():
            try:
                writer.close()
                closings.append(writer.closing)
            except HistoryError as failure:
                failures.append(failure)
        stem = FileStem(table="closings", writer=f"{self._table}-{self._writer}")
        _write_closings(self._directory, stem, closings)
        if failures:
            raise failures[0]

    def _gather(self) -> None:
        for topic, columns in self._columns:
            for partition, batch in columns.take().items():
                self.partition(topic, partition).extend(batch)


class _Interval:
    """A timer for the time between two events, in seconds of any monotonic clock."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: float | None = None

    def is_over(self, now: float) -> bool:
        """Return whether the time is over. If so, start it again."""
        if self._began is not None and now - self._began < self._seconds:
            return False
        self._began = now
        return True


def _closings(stem: FileStem) -> FileStem:
    """Return the stem of a writer's file of closings."""
    where = "".join(f"-{field}" for field in stem.partition or ())
    return FileStem(table="closings", writer=f"{stem.table}-{stem.writer}{where}")


def _write_closings(directory: Path, stem: FileStem, rows: Sequence[Row]) -> None:
    if rows:
        batch = _batch(rows, TABLES["closings"], stem)
        table = pa.Table.from_batches([batch])
        _write_aside(
            directory / stem.closed,
            lambda aside: pq.write_table(table, aside, write_page_checksum=True),
        )


def _digest(closed: Path) -> str:
    try:
        return storage.digest(closed)
    except OSError as error:
        raise WriteFailed(closed, error) from error


def _batch(rows: Sequence[Row], schema: pa.Schema, stem: FileStem) -> pa.RecordBatch:
    """Return a batch of rows with this schema, which has no dictionaries."""
    try:
        columns = zip(*rows, strict=True)
        arrays = [array(column, field) for column, field in zip(columns, schema, strict=True)]
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise HistoryError(f"a row of {stem} does not fit the table's schema: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _coalesced(parts: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the parts' rows in order, in tables of about :data:`MERGED_ROW_GROUP` rows."""
    pending: list[pa.RecordBatch] = []
    for part in parts:
        batches, _ = stream.read_batches(part)
        pending += batches
        if sum(map(len, pending)) >= MERGED_ROW_GROUP:
            yield _encoded(pending, schema)
            pending = []
    if pending:
        yield _encoded(pending, schema)


def _encoded(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    table = pa.Table.from_batches(batches).combine_chunks()
    columns = [
        column.dictionary_encode() if pa.types.is_dictionary(field.type) else column
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _write_aside(path: Path, write: Callable[[Path], None]) -> None:
    try:
        with written_aside(path) as aside:
            write(aside)
    except OSError as error:
        raise WriteFailed(path, error) from error
