"""Admin commands after a wait without an observed change."""

from collections.abc import Generator
from typing import Any

import pytest

from ackproof.broker.coordination.admin import (
    Admin,
    AdminWrite,
    AdminWritten,
    AwaitChange,
    Outcome,
    ReadNodes,
    ReadQueues,
    ReadTopic,
    TopicNodes,
    Waited,
)
from ackproof.broker.coordination.events import DeleteTopic, Result
from ackproof.broker.coordination.nodes import Assigned, PartitionView
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

TP = TopicPartition("t", 0)
VIEW = PartitionView(
    replicas=Assigned(replicas=(BrokerId(1), BrokerId(2)), version=ZkVersion(0)),
    leader=None,
    isr=None,
    reassigned=Assigned(replicas=(), version=ZkVersion(0)),
    topic_id=None,
)
"""A partition that must be deleted, which its leader has not read yet."""
TOPIC = TopicNodes(version=ZkVersion(0), topic_id=None, partitions={0: VIEW})


def step_to_its_wait(command: Generator[Any, Any, Outcome], step: Any) -> Any:
    """Answer the steps of a command until it waits."""
    while not isinstance(step, AwaitChange):
        match step:
            case ReadTopic():
                answer: Any = TOPIC
            case ReadNodes():
                answer = VIEW
            case ReadQueues():
                answer = dict.fromkeys(step.brokers, ())
            case AdminWrite():
                answer = AdminWritten(result=Result.DONE)
        step = command.send(answer)
    return step


def deletion(*, fenced: bool) -> Generator[Any, Any, Outcome]:
    command = Admin(fenced=fenced).delete_topic("t")
    step_to_its_wait(command, next(command))
    return command


def test_printed_deletion_waits_for_a_watch_event() -> None:
    command = deletion(fenced=False)
    for _ in range(3):
        assert isinstance(command.send(Waited.NOTHING_SEEN), AwaitChange)
    assert isinstance(command.send(Waited.CHANGED), AdminWrite)


def test_fenced_deletion_checks_again_and_continues_to_wait() -> None:
    command = deletion(fenced=True)
    for waited in (Waited.NOTHING_SEEN, Waited.CHANGED):
        looked = command.send(waited)
        assert isinstance(looked, ReadNodes)
        assert isinstance(step_to_its_wait(command, looked), AwaitChange)


@pytest.mark.parametrize("fenced", [True, False])
def test_deletion_fails_at_its_timeout(fenced: bool) -> None:
    with pytest.raises(StopIteration) as ended:
        deletion(fenced=fenced).send(Waited.TIME_IS_UP)
    assert ended.value.value is Outcome.TIMED_OUT


@pytest.mark.parametrize("fenced", [True, False])
def test_topic_without_partitions_is_deleted_at_once(fenced: bool) -> None:
    nothing = TopicNodes(version=ZkVersion(0), topic_id=None, partitions={})
    command = Admin(fenced=fenced).delete_topic("t")
    step: Any = next(command)
    while isinstance(step, ReadTopic):
        step = command.send(nothing)
    assert isinstance(step, AdminWrite)
    assert [type(op) for op in step.ops] == [DeleteTopic]
