"""A campaign that is run once: what is there is taken, what was killed halfway is not."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from ackproof.checkers.verdict import CampaignResult, RunResult, Verdict
from ackproof.harness.directory import DamagedResults
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import verdict
from ackproof.harness.subprocesses import (
    CachedRun,
    ChildProcesses,
    Interrupted,
    PlannedRun,
    carry_out_all,
    last_words,
)
from tests.support.builders.results import cell_result


@pytest.fixture
def once(tmp_path: Path) -> CachedRun:
    """Return one run of an invalid campaign, which yields no verdict."""
    file = tmp_path / "wrong.yaml"
    file.write_text("name: wrong\n", encoding="utf-8")
    return CachedRun(file=file, system="bundled", seed=1, directory=tmp_path / "results" / "1")


def was_run(once: CachedRun, said: Verdict = Verdict.PASS) -> None:
    (once.directory / "runs" / "1").mkdir(parents=True)
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False, cluster={})
    found = CampaignResult(
        verdict=said, cells=(cell_result(verdict=said),), anomalies={}, findings=(), runs=(run,)
    )
    verdict.write(once.directory, verdict.to_document({"name": "c", "seed": 1}, found))


def test_existing_result_is_not_run_again(once: CachedRun) -> None:
    was_run(once)
    assert once.carry_out(ChildProcesses())
    assert not once.output.exists(), "nothing was started"


def test_run_without_a_verdict_keeps_its_error_output(once: CachedRun) -> None:
    once.directory.mkdir(parents=True)
    (once.directory / "half").touch()
    assert not once.carry_out(ChildProcesses())
    assert not once.directory.exists(), "what was killed halfway is no result"
    assert "wrong.yaml" in once.output.read_text(encoding="utf-8")
    first, *_ = once.output.read_text(encoding="utf-8").splitlines()
    assert last_words(once.output) == first, "its cause, and not the number of problems"
    assert once.result is None


class StoppedHalfway(ChildProcesses):
    """A runner that is asked to stop in the middle of a campaign."""

    asked_to_stop = False

    def campaign(self, arguments: Sequence[str], output: IO[bytes] | None = None) -> ExitStatus:
        assert output is not None
        output.write(b"interrupted\n")
        Path(arguments[-1]).mkdir()
        self.asked_to_stop = True
        return ExitStatus.INCONCLUSIVE


def test_run_that_was_asked_to_stop_leaves_nothing(once: CachedRun) -> None:
    with pytest.raises(Interrupted):
        once.carry_out(StoppedHalfway())
    assert list(once.directory.parent.iterdir()) == [], "its output would pass for its last words"


def test_metadata_quorum_is_passed_to_the_run(once: CachedRun) -> None:
    quick = Path(__file__).parents[2] / "campaigns" / "quick.yaml"
    refused = replace(once, file=quick, metadata_quorum="combined-kraft")
    assert not refused.carry_out(ChildProcesses())
    assert "bundled keeps its metadata in ZooKeeper" in refused.output.read_text(encoding="utf-8")


def test_a_verdict_that_cannot_be_read_is_not_taken_for_none(once: CachedRun) -> None:
    once.directory.mkdir(parents=True)
    (once.directory / verdict.FILE).write_text("{", encoding="utf-8")
    with pytest.raises(DamagedResults):
        once.carry_out(ChildProcesses())


class QuickRun(CachedRun):
    """A run that needs no servers: its result is written at once."""

    def carry_out(self, _children: ChildProcesses) -> bool:
        was_run(self)
        return True


def test_many_runs_tell_the_outcome_of_each_and_how_many_may_follow(once: CachedRun) -> None:
    def at(number: int, kind: type[CachedRun]) -> CachedRun:
        where = once.directory / str(number)
        return kind(file=once.file, system="bundled", seed=1, directory=where)

    there, new, wrong = at(1, CachedRun), at(2, QuickRun), at(3, CachedRun)
    was_run(there)
    told: list[str] = []
    names = {"there": there, "new": new, "wrong": wrong}
    planned = [
        PlannedRun(
            name=name, run=run, outcome=lambda result: f"verdict {result.verdict}", held=bool
        )
        for name, run in names.items()
    ]

    def left() -> int:
        return sum(one.result is None for one in names.values())

    assert not carry_out_all(planned, ChildProcesses(), told.append, left), "one has no verdict"
    assert told[0] == f"new: {new.directory}"
    assert re.fullmatch(r"  verdict pass, after \d+ s; at most 1 more run, about \d+ min", told[1])
    assert told[2] == f"wrong: {wrong.directory}"
    assert told[3].startswith("  no verdict: ")
    assert len(told) == 4, "what has a result is passed over"


@pytest.mark.parametrize(
    ("said", "failure_came", "kept"),
    [
        (Verdict.PASS, False, False),
        (Verdict.NOT_GUARANTEED, False, False),
        (Verdict.NOT_GUARANTEED, True, True),
        (Verdict.FAIL, True, True),
        (Verdict.FAIL, False, True),
        (Verdict.INCONCLUSIVE, False, True),
    ],
)
def test_recordings_of_runs_without_any_failure_are_removed(
    once: CachedRun, said: Verdict, failure_came: bool, kept: bool
) -> None:
    class Judged(CachedRun):
        def carry_out(self, _children: ChildProcesses) -> bool:
            was_run(self, said)
            return True

    run = Judged(file=once.file, system="bundled", seed=1, directory=once.directory)
    planned = PlannedRun(name="c", run=run, outcome=lambda _: "", held=lambda _: not failure_came)
    assert carry_out_all([planned], ChildProcesses(), lambda _: None, lambda: 0)
    assert (run.directory / "runs").is_dir() is kept
    assert run.result is not None, "its verdict stays"
