"""The transactions of a cell: what is known of each, and the history that the rules examine."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.index.partition_history import Fate
from ackproof.history.names import SendType
from ackproof.history.transactional import TRANSFORMERS, TransactionEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionViolation:
    """One anomaly of transactions. ``time`` is that of the commit or of the read in nanoseconds, or
    None if it is unknown. The other attributes are None if the anomaly does not concern such a
    thing."""

    anomaly: str
    detail: str
    time: int | None = None
    partition: int | None = None
    offset: int | None = None
    producer: int | None = None
    sequence: int | None = None


# --- outcomes -------------------------------------------------------------------------------------
#
# The outcome of each transaction.
#
# - *Committed*: its commit was requested while its session was not fenced, and was acknowledged.
# - *Not committed*: its commit was not requested; or it was requested after the next session's
#   ``init_transactions`` had been answered, which fences this session (KIP-98); or its abort was
#   acknowledged; or the client refused to request the commit.
# - *Unknown* otherwise (Jepsen's ``info``): the commit timed out, the client was killed, fencing
#   came while the commit was in progress, or its events contradict each other. Such a transaction
#   counts for neither side.
#
# Every requested commit is recorded, because its row is written to the file before the coordinator
# is asked (``history.transactional``). An abort is different: the abort of a transaction without a
# requested commit may come late or never, and no rule depends on it.


Row = Mapping[str, Any]

_SEQUENCE_BITS = 31
_SEQUENCE_MAX = 2**_SEQUENCE_BITS - 1


class TransactionOutcome(StrEnum):
    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction.

    Attributes:
        transactional_id: The transactional id of its session.
        producer: The number of its session.
        number: Its number within the session, from 1.
        first: The sequence number of its first record. It ends where the next transaction begins.
        begun: The time of its begin, in nanoseconds.
        asked: The time at which its commit was requested, or None.
        answered: The time at which its commit was acknowledged without an error, or None.
        fenced: The time from which on its session was certainly fenced, or None.
        contradictory: Whether its events contradict each other, so that its outcome is unknown.
        outcome: Its outcome.
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
    outcome: TransactionOutcome

    @property
    def time(self) -> int:
        """The latest known time of the transaction: of its commit, or else of its begin."""
        return next(t for t in (self.answered, self.asked, self.begun) if t is not None)

    @property
    def name(self) -> str:
        """The name of the transaction, for example ``transaction 3 of producer 1000``."""
        return f"transaction {self.number} of producer {self.producer}"


def transactions_of(rows: Iterable[Row]) -> list[Transaction]:
    """Return the transactions of these rows of ``transactions``, by producer and number. The rows
    of one client must be in their order. A transaction that did not begin is left out."""
    events_by_transaction: dict[tuple[int, int], dict[tuple[str, str], Row]] = defaultdict(dict)
    for row in rows:
        events_by_transaction[row["producer"], row["transaction"]].setdefault(
            (row["event"], row["type"]), row
        )
    fences = dict(_fences(events_by_transaction))
    return [
        _transaction(key, events, fences.get(key[0]))
        for key, events in sorted(events_by_transaction.items())
        if (TransactionEvent.BEGIN, SendType.OK) in events
    ]


def _fences(
    told: Mapping[tuple[int, int], Mapping[tuple[str, str], Row]],
) -> Iterator[tuple[int, int]]:
    """Yield each session with the time from which on it was certainly fenced: the answer to the
    first ``init_transactions`` that another session requested after its own was answered."""
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
        outcome=TransactionOutcome.UNKNOWN if contradictory else _outcome(events, asked, fenced),
    )


def _contradictory(events: Mapping[tuple[str, str], Row]) -> bool:
    """Return whether the commit or the abort was answered in two ways, without a request, or before
    it, or whether both were acknowledged."""
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
) -> TransactionOutcome:
    if asked is None or (fenced is not None and asked > fenced):
        return TransactionOutcome.NOT_COMMITTED
    if (TransactionEvent.COMMIT, SendType.OK) in events:
        return TransactionOutcome.COMMITTED
    refused = (TransactionEvent.COMMIT, SendType.FAIL) in events
    aborted = (TransactionEvent.ABORT, SendType.OK) in events
    return TransactionOutcome.NOT_COMMITTED if refused or aborted else TransactionOutcome.UNKNOWN


class Membership:
    """The assignment of records to transactions."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        producer = np.array([one.producer for one in transactions], dtype=np.int64)
        first = np.array([one.first for one in transactions], dtype=np.int64)
        keys = record_keys(producer, first)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        self._producer = producer

    def of(self, producer: Array, sequence: Array) -> Array:
        """Return the positions of the records' transactions, or NONE for a record outside all
        transactions."""
        found = np.searchsorted(self._keys, record_keys(producer, sequence), side="right") - 1
        mine = np.full(len(found), NONE, dtype=np.int64)
        inside = found >= 0
        mine[inside] = self._order[found[inside]]
        inside[inside] = self._producer[mine[inside]] == producer[inside]
        mine[~inside] = NONE
        return mine


