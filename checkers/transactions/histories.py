"""What a cell's transactions came to, as the rules are given it: built once, shared by all.

Rows of several tables as arrays, one row a place; nothing here judges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.transactions.outcomes import Membership, Outcome, Transaction, record_keys
from ackproof.history.transactional import TRANSFORMERS


@dataclass(frozen=True, kw_only=True)
class Records:
    """Rows that name a record each: NONE where the payload is none of ours, or damaged."""

    producer: Array
    sequence: Array
    partition: Array

    def __len__(self) -> int:
        return len(self.producer)

    @cached_property
    def keys(self) -> Array:
        """As :func:`checkers.transactions.outcomes.record_keys`."""
        return record_keys(self.producer, self.sequence)


@dataclass(frozen=True, kw_only=True)
class Sent(Records):
    """The sends. ``fate``: :class:`checkers.partition.indexes.Fate`; ``asked``: when each was
    handed to its producer, NONE where nobody knows."""

    fate: Array
    asked: Array


@dataclass(frozen=True, kw_only=True)
class Log(Records):
    """The final log of all partitions. ``committed``: whether the final read was given it as
    read_committed, too."""

    offset: Array
    committed: Array


@dataclass(frozen=True, kw_only=True)
class Shown(Records):
    """What consumers were shown, transformers among them. ``client``: a position in ``clients``;
    ``time``: when the poll returned."""

    offset: Array
    time: Array
    client: Array
    clients: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Inputs(Records):
    """What transformers read, by name. ``reader``: the number of the transformer's session;
    ``transaction``: which of its; ``made``: the sequence number of what was made of it, NONE where
    that is nothing."""

    offset: Array
    reader: Array
    transaction: Array
    made: Array


@dataclass(frozen=True, kw_only=True)
class TransactionalHistory:
    """A cell's.

    Attributes:
        reads_committed: Whether its consumers ask for committed transactions alone.
        transactions: All of them.
        positions: What the transformers' group has committed in the end, by partition; those of
            which nobody knows are not there.
        log_complete: Whether the final read got every partition, as read_committed too, and its
            rows are all there.
        lacking: The tables of which rows are missing, or more than there should be.
    """

    reads_committed: bool
    transactions: Sequence[Transaction]
    sent: Sent
    log: Log
    shown: Shown
    inputs: Inputs
    positions: Mapping[int, int]
    log_complete: bool
    lacking: frozenset[str] = frozenset()

    @cached_property
    def membership(self) -> Membership:
        return Membership(self.transactions)

    def transactions_of(self, records: Records) -> Array:
        """Positions in ``transactions``; NONE of a record that is of none."""
        return self.membership.of(records.producer, records.sequence)

    @cached_property
    def committed_keys(self) -> Array:
        """The keys of the records that stand in the final log as committed."""
        return np.unique(self.log.keys[self.log.committed])

    @cached_property
    def stands(self) -> Array:
        """By transaction: whether any of its records stands in the final log as committed."""
        mine = self.transactions_of(self.log)
        found = np.zeros(len(self.transactions), dtype=bool)
        found[mine[self.log.committed & (mine != NONE)]] = True
        return found

    def with_outcome(self, *outcomes: Outcome) -> Array:
        """By transaction: whether its outcome is one of these."""
        return np.array([one.outcome in outcomes for one in self.transactions], dtype=bool)

    @cached_property
    def certainly_not(self) -> Array:
        """By transaction: whether it was not committed. One of unknown outcome has been decided by
        the time of a complete final read: nothing of it is there, or all."""
        unknown = self.with_outcome(Outcome.UNKNOWN) & self.log_complete & ~self.stands
        return self.with_outcome(Outcome.NOT_COMMITTED) | unknown

    @cached_property
    def input_transactions(self) -> Array:
        """By row of ``inputs``: the position of the transaction that read it, NONE where that did
        not begin."""
        numbers = {(t.producer, t.number): at for at, t in enumerate(self.transactions)}
        pairs = zip(self.inputs.reader.tolist(), self.inputs.transaction.tolist(), strict=True)
        return np.array([numbers.get(pair, NONE) for pair in pairs], dtype=np.int64)

    @cached_property
    def transformed(self) -> Array:
        """By row of ``inputs``: whether what was made of it stands as committed."""
        at = self.input_transactions
        kept = np.append(self.stands, False)[at]
        found: Array = (self.inputs.made != NONE) & kept & (at != NONE)
        return found


def of_producers(records: Records) -> Array:
    """Which were sent by a producer that is no transformer."""
    theirs: Array = (records.producer != NONE) & (records.producer < TRANSFORMERS)
    return theirs
