"""The small parts that decide when: purgatory, fence, ISR change notification."""

import asyncio
import weakref
from collections.abc import Collection
from functools import partial

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import ControlFence
from ackproof.broker.server.controller.controller_coordinator import IsrChanges
from ackproof.broker.server.replication.purgatory import SPARE, Purgatory
from ackproof.broker.server.schedule import Clock
from ackproof.broker.types import BrokerId, ControllerEpoch, Millis, TopicPartition
from ackproof.broker.wire.messages.stop_replica import StopReplicaRequest

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class HandClock(Clock):
    """Time that moves by hand."""

    def __init__(self) -> None:
        self.time = Millis(0)

    def now(self) -> Millis:
        return self.time


def test_waiter_checks_once_for_simultaneous_events() -> None:
    async def test() -> None:
        purgatory = Purgatory()
        looks: list[list[TopicPartition]] = []

        def look(woken: Collection[TopicPartition]) -> bool:
            looks.append(list(woken))
            return len(looks) == 2

        answer = purgatory.wait([A, B], 10, look, lambda: "answer")
        for partition in (B, A, B, TopicPartition("other", 0)):
            purgatory.wake(partition)
        assert not looks  # not in the middle of what makes the news
        await asyncio.sleep(0)
        assert (looks, answer.done()) == ([[B, A]], False)
        purgatory.wake(A)
        assert (await answer, looks) == ("answer", [[B, A], [A]])

    asyncio.run(test())


def test_wait_ends_by_timeout_error_or_cancellation() -> None:
    async def test() -> None:
        purgatory = Purgatory()

        def fail(_woken: Collection[TopicPartition]) -> bool:
            raise OSError("disk")

        in_time = purgatory.wait([A], 0.01, lambda _: False, lambda: "late")
        failing = purgatory.wait([A], 10, fail, lambda: "never")
        left = purgatory.wait([A], 10, lambda _: True, lambda: "never")
        assert purgatory.waiting == 3
        purgatory.wake(A)
        left.cancel()
        with pytest.raises(OSError, match="disk"):
            await failing
        assert await in_time == "late"
        assert left.cancelled()
        await asyncio.sleep(0)
        assert purgatory.waiting == 0
        purgatory.wake(A)  # no request waits

    asyncio.run(test())


def test_a_watermark_alone_is_seen_with_the_next_news_or_when_time_is_over() -> None:
    async def test() -> None:
        purgatory = Purgatory()
        looks: list[list[TopicPartition]] = []

        def look(woken: Collection[TopicPartition]) -> bool:
            looks.append(list(woken))
            return False

        answer = purgatory.wait([A, B], 0.05, look, lambda: "late", watermark=False)
        purgatory.wake(A, watermark=True)
        await asyncio.sleep(0)
        assert not looks
        purgatory.wake(B)
        await asyncio.sleep(0)
        assert looks == [[A, B]]
        purgatory.wake(B, watermark=True)
        assert (await answer, looks) == ("late", [[A, B], [B]])

    asyncio.run(test())


def test_waiters_end_in_order_and_answered_ones_are_released() -> None:
    class Answer:
        def __call__(self) -> str:
            return "answer"

    async def test() -> None:
        purgatory = Purgatory()
        order: list[str] = []
        waiting = [
            purgatory.wait([A], seconds, lambda _: False, partial(order.append, str(seconds)))
            for seconds in (0.03, 0.01, 0.02)
        ]
        await asyncio.gather(*waiting)
        assert order == ["0.01", "0.02", "0.03"]
        kept: list[weakref.ref[Answer]] = []
        for _ in range(1000):
            answer = Answer()
            kept.append(weakref.ref(answer))
            answered = purgatory.wait([A], 3600, lambda _: True, answer)
            purgatory.wake(A)
            assert await answered == "answer"
            await asyncio.sleep(0)
        assert sum(1 for known in kept if known() is not None) <= SPARE + 2

    asyncio.run(test())


@pytest.mark.parametrize(
    ("controller_epoch", "broker_epoch", "error"),
    [
        (5, 70, ErrorCode.none),
        (6, 70, ErrorCode.none),
        (4, 70, ErrorCode.stale_controller_epoch),
        (5, 69, ErrorCode.stale_broker_epoch),
        (5, 71, ErrorCode.none),
        (5, -1, ErrorCode.none),
    ],
)
def test_only_the_present_controller_is_obeyed(
    controller_epoch: int, broker_epoch: int, error: ErrorCode
) -> None:
    fence = ControlFence()
    fence.controller_epoch = ControllerEpoch(5)
    fence.broker_epoch = 70
    request = StopReplicaRequest(
        controller_id=BrokerId(1),
        controller_epoch=ControllerEpoch(controller_epoch),
        broker_epoch=broker_epoch,
        topic_states=(),
    )
    assert fence.admit(request, 1) is error


def test_isr_changes_are_sent_when_quiet_or_overdue() -> None:
    clock = HandClock()
    changes = IsrChanges(BrokerId(1), zk=None, clock=clock, spawn=lambda work: work)
    assert not changes.is_due(Millis(100_000)), "nothing to send"
    changes.changed(A)
    assert not changes.is_due(Millis(5_000))
    assert changes.is_due(Millis(5_001)), "no change for more than 5 s"
    clock.time = Millis(59_000)
    changes.changed(B)
    assert not changes.is_due(Millis(60_000))
    assert changes.is_due(Millis(60_001)), "nothing sent for more than 60 s"
