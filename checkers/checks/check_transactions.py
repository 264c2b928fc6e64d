"""The check of transactions, cell by cell, and the counts of transactions.

The history of a cell's transactions is built from the tables of its clients. Rows that cannot be
read become a sentence in ``problems``, and rules that depend on them do not run.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.checks.catalogue import TRANSACTION_CHECKERS
from ackproof.checkers.checks.compaction import (
    compaction_of,
    with_compaction,
    with_shared_outcomes,
)
from ackproof.checkers.checks.rows import ANOMALIES, rows_of_findings
from ackproof.checkers.checks.transaction_history import (
    InputRows,
    LogRows,
    ReadRows,
    SentRows,
    Transaction,
    TransactionalHistory,
    TransactionOutcome,
    TransactionViolation,
    contradictions,
    transactions_of,
)
from ackproof.checkers.checks.transaction_rules import RULES
from ackproof.checkers.context import status
from ackproof.checkers.context.fault_windows import windows
from ackproof.checkers.context.faults import Partition
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.partition_guarantees import transaction_window_of
from ackproof.checkers.context.row_times import Expected
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.validity import ValidityWindow
from ackproof.checkers.index import columns
from ackproof.checkers.index.indexing import Unindexed, index
from ackproof.checkers.index.partition_history import (
    LOG_COLUMNS,
    SEND_COLUMNS,
    Fate,
    PartitionHistory,
)
from ackproof.checkers.verdict import TransactionCounts
from ackproof.history import reader
from ackproof.history.cell import Cell
from ackproof.history.storage import AnyPath
from ackproof.history.transactional import FETCHED

# --- gathering of the rows ------------------------------------------------------------------------

_POLLS = ("client", "time", "offset", "cell", "producer", "sequence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The transactional history of a cell, and the problems of reading it."""

    history: TransactionalHistory
    problems: list[str] = field(default_factory=list)


def gathered(run: RunEvidence, cell: Cell) -> Gathered:
    """Return the history of a cell's transactions. Raises nothing because of the contents of the
    tables."""
    problems: list[str] = []
    partitions = cell.topic_partitions
    indexed = [_indexed(run, cell, one, problems) for one in partitions]
    committed = [_committed(run, partition, problems) for partition in partitions]
    inputs = _filtered(_table(run, "inputs", problems), "topic", cell.topic)
    told = transactions_of(_transactions(run, cell, problems).to_pylist())
    indexed = with_shared_outcomes(indexed, told)
    problems += contradictions(told)
    problems += _unread(run, cell, told)
    problems += _committed_beside_the_log(indexed, committed)
    lacking = _lacking(run, cell)
    history = TransactionalHistory(
        reads_committed=cell.reads_committed,
        transactions=told,
        sent=sent_rows(indexed),
        log=log_rows(indexed, committed),
        shown=_shown(run, cell, inputs, problems),
        inputs=_inputs(inputs, cell),
        positions=_positions(run, cell, problems),
        log_complete=not problems
        and lacking.isdisjoint(("log", "committed"))
        and _complete(run, cell, problems),
        lacking=lacking,
    )
    return Gathered(history=history, problems=problems)


def _lacking(run: RunEvidence, cell: Cell) -> frozenset[str]:
    """Return the tables that lack rows about this cell that their writers had closed them with. The
    gaps of the run name the files."""
    mine = set(cell.topic_partitions)
    return frozenset(
        writer.table
        for writer in run.planned.writers
        if writer.cell in (None, cell.name)
        for partition in (mine.intersection(writer.partitions) if writer.partitions else (None,))
        if not run.writers.left(writer, partition).whole
    )


def _unread(run: RunEvidence, cell: Cell, told: Sequence[Transaction]) -> Iterator[str]:
    """Yield a sentence if transactions ended after the final read had begun, because it may not
    contain them."""
    began = run.final_read(cell.topic_partitions[0]).began
    late = sum(began is not None and one.time >= began for one in told)
    if late:
        yield f"{late} transactions of {cell.name} ended after the final read had begun"


def _committed_beside_the_log(
    indexed: Sequence[PartitionHistory], committed: Sequence[Array]
) -> Iterator[str]:
    """Yield a sentence for each partition in which the read of committed records returned an offset
    that the read of all records did not return. The two contradict each other."""
    for one, offsets in zip(indexed, committed, strict=True):
        beside = offsets[~np.isin(offsets, one.log_offset)]
        if len(beside):
            where = f"{one.topic}-{one.partition}"
            words = "offsets were read as committed and are not in the final read, the first"
            yield f"{where}: {len(beside)} {words} {beside.min()}"