def record_keys(producer: Array, sequence: Array) -> Array:
    """Return a distinct number for each record, ascending by producer and then by sequence number.
    A sequence number of 2**31 or more, which no producer reaches, counts as 2**31 - 1."""
    within = np.clip(sequence.astype(np.int64), 0, _SEQUENCE_MAX)
    keys: Array = (producer.astype(np.int64) << _SEQUENCE_BITS) | within
    return keys


# --- histories ------------------------------------------------------------------------------------
#
# The history of a cell's transactions for the rules: rows of several tables as arrays. It is built
# once and shared by all rules, and contains no judgement.


@dataclass(frozen=True, kw_only=True)
class NamedRows:
    """Rows that each name a record. The name is NONE if the payload is damaged or no client wrote
    it."""

    producer: Array
    sequence: Array
    partition: Array

    def __len__(self) -> int:
        return len(self.producer)

    @cached_property
    def keys(self) -> Array:
        """The keys of the records, as of
        :func:`checkers.checks.transaction_history.record_keys`."""
        return record_keys(self.producer, self.sequence)


@dataclass(frozen=True, kw_only=True)
class SentRows(NamedRows):
    """The sends. ``fate`` is a :class:`checkers.index.partition_history.Fate`. ``asked`` is the
    time at which each record was passed to its producer, or NONE if it is unknown. ``removable``
    says whether compaction may have removed the record even if it was committed."""

    fate: Array
    asked: Array
    removable: Array


@dataclass(frozen=True, kw_only=True)
class LogRows(NamedRows):
    """The final log of all partitions. ``committed`` says whether the final read as read_committed
    also returned the record."""

    offset: Array
    committed: Array


@dataclass(frozen=True, kw_only=True)
class ReadRows(NamedRows):
    """The reads of consumers, including transformers. ``client`` is a position in ``clients``, and
    ``time`` is when the poll returned."""

    offset: Array
    time: Array
    client: Array
    clients: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class InputRows(NamedRows):
    """The records that transformers read. ``reader`` is the number of the transformer's session,
    ``transaction`` the number of its transaction, and ``made`` the sequence number of the output
    record, or NONE if there is none."""

    offset: Array
    reader: Array
    transaction: Array
    made: Array


