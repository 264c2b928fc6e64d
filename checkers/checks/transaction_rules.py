"""The rules on transactions, each a function from the history of a cell to offences: what is
visible of them, what they processed, and cycles between them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.transaction_history import (
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
    Offence,
    Outcome,
    TransactionalHistory,
    of_producers,
)
from ackproof.checkers.index.partition_history import Fate


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


# --- processing -----------------------------------------------------------------------------------
#
# What transformers committed of what they read, beside what they made of it: exactly once?
#
# A transformer reads, sends what it makes of it and, in the same transaction, the offsets of what
# it has read (KIP-98, ``send_offsets_to_transaction``). So what its group has committed in the end
# is what committed transactions were made of: each record below it of one, none above it of any.


_BEYOND_ALL = 2**62


def offsets_without_records(history: TransactionalHistory) -> Iterator[Offence]:
    """One a producer's record that stands below the group's offset (as committed, where the group
    reads only that), and of which no committed transaction was made. Needs the final log, and all
    that transformers read."""
    if not history.log_complete or "inputs" in history.lacking:
        return
    log = history.log
    below = log.offset < _positions(history, log.partition, unknown=NONE)
    due = below & of_producers(log) & (log.committed | (not history.reads_committed))
    rows = np.flatnonzero(due)
    done = _places(history.inputs.partition, history.inputs.offset)[history.transformed]
    missed = rows[~np.isin(_places(log.partition[rows], log.offset[rows]), done)]
    for row in missed:
        position = history.positions[int(log.partition[row])]
        yield Offence(
            anomaly=OFFSETS_ALONE,
            partition=int(log.partition[row]),
            offset=int(log.offset[row]),
            producer=int(log.producer[row]),
            sequence=int(log.sequence[row]),
            detail=f"the group has committed {position}, and made nothing of it that is committed",
        )


def records_without_offsets(history: TransactionalHistory) -> Iterator[Offence]:
    """One a record that was read, and of which a committed transaction was made, at or above the
    group's offset."""
    inputs = history.inputs
    above = inputs.offset >= _positions(history, inputs.partition, unknown=_BEYOND_ALL)
    for row in np.flatnonzero(above & history.transformed):
        one = history.transactions[history.input_transactions[row]]
        position = history.positions[int(inputs.partition[row])]
        yield _of_input(
            history,
            int(row),
            RECORDS_ALONE,
            f"{one.name} was made of it and is committed; the group has committed {position}",
        )


def transformed_twice(history: TransactionalHistory) -> Iterator[Offence]:
    """One a record that was read by two transactions or more, all of which are committed."""
    rows = np.flatnonzero(history.transformed)
    places = _places(history.inputs.partition, history.inputs.offset)[rows]
    pairs = np.stack([places, history.input_transactions[rows]], axis=1)
    different, first = np.unique(pairs, axis=0, return_index=True)
    again = np.flatnonzero(np.diff(different[:, 0]) == 0) + 1
    for place in np.unique(different[again, 0]):
        mine = np.flatnonzero(different[:, 0] == place)
        names = " and ".join(history.transactions[at].name for at in different[mine, 1])
        row = int(rows[first[mine[-1]]])
        yield _of_input(history, row, TWICE, f"{names} were made of it, and are committed")


def _of_input(history: TransactionalHistory, row: int, anomaly: str, words: str) -> Offence:
    inputs = history.inputs
    return Offence(
        anomaly=anomaly,
        time=history.transactions[history.input_transactions[row]].time,
        partition=int(inputs.partition[row]),
        offset=int(inputs.offset[row]),
        producer=int(inputs.producer[row]),
        sequence=int(inputs.sequence[row]),
        detail=words,
    )


def _positions(history: TransactionalHistory, partition: Array, *, unknown: int) -> Array:
    """What the group has committed of each partition."""
    known = history.positions
    return np.array([known.get(number, unknown) for number in partition.tolist()], np.int64)


def _places(partition: Array, offset: Array) -> Array:
    """A number for each partition and offset, the same for the same alone: an offset of 2**40 would
    take a log of tens of terabytes."""
    places: Array = (partition.astype(np.int64) << 40) | offset
    return places


# --- cycles ---------------------------------------------------------------------------------------
#
# Cycles of transactions (Adya's G0 and G1c), as far as a log has them.
#
# Of the transactions that stand as committed:
#
# - *ww*: in some partition a record of the second is the next committed one behind a record of the
#   first. A log is append-only: nothing is overwritten, and Kafka promises no order between two
#   producers' transactions over several partitions. So a cycle of these, G0, is told, and broken is
#   nothing.
# - *wr*: the second, a transformer's, has read a record of the first.
# - *session*: the second is the next one of the same session.
#
# G1c is a cycle of wr and session edges: somebody was shown what was written by a transaction that
# was not over when it began. ww edges are left out, as Jepsen's Kafka workload does with
# ``--no-ww-deps``: with them every G0 would be one.
#
# Cycles that share a transaction are told as one; of many the first :data:`CYCLES_MAX`.


CYCLES_MAX = 100
_SHOWN_MAX = 8

Edges = set[tuple[int, int]]
"""From one transaction to another, as positions."""


def g0(history: TransactionalHistory) -> Iterator[Offence]:
    """Cycles of ww edges."""
    yield from _offences(history, G0, _ww(history))


def g1c(history: TransactionalHistory) -> Iterator[Offence]:
    """Cycles of wr and session edges."""
    yield from _offences(history, G1C, _wr(history) | _session(history))


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


def _offences(history: TransactionalHistory, anomaly: str, edges: Edges) -> Iterator[Offence]:
    for cycle in cycles(edges):
        members = [history.transactions[at] for at in cycle]
        names = [one.name for one in members[:_SHOWN_MAX]]
        if len(members) > _SHOWN_MAX:
            names.append(f"{len(members) - _SHOWN_MAX} more")
        yield Offence(
            anomaly=anomaly,
            time=max(one.time for one in members),
            producer=members[0].producer,
            sequence=members[0].first,
            detail=", then ".join([*names, "the first again"]),
        )


def cycles(edges: Iterable[tuple[int, int]]) -> Iterator[list[int]]:
    """Cycles that have no node in common, in the order of their edges, each from its least node;
    when these are taken out, and no more than :data:`CYCLES_MAX` are, none is left."""
    before: dict[int, set[int]] = {}
    for first, second in sorted(edges):
        before.setdefault(second, set()).add(first)
    for _ in range(CYCLES_MAX):
        try:
            TopologicalSorter(before).prepare()
        except CycleError as found:
            # Its first node comes again as its last; each node is before the next one.
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
# The rules on transactions, in one explicit table. A new one is a function and a line here.


Rule = Callable[[TransactionalHistory], Iterator[Offence]]

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
"""By the anomaly that each finds; ``resurrected-write`` finds those of zombies, too."""
