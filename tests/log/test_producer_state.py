"""Sequence numbers, and a log with producer state, compared with a naive model."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.partition_log import PartitionLog
from ackproof.broker.log.producer_state import (
    SEQUENCES,
    CorruptSnapshot,
    ProducerState,
    decode,
    encode,
)
from ackproof.broker.log.validator import RefusedBatch
from ackproof.broker.types import ProducerId
from ackproof.broker.wire.batch import RecordBatch, stamped
from tests.support.builders.batches import NOW_MS, batch
from tests.support.builders.examples import examples

SMALL = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=-1)
PRODUCERS = st.sampled_from([7, 8])
NEAR_THE_END = SEQUENCES - 3


def sent(producer: int, epoch: int, sequence: int, count: int = 1) -> RecordBatch:
    return batch([b"v"] * count, timestamps=[NOW_MS] * count, producer=(producer, epoch, sequence))


def verdict(state: ProducerState, incoming: RecordBatch) -> int | ErrorCode | None:
    """Return the former base offset, None for a new batch, or the error of a refused one."""
    try:
        found = state.check(incoming)
    except RefusedBatch as refused:
        return refused.error
    return None if found is None else found.base_offset


def expected(log: list[RecordBatch], incoming: RecordBatch) -> int | ErrorCode | None:
    """Return the expected verdict from all appended batches, without state."""
    own = [b for b in log if b.producer_id == incoming.producer_id]
    if not own:
        return None
    epoch = own[-1].producer_epoch
    if incoming.producer_epoch < epoch:
        return ErrorCode.invalid_producer_epoch
    if incoming.producer_epoch > epoch:
        return None if incoming.base_sequence == 0 else ErrorCode.out_of_order_sequence_number
    for old in [b for b in own if b.producer_epoch == epoch][-5:]:
        if (old.base_sequence, old.count) == (incoming.base_sequence, incoming.count):
            return old.base_offset
    following = [(own[-1].base_sequence + n) % SEQUENCES for n in range(own[-1].count + 1)][-1]
    in_order = incoming.base_sequence == following
    return None if in_order else ErrorCode.out_of_order_sequence_number


class LogAndNaiveModel(RuleBasedStateMachine):
    """Clients that retry, skip and restart, on a log that is truncated, shortened and reopened."""

    @initialize(first=st.sampled_from([0, NEAR_THE_END]))
    def create(self, first: int) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.directory = self.folder / "orders-0"
        self.log = PartitionLog.open(self.directory, SMALL, clean=True)
        self.appended: list[RecordBatch] = []
        for producer in (7, 8):
            self.append(sent(producer, 0, first))

    @rule(producer=PRODUCERS, count=st.integers(1, 3))
    def send_the_next(self, producer: int, count: int) -> None:
        last = self.last_of(producer)
        if last is not None:
            sequence = (last.base_sequence + last.count) % SEQUENCES
            self.send(sent(producer, last.producer_epoch, sequence, count))

    @rule(producer=PRODUCERS, back=st.integers(1, 8))
    def send_again(self, producer: int, back: int) -> None:
        own = [b for b in self.appended if b.producer_id == producer]
        if len(own) >= back:
            old = own[-back]
            self.send(sent(producer, old.producer_epoch, old.base_sequence, old.count))

    @rule(
        producer=PRODUCERS,
        epoch=st.integers(0, 3),
        sequence=st.integers(0, 6) | st.just(NEAR_THE_END),
        count=st.integers(1, 3),
    )
    def send_anything(self, producer: int, epoch: int, sequence: int, count: int) -> None:
        self.send(sent(producer, epoch, sequence, count))

    @rule(fraction=st.floats(0, 1))
    def truncate(self, fraction: float) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = int(start + fraction * (end - start))
        self.log.truncate_to(offset)
        self.appended = [b for b in self.appended if b.next_offset <= offset]

    @rule(offset=st.integers(0, 100))
    def truncate_fully(self, offset: int) -> None:
        self.log.truncate_fully(offset)
        self.appended = []

    @rule(fraction=st.floats(0, 1))
    def delete_records(self, fraction: float) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        self.log.advance_log_start(int(start + fraction * (end - start)))
        self.log.delete_old_segments(end, NOW_MS)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        start, recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log.close(flush=clean)
        self.log = PartitionLog.open(
            self.directory,
            SMALL,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=start,
        )

    @invariant()
    def every_question_has_the_same_answer(self) -> None:
        if not hasattr(self, "log"):
            return
        for question in self.questions():
            found = verdict(self.log.producers.state, question)
            assert found == expected(self.appended, question), question

    @invariant()
    def snapshots_do_not_pile_up(self) -> None:
        if hasattr(self, "log"):
            snapshots = len(list(self.directory.glob("*.snapshot")))
            assert snapshots <= len(self.log.segment_base_offsets) + 1

    def questions(self) -> list[RecordBatch]:
        repeated = [
            sent(b.producer_id, b.producer_epoch, b.base_sequence, b.count)
            for b in self.appended[-12:]
        ]
        following = [
            sent(b.producer_id, b.producer_epoch, (b.base_sequence + b.count) % SEQUENCES)
            for b in self.appended[-2:]
        ]
        return [*repeated, *following, sent(7, 0, 0), sent(8, 9, 0), sent(8, 9, 1), sent(9, 0, 4)]

    def send(self, incoming: RecordBatch) -> None:
        if verdict(self.log.producers.state, incoming) is None:
            self.append(incoming)

    def append(self, incoming: RecordBatch) -> None:
        end = self.log.log_end_offset
        self.log.append([incoming], end, 0, NOW_MS)
        self.appended.append(stamped(incoming, end, 0))

    def last_of(self, producer: int) -> RecordBatch | None:
        own = [b for b in self.appended if b.producer_id == producer]
        return own[-1] if own else None

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close(flush=False)
            shutil.rmtree(self.folder)


TestLogAndNaiveModel = LogAndNaiveModel.TestCase
TestLogAndNaiveModel.settings = settings(max_examples=examples(30), stateful_step_count=25)


def state_of(*batches: RecordBatch) -> ProducerState:
    state = ProducerState()
    for one in batches:
        state.note(one)
    return state


def test_batch_without_producer_is_not_remembered() -> None:
    assert not state_of(batch()).producers
    assert state_of(sent(7, 0, 0)).check(batch()) is None


def test_silent_producer_is_forgotten_at_its_expiration() -> None:
    state = state_of(sent(7, 0, 0))
    state.expire(NOW_MS + 999, 1000)
    assert ProducerId(7) in state.producers
    state.expire(NOW_MS + 1000, 1000)
    assert verdict(state, sent(7, 0, 5)) is None


def test_rejected_batch_names_expected_sequence_and_epoch() -> None:
    state = state_of(sent(7, 2, 0, 3))
    with pytest.raises(RefusedBatch, match="sequence 4, expected 3"):
        state.check(sent(7, 2, 4))
    with pytest.raises(RefusedBatch, match="has epoch 2, this batch is of epoch 1"):
        state.check(sent(7, 1, 3))


def test_snapshot_keeps_the_whole_producer_state() -> None:
    state = state_of(*[sent(7, 1, 2 * n, 2) for n in range(9)], sent(8, 0, NEAR_THE_END, 5))
    assert decode(encode(state)).producers == state.producers


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(lambda data: data[:9], id="too short"),
        pytest.param(lambda data: b"\x00\x02" + data[2:], id="version"),
        pytest.param(lambda data: data[:-1] + b"\x00", id="CRC"),
        pytest.param(lambda data: data[:-42], id="an entry less"),
    ],
)
def test_damaged_snapshot_is_rejected(damaged) -> None:
    with pytest.raises(CorruptSnapshot):
        decode(damaged(encode(state_of(sent(7, 0, 0)))))


def test_unreadable_snapshot_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, SMALL, clean=True)
    for number in range(20):
        log.append([sent(7, 0, number)], number, 0, NOW_MS)
    before = log.producers.state.producers
    log.close()
    latest = max(tmp_path.glob("*.snapshot"))
    assert latest.name == f"{20:020d}.snapshot"
    latest.write_bytes(b"rubbish")
    log = PartitionLog.open(tmp_path, SMALL, clean=True)
    assert log.producers.state.producers == before
    assert not latest.exists()
    log.close()


def test_producers_outlive_their_records_and_a_crash(tmp_path: Path) -> None:
    log = PartitionLog.open(tmp_path, SMALL, clean=True)
    for number, one in enumerate([sent(8, 0, 0), *[sent(7, 0, n) for n in range(20)]]):
        log.append([one], number, 0, NOW_MS)
    log.advance_log_start(20)
    log.delete_old_segments(21, NOW_MS)
    assert 0 not in log.segment_base_offsets
    before = log.producers.state.producers
    log.close(flush=False)
    log = PartitionLog.open(tmp_path, SMALL, clean=False, log_start_offset=20)
    assert log.producers.state.producers == before
    assert ProducerId(8) in before
    log.close()
