"""A test suite as a detector: one failing test is a find, a suite that cannot run is none."""

from pathlib import Path

import pytest

from ackproof.harness.subprocesses import ChildProcesses
from tools.mutation.mutants import catalogue
from tools.mutation.results import Method, Outcome, Result
from tools.mutation.sources import SUITES, copy_sound
from tools.mutation.suites import Suite

MUTANT = catalogue()["commits-of-any-generation"]
SUITE = Suite(ChildProcesses(), Method.CONFORMANCE, 1)


def sources(root: Path, test: str) -> Path:
    """Return sources whose conformance tests are one passing test and ``test``."""
    folder = root / "tests" / "conformance"
    folder.mkdir(parents=True)
    (root / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = ["."]\n')
    (root / "broker.py").write_text("ANSWER = 42\n")
    (folder / "test_first.py").write_text("def test_one(): pass\n")
    (folder / "test_second.py").write_text(f"import pytest, broker\n{test}\n")
    return root


def test_suite_that_passes_finds_nothing(tmp_path: Path) -> None:
    root = sources(tmp_path, "def test_two(): assert broker.ANSWER == 42")
    finding = SUITE.examine(MUTANT, root, tmp_path / "place")
    assert (finding.outcome, finding.examined) == (Outcome.NOT_FOUND, "2 tests")
    assert finding.seconds, "the processor time of a suite is measured"


@pytest.mark.parametrize(
    "test",
    [
        "def test_two(): assert broker.ANSWER == 41",
        "@pytest.fixture\ndef cluster(): assert broker.ANSWER == 41\ndef test_two(cluster): pass",
    ],
)
def test_failing_test_or_fixture_is_a_find(tmp_path: Path, test: str) -> None:
    finding = SUITE.examine(MUTANT, sources(tmp_path, test), tmp_path / "place")
    assert finding.outcome is Outcome.FOUND
    assert (finding.by, finding.where) == ("test_two", "tests/conformance/test_second.py")
    assert "42 == 41" in finding.why


def test_suite_that_cannot_be_imported_is_inconclusive(tmp_path: Path) -> None:
    """A renamed function must not look like a find in every mutant."""
    root = sources(tmp_path, "from broker import absent")
    finding = SUITE.examine(MUTANT, root, tmp_path / "place")
    assert finding.outcome is Outcome.INCONCLUSIVE
    assert "status" in finding.why
    result = Result(
        mutant="b", method=Method.CONFORMANCE, finding=finding, sources="1", settings="all tests"
    )
    assert not SUITE.is_final(result)


def test_copy_of_the_sources_has_the_suites(tmp_path: Path) -> None:
    copy_sound(tmp_path)
    suites = [Path(folder).name for folders in SUITES.values() for folder in folders]
    for name in (*suites, "support", "conftest.py"):
        assert (tmp_path / "tests" / name).exists()
    assert (tmp_path / "protocol").is_dir()
    assert not (tmp_path / "tests" / "checkers").exists()
