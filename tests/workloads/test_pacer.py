"""The open loop keeps its rate and tells when each record was due; it catches up within bounds."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.history.names import SendType
from ackproof.history.writer import PartitionedWriter
from ackproof.workloads.producing.pacing import (
    FLAT_OUT_BYTES,
    FLAT_OUT_RECORDS,
    TURNS_MAX,
    Pacer,
    ProducerTurns,
)
from ackproof.workloads.producing.recorder import SendRecorder
from ackproof.workloads.spec import ProducerSpec


def taken(pacer: Pacer, now: float) -> list[float]:
    """Return the due times of the records due by now."""
    return list(pacer.take(pacer.due(now)))


@given(st.floats(0.1, 200), st.lists(st.floats(0, 0.5), max_size=20))
def test_pacer_takes_rate_times_elapsed_time(rate: float, steps: list[float]) -> None:
    pacer, now, found = Pacer(rate, 0.0), 0.0, []
    for step in steps:
        now += step
        found += taken(pacer, now)
    if rate * 0.5 + 1 <= max(1.0, rate):
        assert len(found) == pytest.approx(rate * now, abs=1.001)
    assert len(found) <= rate * now + 0.001
    assert found == sorted(found)


@given(st.floats(0.1, 50), st.lists(st.floats(0, 5), max_size=10))
def test_pacer_without_skipping_yields_the_whole_schedule(rate: float, steps: list[float]) -> None:
    pacer, now, found = Pacer(rate, 0.0, math.inf), 0.0, []
    for step in steps:
        now += step
        found += taken(pacer, now)
    assert found == pytest.approx([number / rate for number in range(1, len(found) + 1)])
    assert all(due <= now + 1e-6 for due in found)
    assert len(found) == pytest.approx(rate * now, abs=1.001)


def test_after_a_stall_a_second_of_it_is_caught_up() -> None:
    pacer = Pacer(100.0, 0.0)
    late = taken(pacer, 60.0)
    assert len(late) == 100
    assert (late[0], late[-1]) == pytest.approx((59.01, 60.0))
    assert len(taken(pacer, 60.0)) == 0
    assert len(taken(pacer, 60.5)) == 50


def test_a_slow_rate_still_sends() -> None:
    pacer = Pacer(0.125, 0.0)
    assert [len(taken(pacer, float(now))) for now in range(17)].count(1) == 2


def test_the_wait_is_until_the_next_record() -> None:
    pacer = Pacer(4.0, 0.0)
    assert not pacer.due(0.125)
    assert pacer.seconds_to_next(0.125) == pytest.approx(0.125)
    assert pacer.seconds_to_next(9.0) == 0


class Producer:
    """Turns, and the recorder that they look at, with a clock and an outcome by hand."""

    def __init__(
        self,
        directory: Path,
        share: int = 10,
        route: Sequence[int] | None = None,
        **said: object,
    ) -> None:
        content = {
            "cell": "c",
            "topic": "t",
            "partitions": 2,
            "acks": "1",
            "producer": 0,
            "rate": 100,
            "record_bytes": 100,
            "bootstrap_servers": "b:1",
            "history": directory,
            "progress": directory / "progress",
            **said,
        }
        spec = ProducerSpec.model_validate(content)
        writer = PartitionedWriter(directory, "sends", spec.client)
        self.now, self.busy = 0.0, False
        self._recorder = SendRecorder(spec, writer, lambda: 0)
        self._route = np.arange(spec.partitions) if route is None else np.array(route)
        self.turns = ProducerTurns(
            spec, self._recorder, share, lambda: self.now, lambda: self.busy, self._route
        )

    def send(self) -> list[tuple[int, int, float | None]]:
        """Sequence number, partition and lateness of what is handed over now."""
        places, late_s = self.turns.take()
        partitions = self._route[places]
        sequences = self._recorder.invoke(partitions, late_s)
        late = [None] * len(partitions) if late_s is None else late_s.tolist()
        return list(zip(sequences, partitions.tolist(), late, strict=True))

    def answered(self, *sequences: int) -> None:
        for sequence in sequences:
            self._recorder.resolve(sequence, SendType.OK)


def test_sync_producer_awaits_each_outcome_and_sends_overdue_records(tmp_path: Path) -> None:
    producer = Producer(tmp_path, sync=True)
    producer.now = 0.01
    assert [one[0] for one in producer.send()] == [0]
    producer.now = 30.0
    assert producer.send() == []
    assert producer.turns.seconds_to_next() == math.inf
    producer.answered(0)
    (second,) = producer.send()
    assert second == (1, 1, pytest.approx(30.0 - 0.02))


def test_unlimited_rate_is_bounded_by_unresolved_records(tmp_path: Path) -> None:
    producer = Producer(tmp_path, share=3, rate=None)
    sent = producer.send()
    assert [one[1] for one in sent] == [0, 1, 0, 1, 0, 1]
    assert {one[2] for one in sent} == {None}
    assert producer.turns.seconds_to_next() == math.inf
    producer.answered(0)
    assert [one[1] for one in producer.send()] == [0]


@pytest.mark.parametrize(("size", "most"), [(100, FLAT_OUT_RECORDS), (1 << 20, 32)])
def test_flat_out_large_records_are_fewer(tmp_path: Path, size: int, most: int) -> None:
    producer = Producer(tmp_path, share=10**6, rate=None, record_bytes=100, record_bytes_max=size)
    sent = 0
    while some := len(producer.send()):
        assert some <= TURNS_MAX
        sent += some
    assert sent == most
    assert sent * size <= FLAT_OUT_BYTES


def test_no_more_is_sent_than_is_to_be(tmp_path: Path) -> None:
    producer = Producer(tmp_path, rate=None, records=3, share=2)
    assert len(producer.send()) == 3
    producer.answered(0, 1, 2)
    assert producer.send() == []
    assert producer.turns.seconds_to_next() == math.inf


def test_skipped_record_at_a_rate_is_dropped_and_does_not_count(tmp_path: Path) -> None:
    producer = Producer(tmp_path, rate=100, records=4, share=1)
    producer.now = 0.04
    assert [one[1] for one in producer.send()] == [0, 1]
    producer.now, producer.busy = 0.06, True
    producer.answered(0, 1)
    assert producer.send() == []
    producer.now, producer.busy = 0.09, False
    assert [one[:2] for one in producer.send()] == [(2, 0), (3, 1)]


def test_busy_client_delays_records_without_a_rate(tmp_path: Path) -> None:
    producer = Producer(tmp_path, rate=None, share=1)
    producer.busy = True
    assert producer.send() == []
    assert producer.turns.seconds_to_next() == math.inf
    producer.busy = False
    assert len(producer.send()) == 2


@pytest.mark.parametrize("rate", [100, None])
def test_route_gives_each_partition_its_turns_up_to_its_share(
    tmp_path: Path, rate: float | None
) -> None:
    producer = Producer(tmp_path, share=2, route=[0, 0, 1, 0], rate=rate)
    producer.now = 0.08
    assert [one[1] for one in producer.send()] == [0, 0, 1, 1]
    producer.answered(1)
    producer.now = 0.16
    assert [one[1] for one in producer.send()] == [0]


def one_by_one(waiting: list[int], share: int, turn: int, due: int, left: int) -> list[int]:
    """The turns that are given when each is asked for by itself."""
    waiting, given = list(waiting), []
    while due and left and any(many < share for many in waiting):
        if waiting[turn] < share:
            waiting[turn] += 1
            given.append(turn)
            left -= 1
        turn, due = (turn + 1) % len(waiting), due - 1
    return given


@given(st.data(), st.integers(1, 5), st.integers(1, 4), st.integers(0, 40), st.integers(1, 30))
def test_many_turns_at_once_are_those_that_would_be_given_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    partitions: int,
    share: int,
    due: int,
    left: int,
) -> None:
    """At a rate, and flat out."""
    for rate in (100, None):
        directory = tmp_path_factory.mktemp("turns")
        records = partitions * share + left
        producer = Producer(directory, share, rate=rate, partitions=partitions, records=records)
        producer.now = 0.9
        sent = producer.send()
        assert [one[1] for one in sent] == [*range(partitions)] * share
        assert producer.send() == [], "nothing is let go while no partition has room"
        answered = data.draw(st.lists(st.sampled_from([one[0] for one in sent]), unique=True))
        producer.answered(*answered)
        waiting = [share] * partitions
        for sequence in answered:
            waiting[sequence % partitions] -= 1
        producer.now += due / 100
        owed = TURNS_MAX if rate is None else 90 - len(sent) + due
        expected = one_by_one(waiting, share, 0, owed, left)
        assert [one[1] for one in producer.send()] == expected
