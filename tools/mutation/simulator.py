"""The simulator as a detector: ``python -m simulation`` on a broken copy.

A search is one process that takes the seeds in order. So a fault is found in the same seed on every
machine, provided that the time suffices.
"""

import itertools
import json
import math
import signal
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ackproof.harness.subprocesses import ChildProcesses, last_words
from ackproof.history.messages import several
from tools.mutation.mutants import Mutant
from tools.mutation.results import SOUND, Finding, Method, Outcome, Result
from tools.mutation.sources import SIMULATION, environment

_SEED_MAX_S = 120
"""The processor time that the last seed of a search may take beyond the limit."""

_SOUND_SEEDS = 10
"""The seeds of one search of the sound broker."""

_UNIT = " s"


class Simulator:
    """A detector (:class:`tools.mutation.detectors.Detector`).

    Args:
        sound: The copy of the sources without a fault.
        seconds: The processor time for each mutant.
        sound_steps: The number of steps in which the sound broker must hold.
    """

    method = Method.SIMULATOR

    def __init__(
        self, children: ChildProcesses, sound: Path, seconds: float, sound_steps: int, jobs: int
    ) -> None:
        self.jobs = jobs
        self.settings = f"{seconds:g}{_UNIT}"
        self._children = children
        self._sound = sound
        self._seconds = seconds
        self._sound_steps = sound_steps
        self._held: set[tuple[str, ...]] = set()
        """Seeds in which the sound broker holds: most faults are found in a few seeds."""

    def is_final(self, result: Result) -> bool:
        """Return whether a search with these settings would find no more: a longer search takes the
        same seeds first."""
        if result.mutant == SOUND and result.finding.outcome is Outcome.NOT_FOUND:
            return result.finding.steps >= self._sound_steps
        searched = float(result.settings.removesuffix(_UNIT))
        return result.finding.outcome is Outcome.FOUND or searched >= self._seconds

    def examine(self, mutant: Mutant | None, sources: Path, place: Path) -> Finding:
        """Search from seed 0 on, for a mutant until the time is over."""
        if mutant is None:
            return self._examine_sound(sources, place)
        return self._search(sources, place, *_plans(mutant), "--seconds", str(self._seconds))

    def confirm(self, mutant: Mutant, finding: Finding, place: Path) -> Finding:
        """Run the seed once more, with the sound broker."""
        seed = finding.where.removeprefix("seed ")
        run = (*_plans(mutant), "--seeds", "1", "--first", seed)
        if run in self._held:
            return finding
        sound = self._search(self._sound, place / SIMULATION, *run)
        if sound.outcome is Outcome.NOT_FOUND:
            self._held.add(run)
            return finding
        what = f"violates {sound.by} there" if sound.by else f"was not judged there: {sound.why}"
        return Finding(
            outcome=Outcome.INCONCLUSIVE,
            examined=finding.examined,
            why=f"{finding.where}, {finding.by}: but the sound broker {what}, too",
        )

    def _examine_sound(self, sources: Path, place: Path) -> Finding:
        """Search ranges of seeds, several at once, until there are enough steps."""

        def search(first: int) -> Finding:
            run = ("--first", str(first), "--seeds", str(_SOUND_SEEDS))
            return self._search(sources, place / str(first), *run)

        found: list[Finding] = []
        firsts = itertools.count(0, _SOUND_SEEDS)
        with ThreadPoolExecutor(self.jobs) as pool:
            while sum(one.steps for one in found) < self._sound_steps:
                found += pool.map(search, [next(firsts) for _ in range(self.jobs)])
                failed = [one for one in found if one.outcome is not Outcome.NOT_FOUND]
                if failed:
                    return failed[0]
        steps = sum(one.steps for one in found)
        return Finding(
            outcome=Outcome.NOT_FOUND,
            examined=_amount(len(found) * _SOUND_SEEDS, steps),
            steps=steps,
            seconds=round(sum(one.seconds or 0.0 for one in found), 1),
        )

    def _search(self, sources: Path, place: Path, *arguments: str) -> Finding:
        place.mkdir(parents=True, exist_ok=True)
        summary, output = place / "summary.json", place / "output"
        summary.unlink(missing_ok=True)
        command = self._command(place, summary, arguments)
        try:
            with output.open("wb") as out:
                status = self._children.run(command, out, environment(sources))
            self._children.check()
            found = json.loads(summary.read_text(encoding="utf-8"))
            if found["failures"] or status == 0:
                return _finding(found)
        except (FileNotFoundError, ValueError):
            pass
        # The summary is written after every seed. A search that died in its 13th seed does not
        # count as one that found nothing in 12.
        why = f"the simulator ended with status {status}: {last_words(output)}"
        if status == -signal.SIGXCPU:
            why = f"a seed took more than {_SEED_MAX_S} s of processor time"
        return Finding(outcome=Outcome.INCONCLUSIVE, why=why)

    def _command(self, place: Path, summary: Path, arguments: Sequence[str]) -> list[str]:
        """Return the command of a search. Its limit is processor time and not wall time: a broken
        broker may loop, and on a busy machine a sound one takes as long."""
        return [
            *("prlimit", f"--cpu={math.ceil(self._seconds) + _SEED_MAX_S}"),
            *(sys.executable, "-P", "-m", SIMULATION, "--jobs", "1", "--failures", "1"),
            *("--no-shrink", "--no-coverage", "--save", str(place), "--summary", str(summary)),
            *arguments,
        ]


def _plans(mutant: Mutant) -> tuple[str, ...]:
    """Return the options that select the clusters and plans in which the fault shows."""
    return (
        *(("--coordination", "leader-fenced") if mutant.without_controller else ()),
        *(("--scenario", mutant.scenario) if mutant.scenario else ()),
    )


def _amount(seeds: int, steps: int) -> str:
    return f"{several(seeds, 'seed')}, {several(steps, 'step')}"


def _finding(summary: Mapping[str, Any]) -> Finding:
    steps, seconds = summary["steps"], summary["processor_s"]
    examined = _amount(summary["seeds"], steps)
    if not summary["failures"]:
        return Finding(outcome=Outcome.NOT_FOUND, examined=examined, steps=steps, seconds=seconds)
    first = summary["failures"][0]
    return Finding(
        outcome=Outcome.FOUND,
        by=first["invariant"],
        where=f"seed {first['seed']}",
        examined=examined,
        steps=steps,
        why=first["what"],
        seconds=seconds,
    )