def _indexed(
    run: RunEvidence, cell: Cell, partition: Partition, problems: list[str]
) -> PartitionHistory:
    sent, read = (list(map(str, run.writers.files(table, partition))) for table in ("sends", "log"))
    expected = run.expected("sends", partition, cell.name)
    sends, of_sends = columns.read("sends", sent, SEND_COLUMNS, expected)
    log, of_log = columns.read("log", read, LOG_COLUMNS)
    unindexed = Unindexed(
        cell=cell.name,
        topic=partition[0],
        partition=partition[1],
        sends=sends,
        log=log,
        read=FinalRead(complete=False),
    )
    (history,) = index([unindexed])
    of_compaction: list[str] = []
    planned = next(one for one in run.planned.cells if one.cell.name == cell.name)
    compaction = compaction_of(run, planned, partition)
    if compaction is not None:
        history, of_compaction = with_compaction(history, compaction, sent, expected)
    problems += [*of_sends, *of_log, *of_compaction]
    return history


def _committed(run: RunEvidence, partition: Partition, problems: list[str]) -> Array:
    files = map(str, run.writers.files("committed", partition))
    rows, of_files = columns.read("committed", files, ("offset",))
    problems += of_files
    return numbers_of(rows["offset"])


def sent_rows(indexed: Sequence[PartitionHistory]) -> SentRows:
    """Return the sends. A record whose ack has no offset may be at any, so that each committed
    record of its key may have superseded it."""
    own_rows = [np.flatnonzero(_of_cell(one) & (one.fate != Fate.NEVER_SENT)) for one in indexed]
    both = list(zip(indexed, own_rows, strict=True))
    return SentRows(
        **{
            name: _joined(getattr(one, name)[rows] for one, rows in both)
            for name in ("producer", "sequence", "fate", "asked")
        },
        partition=_numbered(indexed, map(len, own_rows)),
        removable=_joined(
            one.may_be_removed(rows, one.acked_offset[rows]) for one, rows in both
        ).astype(bool),
    )


def log_rows(indexed: Sequence[PartitionHistory], committed: Sequence[Array]) -> LogRows:
    """Return the final log. Payloads of other writers are left to the rule ``phantom``."""
    rows = []
    for one in indexed:
        ours = one.log_record != NONE
        ours[ours] = _of_cell(one)[one.log_record[ours]]
        rows.append(np.flatnonzero(ours))
    both = list(zip(indexed, rows, strict=True))
    return LogRows(
        producer=_joined(one.producer[one.log_record[mine]] for one, mine in both),
        sequence=_joined(one.sequence[one.log_record[mine]] for one, mine in both),
        partition=_numbered(indexed, map(len, rows)),
        offset=_joined(one.log_offset[mine] for one, mine in both),
        committed=_joined(
            np.isin(one.log_offset[mine], offsets)
            for (one, mine), offsets in zip(both, committed, strict=True)
        ).astype(bool),
    )


def _of_cell(one: PartitionHistory) -> Array:
    """Return whether each record belongs to the cell of this topic, by record number."""
    code = one.cell_names.index(one.cell) if one.cell in one.cell_names else NONE
    found: Array = one.cell_of == code
    return found


def _shown(run: RunEvidence, cell: Cell, inputs: pa.Table, problems: list[str]) -> ReadRows:
    tables = []
    for partition in cell.topic_partitions:
        files = run.writers.files("polls", partition)
        expected = run.expected("polls", partition)
        rows = _read("polls", files, problems, expected).select(_POLLS)
        number = pa.repeat(pa.scalar(partition[1], pa.int32()), len(rows))
        tables.append(rows.append_column("partition", number))
    names = {f"read_{name}": name for name in ("cell", "producer", "sequence")}
    read = inputs.select([*names, "client", "time", "offset", "partition"])
    tables.append(read.rename_columns([names.get(name, name) for name in read.column_names]))
    same = [one.select(sorted(one.column_names)) for one in tables]
    rows = pa.concat_tables(same, promote_options="default")  # other nullability
    rows = _filtered(rows, "cell", cell.name)
    clients = rows["client"].combine_chunks().dictionary_encode()
    return ReadRows(
        **{
            name: numbers_of(rows[name])
            for name in ("producer", "sequence", "partition", "offset", "time")
        },
        client=clients.indices.to_numpy().astype(np.int64),
        clients=clients.dictionary.to_pylist(),
    )


