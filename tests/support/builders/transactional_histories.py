"""Made cells that are written in transactions: a log of a few partitions that keeps Kafka's rules,
clients that do as they please in it, and what they would have recorded.

What a session does it does in steps, so that transactions of several overlap; one transformer reads
what is committed (or all) and writes what it makes of it into the same partitions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks.transaction_history import (
    InputRows,
    LogRows,
    ReadRows,
    SentRows,
    TransactionalHistory,
    transactions_of,
)
from ackproof.checkers.index.partition_history import Fate
from ackproof.history.transactional import SESSIONS_MAX, producer_number

PRODUCERS = 2
TRANSFORMER = PRODUCERS
READER = "reader"
STEPS = ("send", "send", "commit", "commit", "abort", "fence", "lose", "transform", "read")

ROUND = (("send", 0), ("commit", 0), ("transform", TRANSFORMER), ("commit", TRANSFORMER))
"""What is read, made something of and committed."""


@dataclass(frozen=True)
class SentRow:
    producer: int
    sequence: int
    partition: int
    fate: Fate
    asked: int
    removable: bool = False


@dataclass(frozen=True)
class LogRow:
    partition: int
    offset: int
    producer: int
    sequence: int
    committed: bool


@dataclass(frozen=True)
class ShownRow:
    client: str
    partition: int
    offset: int
    time: int
    producer: int
    sequence: int


@dataclass(frozen=True)
class InputRow:
    reader: int
    transaction: int
    partition: int
    offset: int
    producer: int
    sequence: int
    made: int


@dataclass(frozen=True, kw_only=True)
class World:
    """The records of a cell's clients and its final read."""

    reads_committed: bool
    rows: tuple[dict[str, Any], ...]
    sent: tuple[SentRow, ...]
    log: tuple[LogRow, ...]
    shown: tuple[ShownRow, ...]
    inputs: tuple[InputRow, ...]
    positions: dict[int, int]
    log_complete: bool = True

    def but(self, **changes: Any) -> "World":
        return replace(self, **changes)

    @property
    def history(self) -> TransactionalHistory:
        """Return the history in the form for the rules."""
        clients = sorted({row.client for row in self.shown})
        numbers = {client: number for number, client in enumerate(clients)}
        return TransactionalHistory(
            reads_committed=self.reads_committed,
            transactions=transactions_of(self.rows),
            sent=SentRows(**_columns(self.sent, SentRow)),
            log=LogRows(**_columns(self.log, LogRow)),
            shown=ReadRows(
                **_columns(
                    [replace(row, client=numbers[row.client]) for row in self.shown], ShownRow
                ),
                clients=clients,
            ),
            inputs=InputRows(**_columns(self.inputs, InputRow)),
            positions=self.positions,
            log_complete=self.log_complete,
        )


def _columns(rows: Any, kind: Any) -> dict[str, Any]:
    names = list(kind.__dataclass_fields__)
    return {
        name: np.array(
            [getattr(row, name) for row in rows],
            dtype=bool if name in ("committed", "removable") else np.int64,
        )
        for name in names
    }


@dataclass
class _Open:
    """A transaction that has begun. ``reads``: partition, offset, producer and sequence."""

    number: int
    places: list[tuple[int, int]] = field(default_factory=list)
    reads: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass
class _Session:
    transactional_id: str
    producer: int
    sequence: int = 0
    transactions: int = 0
    open: _Open | None = None


