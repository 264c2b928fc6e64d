"""The execution of candidates, and the record of their results.

Everything is in ``shrink/`` of the results to shrink. There are the journal, with a line for each
run, and ``smallest.yaml``. The directory ``smallest/`` has the results of a run in which that
campaign failed. Earlier runs are answered from the journal, so that a search that was ended
continues where it was.
"""

import hashlib
import json
import shutil
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from ackproof.harness.directory import DamagedResults
from ackproof.harness.report import verdict
from ackproof.harness.shrinking.failures import fails_by
from ackproof.harness.shrinking.reductions import Candidate
from ackproof.harness.shrinking.search import RunCounts
from ackproof.harness.subprocesses import ChildProcesses
from ackproof.history.storage import write_text
from ackproof.infra.api.interface import InfraError

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
        failures: The failures of the campaign (:mod:`ackproof.harness.shrinking.failures`).
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