def _inputs(rows: pa.Table, cell: Cell) -> InputRows:
    """Return the reads of transformers. A record of another cell or of an unknown writer is
    included; it belongs to no transaction."""
    ours = pc.fill_null(pc.equal(rows["read_cell"], cell.name), False).to_numpy()
    return InputRows(
        producer=np.where(ours, numbers_of(rows["read_producer"]), NONE),
        sequence=np.where(ours, numbers_of(rows["read_sequence"]), NONE),
        partition=numbers_of(rows["partition"]),
        offset=numbers_of(rows["offset"]),
        reader=numbers_of(rows["producer"]),
        transaction=numbers_of(rows["transaction"]),
        made=numbers_of(rows["sequence"]),
    )


def _positions(run: RunEvidence, cell: Cell, problems: list[str]) -> dict[int, int]:
    """Return the group's offsets as the final read fetched them. Rows of the final read name no
    transaction."""
    rows = _filtered(_table(run, "transaction_offsets", problems), "topic", cell.topic)
    return {
        row["partition"]: row["offset"]
        for row in rows.to_pylist()
        if row["type"] == FETCHED and row["producer"] is None
    }


def _complete(run: RunEvidence, cell: Cell, problems: list[str]) -> bool:
    """Return whether every partition was read to its end, also as read_committed."""
    rows = _filtered(_table(run, "committed_reads", problems), "topic", cell.topic).to_pylist()
    ended = {row["partition"]: row for row in rows}
    for topic, number in cell.topic_partitions:
        row: dict[str, Any] | None = ended.get(number)
        if row is None or not row["complete"]:
            why = "no reason is recorded" if row is None else row["error"]
            problems.append(
                f"{topic}-{number}: the committed records were not read to the end: {why}"
            )
        read = run.reads.get((topic, number))
        if read is None or not read.read.complete:
            return False  # The check of the final read reports this.
    return not problems


def _transactions(run: RunEvidence, cell: Cell, problems: list[str]) -> pa.Table:
    """Return the rows of ``transactions`` by the clients of a cell, which must name that cell."""
    mine = [
        one for one in run.planned.writers if (one.table, one.cell) == ("transactions", cell.name)
    ]
    files = [path for writer in mine for path in run.writers.left(writer, None).files]
    return _read("transactions", files, problems, run.expected("transactions", cell=cell.name))


def _table(run: RunEvidence, table: str, problems: list[str]) -> pa.Table:
    """Return all rows of a table that is not divided by partition."""
    return _read(table, run.writers.files(table), problems, run.expected(table))


def _read(
    table: str, files: Iterable[AnyPath], problems: list[str], expected: Expected
) -> pa.Table:
    found, of_files = columns.sound(
        map(str, files), lambda file: reader.read_files(table, [file]), expected
    )
    problems += of_files
    return pa.concat_tables([reader.decoded_schema(table).empty_table(), *found])


def _filtered(rows: pa.Table, column: str, value: str) -> pa.Table:
    return rows.filter(pc.fill_null(pc.equal(rows[column], value), False))


def _joined(arrays: Iterable[Array]) -> Array:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def _numbered(indexed: Sequence[PartitionHistory], many: Iterable[int]) -> Array:
    """Return the number of each history's partition, repeated as often as given."""
    return np.repeat([one.partition for one in indexed], list(many)).astype(np.int64)


# --- the checks -----------------------------------------------------------------------------------

TRANSACTIONS = "transactions"
"""The prefix of counts of transactions by outcome and by guarantee status."""

LOOKED = "transactions examined"
"""The count of cells that all rules could examine completely."""


# --- looking --------------------------------------------------------------------------------------
#
# The check of one cell's transactions: its history, the rules, and what they find as counts and
# rows.
#
# It runs in the driver, one cell at a time, because a transaction extends over partitions. Memory
# grows with the number of records of a cell.


