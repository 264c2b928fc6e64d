"""Made cells that are written in transactions into compacted topics, by a plain model of Kafka's
log cleaner: it discards aborted records, lets committed ones alone supersede others, and removes a
marker later than the last record of its transaction."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.catalogue import G0
from ackproof.checkers.checks.check_reads import ConsumerRows, check_rows
from ackproof.checkers.checks.check_transactions import log_rows, sent_rows
from ackproof.checkers.checks.compaction import decisions_of, with_shared_outcomes
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.read_anomalies import PartitionGuarantees
from ackproof.checkers.checks.transaction_history import (
    InputRows,
    ReadRows,
    TransactionalHistory,
    transactions_of,
)
from ackproof.checkers.checks.transaction_rules import RULES
from ackproof.checkers.context.retention import TombstoneEvidence
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.history.transactional import producer_number
from tests.support.builders.consumers import MadeConsumer, left_by, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import Made, Send, entry, indexed, send

S = 1_000_000_000
RETENTION_S = 20
PARTITIONS = 2
KEYS = 4
PRODUCERS = 2
TRANSFORMER = PRODUCERS
WAIT_S = RETENTION_S + 5

SENDS = ("send", "send", "send", "send", "tombstone")
ENDS = ("commit", "commit", "commit", "abort", "lose", "spoil")
STEPS = (*SENDS, *ENDS, "transform", "clean", "clean", "read", "wait")


@dataclass(eq=False)
class Txn:
    """A transaction. ``committed`` is what the coordinator decided, None while it is open."""

    producer: int
    number: int
    committed: bool | None = None
    answered: bool = False
    spoiled: bool = False
    reads: list["Record"] = field(default_factory=list)


@dataclass(eq=False)
class Record:
    """A record that was sent. ``offset`` is None for one that was never appended."""

    producer: int
    sequence: int
    key: int
    deletes: bool
    asked: int
    txn: Txn
    offset: int | None
    acked: bool
    made_of: "Record | None" = None

    @property
    def partition(self) -> int:
        return self.key % PARTITIONS

    @property
    def is_certain(self) -> bool:
        """Whether its client knows that it was committed."""
        return bool(self.txn.committed and self.txn.answered and self.acked)


@dataclass(frozen=True, kw_only=True)
class Compacted:
    """The records of a cell and of its clients at the end.

    Attributes:
        rows: The rows of ``transactions``.
        records: All records that were sent.
        ends: The end of each partition's log.
        log: The records that the final read returned, by partition.
        committed: Those that the read of committed records returned.
        read: The records that the tail reader read, with the second, by partition.
        inputs: The records that transformers read: session, transaction, record.
        positions: The offsets that their group has committed.
        over: The second by which the final read had ended.
        isolated: Whether the tail reader reads committed records only.
        whole: Whether the read of committed records came to its end.
    """

    rows: Sequence[dict[str, Any]]
    records: Sequence[Record]
    ends: Sequence[int]
    log: Sequence[Sequence[Record]]
    committed: Sequence[Sequence[Record]]
    read: Sequence[Sequence[tuple[Record, int]]]
    inputs: Sequence[tuple[int, int, Record]]
    positions: dict[int, int]
    over: int
    isolated: bool
    whole: bool = True

    def but(self, **changes: Any) -> "Compacted":
        return replace(self, **changes)

    def without(self, *gone: Record) -> "Compacted":
        """Return the same cell without these records in either final read."""
        log, committed = (
            [[one for one in of if one not in gone] for of in reads]
            for reads in (self.log, self.committed)
        )
        return self.but(log=log, committed=committed)

    def partition(self, number: int) -> PartitionHistory:
        """Return the history of a partition, as tasks have it."""
        own = [one for one in self.records if one.partition == number]
        log = [entry(one.offset, one.producer, one.sequence) for one in self.log[number]]
        sends = [row for one in own for row in _sends(one)]
        made = indexed(Made(sends=sends, log=log, start=0, end=self.ends[number]))
        names = {(one.producer, one.sequence): one for one in own}
        pairs = zip(made.producer.tolist(), made.sequence.tolist(), strict=True)
        known = [names[pair] for pair in pairs]
        offsets = np.array([one.offset for one in self.committed[number]], dtype=np.int64)
        history = replace(
            made,
            partition=number,
            keys=np.array([one.key for one in known], dtype=np.int64),
            deletes=np.array([one.deletes for one in known], dtype=bool),
            tombstones=TombstoneEvidence(retention_ms=RETENTION_S * 1000, read_over=self.over * S),
            transactional=True,
            visible=np.isin(made.log_offset, offsets) if self.isolated else None,
        )
        told = transactions_of(self.rows)
        return replace(history, decisions=decisions_of(history, told, offsets, whole=self.whole))

    def reader(self, number: int) -> ConsumerRows:
        """Return what the tail reader recorded of a partition."""
        polls = [
            seen(poll, one.offset, one.producer, one.sequence, second * S)
            for poll, (one, second) in enumerate(self.read[number], 1)
        ]
        return left_by(MadeConsumer(polls=polls, assigned=[assigned(0, 0, 0)]))

    def history(self) -> TransactionalHistory:
        """Return the history of the transactions, as their rules have it."""
        partitions = with_shared_outcomes(
            [self.partition(number) for number in range(PARTITIONS)], transactions_of(self.rows)
        )
        offsets = [np.array([one.offset for one in some], np.int64) for some in self.committed]
        reads = [read for some in self.read for read in some]
        own = [one for *_, one in self.inputs]
        made = {
            (one.txn.producer, one.txn.number, id(one.made_of)): one.sequence
            for one in self.records
            if one.made_of is not None
        }
        return TransactionalHistory(
            reads_committed=True,
            transactions=transactions_of(self.rows),
            sent=sent_rows(partitions),
            log=log_rows(partitions, offsets),
            shown=ReadRows(
                **_named([one for one, _ in reads]),
                offset=_numbers(one.offset for one, _ in reads),
                time=_numbers(second * S for _, second in reads),
                client=np.zeros(len(reads), dtype=np.int64),
                clients=["reader-0"],
            ),
            inputs=InputRows(
                **_named(own),
                offset=_numbers(one.offset for one in own),
                reader=_numbers(session for session, _, _ in self.inputs),
                transaction=_numbers(number for _, number, _ in self.inputs),
                made=_numbers(
                    made.get((session, number, id(one)), NONE)
                    for session, number, one in self.inputs
                ),
            ),
            positions=self.positions,
            log_complete=True,
        )

    def last_committed(self) -> list[Record]:
        """Return the last committed record of each key, unless it is a tombstone, or one of unknown
        outcome may have deleted it."""
        unknown = {one.key for one in self.records if one.deletes and not one.txn.answered}
        lasts: dict[int, Record] = {}
        for one in self.records:
            if one.txn.committed:
                lasts[one.key] = max(one, lasts.get(one.key, one), key=_offset)
        return [one for key, one in lasts.items() if not one.deletes and key not in unknown]

    def older(self, record: Record) -> list[Record]:
        """Return the committed values of the same key before it, back to the last tombstone."""
        own = [one for one in self.records if one.key == record.key and one.txn.committed]
        before = [one for one in own if _offset(one) < _offset(record)]
        deleted = max((_offset(one) for one in before if one.deletes), default=NONE)
        return [one for one in before if _offset(one) > deleted]

    def unanswered(self) -> set[tuple[int, int]]:
        """Return the transactions, by session and number, whose ends were not answered."""
        return {(one.txn.producer, one.txn.number) for one in self.records if not one.txn.answered}


def _offset(one: Record) -> int:
    return NONE if one.offset is None else one.offset


def _sends(one: Record) -> Iterator[Send]:
    yield send("invoke", one.producer, one.sequence, one.asked * S)
    if one.acked:
        yield send("ok", one.producer, one.sequence, one.asked * S + S // 10, one.offset)


def _numbers(values: Any) -> Array:
    return np.array(list(values), dtype=np.int64)


def _named(records: Sequence[Record]) -> dict[str, Array]:
    return {
        name: _numbers(getattr(one, name) for one in records)
        for name in ("producer", "sequence", "partition")
    }


@dataclass
class _Session:
    client: int
    producer: int
    sequence: int = 0
    transactions: int = 0
    open: Txn | None = None


class CompactedCluster:
    """Partitions, sessions, a group and a cleaner, driven step by step. A step takes a second."""

    def __init__(self, isolated: bool) -> None:
        self.isolated = isolated
        self.now = 0
        self.rows: list[dict[str, Any]] = []
        self.records: list[Record] = []
        self.ends = [0] * PARTITIONS
        self.present: list[dict[int, Record | Txn]] = [{} for _ in range(PARTITIONS)]
        self.horizons: dict[tuple[int, int], int] = {}
        self.read: list[list[tuple[Record, int]]] = [[] for _ in range(PARTITIONS)]
        self.inputs: list[tuple[int, int, Record]] = []
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.lives = dict.fromkeys(range(PRODUCERS + 1), 0)
        self.sessions = {client: self._live(client) for client in self.lives}

    def take(self, step: str, client: int, key: int, chance: int) -> None:
        """Take a step. ``chance`` is a number from 0 to 99 for what else must be drawn."""
        self.now += WAIT_S if step == "wait" else 1
        session = self.sessions[client]
        if step in SENDS and client != TRANSFORMER:
            self.send(session, key, deletes=step == "tombstone")
        elif step == "spoil" and client != TRANSFORMER:
            self.spoil(session, key, appended=chance < 50)
        elif step in ("commit", "abort", "lose") and session.open is not None:
            self.end(session, step, really=step == "commit" or (step == "lose" and chance < 50))
        elif step == "transform":
            self.transform(chance)
        elif step == "clean":
            for partition in range(PARTITIONS):
                self.clean(partition, chance)
        elif step == "read":
            self.read_some(chance)

    def send(self, session: _Session, key: int, *, deletes: bool, of: Record | None = None) -> None:
        record = self._record(session, key, appended=True, acked=True)
        record.deletes, record.made_of = deletes, of

    def spoil(self, session: _Session, key: int, *, appended: bool) -> None:
        """Send a record that gets no ack, so that its transaction cannot be committed."""
        record = self._record(session, key, appended=appended, acked=False)
        record.txn.spoiled = True

    def _record(self, session: _Session, key: int, *, appended: bool, acked: bool) -> Record:
        txn = self._begun(session)
        partition = key % PARTITIONS
        record = Record(
            producer=session.producer,
            sequence=session.sequence,
            key=key,
            deletes=False,
            asked=self.now,
            txn=txn,
            offset=self._append(partition, None) if appended else None,
            acked=acked,
        )
        if record.offset is not None:
            self.present[partition][record.offset] = record
        session.sequence += 1
        self.records.append(record)
        return record

    def end(self, session: _Session, step: str, *, really: bool) -> None:
        txn = session.open
        assert txn is not None
        asked = "abort" if step == "abort" or txn.spoiled else "commit"
        answered = step != "lose"
        self._row(session, asked, "invoke")
        self._decide(session, really and asked == "commit")
        txn.answered = answered
        self._row(session, asked, "ok" if answered else "info")
        if not answered:
            self.sessions[session.client] = self._live(session.client)

    def _decide(self, session: _Session, committed: bool) -> None:
        txn, session.open = session.open, None
        assert txn is not None
        txn.committed = committed
        own = [one for one in self.records if one.txn is txn and one.offset is not None]
        for partition in sorted({one.partition for one in own}):
            self.present[partition][self._append(partition, txn)] = txn
        for one in txn.reads if committed else ():
            self.positions[one.partition] = max(self.positions[one.partition], _offset(one) + 1)

    def transform(self, chance: int) -> None:
        """Read in the group what is committed, and send a record for each record of a producer."""
        session = self.sessions[TRANSFORMER]
        if session.open is not None:
            return
        reads = [
            one
            for partition in range(PARTITIONS)
            for one in self._readable(partition, self.positions[partition], isolated=True)
        ]
        if not any(self._is_input(one) for one in reads):
            return
        txn = self._begun(session)
        txn.reads = reads
        for number, one in enumerate(reads):
            self.inputs.append((session.producer, txn.number, one))
            if self._is_input(one):
                self.send(session, (chance + number) % KEYS, deletes=False, of=one)

    def read_some(self, chance: int) -> None:
        """Let the tail reader read a share of what there is."""
        for partition, read in enumerate(self.read):
            position = _offset(read[-1][0]) + 1 if read else 0
            there = self._readable(partition, position, isolated=self.isolated)
            read += [(one, self.now) for one in there[: chance % 7]]

    def _readable(self, partition: int, since: int, *, isolated: bool) -> list[Record]:
        found = [self.present[partition][offset] for offset in sorted(self.present[partition])]
        stable = self._stable(partition)
        return [
            one
            for one in found
            if isinstance(one, Record)
            and _offset(one) >= since
            and (not isolated or (one.txn.committed and _offset(one) < stable))
        ]

    def _stable(self, partition: int) -> int:
        """Return the last stable offset."""
        unstable = (
            offset
            for offset, one in self.present[partition].items()
            if isinstance(one, Record) and one.txn.committed is None
        )
        return min(unstable, default=self.ends[partition])

    def clean(self, partition: int, chance: int) -> None:
        """Clean up to a share of what is stable, as Kafka's cleaner does."""
        end = self._stable(partition) * chance // 100
        there = self.present[partition]
        dirty = {offset: one for offset, one in sorted(there.items()) if offset < end}
        newest = {
            one.key: offset
            for offset, one in dirty.items()
            if isinstance(one, Record) and one.txn.committed
        }
        for offset, one in dirty.items():
            expired = self.horizons.get((partition, offset), self.now + 1) <= self.now
            if isinstance(one, Record):
                kept = one.txn.committed and newest[one.key] == offset
                if not kept or (one.deletes and expired):
                    del there[offset]
            elif expired:
                del there[offset]
        left = {one.txn for one in there.values() if isinstance(one, Record)}
        for offset, one in there.items():
            ages = one.deletes if isinstance(one, Record) else one not in left
            if offset < end and ages:
                self.horizons.setdefault((partition, offset), self.now + RETENTION_S)

    def finish(self, chances: Sequence[int]) -> Compacted:
        """Return what is known after open transactions have timed out. The cleaner goes on between
        the two final reads."""
        for session in self.sessions.values():
            if session.open is not None:
                self._decide(session, committed=False)
        log = [self._readable(one, 0, isolated=False) for one in range(PARTITIONS)]
        for chance in chances:
            self.now += 1
            for partition in range(PARTITIONS):
                self.clean(partition, chance)
        return Compacted(
            rows=self.rows,
            records=self.records,
            ends=self.ends,
            log=log,
            committed=[self._readable(one, 0, isolated=True) for one in range(PARTITIONS)],
            read=self.read,
            inputs=self.inputs,
            positions=self.positions,
            over=self.now,
            isolated=self.isolated,
        )

    def _append(self, partition: int, _what: Txn | None) -> int:
        self.ends[partition] += 1
        return self.ends[partition] - 1

    def _is_input(self, one: Record) -> bool:
        return one.made_of is None

    def _begun(self, session: _Session) -> Txn:
        if session.open is None:
            session.transactions += 1
            session.open = Txn(producer=session.producer, number=session.transactions)
            self._row(session, "begin", "ok", sequence=session.sequence)
        return session.open

    def _live(self, client: int) -> _Session:
        number = producer_number(client, self.lives[client], transformer=client == TRANSFORMER)
        self.lives[client] += 1
        session = _Session(client, number)
        self._row(session, "init", "invoke")
        self._row(session, "init", "ok")
        return session

    def _row(self, session: _Session, event: str, kind: str, **further: Any) -> None:
        number = 0 if event == "init" else session.transactions
        told = {"transactional_id": f"id-{session.client}", "producer": session.producer}
        self.rows.append(
            {"time": self.now * S, "event": event, "type": kind, "transaction": number}
            | {**told, "sequence": None, **further}
        )


