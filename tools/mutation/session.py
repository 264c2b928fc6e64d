"""A session: all chosen mutants by all detectors, as far as the results are not known yet."""

import fcntl
import math
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

from ackproof.harness.exit_status import ExitStatus, worst
from ackproof.harness.subprocesses import Interrupted
from tools.mutation import page
from tools.mutation.detectors import Detector
from tools.mutation.display import Display
from tools.mutation.mutants import Mutant, drawn
from tools.mutation.patches import StalePatch
from tools.mutation.results import SOUND, Method, Outcome, Result, Store
from tools.mutation.sources import SUITES, Fingerprints, broken, copy_broken, copy_sound

Report = Callable[[str], object]


class SessionRunning(OSError):
    """Another session uses the directory. Two would remove each other's copies."""


@contextmanager
def opened(directory: Path, display: Display) -> Iterator["Session"]:
    """Open a session whose results are kept below ``directory``.

    The sources are copied once: later changes of them do not count. The copies are removed at the
    end. Raises SessionRunning, OSError.
    """
    copies = directory / "sources"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SessionRunning(f"another session runs in {directory}") from None
        try:
            shutil.rmtree(copies, ignore_errors=True)
            copy_sound(copies / SOUND)
            yield Session(directory, copies, display)
        finally:
            shutil.rmtree(copies, ignore_errors=True)


class Session:
    """Examines brokers; see :func:`opened`. ``copies`` holds the sound copy."""

    def __init__(self, directory: Path, copies: Path, display: Display) -> None:
        self.sound = copies / SOUND
        self._directory = directory
        self._copies = copies
        self._store = Store(directory)
        self._fingerprints = Fingerprints(self.sound)
        self._display = display

    def result(self, mutant: Mutant | None, method: Method) -> Result | None:
        """Return the stored result, of whatever sources and settings."""
        return self._store.get(SOUND if mutant is None else mutant.name, method)

    def is_current(self, result: Result, mutant: Mutant | None) -> bool:
        """Return whether the result is of the present sources."""
        return result.sources == self._fingerprints.of(mutant, result.method)

    def known(self, mutant: Mutant | None, detector: Detector) -> Result | None:
        """Return the result with the present sources, or None if the detector must examine it."""
        found = self.result(mutant, detector.method)
        if found is None or not self.is_current(found, mutant):
            return None
        return found if detector.is_final(found) else None

    def carry_out(
        self, mutants: Sequence[Mutant], detectors: Sequence[Detector], report: Report
    ) -> ExitStatus:
        """Examine the sound broker first, then the mutants if it holds.

        The tests begin with the mutants that the simulator does not find, and campaigns take them
        in random order (:func:`tools.mutation.mutants.drawn`). ``report`` receives the reason for a
        status that is not 0. Raises OSError.
        """
        brokers = (None, *mutants)
        try:
            for mutant in mutants:
                broken(mutant, self.sound)  # a patch that does not apply is reported at once
            left = [self.known(one, each) is None for each in detectors for one in brokers]
            self._display.expect(sum(left))
            for detector in detectors:
                self.examine([None], detector)
            status = self._of_the_sound(detectors, report)
            if status is not ExitStatus.HELD:
                return status
            for detector in detectors:
                self.examine(self._ordered(mutants, detector.method), detector)
        except StalePatch as stale:
            report(f"a patch does not apply to the sources any more: {stale}")
            return ExitStatus.INCONCLUSIVE
        except Interrupted:
            report("interrupted; the same command continues with the rest")
            return ExitStatus.INCONCLUSIVE
        missed = page.missed(mutants, self)
        if missed:
            report(f"not found: {', '.join(mutant.name for mutant in missed)}")
        return ExitStatus.INCONCLUSIVE if missed else ExitStatus.HELD

    def examine(self, mutants: Sequence[Mutant | None], detector: Detector) -> None:
        """Examine the mutants without a known result, as many at once as the detector allows.

        Raises:
            Interrupted: the user asked to stop.
            StalePatch, OSError: a copy cannot be made.
        """
        left = [mutant for mutant in mutants if self.known(mutant, detector) is None]
        with ThreadPoolExecutor(detector.jobs) as pool:
            under_way = [pool.submit(self._examine, mutant, detector) for mutant in left]
            try:
                for future in as_completed(under_way):
                    future.result()
            finally:
                for future in under_way:
                    future.cancel()

    def _examine(self, mutant: Mutant | None, detector: Detector) -> None:
        name = SOUND if mutant is None else mutant.name
        self._display.begins(name)
        result: Result | None = None
        try:
            result = self._result_of(mutant, name, detector)
            self._store.put(result)
        finally:
            self._display.ends(name, result)

    def _result_of(self, mutant: Mutant | None, name: str, detector: Detector) -> Result:
        place = self._directory / detector.method.value / name
        if mutant is None:
            finding = detector.examine(None, self.sound, place)
        else:
            copy = self._copies / f"{detector.method.value}-{name}"
            try:
                copy_broken(self.sound, mutant, copy)
                finding = detector.examine(mutant, copy, place)
            finally:
                shutil.rmtree(copy, ignore_errors=True)
            if finding.outcome is Outcome.FOUND:
                finding = detector.confirm(mutant, finding, place)
        return Result(
            mutant=name,
            method=detector.method,
            finding=finding,
            sources=self._fingerprints.of(mutant, detector.method),
            settings=detector.settings,
        )

    def _ordered(self, mutants: Sequence[Mutant], method: Method) -> Sequence[Mutant]:
        if method is Method.CAMPAIGN:
            return drawn(mutants)
        return sorted(mutants, key=self._found_after, reverse=method in SUITES)

    def _found_after(self, mutant: Mutant) -> float:
        """Return the seconds that the simulator needed, or infinity if it did not find it."""
        result = self.result(mutant, Method.SIMULATOR)
        if result is None or result.finding.outcome is not Outcome.FOUND:
            return math.inf
        return result.finding.seconds or 0.0

    def _of_the_sound(self, detectors: Sequence[Detector], report: Report) -> ExitStatus:
        """Return HELD if the sound broker held by all detectors."""
        statuses = [ExitStatus.HELD]
        for detector in detectors:
            result = self.result(None, detector.method)
            assert result is not None, "it was examined just now"
            finding, method = result.finding, detector.method.value
            if finding.outcome is Outcome.FOUND:
                where = f"{finding.by}, {finding.where}"
                report(f"{method}: the sound broker has a fault ({where}): {finding.why}")
                statuses.append(ExitStatus.BROKEN)
            elif finding.outcome is Outcome.INCONCLUSIVE:
                report(f"{method}: the sound broker could not be judged: {finding.why}")
                statuses.append(ExitStatus.INCONCLUSIVE)
        status = worst(statuses)
        if status is not ExitStatus.HELD:
            report("no broken broker was examined, since no find would count")
        return status
