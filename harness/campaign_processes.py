"""Campaigns as processes of their own, one after the other, and the signals meant for them.

Asked to stop (Ctrl-C, SIGTERM), the campaign that is under way is asked, and waited for: it heals,
checks and cleans up. Whoever runs it sees that it was asked, and starts no other one.
"""

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType
from typing import IO

from harness.exit_status import ExitStatus
from harness.running.interruption import SIGNALS


class CampaignProcesses:
    """Runs them. Takes the signals from when it is made."""

    def __init__(self) -> None:
        self._signals: list[int] = []
        self._handed_down = 0
        self._campaign: subprocess.Popen[bytes] | None = None
        for number in (*SIGNALS, signal.SIGHUP):
            if number in SIGNALS or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    @property
    def asked_to_stop(self) -> bool:
        return bool(self._signals)

    def run(self, arguments: Sequence[str], output: IO[bytes] | None = None) -> ExitStatus:
        """Run ``ackproof run <arguments>`` to its end; what it says goes to ``output``, or to where
        ours goes."""
        # Nobody is there to be asked: what is run like this, however large, is meant.
        command = [sys.executable, "-m", "harness", "run", *arguments, "--yes"]
        # In a process group of its own: Ctrl-C reaches it once, from here, and not once from the
        # terminal and once from here. The second time would be taken for impatience.
        self._campaign = subprocess.Popen(
            command,
            process_group=0,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
        )
        self._hand_down()  # what came before it was there
        status = self._campaign.wait()
        self._campaign = None
        return ExitStatus(status) if status in set(ExitStatus) else ExitStatus.INCONCLUSIVE

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self._signals.append(number)
        self._hand_down()

    def _hand_down(self) -> None:
        while self._campaign is not None and self._handed_down < len(self._signals):
            self._handed_down += 1
            self._campaign.send_signal(self._signals[self._handed_down - 1])
