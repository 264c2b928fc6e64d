"""Processes around a run in namespaces: the mark of being inside, forwarded signals, status."""

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
    """Return ``environ`` with the mark of the present PID namespace."""
    return {**environ, _MARK: _pid_namespace()}


def marked() -> bool:
    """Return whether the environment is marked for the present PID namespace."""
    return os.environ.get(_MARK) == _pid_namespace()


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


# --- forwarded signals ------------------------------------------------------------------------


FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Forwarder:
    """A forwarder of SIGINT, SIGTERM, SIGHUP and SIGQUIT to a child, even before the child exists.

    A shell starts ``ackproof run ... &`` in a script with SIGINT and SIGQUIT ignored. A user that
    sends one nevertheless means the run, which heals before it ends. They are therefore passed on,
    and the child has the default action: a signal with a handler here is reset when the child is
    executed. Only SIGHUP stays ignored if it was (``nohup``).
    """

    def __init__(self) -> None:
        self._child: int | None = None
        self._early: list[int] = []
        for number in FORWARDED:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._forward)

    def attach(self, child: int) -> None:
        """Send signals to the process id ``child`` from now on."""
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
"""The exit status of a command inside whose run must exit with 1."""


def shell_status(code: int) -> int:
    """Return the status in a shell's terms. ``code`` is that of ``subprocess``, negative for a
    signal."""
    return code if code >= 0 else 128 - code


def outermost(code: int) -> int:
    """Return the status for the user's shell after a command inside.

    1 means that a guarantee was broken. It is also the status of Python, unshare, setpriv and
    nsenter when they fail themselves. A run that could not begin would look like a loss. Inside, 1
    therefore has a number of its own.
    """
    if code == MEANT_AS_1:
        return _FAILURE
    return _INFRASTRUCTURE_FAILED if code == _FAILURE else shell_status(code)


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Exit with the result of ``main``.

    After a crash the status is that of a failed infrastructure. Python's own, 1, would say that a
    guarantee was broken.
    """
    try:
        status = main()
    except Exception:  # noqa: BLE001 - every error is shown
        traceback.print_exc()
        status = _INFRASTRUCTURE_FAILED
    sys.exit(status)
