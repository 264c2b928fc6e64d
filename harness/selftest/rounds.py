"""All brokers in all ways, as far as that is not known yet."""

import fcntl
import math
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ackproof.harness.selftest.attempt import SOUND, Attempt, Attempts, Outcome, Way
from ackproof.harness.selftest.catalogue import Bug
from ackproof.harness.selftest.looking import Looking
from ackproof.harness.selftest.sources import Fingerprints, copy_broken, copy_sound


@dataclass(frozen=True, slots=True)
class Round:
    """One broker (None: the sound one) in one way."""

    bug: Bug | None
    looking: Looking

    @property
    def name(self) -> str:
        """``SOUND``, or the bug's."""
        return SOUND if self.bug is None else self.bug.name


class Told:
    """Hears of it, from several threads; this one does nothing."""

    def begins(self, one: Round) -> None:
        """This is looked at from now on."""

    def ends(self, one: Round, attempt: Attempt | None) -> None:
        """This came of it; None: it was interrupted."""


@contextmanager
def opened(directory: Path, told: Told) -> Iterator["Rounds"]:
    """Rounds that keep below ``directory`` what they see.

    The sources are copied as they are now: what becomes of them meanwhile is of no account. The
    copies go when this ends, or with the next one. Raises AtWork, OSError.
    """
    copies = directory / "sources"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AtWork(f"another selftest is at work in {directory}") from None
        try:
            shutil.rmtree(copies, ignore_errors=True)
            copy_sound(copies / SOUND)
            yield Rounds(directory, copies, told)
        finally:
            shutil.rmtree(copies, ignore_errors=True)


class AtWork(OSError):
    """Two selftests in one directory would take each other's copies away."""


class Rounds:
    """Looks at brokers; see :func:`opened`. ``copies`` has the sound one already."""

    def __init__(self, directory: Path, copies: Path, told: Told) -> None:
        self.sound = copies / SOUND
        self._directory = directory
        self._copies = copies
        self._attempts = Attempts(directory)
        self._fingerprints = Fingerprints(self.sound)
        self._told = told

    def attempt(self, bug: Bug | None, way: Way) -> Attempt | None:
        """What is known, of whatever sources and settings."""
        return self._attempts.get(SOUND if bug is None else bug.name, way)

    def is_current(self, attempt: Attempt, bug: Bug | None) -> bool:
        """Whether it is of the present sources."""
        return attempt.sources == self._fingerprints.of(bug, attempt.way)

    def found_after(self, bug: Bug) -> float:
        """Seconds that the simulator needed to find it; infinite where it has not."""
        attempt = self.attempt(bug, Way.SIMULATOR)
        if attempt is None or attempt.finding.outcome is not Outcome.FOUND:
            return math.inf
        return attempt.finding.seconds or 0.0

    def known(self, one: Round) -> Attempt | None:
        """What came of it, with the present sources; None where there is more to be done."""
        found = self.attempt(one.bug, one.looking.way)
        if found is None or not self.is_current(found, one.bug):
            return None
        return found if one.looking.has_done(found) else None

    def carry_out(self, rounds: Sequence[Round]) -> None:
        """Do what is not known yet, as many at once as its way allows.

        Raises Interrupted when we are asked to stop, StalePatch, OSError.
        """
        left = [one for one in rounds if self.known(one) is None]
        for looking, group in _by_way(left):
            with ThreadPoolExecutor(looking.jobs) as pool:
                under_way = [pool.submit(self._carry_out, one) for one in group]
                try:
                    for future in as_completed(under_way):
                        future.result()
                finally:
                    for future in under_way:
                        future.cancel()

    def _carry_out(self, one: Round) -> None:
        self._told.begins(one)
        attempt: Attempt | None = None
        try:
            attempt = self._look(one)
            self._attempts.put(attempt)
        finally:
            self._told.ends(one, attempt)

    def _look(self, one: Round) -> Attempt:
        way = one.looking.way
        place = self._directory / way.value / one.name
        if one.bug is None:
            finding = one.looking.look(self.sound, place)
        else:
            copy = self._copies / f"{way.value}-{one.name}"
            try:
                copy_broken(self.sound, one.bug, copy)
                finding = one.looking.look(copy, place)
            finally:
                shutil.rmtree(copy, ignore_errors=True)
            if finding.outcome is Outcome.FOUND:
                finding = one.looking.confirmed(finding, place)
        return Attempt(
            bug=one.name,
            way=way,
            finding=finding,
            sources=self._fingerprints.of(one.bug, way),
            settings=one.looking.settings,
        )


def _by_way(rounds: Sequence[Round]) -> Iterator[tuple[Looking, list[Round]]]:
    for way in Way:
        group = [one for one in rounds if one.looking.way is way]
        if group:
            yield group[0].looking, group
