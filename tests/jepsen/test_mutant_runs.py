"""Jepsen's judgement of the recorded history of a run, as ``ackproof mutants`` asks for it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.checkers.verdict import Verdict
from ackproof.harness.mutants.jepsen import CLASSPATH, VALID, Judgement
from ackproof.harness.mutants.runs import MutantRuns, ask_jepsen
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.subprocesses import ChildProcesses
from ackproof.testing.histories import CELL, PRODUCER, SETTINGS, TOPIC, History, sound_history
from tests.support.builders.results import cell_result, of_cells

pytestmark = pytest.mark.jepsen

IDEMPOTENT = {**SETTINGS, "unclean.leader.election.enable": False}


def result(*, lost: int | None = 0) -> VerdictDocument:
    cell = cell_result(CELL, topic=TOPIC, settings=IDEMPOTENT, lost=lost)
    document = verdict.to_document({"name": "c", "seed": 1}, of_cells(Verdict.PASS, cell))
    return VerdictDocument.model_validate(document)


def lose(history: History) -> None:
    """Remove an acknowledged record from the log, and from what consumers read."""
    for table in ("log", "polls"):
        for row in [row for row in history.rows(table, 0) if row["offset"] == 5]:
            history.remove(row)


def invent(history: History) -> None:
    """Let a record of the log be one that was never sent."""
    history.rows("log", 0)[5]["sequence"] = 4_000


def crash(history: History) -> None:
    """Crash the producer: the sends of its last second are not recorded."""
    history.crash(PRODUCER)


def duplicate(history: History) -> None:
    """Append a record of the log once more at its end."""
    rows = history.rows("log", 0)
    again = {**rows[5], "offset": rows[-1]["offset"] + 1}
    history.tables["log", "final-read"].append(again)


@pytest.mark.parametrize(
    ("change", "error", "unknown"),
    [
        (lambda _: None, None, False),
        (crash, None, False),
        (lose, "lost-write", False),
        (duplicate, "duplicate", False),
        (invent, None, True),
    ],
)
def test_recorded_history_is_judged_by_jepsens_own_rules(
    tmp_path: Path, change: Callable[[History], None], error: str | None, unknown: bool
) -> None:
    history = sound_history(IDEMPOTENT)
    change(history)
    history.write(tmp_path)
    judged = ask_jepsen(result(), tmp_path, os.environ[CLASSPATH])
    assert judged is not None
    assert (error in judged.types) if error else not judged.errors
    assert bool(judged.unknown) is unknown


def test_history_with_holes_is_not_judged_valid(tmp_path: Path) -> None:
    sound_history(IDEMPOTENT).write(tmp_path)
    incomplete = Judgement(errors={}, unknown=("incomplete history",))
    classpath = os.environ[CLASSPATH]
    assert ask_jepsen(result(lost=None), tmp_path, classpath) == incomplete
    for file in (tmp_path / "runs" / "1" / "history").glob("polls.*"):
        file.unlink()
    assert ask_jepsen(result(), tmp_path, classpath) == incomplete


def test_kept_result_gains_the_judgement_without_a_new_run(tmp_path: Path) -> None:
    campaign = tmp_path / "c.yaml"
    campaign.write_text("name: c\n", encoding="utf-8")
    runs = MutantRuns(
        system="kafka:4.4.0",
        only=str(campaign),
        file=Path,
        within_ms=None,
        results=tmp_path / "results",
        byteman=tmp_path / "byteman.jar",
        jepsen=os.environ[CLASSPATH],
    )
    place = runs.place(None, str(campaign))
    sound_history(IDEMPOTENT).write(place / "seed-1")
    verdict.write(place / "seed-1", result().model_dump(mode="json"))
    former = '{"seed": 1, "detection": "found", "replication_test": true}'
    (place / "seed-1.json").write_text(former, encoding="utf-8")
    children = ChildProcesses()
    (finding,) = runs.complete(None, str(campaign), children)
    assert finding.jepsen == finding.replication_test == VALID
    assert runs.findings(None, str(campaign)) == [finding]
    assert not list(runs.complete(None, str(campaign), children)), "it is not asked again"
