"""Where requests wait for their partitions: no polling, woken by those they asked about.

A partition wakes whom it concerns when its log grew, when its high watermark moved, and when its
role changed. (Kafka's DelayedOperationPurgatory, for fetches and DeleteRecords; produce requests
wait in their replica instead, which knows when they are done.)
"""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Generic, TypeAlias, TypeVar

from broker.types import TopicPartition

T = TypeVar("T")

Look: TypeAlias = Callable[[Collection[TopicPartition]], bool]
"""Told which partitions have news; says whether there is nothing more to wait for."""


class _Delayed(Generic[T]):
    """One waiting request. It looks once for all news of one turn of the event loop, and not in
    the middle of what makes the news."""

    __slots__ = ("_answer", "_look", "_looks_soon", "_watermark", "_woken", "answered")

    def __init__(self, look: Look, answer: Callable[[], T], *, watermark: bool) -> None:
        self.answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._look = look
        self._answer = answer
        self._watermark = watermark
        self._woken: dict[TopicPartition, None] = {}
        self._looks_soon = False

    def wake(self, partition: TopicPartition, *, watermark: bool) -> None:
        self._woken[partition] = None
        if not self._looks_soon and (self._watermark or not watermark):
            self._looks_soon = True
            self.answered.get_loop().call_soon(self._look_again)

    def expire(self) -> None:
        self._complete(time_is_over=True)

    def _look_again(self) -> None:
        self._looks_soon = False
        self._complete(time_is_over=False)

    def _complete(self, *, time_is_over: bool) -> None:
        if self.answered.done():
            return
        woken, self._woken = self._woken.keys(), {}
        try:
            if (woken and self._look(woken)) or time_is_over:
                self.answered.set_result(self._answer())
        except Exception as error:  # noqa: BLE001  who awaits the answer gets it
            self.answered.set_exception(error)


class Purgatory:
    """Who waits, by partition."""

    def __init__(self) -> None:
        self._delayed: dict[TopicPartition, dict[_Delayed[Any], None]] = {}
        self.waiting = 0
        """How many requests wait."""

    def wait(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float,
        look: Look,
        answer: Callable[[], T],
        *,
        watermark: bool = True,
    ) -> asyncio.Future[T]:
        """What ``answer`` says when ``look`` is content or ``timeout_s`` is over.

        News from the moment of this call on count. Whoever cancels the future waits no more.

        Args:
            watermark: that a high watermark has moved is reason enough to look. If not, it is seen
                with what comes next, or when the time is over.
        """
        delayed = _Delayed(look, answer, watermark=watermark)
        for partition in partitions:
            self._delayed.setdefault(partition, {})[delayed] = None
        self.waiting += 1
        timer = delayed.answered.get_loop().call_later(timeout_s, delayed.expire)

        def leave(_answered: asyncio.Future[T]) -> None:
            timer.cancel()
            self.waiting -= 1
            for partition in partitions:
                self._forget(partition, delayed)

        delayed.answered.add_done_callback(leave)
        return delayed.answered

    def wake(self, partition: TopicPartition, *, watermark: bool = False) -> None:
        """Lets everyone who waits for ``partition`` look again, in the order in which they came.

        Args:
            watermark: nothing has happened but that its high watermark has moved.
        """
        for delayed in self._delayed.get(partition, ()):
            delayed.wake(partition, watermark=watermark)

    def _forget(self, partition: TopicPartition, delayed: _Delayed[Any]) -> None:
        waiting = self._delayed.get(partition, {})
        waiting.pop(delayed, None)
        if not waiting:
            self._delayed.pop(partition, None)
