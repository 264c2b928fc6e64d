"""The campaigns' way: ``ackproof run`` from a broken copy, until a guarantee is broken.

What counts is a guarantee that was promised and did not hold, in a cell that failed for it, where
that is not what was expected. A campaign can fail for want of something else (a verdict that was
expected and did not come); that is no find, and is said.
"""

import hashlib
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict
from ackproof.harness.campaign import validation
from ackproof.harness.children import Children, last_words
from ackproof.harness.directory import DamagedResults
from ackproof.harness.report import verdict
from ackproof.harness.report.losses import ANOMALIES_FILE
from ackproof.harness.selftest.attempt import Attempt, Finding, Outcome, Way
from ackproof.harness.selftest.sources import environment


class Campaigns:
    """See :class:`harness.selftest.looking.Looking`. One at a time: they would be in each other's
    way, and be judged by it.

    Args:
        files: Checked already.
        seeds: How many of each campaign: 1, 2, ...
    """

    way = Way.CAMPAIGN
    jobs = 1

    def __init__(self, children: Children, files: Sequence[Path], seeds: int) -> None:
        self.settings = f"{'; '.join(map(_known_by, files))}; {seeds} seeds"
        self._children = children
        self._runs = [(file.absolute(), seed) for file in files for seed in range(1, seeds + 1)]

    def has_done(self, attempt: Attempt) -> bool:
        """Only these very campaigns: another one may find what one of these has not, and who names
        one wants to know what that one finds."""
        return attempt.settings == self.settings

    def look(self, sources: Path, place: Path) -> Finding:
        """One campaign after the other; results of one that passes are not kept.

        Not found is what most of them say: where they are many and short, some fault of one of
        them may come out unproven.
        """
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        began = time.monotonic()
        doubts: list[str] = []
        looked: list[str] = []
        for file, seed in self._runs:
            name = f"{validation.load(file).name}, seed {seed}"
            looked.append(name)
            found = self._run(file, seed, name, sources, place)
            if found.outcome is Outcome.FOUND:
                return replace(found, seconds=round(time.monotonic() - began, 1))
            if found.outcome is Outcome.INCONCLUSIVE:
                doubts.append(f"{name}: {found.why}")
        most = 2 * len(doubts) < len(self._runs)
        outcome = Outcome.NOT_FOUND if most else Outcome.INCONCLUSIVE
        return Finding(
            outcome=outcome,
            looked="; ".join(looked),
            why="; ".join(doubts),
            seconds=round(time.monotonic() - began, 1),
        )

    def confirmed(self, finding: Finding, place: Path) -> Finding:  # noqa: ARG002
        """All: the sound broker went through the very same campaigns to begin with."""
        return finding

    def _run(self, file: Path, seed: int, name: str, sources: Path, place: Path) -> Finding:
        directory = place / name.replace(", seed ", "-")
        output = directory.with_name(f"{directory.name}.output")
        command = [
            *(sys.executable, "-P", "-m", "ackproof.harness", "run", str(file)),
            *("--seed", str(seed), "--out", str(directory), "--yes"),
        ]
        try:
            with output.open("wb") as said:
                self._children.run(command, said, environment(sources))
            self._children.check()
            result = verdict.read(directory)
        except DamagedResults as error:
            return Finding(outcome=Outcome.INCONCLUSIVE, why=str(error))
        if result is None:
            return Finding(outcome=Outcome.INCONCLUSIVE, why=last_words(output))
        finding = judged(result, name, directory)
        if finding.outcome is Outcome.NOT_FOUND:
            shutil.rmtree(directory, ignore_errors=True)
        return finding


def _known_by(file: Path) -> str:
    return f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"


def judged(result: CampaignResult, name: str, directory: Path) -> Finding:
    """What a checked campaign says of its broker. ``directory``: its results."""
    broken = next(result.broken, None)
    if broken is not None:
        cell, guarantee = broken
        fault = _fault(directory, cell)
        return Finding(
            outcome=Outcome.FOUND,
            by=guarantee.name,
            where=f"{name}: {cell.cell}{f', {fault}' if fault else ''}",
            why=guarantee.reason,
        )
    if result.verdict is Verdict.PASS and not result.infrastructure_failed:
        return Finding(outcome=Outcome.NOT_FOUND, looked=name)
    doubts = [*result.findings, *(cell.reasons[0] for cell in _undecided(result))]
    why = doubts[0] if doubts else f"the verdict is {result.verdict.value}"
    return Finding(outcome=Outcome.INCONCLUSIVE, looked=name, why=why)


def _undecided(result: CampaignResult) -> Iterator[CellResult]:
    wanted = (Verdict.INCONCLUSIVE, Verdict.FAIL)
    yield from (cell for cell in result.cells if cell.counts_as in wanted)


def _fault(directory: Path, cell: CellResult) -> str:
    """Within whose reach most of the cell's anomalies are; empty where none is named."""
    try:
        rows = pq.read_table(
            directory / ANOMALIES_FILE,
            columns=["fault"],
            filters=[("run", "=", cell.run), ("cell", "=", cell.cell)],
        )
    except (OSError, ValueError, pa.ArrowException):
        return ""
    named = Counter(fault for fault in rows["fault"].to_pylist() if fault)
    return named.most_common(1)[0][0] if named else ""
