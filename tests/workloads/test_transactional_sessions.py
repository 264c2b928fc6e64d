"""A session's record, whatever its client library answers: what is told of a transaction is what
the last answer allows, and never more."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.checks.transaction_history import TransactionOutcome, transactions_of
from ackproof.history.names import SendType
from ackproof.history.reader import read
from ackproof.workloads.foreign.protocol import Remedy
from ackproof.workloads.transactions.recorder import TransactionRecorder
from ackproof.workloads.transactions.session import (
    CallFailed,
    OutgoingRecord,
    ProducerSession,
    RecordDraw,
    Report,
)
from ackproof.workloads.transactions.spec import TransactionalSpec

Answer = Remedy | None
"""To one call: None for one that returned."""


class Scripted:
    """A client library that answers as it is written down, then lets every call return; records are
    acknowledged when it is served."""

    ready = True

    def __init__(self, answers: Sequence[Answer], report: Report) -> None:
        self._answers: Iterator[Answer] = iter(answers)
        self._report = report
        self._sent: list[int] = []
        self.asked: list[tuple[str, Answer]] = []

    @property
    def waiting(self) -> int:
        return len(self._sent)

    def init(self, _seconds: float) -> None: ...

    def begin(self) -> None: ...

    def send(self, sequence: int, _record: OutgoingRecord) -> None:
        self._sent.append(sequence)

    def commit(self, _seconds: float) -> None:
        self._answer("commit")

    def abort(self, _seconds: float) -> None:
        self._answer("abort")

    def serve(self, _seconds: float) -> None:
        for sequence in self._sent:
            self._report(sequence, SendType.OK, sequence, None)
        self._sent.clear()

    def close(self) -> None: ...

    def _answer(self, call: str) -> None:
        answer = next(self._answers, None)
        self.asked.append((call, answer))
        if answer is not None:
            raise CallFailed("SomeError", answer)


@dataclass(frozen=True)
class Lived:
    """The life of a session: its transactions, each with the calls to end it, and the rows."""

    ends: list[list[tuple[str, Answer]]]
    outcomes: list[TransactionOutcome]
    rows: list[dict[str, object]]
    over: bool


def lived(directory: Path, commits: Sequence[bool], answers: Sequence[Answer]) -> Lived:
    spec = TransactionalSpec(
        cell="c", topic="t", partitions=2, producer=0, rate=1, record_bytes=100,
        bootstrap_servers="unreachable:1", history=directory, progress=directory / "progress",
        seed=1, transaction_records=2, aborts=0.5, fences=0.0, library="./own",
    )  # fmt: skip
    recorder = TransactionRecorder(spec, time.time_ns)
    made: list[Scripted] = []

    def make(_spec: TransactionalSpec, report: Report) -> Scripted:
        made.append(Scripted(answers, report))
        return made[-1]

    session = ProducerSession(spec, 0, recorder, lambda _now: None, make)
    ends = []
    assert session.init()
    for commit in commits:
        if session.over:
            break
        before = len(made[0].asked)
        session.begin()
        session.send(RecordDraw(0))
        session.send(RecordDraw(1))
        end: Callable[[], object] = session.commit if commit else session.abort
        end()
        ends.append(made[0].asked[before:])
    session.close()
    recorder.close()
    rows = read(directory, "transactions").to_pylist()
    outcomes = [one.outcome for one in transactions_of(rows)]
    return Lived(ends, outcomes, rows, session.over)


def allowed(asked: Sequence[tuple[str, Answer]]) -> TransactionOutcome:
    """Return the known outcome of a transaction, by the calls to end it."""
    if all(call == "abort" for call, _ in asked):
        return TransactionOutcome.NOT_COMMITTED
    match asked[-1]:
        case "commit", None:
            return TransactionOutcome.COMMITTED
        case "abort", None:
            return TransactionOutcome.NOT_COMMITTED
    return TransactionOutcome.UNKNOWN


@given(
    commits=st.lists(st.booleans(), min_size=1, max_size=4),
    answers=st.lists(st.none() | st.sampled_from(Remedy), max_size=8).filter(
        lambda answers: answers.count(Remedy.RETRIABLE) < 4
    ),
)
def test_recorded_outcome_is_the_last_answer(
    tmp_path_factory, commits: list[bool], answers: list[Answer]
) -> None:
    told = lived(tmp_path_factory.mktemp("history"), commits, answers)
    assert told.outcomes == [allowed(asked) for asked in told.ends]
    for asked in told.ends[:-1]:
        assert asked[-1][1] is None, "a session with an undecided transaction is over"
    asked_again = [row for row in told.rows if row["type"] == "invoke"]
    assert len({(row["transaction"], row["event"]) for row in asked_again}) == len(asked_again)
    assert not any(row["type"] == "fail" for row in told.rows)


def test_a_commit_that_must_be_aborted_is_aborted_before_anything_else(tmp_path: Path) -> None:
    told = lived(tmp_path, [True, True], [Remedy.RETRIABLE, Remedy.ABORTABLE, Remedy.RETRIABLE])
    assert told.ends[0] == [
        ("commit", Remedy.RETRIABLE),
        ("commit", Remedy.ABORTABLE),
        ("abort", Remedy.RETRIABLE),
        ("abort", None),
    ]
    assert told.outcomes == [TransactionOutcome.NOT_COMMITTED, TransactionOutcome.COMMITTED]