READS = ("read",) * 8
"""So many reads that the tail reader is shown everything."""


@st.composite
def compacted(
    draw: Callable[[Any], Any], *, isolated: bool = True, ends: Sequence[str] = ()
) -> Compacted:
    """A cell of which everything promised was kept. Its producer 0 takes the steps ``ends`` at
    last, after the end of its open transaction, with a key for all that it sends (``send``) or the
    next one (``other``)."""
    cluster = CompactedCluster(isolated)
    chance, keys = st.integers(0, 99), st.integers(0, KEYS - 1)
    step = st.tuples(st.sampled_from(STEPS), st.integers(0, PRODUCERS), keys, chance)
    for kind, client, key, share in draw(st.lists(step, min_size=15, max_size=60)):
        cluster.take(kind, client, key, share)
    key = draw(keys)
    for kind in ("abort", *ends) if ends else ():
        other = kind == "other"
        share = 6 if kind == "read" else 0
        cluster.take("send" if other else kind, 0, (key + other) % KEYS, share)
    return cluster.finish(draw(st.lists(chance, max_size=2)))


# --- findings ------------------------------------------------------------------------------------

Finding = tuple[str, int | None, int | None]
"""Anomaly, partition and offset."""


def of_records(cell: Compacted) -> Counter[Finding]:
    return Counter(
        (name, number, offset)
        for number in range(PARTITIONS)
        for name, rule in CHECKERS.items()
        for offset in rule(cell.partition(number))["offset"].to_pylist()
    )


def of_readers(cell: Compacted) -> Counter[Finding]:
    found: Counter[Finding] = Counter()
    for number in range(PARTITIONS):
        history = cell.partition(number)
        result = check_rows([cell.reader(number)], history, PartitionGuarantees())
        assert "vanished-read" in result.looked
        rows = (row for one in result.found for row in one.rows.to_pylist())
        found.update((row["anomaly"], number, row["offset"]) for row in rows)
    return found


def of_transactions(cell: Compacted) -> Counter[Finding]:
    history = cell.history()
    told = (one for name, rule in RULES.items() if name != G0 for one in rule(history))
    return Counter((one.anomaly, one.partition, one.offset) for one in told)


def found(cell: Compacted) -> Counter[Finding]:
    return of_records(cell) + of_readers(cell) + of_transactions(cell)


def names(findings: Counter[Finding]) -> list[str]:
    return sorted(name for name, *_ in findings.elements())
