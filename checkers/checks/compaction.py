"""The evidence of compaction in one partition: the keys of its records, which of them are
tombstones, and the outcomes of their transactions.

:meth:`checkers.index.partition_history.PartitionHistory.may_be_removed` has the rule for what a
cleaner may remove.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array, numbers_of
from ackproof.checkers.checks.transaction_history import (
    Membership,
    Transaction,
    TransactionOutcome,
    transactions_of,
)
from ackproof.checkers.context.faults import CLOCKS, FOREVER, Partition
from ackproof.checkers.context.partition_guarantees import within_int64
from ackproof.checkers.context.retention import TombstoneEvidence, longest_absence_ns
from ackproof.checkers.context.row_times import ANY, Expected
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.index import columns
from ackproof.checkers.index.partition_history import Decisions, PartitionHistory
from ackproof.history.manifest import PlannedCell

# --- evidence -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEvidence:
    """The files that show the outcomes of a partition's transactions.

    Attributes:
        transactions: The files of ``transactions`` by the cell's clients. Empty if any of them is
            not complete, because a missing row gives records to another transaction.
        committed: The files with the partition's committed offsets.
        committed_reads: The files that say whether these were read to the end.
        expected: The values that the rows of ``transactions`` must have.
    """

    transactions: list[str]
    committed: list[str]
    committed_reads: list[str]
    expected: Expected = ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionEvidence:
    """The evidence of compaction in one partition.

    Attributes:
        tombstones: What is known of the removal of tombstones, or None if none are sent.
        transactions: The files about its transactions, or None if it is written without them.
    """

    tombstones: TombstoneEvidence | None = None
    transactions: TransactionEvidence | None = None


def compaction_of(
    run: RunEvidence, planned: PlannedCell, partition: Partition
) -> CompactionEvidence | None:
    """Return the evidence of compaction in a partition, or None if its log is not compacted."""
    if not planned.cell.compacts:
        return None
    return CompactionEvidence(
        tombstones=_tombstones(run, planned, partition),
        transactions=_transactions(run, planned, partition) if planned.transactional else None,
    )


def _transactions(
    run: RunEvidence, planned: PlannedCell, partition: Partition
) -> TransactionEvidence:
    name = planned.cell.name
    writers = [w for w in run.planned.writers if (w.table, w.cell) == ("transactions", name)]
    left = [run.writers.left(writer, None) for writer in writers]
    known = left if all(one.whole for one in left) else []
    return TransactionEvidence(
        transactions=[str(file) for one in known for file in one.files],
        committed=list(map(str, run.writers.files("committed", partition))),
        committed_reads=list(map(str, run.writers.files("committed_reads"))),
        expected=run.expected("transactions", cell=name),
    )


def _tombstones(
    run: RunEvidence, planned: PlannedCell, partition: Partition
) -> TombstoneEvidence | None:
    retention_ms = planned.cell.delete_retention_ms
    if not planned.tombstones or retention_ms is None:
        return None
    over = end_of_final_read(run)
    reading_ns = FOREVER if run.read_began is None else over - run.read_began
    return TombstoneEvidence(
        retention_ms=retention_ms,
        read_over=over,
        unseen_ns=max(reading_ns, longest_absence_ns(run.observation.of(partition), over)),
        clock_bound_ns=run.clock_bound_ns(partition, "sends", "polls"),
        clocks_changed=is_any_clock_changed(run),
    )


def end_of_final_read(run: RunEvidence) -> int:
    """Return the time by which the final read had ended, in nanoseconds; FOREVER if unknown."""
    return FOREVER if run.read_over is None else within_int64(run.read_over)


def is_any_clock_changed(run: RunEvidence) -> bool:
    """Return whether a fault may have changed a clock."""
    return any(fault.begun and fault.name in CLOCKS for fault in (*run.faults, *run.unrecorded))


# --- histories ------------------------------------------------------------------------------------

_KEYED = ("producer", "sequence", "key", "tombstone")
_EVENTS = (
    *("time", "cell", "transactional_id", "producer", "transaction"),
    *("event", "type", "sequence"),
)


def with_compaction(
    history: PartitionHistory,
    evidence: CompactionEvidence,
    sends: Sequence[str],
    expected: Expected,
) -> tuple[PartitionHistory, list[str]]:
    """Return the history of a compacted log with the keys of its records, its tombstones, and the
    outcomes of its transactions. Return also the problems of files that cannot be read.

    Args:
        history: The history without these.
        evidence: The evidence of compaction.
        sends: The files of ``sends``, which only compacted logs have read a second time.
        expected: The values that the rows of ``sends`` must have.
    """
    rows, _ = columns.read("sends", sends, _KEYED, expected)
    history = _with_keys(history, rows, evidence.tombstones)
    if evidence.transactions is None:
        return history, []
    told = evidence.transactions
    events, of_events = columns.read("transactions", told.transactions, _EVENTS, told.expected)
    committed, of_committed = columns.read("committed", told.committed, ("offset",))
    outcomes = [] if of_events else transactions_of(events.to_pylist())
    is_whole = not of_committed and _is_read_to_the_end(told.committed_reads, history)
    decisions = decisions_of(history, outcomes, numbers_of(committed["offset"]), whole=is_whole)
    return replace(history, decisions=decisions), [*of_events, *of_committed]


def _with_keys(
    history: PartitionHistory, rows: pa.Table, tombstones: TombstoneEvidence | None
) -> PartitionHistory:
    rows = rows.filter(rows["key"].is_valid())
    each = (rows[name].to_pylist() for name in _KEYED)
    keyed = {row[:2]: row[2:] for row in zip(*each, strict=True)}
    names = zip(history.producer.tolist(), history.sequence.tolist(), strict=True)
    found = [keyed.get(name, (NONE, False)) for name in names]
    keys = np.fromiter((key for key, _ in found), np.int64, len(found))
    if tombstones is None:
        return replace(history, keys=keys)
    deletes = np.fromiter((bool(tombstone) for _, tombstone in found), bool, len(found))
    return replace(history, keys=keys, deletes=deletes, tombstones=tombstones)


def _is_read_to_the_end(files: Sequence[str], history: PartitionHistory) -> bool:
    rows, _ = columns.read("committed_reads", files, ("topic", "partition", "complete"))
    where = (history.topic, history.partition)
    ends = [
        row["complete"] for row in rows.to_pylist() if (row["topic"], row["partition"]) == where
    ]
    return ends[-1:] == [True]


def decisions_of(
    history: PartitionHistory,
    transactions: Sequence[Transaction],
    committed: Array,
    *,
    whole: bool,
) -> Decisions:
    """Return the outcomes of the records' transactions.

    A record is committed if the read of committed records returned it, whatever its client knows,
    because brokers and readers go by that. So is each record of a transaction whose commit was
    answered. Where the client does not know the outcome, one returned record of the transaction in
    this partition decides it. The final read may return a record that a cleaner removes before the
    read of committed records: that it is not returned decides nothing.

    Args:
        history: The history of the partition.
        transactions: The transactions of the cell; none if they are not known.
        committed: The offsets that the read of committed records returned.
        whole: Whether that read came to its end. If not, a record of the final log that was not
            certainly aborted counts as committed, so that nothing is called lost for want of
            evidence.
    """
    shown = np.zeros(len(history.fate), dtype=bool)
    rows = np.isin(history.log_offset, committed) & (history.log_record != NONE)
    shown[history.log_record[rows]] = True
    mine = Membership(transactions).of(history.producer, history.sequence)
    is_committed, aborted = (
        np.array([*(one.outcome is outcome for one in transactions), False], dtype=bool)[mine]
        for outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.NOT_COMMITTED)
    )
    stands = np.zeros(len(transactions) + 1, dtype=bool)
    stands[mine[shown & (mine != NONE)]] = True
    committed_records = shown | is_committed | (stands[mine] & ~aborted)
    if not whole:
        committed_records |= (history.first != NONE) & ~aborted
    return Decisions(committed=committed_records, aborted=aborted)


def with_shared_outcomes(
    histories: Sequence[PartitionHistory], transactions: Sequence[Transaction]
) -> list[PartitionHistory]:
    """Return the histories of a cell's partitions, in which a record that is committed in one of
    them shows that the records of its transaction in the others are, unless they were aborted.
    Histories without decisions are left as they are."""
    membership = Membership(transactions)
    stands = np.zeros(len(transactions) + 1, dtype=bool)
    members = [membership.of(one.producer, one.sequence) for one in histories]
    for one, mine in zip(histories, members, strict=True):
        if one.decisions is not None:
            stands[mine[one.decisions.committed & (mine != NONE)]] = True
    return [
        one if one.decisions is None else _with(one, one.decisions, stands[mine])
        for one, mine in zip(histories, members, strict=True)
    ]


def _with(history: PartitionHistory, decisions: Decisions, committed: Array) -> PartitionHistory:
    every = decisions.committed | (committed & ~decisions.aborted)
    return replace(history, decisions=replace(decisions, committed=every))
