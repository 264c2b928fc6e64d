"""The simulator's way: ``python -m simulation`` on a broken copy, until an invariant breaks.

A search is one process that takes the seeds in their order, so that a bug is found in the same
seed on every machine, if there is time for it.
"""

import json
import math
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ackproof.harness.children import Children, last_words
from ackproof.harness.selftest.attempt import Attempt, Finding, Outcome, Way
from ackproof.harness.selftest.sources import SIMULATION, environment

_SEED_MAX_S = 120
"""Of the processor: what a search may take beyond its time, for its last seed."""

_UNIT = " s"


class Simulator:
    """See :class:`harness.selftest.looking.Looking`.

    Args:
        sound: The copy of the sources without a bug.
        seconds: For each broker.
    """

    way = Way.SIMULATOR

    def __init__(self, children: Children, sound: Path, seconds: float, jobs: int) -> None:
        self.jobs = jobs
        self.settings = f"{seconds:g}{_UNIT}"
        self._children = children
        self._sound = sound
        self._seconds = seconds
        self._held: set[str] = set()
        """Seeds in which the sound broker does nothing wrong: most bugs are found in a few."""

    def has_done(self, attempt: Attempt) -> bool:
        """Who searches longer comes by the same seeds: what was found is found, and what was not
        found in more time is not found in less."""
        searched = float(attempt.settings.removesuffix(_UNIT))
        return attempt.finding.outcome is Outcome.FOUND or searched >= self._seconds

    def look(self, sources: Path, place: Path) -> Finding:
        """All seeds from 0 on, for as long as there is time."""
        return self._search(sources, place, "--seconds", str(self._seconds))

    def confirmed(self, finding: Finding, place: Path) -> Finding:
        """The seed once more, with the sound broker."""
        seed = finding.where.removeprefix("seed ")
        if seed in self._held:
            return finding
        sound = self._search(self._sound, place / SIMULATION, "--seeds", "1", "--first", seed)
        if sound.outcome is Outcome.NOT_FOUND:
            self._held.add(seed)
            return finding
        what = f"breaks {sound.by} there" if sound.by else f"was not judged there: {sound.why}"
        return Finding(
            outcome=Outcome.INCONCLUSIVE,
            looked=finding.looked,
            why=f"{finding.where}, {finding.by}: but the sound broker {what}, too",
        )

    def _search(self, sources: Path, place: Path, *how_much: str) -> Finding:
        place.mkdir(parents=True, exist_ok=True)
        summary, output = place / "summary.json", place / "output"
        summary.unlink(missing_ok=True)
        command = [
            # Of the processor's time, not the wall's: a broken broker may go round in circles, and
            # on a machine that has others at work a sound one takes as long.
            *("prlimit", f"--cpu={math.ceil(self._seconds) + _SEED_MAX_S}"),
            *(sys.executable, "-P", "-m", SIMULATION, "--jobs", "1", "--failures", "1"),
            *("--no-shrink", "--no-coverage", "--save", str(place), "--summary", str(summary)),
            *how_much,
        ]
        try:
            with output.open("wb") as said:
                status = self._children.run(command, said, environment(sources))
            self._children.check()
            found = json.loads(summary.read_text(encoding="utf-8"))
            if found["failures"] or status == 0:
                return _finding(found)
        except (FileNotFoundError, ValueError):
            pass
        # It is written after every seed: one that died in its thirteenth has found nothing in 12.
        why = f"the simulator ended with status {status}: {last_words(output)}"
        if status == -signal.SIGXCPU:
            why = f"a seed took more than {_SEED_MAX_S} s of the processor's time"
        return Finding(outcome=Outcome.INCONCLUSIVE, why=why)


def _finding(summary: Mapping[str, Any]) -> Finding:
    looked = f"{summary['seeds']:,} seeds, {summary['steps']:,} steps"
    if summary["seeds"] == 1:
        looked = looked.replace("seeds", "seed", 1)
    if not summary["failures"]:
        return Finding(outcome=Outcome.NOT_FOUND, looked=looked, seconds=summary["processor_s"])
    first = summary["failures"][0]
    return Finding(
        outcome=Outcome.FOUND,
        by=first["invariant"],
        where=f"seed {first['seed']}",
        looked=looked,
        why=first["what"],
        seconds=summary["processor_s"],
    )
