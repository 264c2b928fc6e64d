"""Processes around a run in namespaces: how one knows that it is inside, the signals that it hands
down, and its exit status.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

_MARK = "ACKPROOF_PID_NAMESPACE"


def mark(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with the mark of the PID namespace we are in."""
    return {**environ, _MARK: _pid_namespace()}


def marked() -> bool:
    """Whether we are in the PID namespace that our environment is marked for."""
    return os.environ.get(_MARK) == _pid_namespace()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


# --- forwarded signals ------------------------------------------------------------------------


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


# --- exit status ------------------------------------------------------------------------------


_INFRASTRUCTURE_FAILED = 5
_FAILURE = 1

MEANT_AS_1 = 101
"""What a command inside exits with when its run is to exit with 1."""


def shell_status(code: int) -> int:
    """As a shell tells it. ``code``: as ``subprocess`` does, negative for a signal."""
    return code if code >= 0 else 128 - code


def outermost(code: int) -> int:
    """What the user's shell is told of a command inside.

    1 means that a guarantee was broken. It is also what Python, unshare, setpriv and nsenter exit
    with when they fail themselves: a run that could not even begin would look like a loss. So from
    inside, 1 has a number of its own.
    """
    if code == MEANT_AS_1:
        return _FAILURE
    return _INFRASTRUCTURE_FAILED if code == _FAILURE else shell_status(code)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Exit with what ``main`` gives. It crashes, and the status is that of an infrastructure that
    failed: Python's own, 1, would say that a guarantee was broken."""
    try:
        status = main()
    except Exception:  # noqa: BLE001 - shown, whatever it is
        traceback.print_exc()
        status = _INFRASTRUCTURE_FAILED
    sys.exit(status)
