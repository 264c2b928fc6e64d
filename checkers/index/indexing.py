"""Construction of partition histories from the tables ``sends`` and ``log``.

Small partitions are indexed together as one table. The fixed cost of an operation on a column is
then paid once and not for each of thousands of partitions. The cells of a partition are numbered
after those of the one before, so that no two partitions share a record. The results for its records
and its log follow those of the one before. At the end the arrays are divided: each partition gets
its part of them, and counts records, cells and log rows from 0. A single partition is handled in
the same way.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array, codes_of, numbers_of
from ackproof.checkers.context.fault_windows import NO_FAULTS, FaultWindows
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.retention import RetentionEvidence
from ackproof.checkers.context.timeline import UNSEEN, PartitionTimeline
from ackproof.checkers.index.partition_history import (
    Fate,
    PartitionHistory,
    first_positions,
    part_by_part,
    record_numbers,
)
from ackproof.history.names import SendType

_IDENTITY = ["cell", "producer", "sequence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unindexed:
    """The tables of one partition.

    Attributes:
        sends, log: The rows, with SEND_COLUMNS and LOG_COLUMNS.
        last_recorded: The last sequence number that each crashed producer recorded for this
            partition, by cell and producer number.
        cell, topic, partition, read, sends_whole, deleted_before, retention, faults, timeline: As
            in :class:`checkers.index.partition_history.PartitionHistory`.
    """

    cell: str
    topic: str
    partition: int
    sends: pa.Table
    log: pa.Table
    read: FinalRead
    sends_whole: bool = True
    last_recorded: Mapping[tuple[str, int], int] = field(default_factory=dict)
    deleted_before: int = 0
    retention: RetentionEvidence | None = None
    faults: FaultWindows = NO_FAULTS
    timeline: PartitionTimeline = UNSEEN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Indexed:
    """Several indexed partitions, one after the other, by the attribute names of
    :class:`PartitionHistory`.

    Attributes:
        by_record, log: Arrays. Numbers in them count over all partitions.
        cell_names: The cell names of each partition.
        begun: The time of the first send to each partition.
        cells_from, records_from, log_from: The place where each partition begins, and the end of
            the last one.
    """

    by_record: Mapping[str, Array]
    log: Mapping[str, Array]
    cell_names: Sequence[Sequence[str]]
    begun: Sequence[int]
    cells_from: Sequence[int]
    records_from: Sequence[int]
    log_from: Sequence[int]

    def cut(self, place: int, one: Unindexed) -> PartitionHistory:
        """Return the history of the partition at this place."""
        first, last = self.records_from[place : place + 2]
        top, bottom = self.log_from[place : place + 2]
        arrays: dict[str, Any] = {name: of[first:last] for name, of in self.by_record.items()}
        arrays |= {name: of[top:bottom] for name, of in self.log.items()}
        arrays["cell_of"] = _from(self.cells_from[place], arrays["cell_of"])
        arrays["first"] = _from(top, arrays["first"])
        arrays["log_record"] = _from(first, arrays["log_record"])
        return PartitionHistory(
            cell=one.cell,
            topic=one.topic,
            partition=one.partition,
            read=one.read,
            sends_whole=one.sends_whole,
            faults=one.faults,
            cell_names=tuple(self.cell_names[place]),
            begun=self.begun[place],
            deleted_before=one.deleted_before,
            retention=one.retention,
            timeline=one.timeline,
            crashed=frozenset(number for _, number in one.last_recorded),
            **arrays,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbered:
    """The names in the rows of all partitions.

    Attributes:
        records: The record number of each row.
        identity: The cell, producer and sequence number by record number.
        records_from, cells_from, cell_names: As in :class:`_Indexed`.
    """

    records: Array
    identity: Mapping[str, Array]
    records_from: Sequence[int]
    cells_from: Sequence[int]
    cell_names: Sequence[Sequence[str]]


def index(some: Iterable[Unindexed]) -> list[PartitionHistory]:
    """Return the histories of some partitions, at least one, whose tables have the same types.
    Tables without other references are freed column by column on the way, because they are a third
    of the memory that indexing takes."""
    left: list[Unindexed] = []
    sends: list[pa.Table] = []
    log: list[pa.Table] = []
    for one in some:
        sends.append(one.sends)
        log.append(_in_offset_order(one.log))
        left.append(replace(one, sends=_NO_TABLE, log=_NO_TABLE))
    del one
    indexed = _indexed(left, sends, log)
    return [indexed.cut(place, one) for place, one in enumerate(left)]


_NO_TABLE = pa.table({})


def _indexed(
    some: Sequence[Unindexed], sends_of: list[pa.Table], log_of: list[pa.Table]
) -> _Indexed:
    """Index the partitions. Their tables are removed from the lists ``sends_of`` and ``log_of``."""
    sent_from = _begins(map(len, sends_of))
    log_from = _begins(map(len, log_of))
    sends, log = (pa.concat_tables(tables) for tables in (sends_of, log_of))
    sends_of.clear()
    log_of.clear()
    ours = _where(_named(log))
    named = log if isinstance(ours, slice) else log.filter(pa.array(ours))
    named_from = _left(log_from, ours)
    numbered = _numbered(sends, named, (sent_from, named_from))
    sends, log = sends.drop_columns(_IDENTITY), log.drop_columns(_IDENTITY)
    del named
    count = numbered.records_from[-1]
    log_record = np.full(len(log), NONE, dtype=np.int64)
    log_record[ours] = numbered.records[len(sends) :]
    log_offset = numbers_of(log["offset"])
    new = _where(_without_repeats(log_offset, log_record, log_from))
    log_record = log_record[new]
    times = numbers_of(sends["time"])
    return _Indexed(
        by_record={
            **numbered.identity,
            **_fates(sends, times, numbered.records[: len(sends)], count),
            "untold": _untold(some, numbered),
            "first": first_positions(log_record, count),
        },
        log={
            "log_offset": log_offset[new],
            "log_epoch": numbers_of(log["leader_epoch"])[new],
            "log_record": log_record,
        },
        cell_names=numbered.cell_names,
        begun=[int(times[a:b].min()) if a < b else NONE for a, b in pairwise(sent_from)],
        cells_from=numbered.cells_from,
        records_from=numbered.records_from,
        log_from=_left(log_from, new),
    )


def _numbered(
    sends: pa.Table, named: pa.Table, begins: tuple[Sequence[int], Sequence[int]]
) -> _Numbered:
    """Number the records of rows of ``sends`` and of those log rows that name a record. For each of
    the two tables, ``begins`` has the place where each partition begins and the end of the last
    one."""
    tables = sends, named
    cells, cells_from, cell_names = _cells(
        [(table["cell"], begin) for table, begin in zip(tables, begins, strict=True)]
    )
    producers = np.concatenate([table["producer"].to_numpy() for table in tables])
    sequences = np.concatenate([numbers_of(table["sequence"]) for table in tables])
    records, rows = record_numbers(cells, producers, sequences)
    records, rows, records_from = part_by_part(records, rows, begins)
    by_row = ("cell_of", cells), ("producer", producers), ("sequence", sequences)
    return _Numbered(
        records=records,
        identity={name: of[rows].astype(np.int64, copy=False) for name, of in by_row},
        records_from=records_from,
        cells_from=cells_from,
        cell_names=cell_names,
    )


def _begins(lengths: Iterable[int]) -> list[int]:
    """Return the place where each part begins, and the end of the last one."""
    return list(accumulate(lengths, initial=0))


def _left(begins: Sequence[int], kept: Array | slice) -> list[int]:
    """Return the place where each part begins if only these rows are kept."""
    if isinstance(kept, slice):
        return list(begins)
    left: list[int] = np.append(0, np.cumsum(kept))[begins].tolist()
    return left


def _from(begin: int, numbers: Array) -> Array:
    """Return numbers that count from ``begin`` on. Nothing is copied if ``begin`` is 0."""
    return np.where(numbers == NONE, NONE, numbers - begin) if begin else numbers


def _cells(
    columns: Sequence[tuple[pa.ChunkedArray, Sequence[int]]],
) -> tuple[Array, list[int], list[list[str]]]:
    """Return the cell numbers of all rows, column by column, the first number of each partition,
    and the cell names of each partition. Each column comes with the places where the partitions
    begin."""
    names: list[dict[str, int]] = [{} for _ in columns[0][1][1:]]
    codes = [
        codes_of(column.slice(begin, end - begin), known)
        for column, begins in columns
        for (begin, end), known in zip(pairwise(begins), names, strict=True)
    ]
    cells_from = _begins(map(len, names))
    firsts = cells_from[:-1] * len(columns)
    numbered = (of + first if first else of for of, first in zip(codes, firsts, strict=True))
    return np.concatenate(list(numbered)), cells_from, [list(known) for known in names]


def _untold(some: Sequence[Unindexed], numbered: _Numbered) -> Array:
    records_from = numbered.records_from
    untold = np.zeros(records_from[-1], dtype=bool)
    for place, one in enumerate(some):
        own = slice(*records_from[place : place + 2])
        cell_of, producer, sequence = (of[own] for of in numbered.identity.values())
        names = numbered.cell_names[place]
        for (name, number), last in one.last_recorded.items():
            if name in names:
                cell = numbered.cells_from[place] + names.index(name)
                untold[own] |= (cell_of == cell) & (producer == number) & (sequence > last)
    return untold


def _fates(sends: pa.Table, times: Array, sent: Array, count: int) -> Mapping[str, Array]:
    types: dict[str, int] = {}
    codes = codes_of(sends["type"], types)
    invoked, acks, failed = (
        codes == types.get(kind, NONE) for kind in (SendType.INVOKE, SendType.OK, SendType.FAIL)
    )
    # If rows contradict each other, those of an ack prevail.
    of_invoke, of_ack, of_other = (
        np.flatnonzero(rows) for rows in (invoked, acks, ~invoked & ~acks)
    )
    asks, acked, others = sent[of_invoke], sent[of_ack], sent[of_other]
    fate = np.full(count, Fate.NEVER_SENT, dtype=np.int8)
    fate[sent] = Fate.INDETERMINATE
    fate[sent[failed]] = Fate.FAILED
    fate[acked] = Fate.ACKED
    asked, answered, due = np.full((3, count), NONE, dtype=np.int64)
    asked[asks] = times[of_invoke]
    due[asks] = numbers_of(sends["due"])[of_invoke]
    answered[others] = times[of_other]
    answered[acked] = times[of_ack]
    # The time is that of the ack, or of the invoke if the record was not acked, or of the
    # completion if it was never invoked.
    time = np.where((fate != Fate.ACKED) & (asked != NONE), asked, answered)
    acked_offset = np.full(count, NONE, dtype=np.int64)
    acked_offset[acked] = numbers_of(sends["offset"])[of_ack]
    return {
        "fate": fate,
        "acked_offset": acked_offset,
        "time": time,
        "asked": asked,
        "answered": answered,
        "due": due,
        "contradicted": _contradicted(asks, acked, others, count) | _too_early(asked, answered),
    }


def _contradicted(asks: Array, acked: Array, others: Array, count: int) -> Array:
    """Return which records were invoked or completed twice, or completed without an invoke."""
    invoked, completed = np.zeros((2, count), dtype=bool)
    invoked[asks] = completed[acked] = completed[others] = True
    # If there are as many records as events, no record had two events.
    if len(asks) == np.count_nonzero(invoked) and (
        len(acked) + len(others) == np.count_nonzero(completed)
    ):
        never: Array = completed & ~invoked
        return never
    invokes = np.bincount(asks, minlength=count)
    completions = np.bincount(acked, minlength=count) + np.bincount(others, minlength=count)
    return (invokes > 1) | (completions > 1) | (completions > invokes)


def _too_early(asked: Array, answered: Array) -> Array:
    """Return which records were completed before they were invoked, both by one client's clock."""
    early: Array = (asked != NONE) & (answered != NONE) & (answered < asked)
    return early


def _where(which: Array) -> Array | slice:
    """Return an index that selects these rows. If it selects all of them, as usual, nothing is
    copied."""
    return slice(None) if which.all() else which


def _named(log: pa.Table) -> Array:
    """Return which rows of a log name a record."""
    named = np.ones(len(log), dtype=bool)
    for column in ("cell", "producer", "sequence"):
        if log[column].null_count:
            named &= log[column].is_valid().to_numpy()
    return named


def _in_offset_order(log: pa.Table) -> pa.Table:
    offsets = numbers_of(log["offset"])
    if np.all(offsets[1:] >= offsets[:-1]):
        return log
    return log.take(pa.array(np.argsort(offsets, kind="stable")))


def _without_repeats(offsets: Array, records: Array, begins: Sequence[int]) -> Array:
    """Return which rows count. A resumed final read may have the same record at the same offset
    twice."""
    new = np.ones(len(offsets), dtype=bool)
    new[1:] = (offsets[1:] != offsets[:-1]) | (records[1:] != records[:-1])
    # A log may begin with an unnamed payload at the offset at which the log before ends with one.
    new[[begin for begin in begins if begin < len(new)]] = True
    return new
