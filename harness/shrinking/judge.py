"""The execution of candidates, which must fail as the campaign did, and the record of their
results.

Everything is in ``shrink/`` of the results to shrink. There are the journal, with a line for each
run, and ``smallest.yaml``. The directory ``smallest/`` has the results of a run in which that
campaign failed. Earlier runs are answered from the journal, so that a search that was ended
continues where it was.

A run fails by the guarantees that it broke, or by the expectations of its campaign that it did not
meet. Both have a name that stays the same when the campaign becomes smaller.
"""

import hashlib
import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict
from ackproof.harness.directory import DamagedResults
from ackproof.harness.report import verdict
from ackproof.harness.shrinking.reductions import Candidate
from ackproof.harness.shrinking.search import RunCounts
from ackproof.harness.subprocesses import ChildProcesses
from ackproof.history.storage import write_text
from ackproof.infra.api.interface import InfraError

# --- failures -------------------------------------------------------------------------------------


class NothingToShrink(Exception):
    """Results without a failure."""


def first_failed_run(result: CampaignResult) -> int:
    """Return the number of the first run that broke a guarantee, else of the first one that did not
    meet an expectation. Raises NothingToShrink."""
    for kind in (_broken, _unmet):
        for run in result.runs:
            if any(kind(_cells(result, run.number))):
                return run.number
    raise NothingToShrink("no run of it broke a guarantee or missed an expectation")


def failures_of(result: CampaignResult, run: int) -> frozenset[str]:
    """Return the guarantees that a run broke, or, if it broke none, the expectations that it did
    not meet.

    An unmet expectation is left out beside a broken guarantee: a smaller campaign that is merely
    slow must not pass for one that loses records.
    """
    cells = _cells(result, run)
    return frozenset(_broken(cells)) or frozenset(_unmet(cells))


def fails_by(result: CampaignResult, failures: frozenset[str]) -> bool:
    """Return whether any run failed by one of these."""
    cells = result.cells
    return not failures.isdisjoint({*_broken(cells), *_unmet(cells)})


def _cells(result: CampaignResult, run: int) -> tuple[CellResult, ...]:
    return tuple(cell for cell in result.cells if cell.run == run)


def _broken(cells: tuple[CellResult, ...]) -> Iterator[str]:
    """Yield every guarantee that was broken in a cell, unless the campaign expects that of the
    cell."""
    for cell in cells:
        if cell.is_broken:
            yield from (one.name for one in cell.guarantees if one.is_broken)


def _unmet(cells: tuple[CellResult, ...]) -> Iterator[str]:
    """Yield every threshold that was not met, and the expected verdicts of each cell that came to
    another one. An inconclusive verdict does not count as another one."""
    for cell in cells:
        yield from (f"{one.measure} {one.bound}" for one in cell.thresholds if one.met is False)
        is_conclusive = cell.verdict is not Verdict.INCONCLUSIVE
        if (
            is_conclusive
            and cell.expected
            and cell.verdict not in cell.expected
            and not cell.is_broken
        ):
            yield f"verdict {' or '.join(cell.expected)}"


# --- candidates -----------------------------------------------------------------------------------

DIRECTORY = "shrink"
JOURNAL = "journal.jsonl"
SMALLEST = "smallest.yaml"
RESULTS = "smallest"
_RUN = "run"
_OUTPUT = "run.log"

INCONCLUSIVE_MAX = 3
"""The number of inconclusive runs in a row after which a candidate is not run any more."""


class RunLimitReached(Exception):
    """The end of the permitted number of runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A line of the journal. ``failed`` says whether the candidate failed as the campaign did."""

    candidate: str
    failed: bool


