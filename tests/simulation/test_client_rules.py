"""The invariants of answers to clients: each is broken once and kept once."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.types import (
    NO_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)
from simulation import verdict
from simulation.clients.producers import Window
from simulation.model.clients import AnswersModel
from simulation.model.history import SentBatch
from simulation.model.log import BatchExtent
from simulation.model.observer import ClusterObserver, check_reported_leaders
from simulation.model.partition import TopicModel
from simulation.model.storage import check_retention
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
STATE = PartitionState(
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(3),
    isr=(BrokerId(1),),
    zk_version=ZkVersion(0),
    controller_epoch=ControllerEpoch(1),
)


def sent(crc: int, sequence: int, producer: int = 7) -> SentBatch:
    """Return a sent batch of two records."""
    return SentBatch(
        tp=TP,
        topic_id=None,
        acks=-1,
        crc=crc,
        count=2,
        sent_at=0.0,
        timestamp=crc,
        producer=producer,
        sequence=sequence,
    )


def log(*crcs: int) -> list[BatchExtent]:
    return [BatchExtent(2 * at, 2 * at + 2, crc, 0, crc) for at, crc in enumerate(crcs)]


class Seen:
    """An observer of one partition of ``t``, which broker 1 leads in epoch 3."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.observer = ClusterObserver(lambda: 0.0, self._fail, checks_data=True, unclean=False)
        topic = TopicModel(None, TopicAssignment(topic_id=None, partitions={}))
        self.observer.topics["t"] = topic
        self.observer.add_partition(topic, TP)
        self.partition = topic.partitions[0]
        self.partition.state = STATE
        self.answers = AnswersModel(self.observer, self._fail)

    def _fail(self, error: BaseException) -> None:
        assert isinstance(error, Violation)
        self.broken.append(error.invariant)


@pytest.fixture
def seen() -> Seen:
    return Seen()


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "broken"),
    [
        (log(1, 2, 3), None),
        (log(2, 3), None),  # retention took the first
        (log(1, 2), None),  # the last one was rejected
        (log(1, 2, 1), "ProducerState/duplicate-batch"),
        (log(1, 3), "ProducerState/batch-out-of-sequence"),
        (log(2, 1), "ProducerState/batch-out-of-sequence"),
        (log(1, 9, 2), None),  # another client's batch is between them
    ],
)
def test_idempotent_batches_are_in_the_log_once_and_in_order(
    there: list[BatchExtent], broken: str | None
) -> None:
    known = {1: sent(1, 0), 2: sent(2, 2), 3: sent(3, 4), 9: sent(9, 0, producer=8)}
    if broken is None:
        verdict.check_sequence(TP, there, known)
        return
    with pytest.raises(Violation) as raised:
        verdict.check_sequence(TP, there, known)
    assert raised.value.invariant == broken


def test_batch_without_sequence_number_may_be_duplicated() -> None:
    verdict.check_sequence(TP, log(1, 1), {1: replace(sent(1, -1), producer=-1)})


def test_window_is_limited_by_its_oldest_unanswered_batch() -> None:
    window = Window()
    for number in range(5):
        assert window.has_room(5)
        window.add((sent(number, 2 * number), None))  # type: ignore[arg-type]
    assert not window.has_room(5)
    window.answered([None, *[ErrorCode.none] * 4])
    assert [each.crc for each, _ in window.flights] == [0]
    assert not window.has_room(5), "the log may have all five, and remembers no more"
    window.answered([ErrorCode.none])
    assert not window
    assert window.has_room(5)


# --- retention ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "watermark", "left", "kept"),
    [
        ({"retention.ms": "50"}, 9, 0, True),
        ({"retention.ms": "99"}, 9, 0, False),
        ({"retention.ms": "50"}, 3, 0, False),
        ({"retention.bytes": "40"}, 9, 40, True),
        ({"retention.bytes": "40"}, 9, 39, False),
        ({}, 9, 0, False),
    ],
)
def test_retention_deletes_old_or_excess_committed_records(
    config: dict[str, str], watermark: int, left: int, kept: bool
) -> None:
    def look() -> None:
        check_retention(
            TP, log(10, 20), config, high_watermark=watermark, bytes_left=left, wall_ms=100
        )

    if kept:
        look()
        return
    with pytest.raises(Violation):
        look()


# --- answers to consumers and producers -----------------------------------------------------------


def test_log_end_does_not_go_back_behind_read_records(seen: Seen) -> None:
    seen.partition.read_end = 8
    before = seen.answers.read_end(TP)
    seen.answers.end_answered(TP, leader=1, epoch=3, end=8, read_end=before)
    seen.answers.end_answered(TP, leader=2, epoch=2, end=5, read_end=before)  # a deposed leader
    # a leader of an earlier epoch
    seen.answers.end_answered(TP, leader=1, epoch=2, end=5, read_end=before)
    assert not seen.broken
    seen.answers.end_answered(TP, leader=1, epoch=3, end=7, read_end=before)
    assert seen.broken == ["ListOffsets/end-went-back"]


# --- metadata -------------------------------------------------------------------------------------

LED = {(TP, 1, 3), (TP, 2, 4)}


def metadata(leader: int, error: ErrorCode = ErrorCode.none, epoch: int = 3) -> Any:
    part = SimpleNamespace(
        partition_index=TP.partition, leader_id=leader, error_code=error, leader_epoch=epoch
    )
    return SimpleNamespace(topics=[SimpleNamespace(name=TP.topic, partitions=[part])])


def test_missing_leader_without_its_error_is_a_violation() -> None:
    check_reported_leaders(metadata(1), LED)
    check_reported_leaders(metadata(-1, ErrorCode.leader_not_available), LED)
    with pytest.raises(
        Violation,
        match=r"Metadata/missing-leader-not-reported: t-0: the error is none .* leader -1",
    ):
        check_reported_leaders(metadata(-1), LED)


def test_metadata_leader_that_never_led_is_a_violation() -> None:
    check_reported_leaders(metadata(2, epoch=4), LED)
    check_reported_leaders(metadata(1, epoch=NO_EPOCH), LED)
    with pytest.raises(
        Violation, match=r"Metadata/leader-never-led: .* 1 is said to lead in epoch 4"
    ):
        check_reported_leaders(metadata(1, epoch=4), LED)
