"""What a task of Spark's does: reconcile some partitions, one after the other.

It holds one partition at a time: memory grows with the largest, not with the campaign. The rows of
anomalies go into a file of its own, batch by batch, as they are: they never pass through the JVM,
nor become Python's objects. What a task hands back grows with the partitions alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from checkers.reconcile import RESULTS, reconcile
from checkers.work_item import WorkItem
from history.aside import written_aside

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``items``: to reconcile, in this order; ``rows``: the file for their anomalies, RESULTS as an
    Arrow stream, in a directory that is there."""

    items: Sequence[WorkItem]
    rows: str


def carry_out(task: Task) -> list[dict[str, Any]]:
    """The metrics of each partition, rows of RESULTS. Carried out twice it leaves the same."""
    metrics = []
    with written(Path(task.rows)) as writer:
        for item in task.items:
            for table in reconcile(item):
                if table["anomaly"].null_count:
                    metrics += table.to_pylist()
                else:
                    writer.write_table(table)
    return metrics


def rows_of(directory: Path) -> Iterator[pa.RecordBatch]:
    """What the tasks of a job left in its directory, in the order of the files' names."""
    for path in sorted(directory.iterdir()):
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            yield from reader


@contextmanager
def written(path: Path) -> Iterator[pa.ipc.RecordBatchStreamWriter]:
    """The file for a task's rows (RESULTS), there as a whole or not at all. Raises OSError."""
    with (
        written_aside(path) as aside,
        pa.OSFile(str(aside), "wb") as sink,
        pa.ipc.new_stream(sink, RESULTS, options=_OPTIONS) as writer,
    ):
        yield writer
