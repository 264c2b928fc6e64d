"""Writing a table so that whatever ends the process, what was flushed stays readable.

Rows gather in memory, one by one or in columns (``history.columns``), and are flushed, a batch at a
time, to the end of a part (``history.storage``: what is cut short there does not count). A file for
every flush would be thousands after a while, and closing would take as long as the run. At close
the parts of one writer become one Parquet file:

1. the parts are copied into a file whose name begins with a dot,
2. which is renamed to the closed name: from here on the parts no longer count,
3. the parts are removed.

A reader that finds the closed file ignores the parts of the same stem (``history.reader``), so
nothing is counted twice or lost wherever this stops. Then the writer says in the table ``closings``
how many rows it wrote, none included, and the digest of its file: a file that is missing later is
missed, and one that was changed is noticed. Pages carry checksums, so that whoever reads a file
without its closing notices, too. Parts carry none.

The caller's loop drives the flushing (:meth:`TableWriter.flush_due`): no thread, no clock in here.
Files are not fsynced: they survive the death of the process, not a power failure of the machine
that runs the clients. A writer belongs to one thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.history import storage
from ackproof.history.columns import Columns, array
from ackproof.history.errors import HistoryError, WriteFailed
from ackproof.history.names import Stem
from ackproof.history.schema import TABLES, decoded
from ackproof.history.storage import written_aside

ROWS_MAX = 100_000
"""Rows in memory before they are flushed, however young they are."""

SECONDS_MAX = 1.0
"""How long a row may wait in memory."""

PART_BYTES = 256 * 1024
"""A part that is so large gets no further batch: where files are copied while they are written, a
part that has grown is copied whole."""

Row = tuple[object, ...]
"""Values in the order of a table's schema, None for null."""

MERGED_ROW_GROUP = 500_000
"""Rows of a row group in a closed file; bounds the memory that merging takes."""


class TableWriter:
    """Appends rows to one table, or to one partition of a partitioned table.

    Args:
        directory: Made when it is not there.
        table: A key of :data:`history.schema.TABLES`.
        writer: Unique name of the writer, ``[a-zA-Z0-9._-]``.
        partition: Topic and partition, for the partitioned tables.
        rows_max: Rows in memory that trigger a flush.
        seconds_max: Age of the oldest unflushed row, in seconds, at which :meth:`flush_due`
            flushes.
        part_bytes: Size of a part, in bytes, from which on another is begun.
        closing: Whether to write its row of ``closings`` when it closes; False where whoever holds
            it does.

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
        self._stem = Stem(table=table, writer=writer, partition=partition)
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
        """Its row of ``closings``: what was written until now, and once it is closed the digest of
        its file."""
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
        """Add a row: its values in the schema's order, None for null."""
        self._rows.append(row)
        if len(self._rows) >= self._rows_max:
            self.flush()

    def extend(self, batch: pa.RecordBatch) -> None:
        """Add rows: a batch of the table's schema, without dictionaries. It stays in memory until
        the next flush, and is written before rows that were appended one by one since the last."""
        self._batches.append(batch)

    def write(self, **columns: object) -> None:
        """Add one row by column names, absent ones null, and flush it: for rare rows that must
        not be lost. Raises ValueError for a column that the table has not."""
        if unknown := columns.keys() - set(self._schema.names):
            raise ValueError(f"table {self._stem.table} has no {', '.join(sorted(unknown))}")
        self.append(tuple(columns.get(name) for name in self._schema.names))
        self.flush()

    def flush_due(self, now: float) -> None:
        """Flush if the last flush is ``seconds_max`` ago; ``now`` in seconds of any clock that
        only goes forward. To be called several times a second."""
        if self._interval.is_over(now):
            self.flush()

    def flush(self) -> None:
        """Write what is in memory. Raises WriteFailed (and keeps the rows)."""
        if self._closed:
            raise HistoryError(f"{self._stem} is closed")
        self._gather()
        while self._batches:
            self._append(self._batches[0])
            del self._batches[0]

    def close(self) -> None:
        """Flush, make one file of the parts, and say how many rows it has. Idempotent. A writer
        without rows leaves its closing alone.

        Raises WriteFailed: the parts flushed until then are what the history consists of."""
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
    """The :class:`TableWriter` of each partition, flushed and closed together.

    Args:
        partitions: Topic and number of those to open at once: one that never gets a row then has
            its closing all the same. Others are opened when they turn up.
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
        """The writer of one partition, opened at first asking."""
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
        """Rows in memory of so many partitions of a topic, which are opened. ``constants``: what is
        the same in all of these rows, by column, besides the topic."""
        for partition in range(partitions):
            self.partition(topic, partition)
        made = Columns(self._table, {"topic": topic, **constants})
        self._columns.append((topic, made))
        return made

    def flush_due(self, now: float) -> None:
        """As :meth:`TableWriter.flush_due`, for all; and if there are :data:`ROWS_MAX` rows in
        columns, however young."""
        rows = sum(len(columns) for _, columns in self._columns)
        if self._interval.is_over(now) or rows >= ROWS_MAX:
            self.flush()

    def flush(self) -> None:
        """As :meth:`TableWriter.flush`, for all."""
        self._gather()
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Close all, and write one file of their closings; when some fail the others are closed
        all the same, with closings, then the first failure is raised.

        Raises HistoryError, and closes none, for columns that do not fit the table's schema: they
        may be of all."""
        self._gather()
        failures = []
        closings = []
        for writer in self._writers.values():
            try:
                writer.close()
                closings.append(writer.closing)
            except HistoryError as failure:
                failures.append(failure)
        stem = Stem(table="closings", writer=f"{self._table}-{self._writer}")
        _write_closings(self._directory, stem, closings)
        if failures:
            raise failures[0]

    def _gather(self) -> None:
        for topic, columns in self._columns:
            for partition, batch in columns.take().items():
                self.partition(topic, partition).extend(batch)


class _Interval:
    """Time that is to pass between two of something, in seconds of any clock that only goes
    forward."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began: float | None = None

    def is_over(self, now: float) -> bool:
        """Whether it has passed, and if so another one begins."""
        if self._began is not None and now - self._began < self._seconds:
            return False
        self._began = now
        return True


def _closings(stem: Stem) -> Stem:
    """Whose closings a writer's are; one file a writer, as any table's."""
    where = "".join(f"-{field}" for field in stem.partition or ())
    return Stem(table="closings", writer=f"{stem.table}-{stem.writer}{where}")


def _write_closings(directory: Path, stem: Stem, rows: Sequence[Row]) -> None:
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


def _batch(rows: Sequence[Row], schema: pa.Schema, stem: Stem) -> pa.RecordBatch:
    """``schema``: without dictionaries."""
    try:
        columns = zip(*rows, strict=True)
        arrays = [array(column, field) for column, field in zip(columns, schema, strict=True)]
    except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
        raise HistoryError(f"a row of {stem} does not fit the table's schema: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _coalesced(parts: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """The parts' rows in order, in tables of about :data:`MERGED_ROW_GROUP` rows."""
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
