"""The waiting of requests for their partitions, without polling.

A partition wakes its requests when its log grew, when its high watermark moved, and when its role
changed. (This is Kafka's DelayedOperationPurgatory, for fetches and DeleteRecords. Produce requests
wait in their replica instead, which knows when they are done.)
"""

import asyncio
from collections.abc import Callable, Collection
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Generic, TypeAlias, TypeVar

from ackproof.broker.types import TopicPartition

T = TypeVar("T")

SPARE = 100
"""The number of answered requests whose deadlines are cheaper to keep than to look for."""

Look: TypeAlias = Callable[[Collection[TopicPartition]], bool]
"""A function that is given the partitions with news, and returns whether the wait is over."""


class _Delayed(Generic[T]):
    """One waiting request. It checks once for all news of one turn of the event loop, and not in
    the middle of a step that makes the news."""

    __slots__ = ("_answer", "_look", "_looks_soon", "_watermark", "_woken", "answered", "deadline")

    def __init__(
        self, deadline: float, look: Look, answer: Callable[[], T], *, watermark: bool
    ) -> None:
        self.deadline = deadline
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


class _Deadlines:
    """One timer for all waiting requests. Most are answered long before it is due, and to set and
    cancel one for each takes longer than to wake it."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Delayed[Any]]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def add(self, delayed: _Delayed[Any], waiting: int) -> None:
        """Add a request. ``waiting`` is the number of waiting requests. The heap holds no more than
        as many answered ones."""
        if len(self._heap) > 2 * waiting + SPARE:
            self._heap = [entry for entry in self._heap if not entry[2].answered.done()]
            heapify(self._heap)
        heappush(self._heap, (delayed.deadline, next(self._numbers), delayed))
        if self._timer is None or delayed.deadline < self._due:
            self._set_timer(delayed.answered.get_loop())

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = self._heap[0][0]
        self._timer = loop.call_at(self._due, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        now = loop.time()
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].answered.done()):
            heappop(self._heap)[2].expire()
        if self._heap:
            self._set_timer(loop)


class Purgatory:
    """The waiting requests by partition."""

    def __init__(self) -> None:
        self._deadlines = _Deadlines()
        self._delayed: dict[TopicPartition, dict[_Delayed[Any], None]] = {}
        self.waiting = 0
        """The number of waiting requests."""

    def wait(
        self,
        partitions: Collection[TopicPartition],
        timeout_s: float,
        look: Look,
        answer: Callable[[], T],
        *,
        watermark: bool = True,
    ) -> asyncio.Future[T]:
        """Return the result of ``answer`` once ``look`` returns True or ``timeout_s`` is over.

        News from the moment of this call on counts. To cancel the future ends the wait.

        Args:
            watermark: whether a moved high watermark alone is a reason to check. If not, it is
                noticed with the next news, or when the time is over.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        delayed = _Delayed(deadline, look, answer, watermark=watermark)
        for partition in partitions:
            self._delayed.setdefault(partition, {})[delayed] = None
        self.waiting += 1
        self._deadlines.add(delayed, self.waiting)

        def leave(_answered: asyncio.Future[T]) -> None:
            self.waiting -= 1
            for partition in partitions:
                self._forget(partition, delayed)

        delayed.answered.add_done_callback(leave)
        return delayed.answered

    def wake(self, partition: TopicPartition, *, watermark: bool = False) -> None:
        """Let all requests that wait for ``partition`` check again, in the order in which they
        came.

        Args:
            watermark: nothing has happened except that its high watermark has moved.
        """
        for delayed in self._delayed.get(partition, ()):
            delayed.wake(partition, watermark=watermark)

    def _forget(self, partition: TopicPartition, delayed: _Delayed[Any]) -> None:
        waiting = self._delayed.get(partition, {})
        waiting.pop(delayed, None)
        if not waiting:
            self._delayed.pop(partition, None)
