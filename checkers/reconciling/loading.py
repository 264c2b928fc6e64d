"""The histories of partitions, read of their files and indexed; and what that leaves open."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import numbers_of
from ackproof.checkers.autopsy.copies import LOOKED_FOR_MAX, copies
from ackproof.checkers.cluster.reach import FaultWindows
from ackproof.checkers.partition import columns
from ackproof.checkers.partition.indexes import LOG_COLUMNS, SEND_COLUMNS, PartitionHistory
from ackproof.checkers.partition.indexing import Unindexed, index
from ackproof.checkers.reconciling.doubts import HISTORY, Doubt
from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.history.storage import located


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A partition; ``history``: None where it could not be indexed. To ``doubts`` may be added."""

    item: WorkItem
    history: PartitionHistory | None
    doubts: list[Doubt]


def load(items: Sequence[WorkItem]) -> list[Loaded]:
    """At least one, all in memory at once. What is wrong with one of them is a doubt about that one
    alone."""
    doubts: list[list[Doubt]] = [[] for _ in items]
    histories: Sequence[PartitionHistory | None]
    try:
        indexed = index(_read(*one) for one in zip(items, doubts, strict=True))
        histories = [_looked_at(*one) for one in zip(items, indexed, doubts, strict=True)]
    except Exception as error:  # noqa: BLE001 - whatever it is, other partitions can be judged
        if len(items) > 1:
            return [loaded for item in items for loaded in load([item])]
        doubts[0].append(Doubt(checker=HISTORY, message=f"cannot be indexed: {error!r}"))
        histories = [None]
    return [
        Loaded(item=item, history=history, doubts=mine)
        for item, history, mine in zip(items, histories, doubts, strict=True)
    ]


def _read(item: WorkItem, doubts: list[Doubt]) -> Unindexed:
    problems: list[str] = []
    sends, sends_whole = columns.read("sends", item.sends, SEND_COLUMNS, problems, item.expected)
    log, log_whole = columns.read("log", item.log, LOG_COLUMNS, problems)
    doubts += (Doubt(checker=HISTORY, message=problem) for problem in problems)
    short = incomplete(item, len(log))
    doubts += short
    # A record is lost only if the log is there from end to end: with a file of it gone, every
    # record of that file would be called lost.
    complete = item.read.complete and item.log_whole and log_whole and not short
    return Unindexed(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        sends=sends,
        log=log,
        read=replace(item.read, complete=complete),
        sends_whole=item.sends_whole and sends_whole,
        last_recorded=last_recorded(item.cut),
        deleted_before=item.deleted_before,
        faults=FaultWindows(bounds=tuple(item.fault_bounds), labels=tuple(item.fault_labels)),
        timeline=item.timeline,
    )


def _looked_at(item: WorkItem, history: PartitionHistory, doubts: list[Doubt]) -> PartitionHistory:
    history = replace(
        history,
        transactional=item.transactional,
        visible=_visible(item, history, doubts),
    )
    doubts += contradictions(history.contradictory)
    doubts += unread(len(history.unread))
    doubts += contested(history.contested)
    if unknown := history.lost_or_deleted:
        message = f"{unknown} records without an offset were lost, or deleted by order"
        doubts.append(Doubt(checker=HISTORY, message=message))
    return without_a_short_read(item, history, doubts)


def _visible(item: WorkItem, history: PartitionHistory, doubts: list[Doubt]) -> np.ndarray | None:
    """By position in the log: whether it is committed; None where that is not asked."""
    if item.committed is None:
        return None
    problems: list[str] = []
    rows, _ = columns.read("committed", item.committed, ("offset",), problems)
    doubts += (Doubt(checker=HISTORY, message=problem) for problem in problems)
    return np.isin(history.log_offset, numbers_of(rows["offset"]))


def contradictions(records: int) -> list[Doubt]:
    """What so many of them leave open."""
    message = f"{records} records with contradictory events"
    return [Doubt(checker=HISTORY, message=message)] if records else []


def unread(records: int) -> list[Doubt]:
    """Return what so many records leave open that were acked after the final read had begun."""
    message = f"{records} records were acked after the final read had begun, and are not in it"
    return [Doubt(checker=HISTORY, message=message)] if records else []


def contested(records: int) -> list[Doubt]:
    """Return what so many records leave open that the final log has at the offset of another."""
    message = f"{records} records are in the final log at an offset at which another one is"
    return [Doubt(checker=HISTORY, message=message)] if records else []


def without_a_short_read(
    item: WorkItem, history: PartitionHistory, doubts: list[Doubt]
) -> PartitionHistory:
    """Return the history with an incomplete final read if the raw logs contradict its end.

    A record that was acked behind that end, and that the logs of all replicas in the ISR hold, is
    not lost: the final read did not get to it. Two witnesses contradict each other, and nothing is
    concluded from what the final read lacks.
    """
    end = history.read.end
    acked = history.acked_offset[history.lost]
    behind = history.lost[acked >= end] if end is not None and item.copies else history.lost[:0]
    if not len(behind):
        return history
    last = behind[np.argsort(history.acked_offset[behind], kind="stable")][-LOOKED_FOR_MAX:]
    wanted = {int(history.acked_offset[one]): history.identity(one) for one in last.tolist()}
    logs = list(zip(item.brokers, map(located, item.copies), strict=True))
    held = copies(logs, wanted, {}) or {}
    kept = [offset for offset, brokers in held.items() if len(brokers) == len(logs)]
    if not kept:
        return history
    names = ", ".join(f"broker-{broker}" for broker in item.brokers)
    message = (
        f"the final read ended at offset {end}, and the logs of {names} hold {len(kept)} acked "
        f"records from offset {min(kept)} to {max(kept)}: the two contradict each other"
    )
    doubts.append(Doubt(checker=HISTORY, message=message))
    return replace(history, read=replace(history.read, complete=False))


def incomplete(item: WorkItem, rows: int) -> list[Doubt]:
    """What it leaves open where the files of the final log do not hold what it got."""
    message = f"the final read got {item.records} records, its files hold {rows}"
    told = item.read.complete and item.records != rows
    return [Doubt(checker=HISTORY, message=message)] if told else []


def last_recorded(files: Sequence[str]) -> dict[tuple[str, int], int]:
    """The highest sequence number of each producer, by cell and number, in files of ``sends`` that
    can be read."""
    if not files:
        return {}
    rows, _ = columns.read("sends", files, ("cell", "producer", "sequence"), [])
    # Each file has a dictionary of its own, which cannot be grouped by.
    plain = rows.set_column(0, "cell", rows["cell"].cast(pa.string()))
    last = plain.group_by(["cell", "producer"]).aggregate([("sequence", "max")]).to_pylist()
    return {(row["cell"], row["producer"]): row["sequence_max"] for row in last}
