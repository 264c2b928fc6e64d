"""What keeps order among messages and among jobs."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol


class Network(Protocol):
    """What a network offers to those who speak in messages."""

    def delay(
        self,
        source: str,
        target: str,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> None:
        """Call ``callback`` in ``context``, the receiver's, when a message from ``source`` has
        reached ``target``. Nothing overtakes; while the way is cut, messages wait."""


class Queue:
    """Carries jobs out in the order in which they came, each not before a time of its own."""

    __slots__ = ("_context", "_last_s", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._last_s = 0.0
        self._waiting: deque[Callable[[], object]] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting

    def put(self, delay_s: float, job: Callable[[], object]) -> None:
        """Carry ``job`` out in ``delay_s`` seconds, or when those before it are done."""
        self._last_s = max(self._last_s, self._loop.time() + delay_s)
        self._waiting.append(job)
        self._loop.call_at(self._last_s, self._next, context=self._context)

    def finish(self) -> None:
        """Carry out now what waits."""
        while self._waiting:
            self._waiting.popleft()()

    def _next(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
