"""Test suites as detectors: folders of tests on a broken copy.

Conformance tests send requests to one simulated cluster and compare the answers with Kafka's.
Property tests draw inputs for single parts of the broker. The tests of its parts are the ordinary
tests of logs, replicas, groups, controllers and servers. All of them repeat exactly, so that the
sound broker must pass once, and one failing test is a find.
"""

import re
import signal
import sys
from pathlib import Path

from ackproof.harness.subprocesses import ChildProcesses, last_words
from tools.mutation.mutants import Mutant
from tools.mutation.results import Finding, Method, Outcome, Result
from tools.mutation.sources import SUITES, environment

_PROCESSOR_MAX_S = 300
"""A broken broker may loop. The sound one takes at most a minute of processor time."""

_FAILED = 1
"""pytest's exit status when a test failed, or one of its fixtures."""

_FAILURE = re.compile(
    r"^(?:FAILED|ERROR) \S*?(tests/\S+?\.py)::(?:\w+::)*(\w+).*?(?: - (.*))?$", re.MULTILINE
)
"""The file, the test without its parameters, and the reason."""
_PASSED = re.compile(r"^(\d+) passed", re.MULTILINE)

_RUN = (
    "import os, sys, pytest\n"
    "status = pytest.main(sys.argv[1:])\n"
    "print('processor time', sum(os.times()[:4]))\n"
    "sys.exit(status)"
)
"""Runs pytest and prints the processor time, since other work may slow the machine down."""
_TIME = re.compile(r"^processor time ([\d.]+)$", re.MULTILINE)


class Suite:
    """A detector (:class:`tools.mutation.detectors.Detector`): the tests of some folders.

    Args:
        method: A key of ``sources.SUITES``, which names the folders.
        jobs: How many brokers may be examined at once.
    """

    settings = "all tests"

    def __init__(self, children: ChildProcesses, method: Method, jobs: int) -> None:
        self.method = method
        self.jobs = jobs
        self._children = children
        self._folders = SUITES[method]

    def is_final(self, result: Result) -> bool:
        """Return whether the suite was judged. A suite that was not may have lacked time."""
        return result.finding.outcome is not Outcome.INCONCLUSIVE

    def examine(self, mutant: Mutant | None, sources: Path, place: Path) -> Finding:  # noqa: ARG002
        """Run the tests until the first fails."""
        place.mkdir(parents=True, exist_ok=True)
        output = place / "output"
        environ = {
            **environment(sources),
            "COLUMNS": "500",  # pytest shortens the reason of a failure to the width
            "HYPOTHESIS_PROFILE": "catalogue",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
        }
        with output.open("wb") as out:
            status = self._children.run(self._command(sources), out, environ)
        self._children.check()
        said = output.read_text(encoding="utf-8", errors="replace")
        measured = _TIME.search(said)
        seconds = round(float(measured[1]), 1) if measured else None
        passed = _PASSED.search(said)
        examined = f"{passed[1]} tests" if passed else ""
        if status == 0 and passed:
            return Finding(outcome=Outcome.NOT_FOUND, examined=examined, seconds=seconds)
        failure = _FAILURE.search(said)
        if status == _FAILED and failure:
            where, test, why = failure.groups()
            return Finding(
                outcome=Outcome.FOUND, by=test, where=where, why=why or "", seconds=seconds
            )
        why = f"the tests ended with status {status}: {last_words(output)}"
        if status == -signal.SIGXCPU:
            why = f"the tests took more than {_PROCESSOR_MAX_S} s of processor time"
        return Finding(outcome=Outcome.INCONCLUSIVE, why=why)

    def confirm(self, mutant: Mutant, finding: Finding, place: Path) -> Finding:  # noqa: ARG002
        """Return ``finding``: the sound broker passed the same tests first."""
        return finding

    def _command(self, sources: Path) -> list[str]:
        return [
            *("prlimit", f"--cpu={_PROCESSOR_MAX_S}"),
            *(sys.executable, "-P", "-c", _RUN, "-q", "-x", "--tb=short", "--color=no"),
            *("-p", "no:cacheprovider", "-c", str(sources / "pyproject.toml")),
            *("--rootdir", str(sources)),
            *(str(sources / folder) for folder in self._folders),
        ]
