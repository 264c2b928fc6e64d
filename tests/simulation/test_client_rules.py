"""The invariants of answers to clients: each is broken once and kept once."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import PartitionState, TopicAssignment
from ackproof.broker.server.groups.offsets_topic import partition_for
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
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
from simulation.model.clients import AnswersModel, GenerationsModel
from simulation.model.history import SentBatch
from simulation.model.log import BatchExtent
from simulation.model.observer import ClusterObserver, check_reported_leaders
from simulation.model.partition import TopicModel
from simulation.model.storage import check_retention
from simulation.violation import Violation

pytestmark = pytest.mark.simulation

TP = TopicPartition("t", 0)
HOME = TopicPartition(OFFSETS_TOPIC, 0)
STATE = PartitionState(
    leader=BrokerId(1),
    leader_epoch=LeaderEpoch(3),
    isr=(BrokerId(1),),
    zk_version=ZkVersion(0),
    controller_epoch=ControllerEpoch(1),
)
BOTH = frozenset({"one", "other"})


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
        sent_to=1,
    )


def log(*crcs: int) -> list[BatchExtent]:
    return [BatchExtent(2 * at, 2 * at + 2, crc, 0, crc) for at, crc in enumerate(crcs)]


class Seen:
    """An observer of one partition of ``t``, which broker 1 leads in epoch 3, and of groups."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        self.observer = ClusterObserver(lambda: 0.0, self._fail, checks_data=True, unclean=False)
        for name in ("t", OFFSETS_TOPIC):
            topic = TopicModel(None, TopicAssignment(topic_id=None, partitions={}))
            self.observer.topics[name] = topic
            self.observer.add_partition(topic, TopicPartition(name, 0))
        for tp in (TP, HOME):
            partition = self.observer.find(tp)
            assert partition is not None
            partition.state = STATE
            self.set_known_epoch(tp, STATE.leader_epoch)
        self.partition = self.observer.topics["t"].partitions[0]
        self.answers = AnswersModel(self.observer, self._fail)
        self.group_answers = GenerationsModel(self.observer, self._fail)

    def set_known_epoch(self, tp: TopicPartition, epoch: int) -> None:
        """Let broker 1 know this epoch."""
        hosted: Any = SimpleNamespace(tp=tp, replica=SimpleNamespace(leader_epoch=epoch))
        self.observer._hosted[1, tp] = hosted

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


def test_time_lookup_expects_the_first_record_that_is_not_older() -> None:
    found = dict(verdict.lookup_times(log(10, 20, 20, 30)))
    assert found == {20: 2, 19: 2, 30: 6, 29: 6}
    assert not list(verdict.lookup_times(log(10)))
    assert dict(verdict.lookup_times(log(-1, 20, -1, 30))) == {20: 2, 19: 2, 30: 6, 29: 6}


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


# --- answers to consumers and producers -----------------------------------------------------------


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


def test_sequence_error_for_an_acked_batch_is_a_violation(seen: Seen) -> None:
    for batch in (replace(sent(1, 4), sent_to=2), replace(sent(1, 4), topic_id="former")):
        seen.answers.sending(batch)
        seen.answers.sequence_rejected(batch)
    stale = sent(1, 4)
    seen.set_known_epoch(TP, 2)
    seen.answers.sending(stale)
    seen.set_known_epoch(TP, 3)
    seen.answers.sequence_rejected(stale)
    assert not seen.broken
    seen.answers.sending(current := sent(1, 4))
    seen.answers.sequence_rejected(current)
    assert seen.broken == ["ProducerState/false-sequence-error"]


# --- generations ----------------------------------------------------------------------------------


def test_later_coordinator_knows_earlier_generations(seen: Seen) -> None:
    assert partition_for("g", 1) == 0
    answers = seen.group_answers
    answers.joined("g", 4, BOTH, answers.request_context("g", 1))
    answers.synced("g", 4)
    answers.joined("g", 4, BOTH, answers.request_context("g", 1))  # asked again
    answers.joined(
        "g", 4, frozenset(), answers.request_context("g", 1)
    )  # a follower receives no members
    # the answer of a deposed coordinator
    answers.joined("g", 2, frozenset(), answers.request_context("g", 2))
    assert not seen.broken
    answers.joined("g", 4, frozenset({"third"}), answers.request_context("g", 1))
    answers.joined("g", 3, frozenset(), answers.request_context("g", 1))
    assert seen.broken == ["Groups/generation-went-back"] * 2


def test_commit_of_a_former_generation_is_a_violation(seen: Seen) -> None:
    answers = seen.group_answers
    earlier = answers.request_context("g", 1)
    answers.synced("g", 4)
    answers.committed("g", 4, answers.request_context("g", 1))
    answers.committed("g", 3, earlier)  # the next generation began meanwhile
    assert not seen.broken
    answers.committed("g", 3, answers.request_context("g", 1))
    assert seen.broken == ["Groups/former-generation-commits"]


def test_generations_are_not_judged_after_a_permitted_loss(seen: Seen) -> None:
    home = seen.observer.find(HOME)
    assert home is not None
    home.ended_guarantees.append((1.0, 0))
    answers = seen.group_answers
    answers.synced("g", 4)
    answers.committed("g", 3, answers.request_context("g", 1))
    answers.joined("g", 3, BOTH, answers.request_context("g", 1))
    assert not seen.broken


def accept_request(seen: Seen, asked_at: float, member: str = "one") -> None:
    """Let broker 1 accept a request of a member with a session of three seconds."""
    before = seen.group_answers.request_context("g", 1, member)
    answered_at = asked_at + 0.5
    seen.group_answers.request_accepted(
        "g", member, before, session_s=3.0, asked_at=asked_at, answered_at=answered_at
    )


def test_member_silent_beyond_its_session_is_expired(seen: Seen) -> None:
    accept_request(seen, 1.0)
    accept_request(seen, 20.0, "other")
    accept_request(seen, 5.0)  # 1.5 s, three seconds and a tick
    assert not seen.broken
    accept_request(seen, 9.6)
    assert seen.broken == ["Groups/expired-member-kept"]


def test_unanswered_request_may_have_been_received(seen: Seen) -> None:
    accept_request(seen, 1.0)
    seen.group_answers.request_context("g", 1, "one")  # it sends a request without an answer
    accept_request(seen, 9.0)
    assert not seen.broken
    accept_request(seen, 20.0)
    assert seen.broken == ["Groups/expired-member-kept"]


def test_paused_coordinator_may_keep_expired_members(seen: Seen) -> None:
    accept_request(seen, 1.0)
    seen.observer.pause_changed_at[1] = 8.0
    accept_request(seen, 20.0)
    assert not seen.broken, "it was paused"
    seen.set_known_epoch(HOME, STATE.leader_epoch)
    accept_request(seen, 40.0)
    assert not seen.broken, "this is another life of the broker"
    accept_request(seen, 60.0)
    assert seen.broken == ["Groups/expired-member-kept"]


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
