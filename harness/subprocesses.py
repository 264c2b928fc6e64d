"""Long work in processes of its own, campaigns above all, and the signals for them."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from types import FrameType
from typing import IO, TypeVar

from pydantic import TypeAdapter, ValidationError

from ackproof.checkers.verdict import Verdict
from ackproof.harness.directory import ResultsDirectoryError
from ackproof.harness.durations import lasted, will_last
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.interruption import SIGNALS
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.history.messages import in_words, several
from ackproof.history.storage import write_text
from ackproof.infra.agent.parents import dying_with

# --- processes ------------------------------------------------------------------------------------
#
# Each process is in a process group of its own. It receives Ctrl-C only from here, and not also
# from the terminal. A second signal would mean a second request to stop.

_LAST_WORDS_BYTES = 4096


class Interrupted(Exception):
    """A request to stop (Ctrl-C, SIGTERM). The output of a child may then be incomplete."""


class ChildProcesses:
    """The runner of processes, from several threads at once, until it is asked to stop.

    Args:
        die_with_us: Whether children are sent SIGTERM (parent-death signal) if this process is
            killed with kill -9. It is not for children that end at once on a second signal: if this
            process has several threads, the kernel may send one for each thread that ends. Without
            it, a child runs to its end.
    """

    def __init__(self, *, die_with_us: bool = False) -> None:
        self._prefix = dying_with(os.getpid(), "TERM") if die_with_us else ()
        self._running: dict[subprocess.Popen[bytes], int] = {}
        """The number of signals that were sent to each process."""
        self._signals: list[int] = []
        self._lock = threading.RLock()

    def install(self) -> None:
        """Handle the signals from now on. This is for the main thread."""
        for number in (*SIGNALS, signal.SIGHUP):
            if number in SIGNALS or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._receive)

    @property
    def asked_to_stop(self) -> bool:
        """Return whether there was a request to stop, such as Ctrl-C."""
        return bool(self._signals)

    def check(self) -> None:
        """Raise Interrupted if there was a request to stop."""
        if self.asked_to_stop:
            raise Interrupted

    def run(
        self,
        command: Sequence[str],
        output: IO[bytes] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> int:
        """Run ``command`` to its end, and return its exit status. Its output goes to ``output``, or
        to the output of this process.

        At a request to stop, the command is also asked to stop, and waited for. Raises Interrupted
        if the request came before the start.
        """
        with self._started(command, output, environ) as child:
            try:
                return child.wait()
            finally:
                with self._lock:
                    del self._running[child]

    def campaign(self, arguments: Sequence[str], output: IO[bytes] | None = None) -> ExitStatus:
        """Run ``ackproof run <arguments>``, as :meth:`run` does."""
        # No user can confirm here, so a campaign of any size counts as confirmed.
        command = [sys.executable, "-P", "-m", "ackproof.harness", "run", *arguments, "--yes"]
        status = self.run(command, output)
        return ExitStatus(status) if status in set(ExitStatus) else ExitStatus.INFRASTRUCTURE

    def _started(
        self,
        command: Sequence[str],
        output: IO[bytes] | None,
        environ: Mapping[str, str] | None,
    ) -> "subprocess.Popen[bytes]":
        with self._lock:  # a signal comes before, and nothing is started, or it reaches the child
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
            self._hand_down()  # signals may have come during the start
            return child

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        with self._lock:
            self._signals.append(number)
            self._hand_down()

    def _hand_down(self) -> None:
        """Send each process the signals that it was not sent yet. A signal may interrupt this
        function, whose handler calls it again. Therefore a signal counts as sent before it is
        sent."""
        for child in tuple(self._running):
            while (sent := self._running[child]) < len(self._signals):
                self._running[child] = sent + 1
                with suppress(ProcessLookupError):
                    child.send_signal(self._signals[sent])


_REFUSED = re.compile(r"ackproof: .*: (\d+) problems?")
"""The line behind the problems of a refused campaign, one line each."""


def last_words(output: Path) -> str:
    """Return the last line of a process's output, without its colours; if a campaign was refused,
    its first problem."""
    with output.open("rb") as file:
        file.seek(max(0, output.stat().st_size - _LAST_WORDS_BYTES))
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.read().decode(errors="replace"))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "without a message"
    refused = _REFUSED.fullmatch(lines[-1])
    return lines[max(0, len(lines) - 1 - (int(refused[1]) if refused else 0))]


# --- campaigns that run once ----------------------------------------------------------------------
#
# Work that takes hours is made of these runs. It may be ended at any time, and continues with the
# missing ones. Results without a verdict come from a killed run. They count for nothing, and are
# removed.


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRun:
    """A campaign that runs once.

    Attributes:
        file: The campaign's file.
        system: The system under test.
        seed: The seed.
        directory: The directory of its results.
        metadata_quorum: The metadata quorum, if it is not the system's default.
    """

    file: Path
    system: str
    seed: int
    directory: Path
    metadata_quorum: str | None = None

    @property
    def output(self) -> Path:
        """Return the file with the campaign's output."""
        return self.directory.with_name(f"{self.directory.name}.output")

    @property
    def result(self) -> VerdictDocument | None:
        """Return its verdict document, or None if it was not run to its end. Raises
        DamagedResults."""
        try:
            return verdict.read_document(self.directory / verdict.FILE)
        except FileNotFoundError:
            return None

    def remove_recordings(self) -> None:
        """Remove what was recorded, and keep the verdict and its report."""
        shutil.rmtree(self.directory / "runs", ignore_errors=True)

    def carry_out(self, children: ChildProcesses) -> bool:
        """Run it if it was not run, and return whether there is a verdict. Incomplete results are
        removed.

        Raises Interrupted at a request to stop, and DamagedResults.
        """
        if self.result is not None:
            return True
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        where = ["--system", self.system, "--seed", str(self.seed), "--out", str(self.directory)]
        if self.metadata_quorum is not None:
            where += ["--metadata-quorum", self.metadata_quorum]
        try:
            with self.output.open("wb") as said:
                children.campaign([str(self.file), *where], said)
            children.check()
        except Interrupted:  # the report is only of a part of the campaign
            shutil.rmtree(self.directory, ignore_errors=True)
            self.output.unlink()
            raise
        return self.result is not None


