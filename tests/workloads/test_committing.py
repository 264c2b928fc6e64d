"""Commits of unknown outcome: the consumer reaches no broker."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from ackproof.history.reader import read
from ackproof.workloads.configuration import member_properties
from ackproof.workloads.consuming.commits import CommitTimeout, RecordingCommitter
from ackproof.workloads.consuming.consumption import ConsumptionRecorder, ConsumptionTables
from ackproof.workloads.consuming.polling import Positions
from ackproof.workloads.interface import Delivery
from ackproof.workloads.spec import GroupMemberSpec

UNREACHABLE = "127.0.0.1:1"
ASKED, UNKNOWN = (1, "invoke", 0, 5), (1, "info", 0, 5)


@pytest.fixture
def spec(tmp_path: Path) -> GroupMemberSpec:
    return GroupMemberSpec(
        client="one",
        topic="t",
        partitions=2,
        bootstrap_servers=UNREACHABLE,
        group="g",
        delivery=Delivery.AT_LEAST_ONCE,
        consumer_config={"session.timeout.ms": 100},
        history=tmp_path / "history",
        progress=tmp_path / "progress.json",
    )


@pytest.fixture
def positions() -> Positions:
    """Return the positions of a consumer of two partitions that has read five records of the
    first."""
    positions = Positions()
    for partition in range(2):
        positions.begin(partition, 0)
    positions.shown({0: 4})
    return positions


@pytest.fixture
def tables(spec: GroupMemberSpec) -> Iterator[ConsumptionTables]:
    with closing(ConsumptionTables(spec)) as tables:
        yield tables


@pytest.fixture
def committer(
    spec: GroupMemberSpec, positions: Positions, tables: ConsumptionTables
) -> RecordingCommitter:
    recorder = ConsumptionRecorder(spec, tables, clock=lambda: 0)
    return RecordingCommitter(spec.topic, recorder, positions, answer_s=60.0)


@pytest.fixture
def consumer(spec: GroupMemberSpec) -> Iterator[Consumer]:
    with closing(Consumer({**member_properties(spec), "log_level": 0})) as consumer:
        yield consumer


def commits(spec: GroupMemberSpec, tables: ConsumptionTables) -> list[tuple]:
    tables.close()
    columns = ["commit", "type", "partition", "offset"]
    return [tuple(row.values()) for row in read(spec.history, "commits", columns).to_pylist()]


def test_unanswered_commit_is_indeterminate_at_the_end(
    spec, tables, committer: RecordingCommitter, consumer: Consumer
) -> None:
    committer.ask(consumer)
    assert committer.is_behind
    consumer.close()
    committer.close()
    assert commits(spec, tables) == [ASKED, UNKNOWN]


def test_single_commit_is_in_flight_at_a_time(
    spec, tables, positions: Positions, committer: RecordingCommitter, consumer: Consumer
) -> None:
    committer.ask(consumer)
    positions.shown({1: 8})
    committer.ask(consumer)
    committer.commit(consumer)
    assert commits(spec, tables) == [ASKED]


def test_waiting_for_an_answer_ends_without_one(
    spec, tables, committer: RecordingCommitter, consumer: Consumer
) -> None:
    committer.commit(consumer)
    assert commits(spec, tables) == [ASKED, UNKNOWN]
    assert committer.is_behind


def test_commit_without_an_answer_is_indeterminate(
    spec, tables, positions: Positions, consumer: Consumer
) -> None:
    """librdkafka would say in time what it cannot do; here it has none."""
    recorder = ConsumptionRecorder(spec, tables, clock=lambda: 0)
    committer = RecordingCommitter(spec.topic, recorder, positions, answer_s=0.0)
    with pytest.raises(CommitTimeout):
        committer.commit(consumer)
    committer.close()
    assert committer.is_behind
    committer.answered(None, [TopicPartition("t", 0, 5)])
    assert commits(spec, tables) == [ASKED, UNKNOWN]
