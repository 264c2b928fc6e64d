"""The invariants of answers to clients, and of the end of a run: each is broken and kept once."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.config import TopicConfig
from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.replication.config import ReplicaConfig
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import NO_EPOCH, TopicPartition
from simulation import verdict
from simulation.clients.producers import Window
from simulation.model.clients import AnswersModel
from simulation.model.history import SentBatch
from simulation.model.log import BatchExtent
from simulation.model.observer import ClusterObserver, check_reported_leaders
from simulation.model.partition import TopicModel
from simulation.model.storage import check_retention
from simulation.violation import Violation
from tests.support.oracles.violations import violates

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
STATE = PartitionState(leader=1, leader_epoch=3, isr=(1,), zk_version=0, controller_epoch=1)


def sent(crc: int, sequence: int, producer: int = 7) -> SentBatch:
    """Return a sent batch of two records."""
    return SentBatch(
        tp=TP, topic_id=None, acks=-1, crc=crc, count=2, sent_at=0.0, timestamp=crc,
        producer=producer, sequence=sequence,
    )  # fmt: skip


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
    with violates(r"Metadata/missing-leader-not-reported: t-0: the error is none .* leader -1"):
        check_reported_leaders(metadata(-1), LED)


def test_metadata_leader_that_never_led_is_a_violation() -> None:
    check_reported_leaders(metadata(2, epoch=4), LED)
    check_reported_leaders(metadata(1, epoch=NO_EPOCH), LED)
    with violates(r"Metadata/leader-never-led: .* 1 is said to lead in epoch 4"):
        check_reported_leaders(metadata(1, epoch=4), LED)


# --- the judgement at the end of a run ------------------------------------------------------------


@pytest.mark.parametrize("topic", ["t", OFFSETS_TOPIC])
def test_producer_that_waits_for_replicated_records_is_a_violation(topic: str) -> None:
    tp = TopicPartition(topic, 0)
    observer: Any = SimpleNamespace(partitions=lambda: [(tp, SimpleNamespace(isr=(1, 2)))])
    left: dict[int, Any] = {1: SimpleNamespace(waiting_producers=0), 2: None}
    verdict.check_no_producer_waits(observer, lambda broker, _tp: left[broker])
    left[2] = SimpleNamespace(waiting_producers=2)
    if topic == OFFSETS_TOPIC:  # coordinators still write to it
        verdict.check_no_producer_waits(observer, lambda broker, _tp: left[broker])
        return
    with violates("Produce/request-left-waiting: t-0: 2 produce requests wait at broker 2"):
        verdict.check_no_producer_waits(observer, lambda broker, _tp: left[broker])


def test_settings_are_known_to_the_log_and_to_the_replica() -> None:
    config = TopicConfig(min_insync_replicas=2)
    hosted: Any = SimpleNamespace(
        config=config,
        replica=SimpleNamespace(config=ReplicaConfig(min_insync_replicas=2)),
        log=SimpleNamespace(config=config.log_config()),
    )
    assert verdict._is_applied(hosted)
    hosted.replica.config = ReplicaConfig()
    assert not verdict._is_applied(hosted)
    hosted.replica.config = ReplicaConfig(min_insync_replicas=2)
    hosted.log.config = TopicConfig(retention_ms=7).log_config()
    assert not verdict._is_applied(hosted)


@pytest.mark.parametrize(
    ("bases", "start", "kept"),
    [((0,), 9, False), ((0, 5), 4, False), ((0, 5), 5, True), ((5, 9), 7, False)],
)
def test_segment_of_deleted_records_is_detected(
    bases: tuple[int, ...], start: int, kept: bool
) -> None:
    replica: Any = SimpleNamespace(
        log=SimpleNamespace(segment_base_offsets=bases, log_start_offset=start)
    )
    assert verdict._keeps_deleted_segments(replica) == kept
