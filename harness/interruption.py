"""Requests to stop: Ctrl-C and SIGTERM.

A run that is asked to stop heals, flushes and tears down, and what it recorded is checked. So the
first request is only noted while a run is under way. A second one, or one at any other time, ends
the current work (KeyboardInterrupt).
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """The number of requests to stop, and their handling."""

    def __init__(self) -> None:
        self._times = 0
        self._noting = False
        self._answered = 0

    @property
    def asked(self) -> bool:
        return self._times > 0

    @property
    def asked_again(self) -> bool:
        return self._times > 1

    def is_news(self) -> bool:
        """Return whether there was a request since the last call."""
        news, self._answered = self._times > self._answered, self._times
        return news

    def install(self) -> None:
        """Handle the signals from now on. This includes a signal that was ignored at the start: a
        script's ``ackproof run ... &`` ignores SIGINT, and must still be stopped by it."""
        for number in SIGNALS:
            signal.signal(number, self._receive)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Only note the first request in this context."""
        self._noting = True
        try:
            yield
        finally:
            self._noting = False

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        self._times += 1
        if self.asked_again or not self._noting:
            raise KeyboardInterrupt