class _Cluster:
    """Partitions, sessions and a group, driven step by step."""

    def __init__(self, partitions: int, reads_committed: bool) -> None:
        self.reads_committed = reads_committed
        self.now = 0
        self.logs: list[list[tuple[int, int] | None]] = [[] for _ in range(partitions)]
        self.committed: dict[tuple[int, int], bool] = {}
        self.rows: list[dict[str, Any]] = []
        self.sent: list[SentRow] = []
        self.shown: list[ShownRow] = []
        self.inputs: list[InputRow] = []
        self.positions = dict.fromkeys(range(partitions), 0)
        self.read_to = dict.fromkeys(range(partitions), 0)
        self.lives = dict.fromkeys(range(PRODUCERS + 1), 0)
        self.sessions = {client: self._begin_life(client) for client in self.lives}

    def row(self, session: _Session, event: str, kind: str, **further: Any) -> None:
        self.now += 1
        number = 0 if event == "init" else session.transactions
        told = {"transactional_id": session.transactional_id, "producer": session.producer}
        self.rows.append(
            {"time": self.now, "event": event, "type": kind, "transaction": number}
            | {**told, "sequence": None, **further}
        )

    def _begin_life(self, client: int) -> _Session:
        number = producer_number(client, self.lives[client], transformer=client == TRANSFORMER)
        self.lives[client] += 1
        session = _Session(transactional_id=f"id-{client}", producer=number)
        self.row(session, "init", "invoke")
        self.row(session, "init", "ok")
        return session

    def begin(self, session: _Session) -> _Open:
        if session.open is None:
            session.transactions += 1
            session.open = _Open(number=session.transactions)
            self.row(session, "begin", "ok", sequence=session.sequence)
        return session.open

    def send(self, session: _Session, partition: int) -> int:
        """The sequence number of what was sent."""
        opened = self.begin(session)
        self.now += 1
        opened.places.append((partition, len(self.logs[partition])))
        self.logs[partition].append((session.producer, session.sequence))
        self._sent(session, partition, Fate.ACKED)
        return session.sequence - 1

    def _sent(self, session: _Session, partition: int, fate: Fate) -> None:
        row = SentRow(session.producer, session.sequence, partition, fate, self.now)
        self.sent.append(row)
        session.sequence += 1

    def end(self, session: _Session, event: str, answer: str = "ok", *, really: bool) -> None:
        """Ask for the end of what is open, if it is; ``really``: whether it is committed."""
        if session.open is None:
            return
        self.row(session, event, "invoke")
        self._decided(session, really)
        self.row(session, event, answer)

    def _decided(self, session: _Session, committed: bool) -> None:
        opened, session.open = session.open, None
        assert opened is not None
        for place in opened.places:
            self.committed[place] = committed
        for partition in sorted({partition for partition, _ in opened.places}):
            self.logs[partition].append(None)  # the marker
        for partition, offset, *_ in opened.reads if committed else ():
            self.positions[partition] = max(self.positions[partition], offset + 1)

    def fence(self, client: int, partition: int) -> None:
        """Another session begins while this one goes on as if it had not."""
        zombie = self.sessions[client]
        had_open = zombie.open is not None
        if had_open:
            self._decided(zombie, committed=False)
        self.sessions[client] = self._begin_life(client)
        if had_open:
            self.now += 1
            self._sent(zombie, partition, Fate.INDETERMINATE)
            self.row(zombie, "commit", "invoke")
            self.row(zombie, "commit", "info")

    def lose(self, client: int, committed: bool) -> None:
        """Lose the answer to a commit; another session takes over when the outcome is decided."""
        session = self.sessions[client]
        self.end(session, "commit", "info", really=committed)
        self.sessions[client] = self._begin_life(client)

    def transform(self, partition: int) -> None:
        """Read what there is, and send what is made of it into ``partition``."""
        session = self.sessions[TRANSFORMER]
        if session.open is not None:
            return
        reads = list(self._readable(self.positions))
        if not any(producer < SESSIONS_MAX * PRODUCERS for *_, producer, _ in reads):
            return
        opened = self.begin(session)
        opened.reads = reads
        self.now += 1
        for where, offset, producer, sequence in reads:
            mine = producer >= SESSIONS_MAX * PRODUCERS
            made = NONE if mine else self.send(session, partition)
            number = session.transactions
            read = (where, offset, producer, sequence)
            self.inputs.append(InputRow(session.producer, number, *read, made))
            self._show("transformer", *read)

    def read(self) -> None:
        self.now += 1
        for place in list(self._readable(self.read_to)):
            self.read_to[place[0]] = place[1] + 1
            self._show(READER, *place)

    def _show(self, client: str, partition: int, offset: int, producer: int, sequence: int) -> None:
        self.shown.append(ShownRow(client, partition, offset, self.now, producer, sequence))

    def _readable(self, since: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """Return the records that a consumer reads from there on, in the order of partitions."""
        undecided = [
            place for one in self.sessions.values() if one.open for place in one.open.places
        ]
        for partition, log in enumerate(self.logs):
            stable = [offset for where, offset in undecided if where == partition]
            end = min(stable, default=len(log)) if self.reads_committed else len(log)
            for offset in range(since[partition], end):
                record = log[offset]
                kept = not self.reads_committed or self.committed.get((partition, offset))
                if record is not None and kept:
                    yield partition, offset, *record

    def world(self) -> World:
        """Return the world after all open transactions have timed out."""
        for session in self.sessions.values():
            if session.open is not None:
                self._decided(session, committed=False)
        log = [
            LogRow(partition, offset, *record, self.committed[partition, offset])
            for partition, records in enumerate(self.logs)
            for offset, record in enumerate(records)
            if record is not None
        ]
        return World(
            reads_committed=self.reads_committed,
            rows=tuple(self.rows),
            sent=tuple(self.sent),
            log=tuple(log),
            shown=tuple(self.shown),
            inputs=tuple(self.inputs),
            positions=self.positions,
        )


@st.composite
def sound(draw: Callable[[Any], Any], reads_committed: bool = True) -> World:
    """A cell of which everything promised was kept."""
    partitions = draw(st.integers(1, 3))
    cluster = _Cluster(partitions, reads_committed)
    step = st.tuples(
        st.sampled_from(STEPS),
        st.integers(0, PRODUCERS),
        st.integers(0, partitions - 1),
        st.booleans(),
    )
    for _ in range(draw(st.integers(0, 3))):
        partition = draw(st.integers(0, partitions - 1))
        for kind, client in ROUND:  # left to chance, a transformer seldom commits twice
            _take(cluster, kind, client, partition, True)
    for kind, client, partition, committed in draw(st.lists(step, max_size=60)):
        _take(cluster, kind, client, partition, committed)
    return cluster.world()


def _take(cluster: _Cluster, kind: str, client: int, partition: int, committed: bool) -> None:
    session = cluster.sessions[client]
    if kind == "send" and client != TRANSFORMER:
        cluster.send(session, partition)
    elif kind == "commit":
        cluster.end(session, "commit", really=True)
    elif kind == "abort":
        cluster.end(session, "abort", really=False)
    elif kind == "fence":
        cluster.fence(client, partition)
    elif kind == "lose":
        cluster.lose(client, committed)
    elif kind == "transform":
        cluster.transform(partition)
    elif kind == "read":
        cluster.read()
