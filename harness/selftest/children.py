"""The processes that look for bugs, and the signals that are meant for them.

Each is in a process group of its own: Ctrl-C reaches it once, from here, and not from the terminal
besides. It dies with us, kill -9 included (parent-death signal): by SIGTERM, so that a campaign
heals and cleans up.
"""

import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

from harness.running.interruption import SIGNALS

_DIES_WITH_US = ("setpriv", "--pdeathsig", "TERM", "--")


class Interrupted(Exception):
    """We were asked to stop: what a child left behind is half of something."""


class Children:
    """Runs processes, from several threads at once, until asked to stop."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._signals: list[int] = []
        self._lock = threading.RLock()

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody has pressed Ctrl-C, or the like."""
        return bool(self._signals)

    def install(self) -> None:
        """Take the signals from now on. For the main thread."""
        for number in (*SIGNALS, signal.SIGHUP):
            if number in SIGNALS or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    def run(self, command: Sequence[str], environ: Mapping[str, str], output: Path) -> int:
        """Run ``command`` to its end; its exit status. What it says goes to the file ``output``.

        Raises Interrupted when we are asked to stop: it was asked, too, and has ended.
        """
        with output.open("wb") as said, self._started(command, environ, said) as child:
            try:
                status = child.wait()
            finally:
                with self._lock:
                    self._running.discard(child)
        if self.asked_to_stop:
            raise Interrupted
        return status

    def _started(
        self, command: Sequence[str], environ: Mapping[str, str], said: IO[bytes]
    ) -> "subprocess.Popen[bytes]":
        with self._lock:  # a signal comes before it, and nothing is started; or reaches it
            if self.asked_to_stop:
                raise Interrupted
            child = subprocess.Popen(
                [*_DIES_WITH_US, *command],
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                process_group=0,
            )
            self._running.add(child)
            for number in self._signals:  # that came while it was being started
                child.send_signal(number)
            return child

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        with self._lock:
            self._signals.append(number)
            for child in self._running:
                with suppress(ProcessLookupError):
                    child.send_signal(number)
