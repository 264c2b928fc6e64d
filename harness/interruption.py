"""Being asked to stop: Ctrl-C, SIGTERM.

A run that is asked to stop heals, flushes and tears down, and what it recorded is checked. So the
first asking is only noted while a run is under way; a second one, or one at any other time, ends
whatever is being done (KeyboardInterrupt).
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether somebody asked to stop, and how urgently."""

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
        """Return whether it was asked since the last call."""
        news, self._answered = self._times > self._answered, self._times
        return news

    def install(self) -> None:
        """Take the signals from now on. Also one that was ignored when we started: a script's
        ``ackproof run ... &`` has SIGINT ignored, and is to be stopped by it all the same."""
        for number in SIGNALS:
            signal.signal(number, self._receive)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Meanwhile the first asking is noted."""
        self._noting = True
        try:
            yield
        finally:
            self._noting = False

    def _receive(self, _number: int, _frame: FrameType | None) -> None:
        self._times += 1
        if self.asked_again or not self._noting:
            raise KeyboardInterrupt
