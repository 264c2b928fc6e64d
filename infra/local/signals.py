"""Handing signals down to the one child that everything else stems from."""

import os
import signal
from contextlib import suppress
from types import FrameType

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Forwarder:
    """Passes SIGINT, SIGTERM, SIGHUP and SIGQUIT to a child, those too that come before it is
    there.

    A shell starts ``ackproof run ... &`` in a script with SIGINT and SIGQUIT ignored. Whoever
    sends one all the same means the run, which heals before it ends; so they are passed on, and the
    child finds them as it expects them, since what has a handler here is reset when it is executed.
    SIGHUP alone stays ignored where it was (``nohup``)."""

    def __init__(self) -> None:
        self._child: int | None = None
        self._early: list[int] = []
        for number in FORWARDED:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._forward)

    def attach(self, child: int) -> None:
        """``child``: the process id that signals go to from now on."""
        self._child = child
        while self._early:
            self._forward(self._early.pop(0), None)

    def _forward(self, number: int, _frame: FrameType | None) -> None:
        if self._child is None:
            self._early.append(number)
            return
        with suppress(ProcessLookupError):
            os.kill(self._child, number)
