"""What a task of Spark's does: reconcile some partitions, a handful at a time; and which partitions
a task has.

It holds one that is large alone: memory grows with the largest, not with the campaign. The rows of
anomalies go into a file of its own, batch by batch, as they are: they never pass through the JVM,
nor become Python's objects. What a task hands back grows with the partitions alone."""

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
"""What a partition costs whatever it holds: as much as reading so many bytes."""


HANDFUL_BYTES = 1_000_000
"""Compressed, of all partitions of a handful that is of more than one: in memory some 30 MB."""

HANDFUL_MAX = 20
"""Partitions in a handful. More gain nothing: what is kept of each drives the others' out of the
processor's caches."""


def grouped(
    items: Sequence[WorkItem], groups: int, smallest: int = 0, largest: float = inf
) -> list[list[Sequence[WorkItem]]]:
    """Divide items into groups of neighbours with about as many bytes each, and each group into
    handfuls.

    A group holds an equal share of all bytes, but at least ``smallest`` and at most ``largest``
    bytes; in these counts what a partition costs whatever it holds. So there are at most as many
    groups as asked for, or more if the largest bound needs them. A partition of more is a group of
    its own, or the last of one.
    """
    held = bytes_of(items)
    sizes = [ITEM_BYTES + own for own in held]
    share = min(max(sum(sizes) / groups, smallest), largest)
    found: list[list[Sequence[WorkItem]]] = []
    begun, filled = 0, 0
    for place, own in enumerate(sizes, start=1):
        filled += own
        # By what all groups so far should hold: what one lacks or exceeds is the next one's.
        if filled >= share * (len(found) + 1) or place == len(items):
            found.append(list(_handfuls(items[begun:place], held[begun:place])))
            begun = place
    return found


def _handfuls(items: Sequence[WorkItem], sizes: Sequence[int]) -> Iterator[Sequence[WorkItem]]:
    begun, filled = 0, 0
    for place, own in enumerate(sizes):
        filled += own
        if place > begun and (filled > HANDFUL_BYTES or place - begun == HANDFUL_MAX):
            yield items[begun:place]
            begun, filled = place, own
    yield items[begun:]


def bytes_of(items: Sequence[WorkItem]) -> list[int]:
    """What the files of each take, compressed as they are."""
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
    """0 of what is not there, or cannot be looked at: that is told by who reads it."""
    try:
        return size(located(file))
    except OSError:
        return 0


# --- task -----------------------------------------------------------------------------------------


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
