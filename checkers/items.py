"""Listing the work: one item for each partition that a run has files of, or should have."""

from collections.abc import Mapping
from pathlib import Path

from checkers.evidence import RunEvidence
from checkers.faults import windows
from checkers.reconcile import WorkItem
from history import reader

TABLES = ("sends", "log")


def work_items(run: RunEvidence) -> list[WorkItem]:
    """The items of one run, by topic and partition.

    Raises DamagedFiles when a file's name does not tell whose it is: then nobody knows which
    partition lacks it.
    """
    files = reader.partitions(run.history, TABLES)
    expected = {
        (row["topic"], partition)
        for row in run.cells.values()
        for partition in range(row["partitions"])
    }
    nothing: Mapping[str, tuple[Path, ...]] = dict.fromkeys(TABLES, ())
    return [_item(run, key, files.get(key, nothing)) for key in sorted(expected | files.keys())]


def _item(
    run: RunEvidence, key: tuple[str, int], files: Mapping[str, tuple[Path, ...]]
) -> WorkItem:
    topic, partition = key
    cell_of = {row["topic"]: cell for cell, row in run.cells.items()}
    read = run.reads.get(key)
    on = windows(run.faults)
    return WorkItem(
        run=run.number,
        cell=cell_of.get(topic, topic),
        topic=topic,
        partition=partition,
        sends=list(map(str, files["sends"])),
        log=list(map(str, files["log"])),
        flushed=run.flushed,
        complete=read is not None and read.read.complete,
        records=read.records if read else None,
        start=read.read.start if read else None,
        end=read.read.end if read else None,
        fault_bounds=list(on.bounds),
        fault_labels=list(on.labels),
    )
