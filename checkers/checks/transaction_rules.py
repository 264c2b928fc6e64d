"""The rules for transactions: which of their records are visible, what they processed, and cycles
between them. Each is a function from the history of a cell to violations."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.catalogue import (
    ABORTED_READ,
    G0,
    G1C,
    LOST_COMMIT,
    OFFSETS_ALONE,
    PRECOMMITTED_READ,
    RECORDS_ALONE,
    RESURRECTED,
    TORN,
    TWICE,
    ZOMBIE,
)
from ackproof.checkers.checks.transaction_history import (
    TransactionalHistory,
    TransactionOutcome,
    TransactionViolation,
    of_producers,
)
from ackproof.checkers.index.partition_history import Fate


def lost_commits(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each committed transaction without committed records. Needs the whole
    final log, also as read_committed. What compaction may have removed does not count."""
    if not history.log_complete:
        return
    wrote, kept = _kept(history, history.sent.fate != Fate.FAILED)
    lost = history.with_outcome(TransactionOutcome.COMMITTED) & (wrote > 0) & (kept == 0)
    for at in np.flatnonzero(lost).tolist():
        one = history.transactions[at]
        records = "its one record" if wrote[at] == 1 else f"none of its {wrote[at]} records"
        words = f"{one.name} was committed, but {records} is"
        yield TransactionViolation(
            anomaly=LOST_COMMIT,
            time=one.time,
            producer=one.producer,
            sequence=one.first,
            detail=f"{words} not" if wrote[at] == 1 else words,
        )


