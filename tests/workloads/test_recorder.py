"""Every send has one invoke and at most one outcome, in the file of its partition."""

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.history.names import SendType
from ackproof.history.reader import partitions, read_files
from ackproof.history.sessions import SESSIONS_MAX, session_number
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.spec import ProducerSpec
from ackproof.workloads.unresolved import FEW
from tests.support.builders.examples import examples

SPEC = ProducerSpec(
    cell="c",
    topic="t",
    partitions=2,
    acks="1",
    producer=4,
    rate=1,
    record_bytes=100,
    bootstrap_servers="b:1",
    history=Path("history"),
    progress=Path("progress"),
)


@pytest.fixture
def writer(tmp_path: Path) -> PartitionedWriter:
    return PartitionedWriter(tmp_path, "sends", "c-4")


@pytest.fixture
def recorder(writer: PartitionedWriter) -> SendRecorder:
    return SendRecorder(SPEC, writer, count(100).__next__)


def rows(directory: Path, partition: int) -> list[tuple]:
    columns = ["sequence", "type", "time", "offset", "error"]
    table = read_files("sends", partitions(directory)["t", partition]["sends"], columns)
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("many", [2, FEW + 2])
def test_key_is_recorded_with_the_invoke_of_its_record(
    recorder: SendRecorder, writer: PartitionedWriter, tmp_path: Path, many: int
) -> None:
    recorder.invoke([0] * many, keys=np.arange(many) * 2, tombstones=np.arange(many) == 1)
    recorder.resolve(0, SendType.OK, offset=7)
    writer.close()
    rows = read_files("sends", partitions(tmp_path)["t", 0]["sends"], ["key", "tombstone"])
    assert rows["key"].to_pylist() == [*range(0, 2 * many, 2), None]
    assert rows["tombstone"].to_pylist() == [number == 1 for number in range(many)] + [None]


def test_rows_go_to_the_file_of_their_partition(
    recorder: SendRecorder, writer: PartitionedWriter, tmp_path: Path
) -> None:
    first, second = recorder.invoke([0, 1])
    recorder.resolve(second, SendType.OK, offset=7, error=None)
    recorder.resolve(first, SendType.FAIL, offset=None, error="_QUEUE_FULL")
    writer.close()
    assert rows(tmp_path, 0) == [
        (0, "invoke", 100, None, None),
        (0, "fail", 102, None, "_QUEUE_FULL"),
    ]
    assert rows(tmp_path, 1) == [(1, "invoke", 100, None, None), (1, "ok", 101, 7, None)]


def test_late_record_has_its_due_time(
    recorder: SendRecorder, writer: PartitionedWriter, tmp_path: Path
) -> None:
    recorder.invoke([0])
    (late,) = recorder.invoke([0], [80e-9])
    recorder.resolve(late, SendType.OK, offset=0)
    writer.close()
    found = read_files("sends", partitions(tmp_path)["t", 0]["sends"], ["time", "due"])
    assert [tuple(row.values()) for row in found.to_pylist()] == [
        (100, None),
        (101, 21),
        (102, None),
    ]


def test_a_second_outcome_is_not_recorded(
    recorder: SendRecorder, writer: PartitionedWriter, tmp_path: Path
) -> None:
    sequence, other = recorder.invoke([0, 1])
    recorder.resolve(sequence, SendType.INFO, error="_TIMED_OUT")
    recorder.resolve(sequence, SendType.OK, offset=3)
    twice = [sequence, other, other]
    recorder.resolve_all(twice, [SendType.OK] * 3, [7, 8, 9], [4, 5, 6], [None] * 3)
    writer.close()
    assert [row[1] for row in rows(tmp_path, 0)] == ["invoke", "info"]
    assert rows(tmp_path, 1)[1:] == [(1, "ok", 8, 5, None)]
    assert list(recorder.waiting) == [0, 0]
    assert (recorder.figures()["acked"], recorder.figures()["indeterminate"]) == (1, 1)


def test_abandoned_send_is_indeterminate_and_nothing_else_changes(
    recorder: SendRecorder, writer: PartitionedWriter, tmp_path: Path
) -> None:
    (resolved,) = recorder.invoke([0])
    recorder.resolve(resolved, SendType.OK, offset=0)
    recorder.invoke([0])
    assert list(recorder.waiting) == [1, 0]
    recorder.abandon("_TIMED_OUT")
    writer.close()
    assert rows(tmp_path, 0)[-1][:2] == (1, "info")
    assert rows(tmp_path, 0)[-1][4] == "_TIMED_OUT"
    figures = recorder.figures()
    assert {name: figures[name] for name in ("sent", "acked", "failed", "indeterminate")} == {
        "sent": 2,
        "acked": 1,
        "failed": 0,
        "indeterminate": 1,
    }