_WITHOUT_FAILURE = (Verdict.PASS, Verdict.NOT_GUARANTEED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One of many runs.

    Attributes:
        name: Its name in the output.
        run: The run.
        outcome: Returns in words what its result says.
        held: Returns whether its result says that the failure did not come.
    """

    name: str
    run: CachedRun
    outcome: Callable[[VerdictDocument], str]
    held: Callable[[VerdictDocument], bool]


def carry_out_all(
    runs: Iterable[PlannedRun],
    children: ChildProcesses,
    tell: Callable[[str], None],
    left: Callable[[], int],
) -> bool:
    """Carry out the runs without a result one after the other, and return whether all came to a
    verdict.

    What was recorded is removed of runs without the failure, because dozens of histories fill a
    disk; but not if another guarantee was broken. At a request to stop it says how to continue.
    Raises DamagedResults.

    Args:
        runs: The runs.
        children: The runner of processes.
        tell: Receives a line when a run starts, and one when it ends.
        left: Returns the largest number of runs that may still come.
    """
    whole, took_s = True, list[float]()
    try:
        for one in runs:
            if one.run.result is not None:
                continue
            tell(f"{one.name}: {one.run.directory}")
            began = time.monotonic()
            one.run.carry_out(children)
            took_s.append(time.monotonic() - began)
            if (result := one.run.result) is None:
                whole = False
                said = f"no verdict: {last_words(one.run.output)} ({one.run.output})"
            else:
                said = one.outcome(result)
                if one.held(result) and result.verdict in _WITHOUT_FAILURE:
                    one.run.remove_recordings()
            tell(f"  {said}, after {lasted(took_s[-1])}{_still(left(), mean(took_s))}")
    except Interrupted:
        tell("interrupted; run the command again to continue")
        return False
    return whole


def _still(runs: int, each_s: float) -> str:
    """Return how many runs may still come, and how long they take, in words."""
    if not runs:
        return ""
    return f"; at most {several(runs, 'more run')}, about {will_last(runs * each_s)}"


# --- findings -------------------------------------------------------------------------------------
#
# A finding says what a campaign that ran once says of what was asked. It is small, and results are
# not. The findings of all runs are kept in a file beside the page that is made of them, so that
# runs on several machines, and on another day, add up.

F = TypeVar("F")


def read_findings(file: Path, kind: TypeAdapter[dict[str, list[F]]]) -> Mapping[str, Sequence[F]]:
    """Return the findings in a file, by the place of their runs; none if there is no such file.

    Raises ResultsDirectoryError with the problem of an invalid file.
    """
    try:
        return kind.validate_json(file.read_bytes())
    except FileNotFoundError:
        return {}
    except ValidationError as error:
        raise ResultsDirectoryError(f"{file}: no findings: {in_words(error)}") from None


def write_findings(
    file: Path, findings: Mapping[str, Sequence[F]], kind: TypeAdapter[dict[str, list[F]]]
) -> None:
    """Write findings into a file."""
    in_order = {place: list(findings[place]) for place in sorted(findings)}
    write_text(file, kind.dump_json(in_order, indent=1).decode() + "\n")
