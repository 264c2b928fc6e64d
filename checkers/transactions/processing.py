"""What transformers committed of what they read, beside what they made of it: exactly once?

A transformer reads, sends what it makes of it and, in the same transaction, the offsets of what it
has read (KIP-98, ``send_offsets_to_transaction``). So what its group has committed in the end is
what committed transactions were made of: each record below it of one, none above it of any.
"""

from collections.abc import Iterator

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.transactions.anomalies import OFFSETS_ALONE, RECORDS_ALONE, TWICE, Offence
from ackproof.checkers.transactions.histories import TransactionalHistory, of_producers

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