class Both:
    """A recorder, and a list that is appended to event by event."""

    def __init__(self, directory: Path) -> None:
        self.writer = PartitionedWriter(directory, "sends", "c-4")
        self.recorder = SendRecorder(SPEC, self.writer, lambda: self.now)
        self.happened: list[tuple[int, tuple]] = []
        self.under_way: dict[int, int] = {}
        self.now = 100

    def invoke(self, to: list[int]) -> None:
        for sequence, partition in zip(self.recorder.invoke(to), to, strict=True):
            self.under_way[sequence] = partition
            self.happened.append((partition, (sequence, "invoke", self.now, None, None)))

    def refused(self, sequence: int) -> None:
        self.recorder.resolve(sequence, SendType.FAIL, error="_QUEUE_FULL")
        self._resolved(sequence, "fail", self.now, None, "_QUEUE_FULL")

    def acked(self, some: list[tuple[int, int]]) -> None:
        sequences, times = [one[0] for one in some], [one[1] for one in some]
        outcomes, errors = [SendType.OK] * len(some), [None] * len(some)
        self.recorder.resolve_all(sequences, outcomes, times, sequences, errors)
        for sequence, time in some:
            self._resolved(sequence, "ok", time, sequence, None)

    def abandon(self) -> None:
        self.recorder.abandon("_TIMED_OUT")
        for sequence in sorted(self.under_way):
            self._resolved(sequence, "info", self.now, None, "_TIMED_OUT")

    def flush(self) -> None:
        self.writer.flush()

    def _resolved(self, sequence: int, *row: object) -> None:
        if sequence in self.under_way:
            self.happened.append((self.under_way.pop(sequence), (sequence, *row)))


EVENTS = st.one_of(
    st.tuples(st.just("invoke"), st.lists(st.integers(0, 1), max_size=6)),
    st.tuples(st.just("refused"), st.integers(0, 20)),
    st.tuples(st.just("acked"), st.lists(st.tuples(st.integers(0, 20), st.integers(1, 99)))),
    st.tuples(st.just("abandon")),
    st.tuples(st.just("flush")),
)


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(EVENTS, max_size=12))
def test_recorded_rows_equal_the_events(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple]
) -> None:
    """Whatever comes in which order, flushed or not, one by one or many at once."""
    directory = tmp_path_factory.mktemp("history")
    both = Both(directory)
    for name, *arguments in events:
        both.now += 1
        getattr(both, name)(*arguments)
        assert both.recorder.unresolved == len(both.under_way)
        under_way = [*both.under_way.values()]
        assert list(both.recorder.waiting) == [under_way.count(0), under_way.count(1)]
    both.writer.close()
    assert {number: rows(directory, number) for _, number in partitions(directory)} == {
        number: [row for partition, row in both.happened if partition == number]
        for number in {partition for partition, _ in both.happened}
    }
    words = [row[1] for _, row in both.happened]
    figures = both.recorder.figures()
    assert [figures[name] for name in ("sent", "acked", "failed", "indeterminate")] == [
        words.count(word) for word in ("invoke", "ok", "fail", "info")
    ]


def test_a_session_is_in_its_file_before_its_first_record_is_sent(
    recorder: SendRecorder, writer: PartitionedWriter, tmp_path: Path
) -> None:
    """Killed at any moment, a producer leaves no record of a session of which no row tells."""
    recorder.invoke([0])
    assert not partitions(tmp_path)
    recorder.begin_session(session_number(4, 1), "out of sequence")
    recorder.invoke([0])
    recorder.invoke([0])
    told = read_files("sends", partitions(tmp_path)["t", 0]["sends"], ["producer", "sequence"])
    assert [tuple(row.values()) for row in told.to_pylist()] == [(4, 0), (session_number(4, 1), 1)]
    assert ("t", 1) not in partitions(tmp_path)
    assert (recorder.figures()["sessions_ended"], recorder.fatal) == (1, "out of sequence")
    writer.close()


def test_sessions_of_different_producers_have_different_numbers() -> None:
    numbers = [session_number(p, s) for p in (0, 1, 999_999) for s in range(SESSIONS_MAX)]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) < 2**31
    assert [session_number(p, 0) for p in (0, 7)] == [0, 7]
    for producer, session in ((0, SESSIONS_MAX), (1_000_000, 1)):
        with pytest.raises(ValueError, match="sessions"):
            session_number(producer, session)