@dataclass(frozen=True, kw_only=True)
class TransactionalHistory:
    """The transactional history of a cell.

    Attributes:
        reads_committed: Whether its consumers read committed records only.
        transactions: All transactions.
        sent: The sends.
        log: The final log.
        shown: The reads of consumers.
        inputs: The reads of transformers.
        positions: The last committed offset of the transformers' group by partition, where it is
            known.
        log_complete: Whether the final read covered every partition, also as read_committed, and
            all of its rows are present.
        lacking: The tables with missing rows or more rows than there should be.
    """

    reads_committed: bool
    transactions: Sequence[Transaction]
    sent: SentRows
    log: LogRows
    shown: ReadRows
    inputs: InputRows
    positions: Mapping[int, int]
    log_complete: bool
    lacking: frozenset[str] = frozenset()

    @cached_property
    def membership(self) -> Membership:
        return Membership(self.transactions)

    def transactions_of(self, records: NamedRows) -> Array:
        """Return positions in ``transactions``, or NONE for a record outside all transactions."""
        return self.membership.of(records.producer, records.sequence)

    @cached_property
    def committed_keys(self) -> Array:
        """The keys of the records that are committed in the final log."""
        return np.unique(self.log.keys[self.log.committed])

    @cached_property
    def stands(self) -> Array:
        """Whether each transaction is committed in the final log: any record of it is, or its
        commit was answered and compaction may have removed all of its records."""
        mine = self.transactions_of(self.log)
        found = np.zeros(len(self.transactions), dtype=bool)
        found[mine[self.log.committed & (mine != NONE)]] = True
        kept: Array = found | (
            self.compacted_away & self.with_outcome(TransactionOutcome.COMMITTED)
        )
        return kept

    @cached_property
    def due(self) -> Array:
        """Whether each of the sends must be committed in the final log if its transaction was
        committed, or is there: compaction cannot have removed it."""
        due: Array = ~self.sent.removable | np.isin(self.sent.keys, self.committed_keys)
        return due

    @cached_property
    def compacted_away(self) -> Array:
        """Whether compaction may have removed all records of each transaction, at least one of them
        acked, if it was committed. The final log then says nothing about its outcome."""
        mine = self.transactions_of(self.sent)
        acked = (self.sent.fate == Fate.ACKED) & (mine != NONE)
        found = np.zeros(len(self.transactions), dtype=bool)
        found[mine[acked]] = True
        found[mine[acked & self.due]] = False
        return found

    def with_outcome(self, *outcomes: TransactionOutcome) -> Array:
        """Return whether the outcome of each transaction is one of these."""
        return np.array([one.outcome in outcomes for one in self.transactions], dtype=bool)

    @cached_property
    def certainly_not(self) -> Array:
        """Whether each transaction was certainly not committed. A transaction with an unknown
        outcome is decided by the time of a complete final read: the log has all of its records or
        none, unless compaction may have removed all of them."""
        unknown = self.with_outcome(TransactionOutcome.UNKNOWN) & self.log_complete & ~self.stands
        return self.with_outcome(TransactionOutcome.NOT_COMMITTED) | (
            unknown & ~self.compacted_away
        )

    @cached_property
    def input_transactions(self) -> Array:
        """For each row of ``inputs``, the position of the transaction that read it, or NONE if that
        did not begin."""
        numbers = {(t.producer, t.number): at for at, t in enumerate(self.transactions)}
        pairs = zip(self.inputs.reader.tolist(), self.inputs.transaction.tolist(), strict=True)
        return np.array([numbers.get(pair, NONE) for pair in pairs], dtype=np.int64)

    @cached_property
    def transformed(self) -> Array:
        """For each row of ``inputs``, whether its output record was committed."""
        return self._inputs_of(self.stands)

    @cached_property
    def perhaps_transformed(self) -> Array:
        """For each row of ``inputs``, whether its output record may have been committed, and
        compacted away."""
        unknown = self.with_outcome(TransactionOutcome.UNKNOWN) & ~self.stands
        return self._inputs_of(unknown & self.compacted_away)

    def _inputs_of(self, chosen: Array) -> Array:
        """Return which rows of ``inputs`` have an output record of the chosen transactions."""
        at = self.input_transactions
        found: Array = (self.inputs.made != NONE) & np.append(chosen, False)[at] & (at != NONE)
        return found


def of_producers(records: NamedRows) -> Array:
    """Return whether each record was sent by a producer that is not a transformer."""
    theirs: Array = (records.producer != NONE) & (records.producer < TRANSFORMERS)
    return theirs
