"""The guarantees of share groups in a checked campaign: held, violated, or unknown."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from ackproof.checkers.check import check
from ackproof.checkers.checks.share_groups import SHARE_CHECKERS
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.testing.histories import SHARE_MEMBER, SHARE_STATE, History, sound_history

SHARED = sorted(one.breaks for one in SHARE_CHECKERS.values())


def checked(history: History, directory: Path) -> CampaignResult:
    history.write(directory / "made")
    return check(directory / "made", in_process=True)


def guarantees(result: CampaignResult) -> Mapping[str, Guarantee]:
    return {one.name: one for cell in result.cells for one in cell.guarantees}


def shared() -> History:
    return sound_history(share_group=True)


def test_sound_history_passes_with_all_guarantees_of_share_groups(tmp_path: Path) -> None:
    result = checked(shared(), tmp_path)
    assert result.verdict is Verdict.PASS
    assert {name: guarantees(result)[name].held for name in SHARED} == dict.fromkeys(SHARED, True)


def test_cell_without_share_groups_has_none_of_their_guarantees(tmp_path: Path) -> None:
    result = checked(sound_history(), tmp_path)
    assert result.verdict is Verdict.PASS
    assert not guarantees(result).keys() & SHARED


def test_undelivered_record_fails_the_campaign(tmp_path: Path) -> None:
    history = shared()
    for row in history.rows("deliveries", partition=1)[-3:]:
        history.remove(row)
    result = checked(history, tmp_path)
    assert result.verdict is Verdict.FAIL
    assert {name for name in SHARED if guarantees(result)[name].held is not True} == {
        "no-share-undelivered"
    }


def test_member_that_ended_early_leaves_undelivered_records_unknown(tmp_path: Path) -> None:
    history = shared()
    for row in history.rows("deliveries", partition=1)[-3:]:
        history.remove(row)
    ended = history.rows("deliveries")[-1]["time"]
    history.tables["clients", "harness"] = [
        {"time": ended, "client": SHARE_MEMBER, "exit_code": 1, "detail": "it failed"}
    ]
    result = checked(history, tmp_path)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert guarantees(result)["no-share-undelivered"].held is None


def test_anomaly_is_not_blamed_if_the_share_coordinator_was_not_observed(tmp_path: Path) -> None:
    history = shared()
    for row in history.rows("deliveries", partition=1)[-3:]:
        history.remove(row)
    (state,) = (row for row in history.rows("cluster") if row["topic"] == SHARE_STATE)
    history.remove(state)
    assert checked(history, tmp_path).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", SHARED)
def test_guarantee_is_not_checked_if_deliveries_are_missing(name: str, tmp_path: Path) -> None:
    tables = shared().write(tmp_path / "made")
    (tables / f"deliveries.t.0.{SHARE_MEMBER}.parquet").unlink()
    result = check(tmp_path / "made", in_process=True)
    assert guarantees(result)[name].held is None
    assert result.verdict is Verdict.INCONCLUSIVE
