"""The check of transactions, cell by cell, and the counts of transactions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ackproof.checkers.checks.catalogue import TRANSACTION_CHECKERS
from ackproof.checkers.checks.rows import ANOMALIES, rows_of_findings
from ackproof.checkers.checks.transaction_gathering import gathered
from ackproof.checkers.checks.transaction_history import (
    TransactionalHistory,
    TransactionOutcome,
    TransactionViolation,
)
from ackproof.checkers.checks.transaction_rules import RULES
from ackproof.checkers.context import status
from ackproof.checkers.context.fault_windows import windows
from ackproof.checkers.context.partition_guarantees import transaction_window_of
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.validity import ValidityWindow
from ackproof.checkers.verdict import TransactionCounts
from ackproof.history.cell import Cell

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
    counts.update(_transactions(history, promise))
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


def _transactions(history: TransactionalHistory, promise: ValidityWindow) -> Counter[str]:
    times = np.array([one.time for one in history.transactions], dtype=np.int64)
    counts = status.by_time(TRANSACTIONS, times, promise)
    for outcome in TransactionOutcome:
        counts[f"{TRANSACTIONS} {outcome}"] = int(history.with_outcome(outcome).sum())
    return counts
