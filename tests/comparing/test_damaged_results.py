"""Results that no run can have left are refused, within bounds of time and memory."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackproof.checkers.verdict import CampaignResult, RunResult, Verdict
from ackproof.harness.cli import cli
from ackproof.harness.comparing import sides
from ackproof.harness.exit_status import ExitStatus
from ackproof.harness.report import verdict
from ackproof.harness.report.figures import timeline
from ackproof.harness.report.rows import rows
from ackproof.harness.report.timeline import Timeline
from ackproof.history.errors import HistoryError
from ackproof.history.writer import TableWriter
from tests.support.builders.results import cell_result, guarantee

T0 = 1_900_000_000_000_000_000
DAY_NS = 86_400 * 1_000_000_000


def results(directory: Path) -> Path:
    directory.mkdir()
    (directory / "campaign.yaml").write_text("name: quick\nseed: 1\n", encoding="utf-8")
    cell = cell_result("c", Verdict.PASS, topic="t", guarantees=[guarantee()])
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False)
    told = CampaignResult(
        verdict=Verdict.PASS, cells=(cell,), anomalies={}, findings=(), runs=(run,)
    )
    verdict.write(directory, verdict.to_document({"name": "quick", "seed": 1}, told))
    return directory


def compared(a: Path, b: Path) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["compare", str(a), str(b)])
    return result.exit_code, " ".join(result.output.split())


def test_sound_results_are_compared(tmp_path: Path) -> None:
    status, output = compared(results(tmp_path / "a"), results(tmp_path / "b"))
    assert status == 0, output


def test_campaign_file_with_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    bomb = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    a, b = results(tmp_path / "a"), results(tmp_path / "b")
    (b / "campaign.yaml").write_text("\n".join(["name: quick", *bomb, ""]), encoding="utf-8")
    status, output = compared(a, b)
    assert status == ExitStatus.USAGE
    assert "campaign.yaml" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lost": -5, "acked": 0, "sent": 0}, "-5 lost records"),
        ({"lost": 10**400}, "more than 2^63 lost records"),
        ({"sent": -1}, "-1 sent records"),
        ({"lost": 10, "acked": 3, "sent": 20}, "lost 10 of only 3 acked records"),
        ({"duplicated": -2}, "-2 duplicated records"),
        (None, "c of run 1 occurs 2 times"),
    ],
)
def test_impossible_numbers_of_a_cell_are_refused(
    tmp_path: Path, change: dict[str, int] | None, words: str
) -> None:
    a, b = results(tmp_path / "a"), results(tmp_path / "b")
    document = json.loads((b / verdict.FILE).read_text())
    if change is None:
        document["cells"] *= 2
    else:
        document["cells"][0] |= change
    (b / verdict.FILE).write_text(json.dumps(document))
    status, output = compared(a, b)
    assert status == ExitStatus.USAGE
    assert words in output
    assert "Traceback" not in output


@pytest.mark.parametrize("nesting", [100_000])
def test_deeply_nested_verdict_is_refused(tmp_path: Path, nesting: int) -> None:
    a, b = results(tmp_path / "a"), results(tmp_path / "b")
    (b / verdict.FILE).write_text("[" * nesting)
    status, output = compared(a, b)
    assert status == ExitStatus.USAGE
    assert "Traceback" not in output


def test_send_400_days_early_is_refused_within_bounds(tmp_path: Path) -> None:
    history = tmp_path / "history"
    writer = TableWriter(history, "sends", "w", partition=("t", 0))
    for sequence, time in enumerate([T0 - 400 * DAY_NS, T0, T0 + 1]):
        for kind in ("invoke", "ok"):
            writer.append(("c", "t", 0, 0, sequence, kind, time, *[None] * 5))
    writer.close()
    with pytest.raises(HistoryError, match="400 days apart"):
        sides.read_sends(history)


def test_picture_of_acks_of_two_centuries_is_small() -> None:
    second = T0 // 1_000_000_000
    acks = {"c": {second: 3, second + 1: 5, second + 200 * 365 * 86_400: 1}}
    cell = cell_result("c", Verdict.PASS, topic="t", guarantees=[guarantee()])
    told = CampaignResult(verdict=Verdict.PASS, cells=(cell,), anomalies={}, findings=())
    picture = timeline(Timeline(acks=acks), rows(told))
    assert "<svg" in picture
    assert len(picture) < 100_000
