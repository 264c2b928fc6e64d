"""Test suites as detectors: ``tests/conformance`` and ``tests/properties`` on a broken copy.

Conformance tests send requests to one simulated cluster and compare the answers with Kafka's.
Property tests draw inputs for single parts of the broker. Both repeat exactly, so that the sound
broker must pass once, and one failing test is a find.
"""

import re
import signal
import sys
import time
from pathlib import Path

from ackproof.harness.subprocesses import Children, last_words
from tools.mutation.mutants import Mutant
from tools.mutation.results import Finding, Method, Outcome, Result
from tools.mutation.sources import environment

_PROCESSOR_MAX_S = 300
"""A broken broker may loop. The sound one takes about 15 s of processor time."""

_FAILED = 1
"""pytest's exit status when a test failed, or one of its fixtures."""

_FAILURE = re.compile(
    r"^(?:FAILED|ERROR) \S*?(tests/\S+?\.py)::(?:\w+::)*(\w+).*?(?: - (.*))?$", re.MULTILINE
)
"""The file, the test without its parameters, and the reason."""
_PASSED = re.compile(r"^(\d+) passed", re.MULTILINE)


class Suite:
    """A detector (:class:`tools.mutation.detectors.Detector`): the tests of one folder.

    Args:
        method: ``conformance`` or ``properties``, which is also the folder below ``tests``.
        jobs: How many brokers may be examined at once.
    """

    settings = "all tests"

    def __init__(self, children: Children, method: Method, jobs: int) -> None:
        self.method = method
        self.jobs = jobs
        self._children = children
        self._folder = f"tests/{method.value}"

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
            "HYPOTHESIS_PROFILE": "repeatable",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(place / "hypothesis"),
        }
        began = time.monotonic()
        with output.open("wb") as out:
            status = self._children.run(self._command(sources), out, environ)
        self._children.check()
        seconds = round(time.monotonic() - began, 1)
        said = output.read_text(encoding="utf-8", errors="replace")
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
            *(sys.executable, "-P", "-m", "pytest", "-q", "-x", "--tb=short", "--color=no"),
            *("-p", "no:cacheprovider", "-c", str(sources / "pyproject.toml")),
            *("--rootdir", str(sources), str(sources / self._folder)),
        ]
