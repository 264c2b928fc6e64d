"""One direction between two hosts, and what waits while it is down."""

from collections.abc import Callable
from contextvars import Context
from random import Random
from typing import Any, Protocol

from simulation.loop.loop import SimulatedLoop


class Waiting(Protocol):
    """Who has something to send on a link that is down."""

    def send_again(self) -> None:
        """The link is up."""


class Link:
    """One direction between two hosts."""

    __slots__ = (
        "_held",
        "_last_message",
        "_loop",
        "_random",
        "_waiting",
        "base_s",
        "cut",
        "jitter_s",
        "up",
    )

    def __init__(self, loop: SimulatedLoop, random: Random, base_s: float, jitter_s: float) -> None:
        self.base_s = base_s
        self.jitter_s = jitter_s
        self.up = True
        """Whether packets arrive: it is not cut, and both hosts have power."""
        self.cut = False
        self._loop = loop
        self._random = random
        self._waiting: dict[Waiting, None] = {}
        self._held: list[tuple[Callable[..., object], tuple[Any, ...], Context]] = []
        self._last_message = 0.0

    def latency(self) -> float:
        """Seconds that the next packet takes."""
        return self.base_s + self.jitter_s * self._random.random()

    def wait(self, endpoint: Waiting) -> None:
        """``endpoint`` has something to send when the link is up again."""
        self._waiting[endpoint] = None

    def message(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        """See :meth:`simulation.network.network.Network.delay`."""
        if not self.up or self._held:
            self._held.append((callback, args, context))
            return
        self._last_message = max(self._last_message, self._loop.time() + self.latency())
        self._loop.post(self._last_message, callback, args, context)

    def forget_messages(self) -> None:
        """One of the hosts lost power, and what was held with it."""
        self._held.clear()

    def send_again(self) -> None:
        """The link is up: what waited is sent, unless it went down again."""
        if not self.up:
            return
        held, self._held = self._held, []
        for message in held:
            self.message(*message)
        waiting, self._waiting = self._waiting, {}
        for endpoint in waiting:
            endpoint.send_again()