@dataclass(frozen=True, slots=True, kw_only=True)
class CellTransactions:
    """The result of checking a cell's transactions.

    Attributes:
        counts: The counts of each anomaly, in all and by guarantee status, and of transactions.
        rows: The anomalies, as ANOMALIES.
        gaps: The missing evidence, a sentence each.
        crashed: The rules that raised an exception.
        why: The reasons why the guarantees do not cover everything, a sentence each.
    """

    counts: Counter[str] = field(default_factory=Counter)
    rows: pa.Table = field(default_factory=ANOMALIES.empty_table)
    gaps: tuple[str, ...] = ()
    crashed: tuple[str, ...] = ()
    why: tuple[str, ...] = ()

    @property
    def summed(self) -> TransactionCounts:
        """The counts in short. A count of 0 is None if not everything could be examined."""
        none = 0 if self.counts[LOOKED] else None
        committed, not_committed, unknown = (
            self.counts[f"{TRANSACTIONS} {outcome}"] or none
            for outcome in (
                TransactionOutcome.COMMITTED,
                TransactionOutcome.NOT_COMMITTED,
                TransactionOutcome.UNKNOWN,
            )
        )
        return TransactionCounts(
            committed=committed,
            not_committed=not_committed,
            unknown=unknown,
            found={name: self.counts[name] or none for name in TRANSACTION_CHECKERS},
        )


def check_all_transactions(
    runs: Sequence[RunEvidence], tell: Callable[[str], None]
) -> Mapping[tuple[int, str], CellTransactions]:
    """Check every cell that is written in transactions, and return the results by run and cell."""
    found = {}
    for run in runs:
        for planned in run.planned.cells:
            if planned.transactional:
                tell(f"transactions of {planned.cell.name}, run {run.number}")
                found[run.number, planned.cell.name] = check_transactions(run, planned.cell)
    return found


def check_transactions(run: RunEvidence, cell: Cell) -> CellTransactions:
    """Check one cell."""
    try:
        gathering = gathered(run, cell)
    except Exception as error:  # noqa: BLE001 - a failed check is a verdict, not a crash
        return CellTransactions(gaps=(f"its transactions cannot be examined: {error!r}",))
    history = gathering.history
    promise = transaction_window_of(run, cell)
    counts, violations, failed = _found(history, promise)
    whole = (
        not gathering.problems
        and not history.lacking
        and history.positions.keys() >= set(range(cell.partitions))
    )
    counts[LOOKED] = int(history.log_complete and whole)
    counts.update(_counts_by_outcome(history, promise))
    touching = [fault for fault in run.faults if any(map(fault.touches, cell.topic_partitions))]
    bound = run.clock_bound_ns(cell.topic_partitions[0]) or 0
    named = [(one.anomaly, one) for one in violations]
    rows = rows_of_findings(
        run.number, cell, named, windows(touching, run.planned, bound, run.pace)
    )
    crashed = [f"the checker {name} failed: {error!r}" for name, error in failed.items()]
    return CellTransactions(
        counts=counts,
        rows=rows,
        gaps=tuple(dict.fromkeys([*gathering.problems, *crashed])),
        crashed=tuple(failed),
        why=promise.why,
    )


def _found(
    history: TransactionalHistory, promise: ValidityWindow
) -> tuple[Counter[str], list[TransactionViolation], dict[str, Exception]]:
    """Return the counts, the violations, and the rules that raised an exception."""
    counts: Counter[str] = Counter()
    violations: list[TransactionViolation] = []
    failed: dict[str, Exception] = {}
    # The first record of each transaction decides which records belong to it. If a transaction is
    # missing from the table, its records would count as those of the one before.
    rules = {} if "transactions" in history.lacking else RULES
    for name, rule in rules.items():
        try:
            violations += rule(history)
        except Exception as error:  # noqa: BLE001 - one checker never takes down another
            failed[name] = error
    for anomaly in {one.anomaly for one in violations}:
        mine = [one for one in violations if one.anomaly == anomaly]
        # A violation without a time counts as the earliest, for which the least is promised.
        times = np.array([one.time or 0 for one in mine], dtype=np.int64)
        counts[anomaly] = len(mine)
        counts.update(status.by_time(anomaly, times, promise))
    return counts, violations, failed


def _counts_by_outcome(history: TransactionalHistory, promise: ValidityWindow) -> Counter[str]:
    times = np.array([one.time for one in history.transactions], dtype=np.int64)
    counts = status.by_time(TRANSACTIONS, times, promise)
    for outcome in TransactionOutcome:
        counts[f"{TRANSACTIONS} {outcome}"] = int(history.with_outcome(outcome).sum())
    return counts
