"""Order on top of links that may deliver in any order, late, or never."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import Any, Protocol


class Link(Protocol):
    """What a network offers to those who speak in messages."""

    def delay(self, source: str, target: str, callback: Callable[[], None]) -> object:
        """Call ``callback`` in the loop, in the caller's context, after the latency of the way
        from ``source`` to ``target``; while that is cut, after it is healed, or never."""


class Stream:
    """One direction of a TCP connection between two hosts.

    What arrives also brings what was sent before it: had it been held up, TCP would have sent it
    again by now. ``context`` is the receiver's: what its process has not read, nobody else reads.
    """

    __slots__ = ("_arrived_count", "_context", "_delay", "_sent_count", "_waiting")

    def __init__(self, link: Link, source: str, target: str, context: Context) -> None:
        self._context = context
        self._delay = partial(link.delay, source, target)
        self._waiting: deque[Callable[[], None]] = deque()
        self._sent_count = 0
        self._arrived_count = 0

    def send(self, deliver: Callable[..., None], *args: Any) -> None:
        """Call ``deliver(*args)`` at the other end, after all that was sent before."""
        self._sent_count += 1
        self._waiting.append(partial(deliver, *args))
        self.overtake(self._arrived, self._sent_count)

    def overtake(self, deliver: Callable[..., None], *args: Any) -> None:
        """Call ``deliver(*args)`` at the other end, maybe before what was sent earlier."""
        # The sender may be running in that very context, which cannot be entered twice.
        self._context.copy().run(self._delay, partial(deliver, *args))

    def _arrived(self, count: int) -> None:
        while self._arrived_count < count:
            self._arrived_count += 1
            self._waiting.popleft()()


class Queue:
    """Carries things out in the order in which they came, each not before a time of its own."""

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
