"""The writer of a table. Whatever ends the process, flushed rows stay readable.

Rows gather in memory, one by one or in columns (``history.columns``), and are flushed, one batch at
a time, to the end of a part (``history.storage``: an incomplete batch there does not count). A file
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
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.history import storage
from ackproof.history.columns import Columns, array
from ackproof.history.errors import HistoryError, WriteFailed
from ackproof.history.names import FileStem
from ackproof.history.schema import TABLES, decoded
from ackproof.history.storage import written_aside

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
            self._part_size = storage.append_batches(self._parts[-1], self._part_size, batch)
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
        batches, _ = storage.read_batches(part)
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
