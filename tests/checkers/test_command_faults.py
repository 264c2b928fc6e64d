"""Losses excused by a fault of commands: only a declared loss by a proven injection, and the report
says that it was declared."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ackproof.checkers.context.faults import faults_of, possible
from ackproof.checkers.verdict import CampaignResult, Verdict
from ackproof.history.manifest import PlannedFault
from tests.support.builders.checked_runs import checked
from tests.support.builders.histories import (
    AFTER,
    ALL,
    BEFORE,
    Made,
    MadeRun,
    a_fault,
    cell,
    kept,
    losing,
    state,
    write_campaign,
)

ALONE = [
    state(-5, 1, 0, (1, 2, 3)),
    state(6, 1, 0, (1,)),
    state(13, -1, 1, (1,)),
    state(19, 1, 2, (1,)),
    state(22, 1, 2, (1, 2, 3)),
]
"""The ISR has shrunk to 1, which is struck from 10 to 20."""
LOST: Made = losing(kept(BEFORE, 8, AFTER, 100), 1)


def planned(*effects: str) -> PlannedFault:
    return PlannedFault(
        fault_id=1,
        fault="command",
        target="leader(t, 0)",
        parameters={"name": "az-outage", "effects": list(effects)},
        start_ms=0,
        hold_ms=0,
    )


def concluded(
    directory: Path, rows: Sequence[dict[str, Any]], *effects: str
) -> tuple[CampaignResult, str]:
    run = MadeRun(
        partitions={("t", 0): LOST},
        cells=[cell(ALL)],
        cluster=ALONE,
        faults=rows,
        plan=[planned(*effects)],
    )
    result = checked(write_campaign(directory, run))
    return result, " ".join((*result.findings, *result.cells[0].reasons))


def struck(destroys: str | None) -> list[dict[str, Any]]:
    return a_fault(10, 20, fault="command", destroys=destroys)


@pytest.mark.parametrize(("word", "destroys"), [("unsynced", "unsynced"), ("all", "all")])
def test_loss_that_is_declared_is_excused_and_the_report_says_so(
    tmp_path: Path, word: str, destroys: str
) -> None:
    result, told = concluded(tmp_path, struck(destroys), f"loses-{word}")
    assert result.verdict is Verdict.NOT_GUARANTEED
    declared = (
        "command:az-outage#1, as its campaign declares, took data from the last members of the ISR"
    )
    assert declared in told


@pytest.mark.parametrize("effects", [(), ("stops",), ("cuts-off",), ("stops", "cuts-off")])
def test_loss_that_is_not_declared_is_a_broken_guarantee(
    tmp_path: Path, effects: tuple[str, ...]
) -> None:
    result, _ = concluded(tmp_path, struck(None), *effects)
    assert result.verdict is Verdict.FAIL


@pytest.mark.parametrize("effects", [(), ("loses-all",)])
def test_loss_in_the_history_that_the_manifest_does_not_declare_excuses_nothing(
    tmp_path: Path, effects: tuple[str, ...]
) -> None:
    result, told = concluded(tmp_path, struck("unsynced"), *effects)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "destroys 'unsynced', which its campaign does not declare" in told


def test_declared_loss_excuses_nothing_where_the_fault_is_not_proven(tmp_path: Path) -> None:
    said = '{"verify ended with 0": {"verify": "ended with 1: no such pod"}, "missing": {}}'
    rows = [
        {**row, "proven": False, "evidence": said} if row["event"] == "verified" else row
        for row in struck("unsynced")
    ]
    result, told = concluded(tmp_path, rows, "loses-unsynced")
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "is not proven to have taken effect: verify ended with 1: no such pod" in told


def test_command_that_failed_to_start_is_reported_with_its_last_lines(tmp_path: Path) -> None:
    said = '{"error": "InfraError: kubectl apply ended with 1: forbidden"}'
    (inject, *_) = struck(None)
    rows = [inject, {**inject, "event": "failed", "time": inject["time"] + 1, "evidence": said}]
    _, told = concluded(tmp_path, rows)
    assert "was not injected: InfraError: kubectl apply ended with 1: forbidden" in told


def test_fault_without_rows_may_have_had_its_declared_effect_only() -> None:
    assert possible(planned()).destroys is None
    assert possible(planned("stops")).destroys is None
    assert possible(planned("loses-unsynced")).destroys == "unsynced"
    assert possible(planned("loses-all", "loses-unsynced")).destroys == "all"
    assert not possible(planned("loses-all")).trusted


def test_cut_that_is_declared_is_silent_and_any_other_command_disturbs() -> None:
    for effects, silent in (("cuts-off",), True), ((), False):
        (fault,) = faults_of(struck(None), [planned(*effects)])
        assert fault.silent is silent
        assert fault.disturbs
        assert fault.label == "command:az-outage#1"


def test_damaged_evidence_is_no_complaint() -> None:
    for evidence in (None, "{", "[]", '{"error": 3}', '{"verify ended with 0": null}'):
        rows = [{**row, "proven": False, "evidence": evidence} for row in struck(None)]
        (fault,) = faults_of(rows, [planned()])
        assert fault.complaint == ""
