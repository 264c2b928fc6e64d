"""What a task of Spark's does: reconcile some partitions, a handful at a time.

It holds one that is large alone: memory grows with the largest, not with the campaign. The rows of
anomalies go into a file of its own, batch by batch, as they are: they never pass through the JVM,
nor become Python's objects. What a task hands back grows with the partitions alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from ackproof.checkers.reconciling.reconcile import reconcile
from ackproof.checkers.reconciling.results import FOUND, PartitionTotals, Totals
from ackproof.checkers.reconciling.work_item import Key, WorkItem
from ackproof.history import storage
from ackproof.history.storage import AnyPath, located, whole

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
ROWS_AT_ONCE = 10_000
"""That a task holds back, unless a rule finds more at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``handfuls``: to reconcile, in this order, those of one together; ``rows``: the file for
    their anomalies, FOUND as an Arrow stream, in a directory that is there."""

    handfuls: Sequence[Sequence[WorkItem]]
    rows: str


def carry_out(task: Task) -> list[tuple[Key, PartitionTotals]]:
    """Return the totals of each partition. A task that is carried out twice leaves the same."""
    with written(located(task.rows)) as rows:
        return [
            (item.key, totals)
            for items in task.handfuls
            for item, totals in zip(items, reconcile(items, rows.write), strict=True)
        ]


def carry_out_here(items: Sequence[WorkItem], rows: AnyPath) -> Totals:
    """Reconcile all of them at once, in this process, with their rows in a directory that is made:
    for those of which next to nothing is there to be read. Raises OSError."""
    rows.mkdir(parents=True)
    found = carry_out(Task(handfuls=[items], rows=str(rows / "0.arrows")))
    return Totals(partitions=dict(found), rows=(rows,))


def rows_of(directory: AnyPath) -> Iterator[pa.RecordBatch]:
    """What the tasks of a job left in its directory, in the order of the files' names. Raises
    FileNotFoundError when they are gone: what was counted would have no rows."""
    files = storage.matching(directory, "*.arrows")
    if not files:
        raise FileNotFoundError(f"{directory}: the rows of the anomalies were removed meanwhile")
    for path in files:
        with storage.streamed(path) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


class Rows:
    """The rows of a task on their way into its file, in batches that are not small: each costs its
    reader, and the Parquet file that it becomes a row group of, as much as a thousand rows."""

    def __init__(self, writer: pa.ipc.RecordBatchStreamWriter) -> None:
        self._writer = writer
        self._held: list[pa.Table] = []
        self._count = 0

    def write(self, found: pa.Table) -> None:
        """Some more (FOUND). Raises OSError."""
        self._held.append(found)
        self._count += len(found)
        if self._count >= ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write what is held back. Raises OSError."""
        if self._count:
            held = pa.concat_tables(self._held)
            # Of many rows at once nothing is copied.
            small = self._count < 2 * ROWS_AT_ONCE
            self._writer.write_table(held.combine_chunks() if small else held)
        self._held, self._count = [], 0


@contextmanager
def written(path: AnyPath) -> Iterator[Rows]:
    """The file for a task's rows, there as a whole or not at all. Raises OSError."""
    with (
        whole(path) as sink,
        pa.ipc.new_stream(sink, FOUND, options=_OPTIONS) as writer,
    ):
        rows = Rows(writer)
        yield rows
        rows.flush()
