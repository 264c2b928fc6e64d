"""The transactions of a cell: what is known of each, and the history that the rules look at."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.history.schema import SendType
from ackproof.history.transactional import TRANSFORMERS, TransactionEvent

ABORTED_READ = "aborted-read"
PRECOMMITTED_READ = "precommitted-read"
LOST_COMMIT = "lost-commit"
TORN = "torn-transaction"
RESURRECTED = "resurrected-write"
ZOMBIE = "zombie-write"
OFFSETS_ALONE = "offsets-without-records"
RECORDS_ALONE = "records-without-offsets"
TWICE = "transformed-twice"
G0 = "G0"
G1C = "G1c"

SUMMARIES: Mapping[str, str] = {
    ABORTED_READ: "shown to a consumer, and its transaction was not committed (G1a)",
    PRECOMMITTED_READ: "shown to a read_committed consumer before its commit was asked for",
    LOST_COMMIT: "a transaction whose commit was answered, and none of its records is committed",
    TORN: "a transaction some of whose records are committed, and others are not",
    RESURRECTED: "committed in the final log, and its transaction was not",
    ZOMBIE: "committed in the final log, and sent by a producer that had been fenced",
    OFFSETS_ALONE: "below what a group has committed, and no committed transaction was made of it",
    RECORDS_ALONE: "a committed transaction was made of it, and its group has not committed it",
    TWICE: "two committed transactions were made of it",
    G0: "a cycle of transactions, each of which wrote behind the one before",
    G1C: "a cycle of transactions, each of which read the one before, or came next in its session",
}
"""Name to summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """One anomaly. ``time``: of the commit, or of the read; nanoseconds, None where nobody knows.
    The others are None where it is about none."""

    anomaly: str
    detail: str
    time: int | None = None
    partition: int | None = None
    offset: int | None = None
    producer: int | None = None
    sequence: int | None = None


# --- outcomes -------------------------------------------------------------------------------------
#
# What is known of each transaction: was it committed?
#
# - *Committed*: its commit was asked for while its session was not fenced, and was answered.
# - *Not committed*: nobody asked for its commit; or that was asked for when the next session's
#   ``init_transactions`` had been answered, which fences this one (KIP-98); or its abort was
#   answered; or the client refused to ask.
# - *Unknown* otherwise (Jepsen's ``info``): it timed out, its client was killed, a fencing came
#   while it was under way, or its events contradict each other. It counts for neither side.
#
# A commit that was asked for and not recorded does not exist: its row is in its file before the
# coordinator is asked (``history.transactional``). An abort is another matter: that of a
# transaction whose commit nobody asked for may come late, or never, and nothing rests on it.


Row = Mapping[str, Any]

_SEQUENCE_BITS = 31
_SEQUENCE_MAX = 2**_SEQUENCE_BITS - 1