def torn(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each committed or undecided transaction with some of its records
    missing, at the first missing one. Transactions that were not committed are left to another
    rule. Needs the same as :func:`lost_commits`.

    If the outcome is unknown, only acked records count. The client library does not request a
    commit while a record is not acked, so the coordinator's decision says nothing about such a
    record.

    A record that compaction may have removed is not missing. Suppose a transaction wrote keys 1 and
    2, and a later one key 1. A cleaner leaves key 2 of the first.
    """
    if not history.log_complete:
        return
    acked = history.sent.fate == Fate.ACKED
    unknown = history.with_outcome(TransactionOutcome.UNKNOWN)
    in_unknown = np.append(unknown, False)[history.transactions_of(history.sent)]
    asked = np.where(in_unknown, acked, history.sent.fate != Fate.FAILED)
    wrote, kept = _kept(history, asked)
    split = ~history.with_outcome(TransactionOutcome.NOT_COMMITTED) & (kept > 0) & (kept < wrote)
    mine = history.transactions_of(history.sent)
    gone = asked & history.due & ~np.isin(history.sent.keys, history.committed_keys)
    for at in np.flatnonzero(split).tolist():
        one = history.transactions[at]
        row = int(np.flatnonzero((mine == at) & gone)[0])
        words = f"{kept[at]} of the {wrote[at]} records of {one.name} are committed"
        yield TransactionViolation(
            anomaly=TORN,
            time=one.time,
            partition=int(history.sent.partition[row]),
            producer=one.producer,
            sequence=int(history.sent.sequence[row]),
            detail=f"{words}; its outcome: {one.outcome}",
        )


def resurrected(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each committed record of a transaction that was not committed. A
    record that was passed to its producer after that was fenced is a zombie's."""
    mine = history.transactions_of(history.log)
    wrong = np.append(history.with_outcome(TransactionOutcome.NOT_COMMITTED), False)[mine]
    asked = _asked(history)
    for row in np.flatnonzero(history.log.committed & wrong & (mine != NONE)):
        one = history.transactions[mine[row]]
        handed_over = asked.get(int(history.log.keys[row]), NONE)
        zombie = one.fenced is not None and handed_over > one.fenced
        why = "its producer had been fenced" if zombie else f"{one.name} was not committed"
        yield TransactionViolation(
            anomaly=ZOMBIE if zombie else RESURRECTED,
            time=one.time,
            partition=int(history.log.partition[row]),
            offset=int(history.log.offset[row]),
            producer=one.producer,
            sequence=int(history.log.sequence[row]),
            detail=f"in the log as committed, but {why}",
        )


def aborted_reads(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each consumer and offset with a read of a transaction that was not
    committed. A read_committed consumer must not read a record whose transaction is later
    aborted."""
    decided = history.certainly_not
    if not history.reads_committed:
        decided = history.with_outcome(TransactionOutcome.NOT_COMMITTED)
    mine = history.transactions_of(history.shown)
    wrong = np.append(decided, False)[mine] & (mine != NONE)
    yield from _shown(history, wrong, mine, ABORTED_READ, ", which was not committed")


def precommitted_reads(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each consumer and offset with a read before the commit was requested.
    Only read_committed consumers count, because others may read uncommitted records."""
    if not history.reads_committed:
        return
    asked = np.array([one.asked or 0 for one in history.transactions] + [0], dtype=np.int64)
    mine = history.transactions_of(history.shown)
    early = (history.shown.time < asked[mine]) & (mine != NONE)
    early &= ~np.append(history.certainly_not, False)[mine]
    yield from _shown(history, early, mine, PRECOMMITTED_READ, " before its commit was requested")


def _shown(
    history: TransactionalHistory, rows: Array, mine: Array, anomaly: str, words: str
) -> Iterator[TransactionViolation]:
    shown = history.shown
    for row in np.flatnonzero(rows):
        one = history.transactions[mine[row]]
        yield TransactionViolation(
            anomaly=anomaly,
            time=int(shown.time[row]),
            partition=int(shown.partition[row]),
            offset=int(shown.offset[row]),
            producer=one.producer,
            sequence=int(shown.sequence[row]),
            detail=f"{shown.clients[shown.client[row]]} read it as part of {one.name}{words}",
        )


def _kept(history: TransactionalHistory, asked: Array) -> tuple[Array, Array]:
    """Return for each transaction the number of its sends that are selected by ``asked`` and due,
    and the number of these that are committed in the log."""
    mine = history.transactions_of(history.sent)
    counted = asked & history.due & (mine != NONE)
    stands = counted & np.isin(history.sent.keys, history.committed_keys)
    many = len(history.transactions)
    wrote, kept = (np.bincount(mine[of], minlength=many) for of in (counted, stands))
    return wrote, kept


def _asked(history: TransactionalHistory) -> dict[int, int]:
    """Return the time at which each record was passed to its producer, by key."""
    return dict(zip(history.sent.keys.tolist(), history.sent.asked.tolist(), strict=True))


# --- processing -----------------------------------------------------------------------------------
#
# Exactly-once processing: the offsets that transformers committed, compared with the records that
# they produced.
#
# A transformer reads records, sends output records, and commits the offsets of its reads in the
# same transaction (KIP-98, ``send_offsets_to_transaction``). Each record below the group's last
# committed offset must therefore have the output of one committed transaction, and no record above
# it may have any.


_BEYOND_ALL = 2**62


def offsets_without_records(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each producer's record below the group's offset without an output
    record of a committed transaction. If the group reads committed records only, the record must be
    committed. Needs the final log and all reads of transformers. An output record that compaction
    may have removed counts."""
    if not history.log_complete or "inputs" in history.lacking:
        return
    log = history.log
    below = log.offset < _positions(history, log.partition, unknown=NONE)
    due = below & of_producers(log) & (log.committed | (not history.reads_committed))
    rows = np.flatnonzero(due)
    kept = history.transformed | history.perhaps_transformed
    done = _places(history.inputs.partition, history.inputs.offset)[kept]
    missed = rows[~np.isin(_places(log.partition[rows], log.offset[rows]), done)]
    for row in missed:
        position = history.positions[int(log.partition[row])]
        yield TransactionViolation(
            anomaly=OFFSETS_ALONE,
            partition=int(log.partition[row]),
            offset=int(log.offset[row]),
            producer=int(log.producer[row]),
            sequence=int(log.sequence[row]),
            detail=(
                f"the group has committed {position}, but no committed transaction "
                "processed this record"
            ),
        )


def records_without_offsets(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each record at or above the group's offset that was read and has an
    output record of a committed transaction."""
    inputs = history.inputs
    above = inputs.offset >= _positions(history, inputs.partition, unknown=_BEYOND_ALL)
    for row in np.flatnonzero(above & history.transformed):
        one = history.transactions[history.input_transactions[row]]
        position = history.positions[int(inputs.partition[row])]
        yield _of_input(
            history,
            int(row),
            RECORDS_ALONE,
            (
                f"{one.name} processed it and is committed, but the group has committed only "
                f"{position}"
            ),
        )


def transformed_twice(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield one violation for each record that was read by two or more committed transactions."""
    rows = np.flatnonzero(history.transformed)
    places = _places(history.inputs.partition, history.inputs.offset)[rows]
    pairs = np.stack([places, history.input_transactions[rows]], axis=1)
    different, first = np.unique(pairs, axis=0, return_index=True)
    again = np.flatnonzero(np.diff(different[:, 0]) == 0) + 1
    for place in np.unique(different[again, 0]):
        mine = np.flatnonzero(different[:, 0] == place)
        names = " and ".join(history.transactions[at].name for at in different[mine, 1])
        row = int(rows[first[mine[-1]]])
        yield _of_input(history, row, TWICE, f"{names} processed it, and both are committed")


def _of_input(
    history: TransactionalHistory, row: int, anomaly: str, words: str
) -> TransactionViolation:
    inputs = history.inputs
    return TransactionViolation(
        anomaly=anomaly,
        time=history.transactions[history.input_transactions[row]].time,
        partition=int(inputs.partition[row]),
        offset=int(inputs.offset[row]),
        producer=int(inputs.producer[row]),
        sequence=int(inputs.sequence[row]),
        detail=words,
    )


def _positions(history: TransactionalHistory, partition: Array, *, unknown: int) -> Array:
    """Return the group's committed offset of each partition."""
    known = history.positions
    return np.array([known.get(number, unknown) for number in partition.tolist()], np.int64)


def _places(partition: Array, offset: Array) -> Array:
    """Return a distinct number for each partition and offset. An offset of 2**40 would take a log
    of tens of terabytes."""
    places: Array = (partition.astype(np.int64) << 40) | offset
    return places


# --- cycles ---------------------------------------------------------------------------------------
#
# Cycles of transactions (Adya's G0 and G1c), as far as a log can have them.
#
# Between transactions with committed records there are three kinds of edges:
#
# - *ww*: in some partition, a record of the second transaction is the next committed one after a
#   record of the first. A log is append-only, so nothing is overwritten, and Kafka promises no
#   order between two producers' transactions over several partitions. A cycle of such edges, G0, is
#   reported but violates no guarantee.
# - *wr*: the second transaction, of a transformer, read a record of the first.
# - *session*: the second transaction is the next one of the same session.
#
# G1c is a cycle of wr and session edges: a transaction read a record of another one that had not
# ended when it began. ww edges are left out, as in Jepsen's Kafka workload with ``--no-ww-deps``,
# because every G0 would otherwise be a G1c.
#
# Cycles that share a transaction are reported as one. At most :data:`CYCLES_MAX` are reported.


CYCLES_MAX = 100
_SHOWN_MAX = 8

Edges = set[tuple[int, int]]
"""Edges from one transaction to another, as positions."""


def g0(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield the cycles of ww edges."""
    yield from _violations(history, G0, _ww(history))


def g1c(history: TransactionalHistory) -> Iterator[TransactionViolation]:
    """Yield the cycles of wr and session edges."""
    yield from _violations(history, G1C, _wr(history) | _session(history))


def _ww(history: TransactionalHistory) -> Edges:
    log = history.log
    mine = history.transactions_of(log)
    rows = np.flatnonzero(log.committed & (mine != NONE))
    rows = rows[np.lexsort((log.offset[rows], log.partition[rows]))]
    same = log.partition[rows][1:] == log.partition[rows][:-1]
    return _pairs(mine[rows][:-1][same], mine[rows][1:][same])


def _wr(history: TransactionalHistory) -> Edges:
    writer, reader = history.transactions_of(history.inputs), history.input_transactions
    both = np.append(history.stands, False)[reader] & (reader != NONE) & (writer != NONE)
    both &= np.append(history.stands, False)[writer]
    return _pairs(writer[both], reader[both])


def _session(history: TransactionalHistory) -> Edges:
    stand = np.flatnonzero(history.stands)
    numbers = [history.transactions[at].producer for at in stand.tolist()]
    producer = np.array(numbers, dtype=np.int64)
    same = producer[1:] == producer[:-1]
    return _pairs(stand[:-1][same], stand[1:][same])


def _pairs(first: Array, second: Array) -> Edges:
    other = first != second
    return set(zip(first[other].tolist(), second[other].tolist(), strict=True))


def _violations(
    history: TransactionalHistory, anomaly: str, edges: Edges
) -> Iterator[TransactionViolation]:
    for cycle in cycles(edges):
        members = [history.transactions[at] for at in cycle]
        names = [one.name for one in members[:_SHOWN_MAX]]
        if len(members) > _SHOWN_MAX:
            names.append(f"{len(members) - _SHOWN_MAX} more")
        yield TransactionViolation(
            anomaly=anomaly,
            time=max(one.time for one in members),
            producer=members[0].producer,
            sequence=members[0].first,
            detail=", then ".join([*names, "the first again"]),
        )


def cycles(edges: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield cycles without a common node, in the order of their edges, each from its least node. If
    these, at most :data:`CYCLES_MAX`, are removed, no cycle is left."""
    before: dict[int, set[int]] = {}
    for first, second in sorted(edges):
        before.setdefault(second, set()).add(first)
    for _ in range(CYCLES_MAX):
        try:
            TopologicalSorter(before).prepare()
        except CycleError as found:
            # The first node of the cycle is repeated as the last. Each node precedes the next one.
            cycle = found.args[1][:-1]
            least = cycle.index(min(cycle))
            yield cycle[least:] + cycle[:least]
            _remove(before, set(cycle))
        else:
            return


def _remove(before: dict[int, set[int]], gone: set[int]) -> None:
    for node in gone:
        before.pop(node, None)
    for others in before.values():
        others -= gone


# --- catalogue ------------------------------------------------------------------------------------
#
# The rules for transactions are in one explicit table. A new rule is a function and a line here.


Rule = Callable[[TransactionalHistory], Iterator[TransactionViolation]]

RULES: Mapping[str, Rule] = {
    ABORTED_READ: aborted_reads,
    PRECOMMITTED_READ: precommitted_reads,
    LOST_COMMIT: lost_commits,
    TORN: torn,
    RESURRECTED: resurrected,
    OFFSETS_ALONE: offsets_without_records,
    RECORDS_ALONE: records_without_offsets,
    TWICE: transformed_twice,
    G0: g0,
    G1C: g1c,
}
"""The rules by the anomaly that each finds. ``resurrected-write`` also finds the writes of
zombies."""
