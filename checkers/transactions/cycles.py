"""Cycles of transactions (Adya's G0 and G1c), as far as a log has them.

Of the transactions that stand as committed:

- *ww*: in some partition a record of the second is the next committed one behind a record of the
  first. A log is append-only: nothing is overwritten, and Kafka promises no order between two
  producers' transactions over several partitions. So a cycle of these, G0, is told, and broken is
  nothing.
- *wr*: the second, a transformer's, has read a record of the first.
- *session*: the second is the next one of the same session.

G1c is a cycle of wr and session edges: somebody was shown what was written by a transaction that
was not over when it began. ww edges are left out, as Jepsen's Kafka workload does with
``--no-ww-deps``: with them every G0 would be one.

Cycles that share a transaction are told as one; of many the first :data:`CYCLES_MAX`.
"""

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.transactions.anomalies import G0, G1C, Offence
from ackproof.checkers.transactions.histories import TransactionalHistory

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
