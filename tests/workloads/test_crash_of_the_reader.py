"""The final read after librdkafka has ended its process."""

import signal

import pytest

from ackproof.workloads.interface import Client, ClientRole
from ackproof.workloads.reading_back.processes import TopicReading, apart, crashed
from ackproof.workloads.spec import TopicSpec


def test_of_a_topic_each_partition_is_left_to_be_read_alone() -> None:
    left = TopicReading(TopicSpec(topic="t", partitions=3)).after_crash()
    assert [one.partitions for one in left] == [[("t", 0)], [("t", 1)], [("t", 2)]]


@pytest.mark.parametrize(
    "topic",
    [TopicSpec(topic="t", partitions=1), TopicSpec(topic="t", partitions=3, only=2)],
)
def test_of_one_partition_nothing_is_left(topic: TopicSpec) -> None:
    """It would end the next process, too."""
    assert TopicReading(topic).after_crash() == ()


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_crash_is_named_by_its_signal(number: signal.Signals) -> None:
    assert crashed(-number) == f"librdkafka ended its process: {number.name}"


@pytest.mark.parametrize("status", [None, 0, 1, 6, -signal.SIGKILL, -signal.SIGTERM])
def test_failed_or_killed_process_has_not_crashed(status: int | None) -> None:
    assert crashed(status) is None


def test_separate_reader_has_the_same_specification_and_history() -> None:
    specification = {"history": "/h", "deadline_s": 60.0, "topics": ()}
    reader = Client(
        name="final-read",
        module="m",
        role=ClientRole.CONSUMER,
        cell=None,
        node="client-1",
        specification=specification,
    )
    again = apart(reader, 12.5)
    assert (again.name, again.module, again.node) == ("final-read-apart", "m", "client-1")
    assert again.specification == {**specification, "deadline_s": 12.5, "apart": True}
