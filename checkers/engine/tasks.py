"""The tasks of a check. Each reconciles some partitions, one batch at a time. A large partition is
a batch of its own, so that memory grows with the largest partition and not with the campaign.

The rows of anomalies go into a file of the task, batch by batch. They never pass through the JVM
and never become Python objects. The result that a task returns grows only with the number of its
partitions.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import pyarrow as pa

from ackproof.checkers.engine.reconcile import reconcile
from ackproof.checkers.engine.results import FOUND, PartitionTotals, Totals
from ackproof.checkers.engine.work_items import Key, WorkItem
from ackproof.history import storage
from ackproof.history.storage import AnyPath, each, located, size, whole

ITEM_BYTES = 100_000
"""The fixed cost of a partition, expressed as the time for reading so many bytes."""


BATCH_BYTES = 1_000_000
"""The greatest compressed size of a batch of several partitions. It takes about 30 MB of memory."""

BATCH_MAX = 20
"""The greatest number of partitions in a batch. Larger batches gain nothing, because their data no
longer fits into the processor's caches."""


def grouped(
    items: Sequence[WorkItem], groups: int, smallest: int = 0, largest: float = inf
) -> list[list[Sequence[WorkItem]]]:
    """Divide the items into groups of neighbours of about equal size, and each group into batches.

    A group holds an equal share of all bytes, but at least ``smallest`` and at most ``largest``
    bytes. These figures include the fixed cost of each partition. There are at most ``groups``
    groups, or more if ``largest`` requires it. A partition above ``largest`` is a group of its own,
    or the last one of a group.
    """
    held = bytes_of(items)
    sizes = [ITEM_BYTES + own for own in held]
    share = min(max(sum(sizes) / groups, smallest), largest)
    found: list[list[Sequence[WorkItem]]] = []
    begun, filled = 0, 0
    for place, own in enumerate(sizes, start=1):
        filled += own
        # The comparison is with the sum of all shares so far, so that the next group makes up for
        # what one group lacks or exceeds.
        if filled >= share * (len(found) + 1) or place == len(items):
            found.append(list(_batches(items[begun:place], held[begun:place])))
            begun = place
    return found


def _batches(items: Sequence[WorkItem], sizes: Sequence[int]) -> Iterator[Sequence[WorkItem]]:
    begun, filled = 0, 0
    for place, own in enumerate(sizes):
        filled += own
        if place > begun and (filled > BATCH_BYTES or place - begun == BATCH_MAX):
            yield items[begun:place]
            begun, filled = place, own
    yield items[begun:]


def bytes_of(items: Sequence[WorkItem]) -> list[int]:
    """Return the size of the files of each item in bytes, compressed as they are."""
    stored = any("://" in file for item in items[:1] for file in _files(item))
    return each(_bytes, items, stored=stored)


def _bytes(item: WorkItem) -> int:
    return sum(map(_size, _files(item)))


def _files(item: WorkItem) -> Iterator[str]:
    yield from item.sends
    yield from item.log
    for consumer in item.consumers:
        yield from consumer.polls


def _size(file: str) -> int:
    """Return the size of a file, or 0 if it is missing or cannot be accessed. The task that reads
    the file reports the error."""
    try:
        return size(located(file))
    except OSError:
        return 0


# --- task -----------------------------------------------------------------------------------------


_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
ROWS_AT_ONCE = 10_000
"""The number of rows that a task holds back, unless one rule finds more at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The work of one task.

    Attributes:
        batches: The batches to reconcile, in this order.
        rows: The file for the anomalies (FOUND, as an Arrow stream), in an existing directory.
    """

    batches: Sequence[Sequence[WorkItem]]
    rows: str


def carry_out(task: Task) -> list[tuple[Key, PartitionTotals]]:
    """Reconcile the partitions of a task and return the totals of each. Running a task twice leaves
    the same file."""
    with written(located(task.rows)) as rows:
        return [
            (item.key, totals)
            for items in task.batches
            for item, totals in zip(items, reconcile(items, rows.write), strict=True)
        ]


def carry_out_here(items: Sequence[WorkItem], rows: AnyPath) -> Totals:
    """Reconcile all items as one batch in this process, and write their rows into a new directory.
    This is meant for items that have next to no files. Raises OSError."""
    rows.mkdir(parents=True)
    found = carry_out(Task(batches=[items], rows=str(rows / "0.arrows")))
    return Totals(partitions=dict(found), rows=(rows,))


def rows_of(directory: AnyPath) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the tasks of a job wrote, in the order of the names of their files.
    Raises FileNotFoundError if the files are gone, because the counts would then have no rows."""
    files = storage.matching(directory, "*.arrows")
    if not files:
        raise FileNotFoundError(
            f"{directory}: the rows of the anomalies were removed in the meantime"
        )
    for path in files:
        with storage.streamed(path) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


class Rows:
    """The rows of a task on their way into its file. They are written in large batches, because
    each batch costs the reader, and the Parquet file that it becomes a row group of, as much as a
    thousand rows."""

    def __init__(self, writer: pa.ipc.RecordBatchStreamWriter) -> None:
        self._writer = writer
        self._held: list[pa.Table] = []
        self._count = 0

    def write(self, found: pa.Table) -> None:
        """Add more rows (FOUND). Raises OSError."""
        self._held.append(found)
        self._count += len(found)
        if self._count >= ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        """Write the rows that are held back. Raises OSError."""
        if self._count:
            held = pa.concat_tables(self._held)
            # Large sets of rows are not copied.
            small = self._count < 2 * ROWS_AT_ONCE
            self._writer.write_table(held.combine_chunks() if small else held)
        self._held, self._count = [], 0


@contextmanager
def written(path: AnyPath) -> Iterator[Rows]:
    """Open the file for a task's rows, which appears whole or not at all. Raises OSError."""
    with (
        whole(path) as sink,
        pa.ipc.new_stream(sink, FOUND, options=_OPTIONS) as writer,
    ):
        rows = Rows(writer)
        yield rows
        rows.flush()