class Outcome(StrEnum):
    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction.

    Attributes:
        transactional_id: Of its session.
        producer: The number of its session.
        number: Which of the session's it is, from 1.
        first: Sequence number of the first record in it; the next one's ends it.
        begun: When it began; nanoseconds.
        asked: When its commit was asked for; None where it was not.
        answered: When its commit was answered without an error, likewise.
        fenced: When it was certain that its session was fenced, likewise.
        contradictory: Whether its events contradict each other, so that its outcome is unknown.
    """

    transactional_id: str
    producer: int
    number: int
    first: int
    begun: int
    asked: int | None = None
    answered: int | None = None
    fenced: int | None = None
    contradictory: bool = False
    outcome: Outcome

    @property
    def time(self) -> int:
        """When it was what it is, as far as its client knows: of the commit, else of its begin."""
        return next(t for t in (self.answered, self.asked, self.begun) if t is not None)

    @property
    def name(self) -> str:
        """In words, e.g. ``transaction 3 of producer 1000``."""
        return f"transaction {self.number} of producer {self.producer}"


def transactions_of(rows: Iterable[Row]) -> list[Transaction]:
    """The transactions that rows of ``transactions`` tell of, by producer and number. Rows of one
    client are in their order; a transaction that did not begin is none."""
    told: dict[tuple[int, int], dict[tuple[str, str], Row]] = defaultdict(dict)
    for row in rows:
        told[row["producer"], row["transaction"]].setdefault((row["event"], row["type"]), row)
    fences = dict(_fences(told))
    return [
        _transaction(key, events, fences.get(key[0]))
        for key, events in sorted(told.items())
        if (TransactionEvent.BEGIN, SendType.OK) in events
    ]


def _fences(
    told: Mapping[tuple[int, int], Mapping[tuple[str, str], Row]],
) -> Iterator[tuple[int, int]]:
    """When each session was fenced for certain: the answer to the first ``init_transactions`` that
    another one began after its own was answered."""
    lives: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for (producer, _), events in told.items():
        asked = events.get((TransactionEvent.INIT, SendType.INVOKE))
        answered = events.get((TransactionEvent.INIT, SendType.OK))
        if asked and answered:
            life = asked["time"], answered["time"], producer
            lives[answered["transactional_id"]].append(life)
    for sessions in lives.values():
        for _, own, producer in sessions:
            later = [until for since, until, _ in sessions if since > own]
            if later:
                yield producer, min(later)


def _transaction(
    key: tuple[int, int], events: Mapping[tuple[str, str], Row], fenced: int | None
) -> Transaction:
    begin = events[TransactionEvent.BEGIN, SendType.OK]
    asked = _time(events, TransactionEvent.COMMIT, SendType.INVOKE)
    contradictory = _contradictory(events)
    return Transaction(
        transactional_id=begin["transactional_id"],
        producer=key[0],
        number=key[1],
        first=begin["sequence"],
        begun=begin["time"],
        asked=asked,
        answered=_time(events, TransactionEvent.COMMIT, SendType.OK),
        fenced=fenced,
        contradictory=contradictory,
        outcome=Outcome.UNKNOWN if contradictory else _outcome(events, asked, fenced),
    )


def _contradictory(events: Mapping[tuple[str, str], Row]) -> bool:
    """Return whether the commit or the abort was answered in two ways, without a question or before
    it, or both were answered without an error."""
    ended = [
        (TransactionEvent.COMMIT, SendType.OK) in events,
        (TransactionEvent.ABORT, SendType.OK) in events,
    ]
    for event in (TransactionEvent.COMMIT, TransactionEvent.ABORT):
        kinds = (SendType.OK, SendType.FAIL, SendType.INFO)
        answers = [time for kind in kinds if (time := _time(events, event, kind)) is not None]
        asked = _time(events, event, SendType.INVOKE)
        if len(answers) > 1 or any(asked is None or time < asked for time in answers):
            return True
    return all(ended)


def contradictions(transactions: Iterable[Transaction]) -> Iterator[str]:
    """Yield a sentence for each transaction whose events contradict each other."""
    return (f"{one.name} has contradictory events" for one in transactions if one.contradictory)


def _time(events: Mapping[tuple[str, str], Row], event: str, kind: str) -> int | None:
    row = events.get((event, kind))
    return None if row is None else int(row["time"])


def _outcome(
    events: Mapping[tuple[str, str], Row], asked: int | None, fenced: int | None
) -> Outcome:
    if asked is None or (fenced is not None and asked > fenced):
        return Outcome.NOT_COMMITTED
    if (TransactionEvent.COMMIT, SendType.OK) in events:
        return Outcome.COMMITTED
    refused = (TransactionEvent.COMMIT, SendType.FAIL) in events
    aborted = (TransactionEvent.ABORT, SendType.OK) in events
    return Outcome.NOT_COMMITTED if refused or aborted else Outcome.UNKNOWN


class Membership:
    """Which transaction a record is of."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        producer = np.array([one.producer for one in transactions], dtype=np.int64)
        first = np.array([one.first for one in transactions], dtype=np.int64)
        keys = record_keys(producer, first)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._producer = producer

    def of(self, producer: Array, sequence: Array) -> Array:
        """Positions of the transactions; NONE of a record that is of none."""
        found = np.searchsorted(self._keys, record_keys(producer, sequence), side="right") - 1
        mine = np.full(len(found), NONE, dtype=np.int64)
        inside = found >= 0
        mine[inside] = self._order[found[inside]]
        inside[inside] = self._producer[mine[inside]] == producer[inside]
        mine[~inside] = NONE
        return mine


def record_keys(producer: Array, sequence: Array) -> Array:
    """A number for each record, the same for the same alone: ascending by producer, then sequence.
    A sequence number that no producer reaches (2**31) counts as the last that one does."""
    within = np.clip(sequence.astype(np.int64), 0, _SEQUENCE_MAX)
    keys: Array = (producer.astype(np.int64) << _SEQUENCE_BITS) | within
    return keys


# --- histories ------------------------------------------------------------------------------------
#
# What a cell's transactions came to, as the rules are given it: built once, shared by all.
#
# Rows of several tables as arrays, one row a place; nothing here judges.


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
        """As :func:`checkers.checks.transaction_history.record_keys`."""
        return record_keys(self.producer, self.sequence)


@dataclass(frozen=True, kw_only=True)
class Sent(Records):
    """The sends. ``fate``: :class:`checkers.index.partition_history.Fate`; ``asked``: when each was
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
