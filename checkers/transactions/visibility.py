"""What was shown and what stands, beside what was committed."""

from collections.abc import Iterator

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.partition.indexes import Fate
from ackproof.checkers.transactions.anomalies import (
    ABORTED_READ,
    LOST_COMMIT,
    PRECOMMITTED_READ,
    RESURRECTED,
    TORN,
    ZOMBIE,
    Offence,
)
from ackproof.checkers.transactions.histories import TransactionalHistory
from ackproof.checkers.transactions.outcomes import Outcome


def lost_commits(history: TransactionalHistory) -> Iterator[Offence]:
    """One a transaction. Needs the whole final log, as read_committed too."""
    if not history.log_complete:
        return
    wrote, kept = _kept(history, history.sent.fate != Fate.FAILED)
    lost = history.with_outcome(Outcome.COMMITTED) & (wrote > 0) & (kept == 0)
    for at in np.flatnonzero(lost).tolist():
        one = history.transactions[at]
        records = "its one record" if wrote[at] == 1 else f"none of its {wrote[at]} records"
        words = f"{one.name} was committed, and {records} is"
        yield Offence(
            anomaly=LOST_COMMIT,
            time=one.time,
            producer=one.producer,
            sequence=one.first,
            detail=f"{words} not" if wrote[at] == 1 else words,
        )


def torn(history: TransactionalHistory) -> Iterator[Offence]:
    """One a transaction, committed or of unknown outcome: at its first record that is missing. What
    stands of one that was not committed is another matter. Needs what :func:`lost_commits` needs.

    Of one of unknown outcome only what was acked counts: with a record that was not, the client
    library asks for no commit, and what its coordinator decided tells nothing of that record.
    """
    if not history.log_complete:
        return
    acked = history.sent.fate == Fate.ACKED
    unknown = history.with_outcome(Outcome.UNKNOWN)
    in_unknown = np.append(unknown, False)[history.transactions_of(history.sent)]
    asked = np.where(in_unknown, acked, history.sent.fate != Fate.FAILED)
    wrote, kept = _kept(history, asked)
    split = ~history.with_outcome(Outcome.NOT_COMMITTED) & (kept > 0) & (kept < wrote)
    mine = history.transactions_of(history.sent)
    gone = asked & ~np.isin(history.sent.keys, history.committed_keys)
    for at in np.flatnonzero(split).tolist():
        one = history.transactions[at]
        row = int(np.flatnonzero((mine == at) & gone)[0])
        words = f"{kept[at]} of the {wrote[at]} records of {one.name} are committed"
        yield Offence(
            anomaly=TORN,
            time=one.time,
            partition=int(history.sent.partition[row]),
            producer=one.producer,
            sequence=int(history.sent.sequence[row]),
            detail=f"{words}; its outcome: {one.outcome}",
        )


def resurrected(history: TransactionalHistory) -> Iterator[Offence]:
    """One a record that stands as committed, of a transaction that was not. One that was handed to
    its producer after that was fenced is a zombie's."""
    mine = history.transactions_of(history.log)
    wrong = np.append(history.with_outcome(Outcome.NOT_COMMITTED), False)[mine]
    asked = _asked(history)
    for row in np.flatnonzero(history.log.committed & wrong & (mine != NONE)):
        one = history.transactions[mine[row]]
        handed_over = asked.get(int(history.log.keys[row]), NONE)
        zombie = one.fenced is not None and handed_over > one.fenced
        why = "its producer had been fenced" if zombie else f"{one.name} was not committed"
        yield Offence(
            anomaly=ZOMBIE if zombie else RESURRECTED,
            time=one.time,
            partition=int(history.log.partition[row]),
            offset=int(history.log.offset[row]),
            producer=one.producer,
            sequence=int(history.log.sequence[row]),
            detail=f"stands as committed, and {why}",
        )


def aborted_reads(history: TransactionalHistory) -> Iterator[Offence]:
    """One a consumer and offset. Whoever asks for committed transactions alone is shown none that
    turns out not to be."""
    decided = history.certainly_not
    if not history.reads_committed:
        decided = history.with_outcome(Outcome.NOT_COMMITTED)
    mine = history.transactions_of(history.shown)
    wrong = np.append(decided, False)[mine] & (mine != NONE)
    yield from _shown(history, wrong, mine, ABORTED_READ, "which was not committed")


def precommitted_reads(history: TransactionalHistory) -> Iterator[Offence]:
    """One a consumer and offset. Of those that ask for committed transactions alone: any other is
    to be shown what is not committed yet."""
    if not history.reads_committed:
        return
    asked = np.array([one.asked or 0 for one in history.transactions] + [0], dtype=np.int64)
    mine = history.transactions_of(history.shown)
    early = (history.shown.time < asked[mine]) & (mine != NONE)
    early &= ~np.append(history.certainly_not, False)[mine]
    yield from _shown(history, early, mine, PRECOMMITTED_READ, "before its commit was asked for")


def _shown(
    history: TransactionalHistory, rows: Array, mine: Array, anomaly: str, words: str
) -> Iterator[Offence]:
    shown = history.shown
    for row in np.flatnonzero(rows):
        one = history.transactions[mine[row]]
        yield Offence(
            anomaly=anomaly,
            time=int(shown.time[row]),
            partition=int(shown.partition[row]),
            offset=int(shown.offset[row]),
            producer=one.producer,
            sequence=int(shown.sequence[row]),
            detail=f"{shown.clients[shown.client[row]]} was shown it, of {one.name}, {words}",
        )


def _kept(history: TransactionalHistory, asked: Array) -> tuple[Array, Array]:
    """By transaction: of how many of its sends it is ``asked`` whether they stand as committed, and
    how many of these do."""
    mine = history.transactions_of(history.sent)
    counted = asked & (mine != NONE)
    stands = counted & np.isin(history.sent.keys, history.committed_keys)
    many = len(history.transactions)
    wrote, kept = (np.bincount(mine[of], minlength=many) for of in (counted, stands))
    return wrote, kept


def _asked(history: TransactionalHistory) -> dict[int, int]:
    """When each record was handed to its producer, by key."""
    return dict(zip(history.sent.keys.tolist(), history.sent.asked.tolist(), strict=True))
