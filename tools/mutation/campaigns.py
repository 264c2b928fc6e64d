"""Campaigns as a detector: ``ackproof run`` on a broken copy, until a guarantee is broken.

Only a guarantee that was promised and did not hold counts, in a cell that failed for it, where
that is not what the campaign expects. A campaign can fail for another reason, for example because
an expected verdict did not occur. That is no find, and is reported.
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
from ackproof.harness.directory import DamagedResults
from ackproof.harness.report import verdict
from ackproof.harness.report.losses import ANOMALIES_FILE
from ackproof.harness.subprocesses import ChildProcesses, last_words
from tools.mutation.mutants import Mutant
from tools.mutation.results import Finding, Method, Outcome, Result
from tools.mutation.sources import environment


class Campaigns:
    """A detector (:class:`tools.mutation.detectors.Detector`).

    One campaign runs at a time: two would disturb each other, and be judged by it.

    Args:
        files: Campaign files that are valid.
        seeds: Each campaign runs with the seeds 1 to ``seeds``.
    """

    method = Method.CAMPAIGN
    jobs = 1

    def __init__(self, children: ChildProcesses, files: Sequence[Path], seeds: int) -> None:
        self.settings = f"{'; '.join(map(_identity, files))}; {seeds} seeds"
        self._children = children
        self._runs = [(file.absolute(), seed) for file in files for seed in range(1, seeds + 1)]

    def is_final(self, result: Result) -> bool:
        """Return whether the result is of these very campaigns: another one may find what none of
        these has found."""
        return result.settings == self.settings

    def examine(self, mutant: Mutant | None, sources: Path, place: Path) -> Finding:
        """Run one campaign after the other. The results of a campaign that passes are deleted.

        The outcome is what most campaigns say: where they are many and short, some fault of one of
        them may remain unproven.
        """
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        began = time.monotonic()
        check_errors: list[str] = []
        examined: list[str] = []
        guarantee = None if mutant is None else mutant.guarantee
        for file, seed in self._runs:
            name = f"{validation.load(file).name}, seed {seed}"
            examined.append(name)
            found = self._run(file, seed, name, guarantee, sources, place)
            if found.outcome is Outcome.FOUND:
                return replace(found, seconds=round(time.monotonic() - began, 1))
            if found.outcome is Outcome.INCONCLUSIVE:
                check_errors.append(f"{name}: {found.why}")
        most = 2 * len(check_errors) < len(self._runs)
        return Finding(
            outcome=Outcome.NOT_FOUND if most else Outcome.INCONCLUSIVE,
            examined="; ".join(examined),
            why="; ".join(check_errors),
            seconds=round(time.monotonic() - began, 1),
        )

    def confirm(self, mutant: Mutant, finding: Finding, place: Path) -> Finding:  # noqa: ARG002
        """Return ``finding``: the sound broker ran the same campaigns first."""
        return finding

    def _run(
        self, file: Path, seed: int, name: str, guarantee: str | None, sources: Path, place: Path
    ) -> Finding:
        directory = place / name.replace(", seed ", "-")
        output = directory.with_name(f"{directory.name}.output")
        command = [
            *(sys.executable, "-P", "-m", "ackproof.harness", "run", str(file)),
            *("--seed", str(seed), "--out", str(directory), "--yes"),
        ]
        try:
            with output.open("wb") as out:
                self._children.run(command, out, environment(sources))
            self._children.check()
            result = verdict.read(directory)
        except DamagedResults as error:
            return Finding(outcome=Outcome.INCONCLUSIVE, why=str(error))
        if result is None:
            return Finding(outcome=Outcome.INCONCLUSIVE, why=last_words(output))
        finding = judge(result, name, directory, guarantee)
        if finding.outcome is Outcome.NOT_FOUND:
            shutil.rmtree(directory, ignore_errors=True)
        return finding


def _identity(file: Path) -> str:
    return f"{file.name} {hashlib.sha256(file.read_bytes()).hexdigest()[:16]}"


def judge(
    result: CampaignResult, name: str, directory: Path, guarantee: str | None = None
) -> Finding:
    """Return what a checked campaign says of its broker.

    Args:
        directory: The results of the campaign.
        guarantee: The expected guarantee. It is named first where several are broken.
    """
    broken = sorted(result.broken, key=lambda one: one[1].name != guarantee)
    if broken:
        cell, first = broken[0]
        fault = _fault(directory, cell)
        return Finding(
            outcome=Outcome.FOUND,
            by=first.name,
            where=f"{name}: {cell.cell}{f', {fault}' if fault else ''}",
            why=first.reason,
        )
    if result.verdict is Verdict.PASS and not result.infrastructure_failed:
        return Finding(outcome=Outcome.NOT_FOUND, examined=name)
    check_errors = [*result.findings, *(cell.reasons[0] for cell in _undecided(result))]
    why = check_errors[0] if check_errors else f"the verdict is {result.verdict.value}"
    return Finding(outcome=Outcome.INCONCLUSIVE, examined=name, why=why)


def _undecided(result: CampaignResult) -> Iterator[CellResult]:
    wanted = (Verdict.INCONCLUSIVE, Verdict.FAIL)
    yield from (cell for cell in result.cells if cell.counts_as in wanted)


def _fault(directory: Path, cell: CellResult) -> str:
    """Return the fault that most anomalies of the cell are attributed to, or an empty text."""
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