class Judge:
    """A judge of candidates: whether they fail as the campaign did.

    Args:
        directory: The results to shrink.
        failures: The failures of the campaign (:mod:`ackproof.harness.shrinking.judge`).
        children: Runs the campaigns.
        runs_max: The largest number of runs now.
    """

    def __init__(
        self,
        directory: Path,
        failures: frozenset[str],
        children: ChildProcesses,
        runs_max: int,
    ) -> None:
        self._directory = directory / DIRECTORY
        self._directory.mkdir(exist_ok=True)
        self._failures = failures
        self._children = children
        self._left = runs_max
        self._known: dict[str, list[bool]] = defaultdict(list)
        for entry in _whole(self._directory / JOURNAL):
            self._known[entry.candidate].append(entry.failed)
        self._asked: Counter[str] = Counter()

    def fails(self, candidate: Candidate) -> bool:
        """Return whether the candidate fails, by a run or from the journal. Raises Interrupted,
        OutOfRuns, and InfraError if it cannot be run here."""
        key = _key(candidate)
        number = self._asked[key]
        if number == len(self._known[key]):
            failed = self._run(candidate)
            self._known[key].append(failed)
            _append(self._directory / JOURNAL, JournalEntry(candidate=key, failed=failed))
        self._asked[key] += 1
        return self._known[key][number]

    def keep(self, candidate: Candidate, tally: RunCounts) -> None:
        """Store the smallest candidate so far."""
        failures = ", ".join(sorted(self._failures))
        text = f"# Failed {tally} runs: {failures}.\n{candidate.text}"
        write_text(self._directory / SMALLEST, text)
        results = self._directory / _RUN
        if results.is_dir():  # there are none if the journal has the answer
            shutil.rmtree(self._directory / RESULTS, ignore_errors=True)
            results.rename(self._directory / RESULTS)

    def _run(self, candidate: Candidate) -> bool:
        for _ in range(INCONCLUSIVE_MAX):
            result = self._once(candidate)
            if result is not None:
                return result
        raise InfraError(
            f"a candidate cannot be run on this machine, see {self._directory / _OUTPUT}; the "
            "results so far are kept"
        )

    def _once(self, candidate: Candidate) -> bool | None:
        """Run the candidate once, and return whether it failed. Return None if the run did not come
        to its end, and so says nothing."""
        self._children.check()
        if self._left == 0:
            raise RunLimitReached
        self._left -= 1
        file, results = self._directory / "candidate.yaml", self._directory / _RUN
        shutil.rmtree(results, ignore_errors=True)
        file.write_text(candidate.text, encoding="utf-8")
        with (self._directory / _OUTPUT).open("wb") as output:
            self._children.campaign([str(file), "--out", str(results)], output)
        failed = _judged(results, self._failures)
        if self._children.asked_to_stop or not failed:
            shutil.rmtree(results, ignore_errors=True)
        self._children.check()
        return failed


def _judged(results: Path, failures: frozenset[str]) -> bool | None:
    try:
        result = verdict.read(results)
    except DamagedResults:
        return None
    if result is None:
        return None
    if fails_by(result, failures):
        return True
    # Too little evidence for a pass is not a failure. A run that broke down is neither.
    return None if result.infrastructure_failed else False


def _key(candidate: Candidate) -> str:
    return hashlib.sha256(candidate.text.encode()).hexdigest()[:16]


def _whole(journal: Path) -> list[JournalEntry]:
    """Return the lines of a journal. A harness that was killed may have left half a line at the
    end. It is removed, because the next line would be appended to it and be lost, too."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    found = list(takewhile(bool, map(_parsed, lines)))
    if len(found) < len(lines):
        write_text(journal, "".join(line + "\n" for line in lines[: len(found)]))
    return [entry for entry in found if entry]


def _parsed(line: str) -> JournalEntry | None:
    try:
        written = json.loads(line)
        return JournalEntry(candidate=str(written["candidate"]), failed=bool(written["failed"]))
    except (ValueError, KeyError, TypeError):
        return None


def _append(journal: Path, entry: JournalEntry) -> None:
    with journal.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"candidate": entry.candidate, "failed": entry.failed}) + "\n")
