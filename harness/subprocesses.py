"""Long work in processes of its own, campaigns above all, and the signals meant for them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.interruption import SIGNALS
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.infra.agent.parents import dying_with

# --- processes ------------------------------------------------------------------------------------
#
# Each is in a process group of its own: Ctrl-C reaches it once, from here, and not from the
# terminal besides. The second time would be taken for impatience.

_LAST_WORDS_BYTES = 4096


class Interrupted(Exception):
    """We were asked to stop (Ctrl-C, SIGTERM): what a child left behind may be half of
    something."""


class Children:
    """Runs processes, from several threads at once, until asked to stop.

    Args:
        die_with_us: By SIGTERM (parent-death signal), if we are killed with kill -9. Not for what
            takes a second one for impatience: of a process with several threads the kernel may send
            it once for each, as they end. What is left alone comes to its end by itself.
    """

    def __init__(self, *, die_with_us: bool = False) -> None:
        self._prefix = dying_with(os.getpid(), "TERM") if die_with_us else ()
        self._running: dict[subprocess.Popen[bytes], int] = {}
        """Each with how many of the signals it was sent."""
        self._signals: list[int] = []
        self._lock = threading.RLock()

    def install(self) -> None:
        """Take the signals from now on. For the main thread."""
        for number in (*SIGNALS, signal.SIGHUP):
            if number in SIGNALS or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    @property
    def asked_to_stop(self) -> bool:
        """Whether somebody has pressed Ctrl-C, or the like."""
        return bool(self._signals)

    def check(self) -> None:
        """Raise Interrupted when we were asked to stop."""
        if self.asked_to_stop:
            raise Interrupted

    def run(
        self,
        command: Sequence[str],
        output: IO[bytes] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> int:
        """Run ``command`` to its end; its exit status. What it says goes to ``output``, or to where
        ours goes.

        When we are asked to stop, it is asked, too, and waited for. Raises Interrupted when that
        was before it began.
        """
        with self._started(command, output, environ) as child:
            try:
                return child.wait()
            finally:
                with self._lock:
                    del self._running[child]

    def campaign(self, arguments: Sequence[str], output: IO[bytes] | None = None) -> ExitStatus:
        """Run ``ackproof run <arguments>``, as :meth:`run`."""
        # Nobody is there to be asked: what is run like this, however large, is meant.
        command = [sys.executable, "-P", "-m", "ackproof.harness", "run", *arguments, "--yes"]
        status = self.run(command, output)
        return ExitStatus(status) if status in set(ExitStatus) else ExitStatus.INFRASTRUCTURE

    def _started(
        self,
        command: Sequence[str],
        output: IO[bytes] | None,
        environ: Mapping[str, str] | None,
    ) -> "subprocess.Popen[bytes]":
        with self._lock:  # a signal comes before it, and nothing is started; or reaches it
            self.check()
            child = subprocess.Popen(
                [*self._prefix, *command],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=None if output is None else subprocess.STDOUT,
                process_group=0,
            )
            self._running[child] = 0
            self._hand_down()  # what came while it was being started
            return child

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        with self._lock:
            self._signals.append(number)
            self._hand_down()

    def _hand_down(self) -> None:
        """Send each what it was not sent yet. We may be interrupted by a signal here, and be called
        once more by its handler: what is about to be sent counts as sent."""
        for child in tuple(self._running):
            while (sent := self._running[child]) < len(self._signals):
                self._running[child] = sent + 1
                with suppress(ProcessLookupError):
                    child.send_signal(self._signals[sent])


def last_words(output: Path) -> str:
    """The last line of what a process said, without its colours."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _LAST_WORDS_BYTES))
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.read().decode(errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "without a word"


# --- campaigns that run once ----------------------------------------------------------------------
#
# What takes hours is made of these: it may be ended at any time, and goes on with what is not
# there. Results without a verdict are of one that was killed; they count for nothing, and are
# removed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Once:
    """Attributes:
    file: The campaign's.
    directory: Of its results.
    metadata_quorum: Who keeps the metadata, where it is not the system's default.
    """

    file: Path
    system: str
    seed: int
    directory: Path
    metadata_quorum: str | None = None

    @property
    def output(self) -> Path:
        """What the campaign says while it runs."""
        return self.directory.with_name(f"{self.directory.name}.output")

    @property
    def result(self) -> VerdictDocument | None:
        """What came of it; None where it was not run to its end. Raises DamagedResults."""
        try:
            return verdict.read_document(self.directory / verdict.FILE)
        except FileNotFoundError:
            return None

    def carry_out(self, children: Children) -> bool:
        """Run it where it was not; whether there is a verdict. What was ended halfway is removed.

        Raises Interrupted when we are asked to stop, DamagedResults.
        """
        if self.result is not None:
            return True
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        where = ["--system", self.system, "--seed", str(self.seed), "--out", str(self.directory)]
        if self.metadata_quorum is not None:
            where += ["--metadata-quorum", self.metadata_quorum]
        with self.output.open("wb") as said:
            children.campaign([str(self.file), *where], said)
        if children.asked_to_stop:  # checked and reported all the same, of half of it
            shutil.rmtree(self.directory, ignore_errors=True)
        children.check()
        return self.result is not None
