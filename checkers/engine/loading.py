"""Histories of partitions, read from their files and indexed, and the check errors of doing so."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import numbers_of
from ackproof.checkers.checks.compaction import with_compaction
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.engine.results import HISTORY, CheckError
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.index import columns
from ackproof.checkers.index.indexing import Unindexed, index
from ackproof.checkers.index.partition_history import LOG_COLUMNS, SEND_COLUMNS, PartitionHistory
from ackproof.checkers.root_cause.copies import LOOKED_FOR_MAX, copies
from ackproof.history.storage import located


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One partition that was read. ``history`` is None if the partition could not be indexed."""

    item: WorkItem
    history: PartitionHistory | None
    check_errors: tuple[CheckError, ...]


def load(items: Sequence[WorkItem]) -> list[Loaded]:
    """Load at least one partition; all are in memory at once. An error in one of them becomes a
    check error of that partition alone."""
    try:
        reads = [_read(item) for item in items]
        check_errors = [of_files for _, of_files in reads]
        tables = deque(unindexed for unindexed, _ in reads)
        del reads
        indexed = index(_let_go(tables))
        return [
            _loaded(item, history, of_files)
            for item, history, of_files in zip(items, indexed, check_errors, strict=True)
        ]
    except Exception as error:  # noqa: BLE001 - whatever it is, other partitions can be judged
        if len(items) > 1:
            return [loaded for item in items for loaded in load([item])]
        check_error = CheckError(checker=HISTORY, message=f"cannot be indexed: {error!r}")
        return [Loaded(item=items[0], history=None, check_errors=(check_error,))]


def _let_go(tables: deque[Unindexed]) -> Iterator[Unindexed]:
    """Yield each table without keeping it, so that indexing can free it."""
    while tables:
        yield tables.popleft()


def _read(item: WorkItem) -> tuple[Unindexed, tuple[CheckError, ...]]:
    sends, of_sends = columns.read("sends", item.sends, SEND_COLUMNS, item.expected)
    log, of_log = columns.read("log", item.log, LOG_COLUMNS)
    short = incomplete(item, len(log))
    # A record is lost only if the log is complete. If one of its files were missing, every record
    # of that file would be called lost.
    complete = item.read.complete and item.log_whole and not of_log and not short
    unindexed = Unindexed(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        sends=sends,
        log=log,
        read=replace(item.read, complete=complete),
        sends_whole=item.sends_whole and not of_sends,
        last_recorded=last_recorded(item.cut),
        deleted_before=item.deleted_before,
        retention=item.retention,
        faults=FaultWindows(bounds=tuple(item.fault_bounds), labels=tuple(item.fault_labels)),
        timeline=item.timeline,
    )
    return unindexed, (*_of_history(*of_sends, *of_log), *short)


def _of_history(*messages: str) -> tuple[CheckError, ...]:
    return tuple(CheckError(checker=HISTORY, message=message) for message in messages)


def _loaded(item: WorkItem, history: PartitionHistory, of_files: tuple[CheckError, ...]) -> Loaded:
    visible, of_visible = _visible(item, history)
    history = replace(history, transactional=item.transactional, visible=visible)
    of_compaction: list[str] = []
    if item.compaction is not None:
        history, of_compaction = with_compaction(
            history, item.compaction, item.sends, item.expected
        )
    unknown = history.lost_or_deleted
    message = (
        f"{unknown} records without an offset are lost, or were deleted by "
        f"{'retention' if item.retention else 'a DeleteRecords request'}"
    )
    or_deleted = _of_history(message) if unknown else ()
    history, of_read = without_a_short_read(item, history)
    check_errors = (
        *of_files,
        *of_visible,
        *_of_history(*of_compaction),
        *contradictions(history.contradictory),
        *unread(len(history.unread)),
        *contested(history.contested),
        *or_deleted,
        *of_read,
    )
    return Loaded(item=item, history=history, check_errors=check_errors)


def _visible(
    item: WorkItem, history: PartitionHistory
) -> tuple[np.ndarray | None, tuple[CheckError, ...]]:
    """Return whether each row of the log is committed, or None if its consumers do not read
    committed records only."""
    if item.committed is None:
        return None, ()
    rows, problems = columns.read("committed", item.committed, ("offset",))
    return np.isin(history.log_offset, numbers_of(rows["offset"])), _of_history(*problems)


def contradictions(records: int) -> tuple[CheckError, ...]:
    """Return the check error for records with contradictory events."""
    message = f"{records} records with contradictory events"
    return _of_history(message) if records else ()


def unread(records: int) -> tuple[CheckError, ...]:
    """Return the check error for records that were acked after the final read had begun and are not
    in it."""
    message = f"{records} records were acked after the final read had begun, and are not in it"
    return _of_history(message) if records else ()


def contested(records: int) -> tuple[CheckError, ...]:
    """Return the check error for records that share an offset of the final log with another
    record."""
    message = f"{records} records are in the final log at an offset that holds another record"
    return _of_history(message) if records else ()


def without_a_short_read(
    item: WorkItem, history: PartitionHistory
) -> tuple[PartitionHistory, tuple[CheckError, ...]]:
    """Return the history, with an incomplete final read and a check error if the raw logs
    contradict its end.

    A record that was acked beyond that end and that the logs of all in-sync replicas hold is not
    lost: the final read did not reach it. The final read and the raw logs then contradict each
    other, and nothing is concluded from what the final read lacks.
    """
    end = history.read.end
    acked = history.acked_offset[history.lost]
    behind = history.lost[acked >= end] if end is not None and item.copies else history.lost[:0]
    if not len(behind):
        return history, ()
    last = behind[np.argsort(history.acked_offset[behind], kind="stable")][-LOOKED_FOR_MAX:]
    wanted = {int(history.acked_offset[one]): history.identity(one) for one in last.tolist()}
    logs = list(zip(item.brokers, map(located, item.copies), strict=True))
    held = copies(logs, wanted, {}) or {}
    kept = [offset for offset, brokers in held.items() if len(brokers) == len(logs)]
    if not kept:
        return history, ()
    names = ", ".join(f"broker-{broker}" for broker in item.brokers)
    message = (
        f"the final read ended at offset {end}, but the logs of {names} hold {len(kept)} "
        f"acked records from offset {min(kept)} to {max(kept)}: the final read and the logs "
        "contradict each other"
    )
    return replace(history, read=replace(history.read, complete=False)), _of_history(message)


def incomplete(item: WorkItem, rows: int) -> tuple[CheckError, ...]:
    """Return the check error for files of the final log that do not hold as many records as the
    read got."""
    message = f"the final read returned {item.records} records, but its files hold {rows}"
    return _of_history(message) if item.read.complete and item.records != rows else ()


def last_recorded(files: Sequence[str]) -> dict[tuple[str, int], int]:
    """Return the highest sequence number of each producer, by cell and number, in those of the
    ``sends`` files that can be read."""
    if not files:
        return {}
    rows, _ = columns.read("sends", files, ("cell", "producer", "sequence"))
    # Each file has a dictionary of its own, by which rows cannot be grouped.
    plain = rows.set_column(0, "cell", rows["cell"].cast(pa.string()))
    last = plain.group_by(["cell", "producer"]).aggregate([("sequence", "max")]).to_pylist()
    return {(row["cell"], row["producer"]): row["sequence_max"] for row in last}
