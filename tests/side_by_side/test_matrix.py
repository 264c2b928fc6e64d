"""A matrix: the same campaign on several systems, each figure under its own, and what a system
refuses, or came to no verdict of, told and not hidden."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from markupsafe import escape

from ackproof.checkers.verdict import (
    CampaignResult,
    Latency,
    Outages,
    RunResult,
    Unavailable,
    Verdict,
)
from ackproof.config.documents import DocumentRefused
from ackproof.harness.cli import cli
from ackproof.harness.directory import MATRIX_PAGE, ResultsDirectoryError
from ackproof.harness.report import verdict
from ackproof.harness.side_by_side import document, page
from ackproof.harness.side_by_side.members import MatrixSystem, members, read
from ackproof.harness.side_by_side.page import after_faults, side_by_side
from tests.support.builders.results import cell_result
from tests.support.processes.browser import Eyes

CAMPAIGN = """\
name: sessions
cluster: {brokers: 3, properties: {offsets.topic.num.partitions: 1}}
cells: {acks: all, min.insync.replicas: 2, replication.factor: 3, partitions: 1}
workload: {kind: produce, rate: 100, record.bytes: 100}
faults:
  - {fault: expire-session, target: "leader(acks-all-minisr-2, 0)"}
"""
"""Brokers have no such sessions with KRaft."""
SYSTEMS = ("bundled", "kafka:3.9.1", "kafka:4.1.1")
SEED = 7


def result(lost: int, away_ms: int, found: Verdict = Verdict.PASS) -> CampaignResult:
    outages = Outages(fault="kill#1", longest_ms=away_ms, total_ms=2 * away_ms)
    away = Unavailable(longest_ms=away_ms, total_ms=2 * away_ms, by_fault=(outages,))
    took = Latency(
        records=10, since_due=True, p50_ms=1.5, p90_ms=2, p99_ms=3, p999_ms=4, longest_ms=5
    )
    cell = cell_result(
        "acks-all",
        found,
        settings={"acks": "all", "min.insync.replicas": 2},
        lost=lost,
        unavailable=away,
        acks_per_second=100.0,
        ack_latency=took,
    )
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=False, cluster={})
    return CampaignResult(
        verdict=found, cells=(cell,), anomalies={"lost": lost}, findings=(), runs=(run,)
    )


def was_run(member: MatrixSystem, found: CampaignResult) -> None:
    """The results of a run, as checking leaves them."""
    member.once.directory.mkdir(parents=True)
    campaign = {"name": "c", "seed": SEED, "cluster": {"system": member.system}}
    verdict.write(member.once.directory, verdict.to_document(campaign, found))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The campaign's."""
    path = tmp_path / "sessions.yaml"
    path.write_text(CAMPAIGN, encoding="utf-8")
    return path


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the directory of the matrix."""
    path = tmp_path / "matrix"
    path.mkdir()
    return path


@pytest.fixture
def made(file: Path, place: Path) -> Sequence[MatrixSystem]:
    """Bundled lost nothing; 3.9.1 lost three records; 4.1.1 refuses it."""
    found = members(file, SYSTEMS, SEED, place)
    was_run(found[0], result(0, 1500))
    was_run(found[1], result(3, 4200, Verdict.FAIL))
    return [read(member) for member in found]


def lines(made: Sequence[MatrixSystem]) -> dict[str, list[str]]:
    return {
        line.name: [entry.text for entry in line.entries]
        for group in side_by_side(made).groups[:1]
        for line in group.lines
    }


def test_each_figure_is_under_its_own_system(made: Sequence[MatrixSystem]) -> None:
    assert side_by_side(made).clusters == SYSTEMS
    found = lines(made)
    assert found["lost"] == ["0", "3", "refused"]
    assert found["verdict"] == ["pass", "fail", "refused"]
    assert found["unavailable, longest"] == ["1.5 s (kill#1)", "4.2 s (kill#1)", "refused"]
    assert found["acks per second"] == ["100", "100", "refused"]
    assert found["ack, 50 % and 99 % within"] == ["1.5 ms, 3 ms"] * 2 + ["refused"]


def test_unavailability_is_listed_by_fault(made: Sequence[MatrixSystem]) -> None:
    (group,) = after_faults(made)
    (line,) = group.lines
    assert (group.title, line.name) == (
        "acks=all, min ISR 2, longest unavailable after",
        "kill#1",
    )
    assert [entry.text for entry in line.entries] == ["1.5 s", "4.2 s", "refused"]


def test_the_page_is_fit_to_be_seen_in_a_browser(
    made: Sequence[MatrixSystem], file: Path, place: Path, eyes: Eyes
) -> None:
    assert eyes.faults(page.write(place, "c", file, SEED, made)) == []


def test_system_without_a_verdict_is_reported(
    made: Sequence[MatrixSystem], file: Path, place: Path
) -> None:
    gone = replace(made[1], result=None, document=None, cells=(), trouble="no Java")
    found = [made[0], gone, made[2]]
    assert lines(found)["lost"] == ["0", "no verdict", "refused"]
    assert "no Java" in page.write(place, "c", file, SEED, found).read_text("utf-8")


def test_why_a_system_refuses_stands_in_the_page_and_in_the_document(
    made: Sequence[MatrixSystem], file: Path, place: Path
) -> None:
    html = page.write(place, "c", file, SEED, made).read_text(encoding="utf-8")
    assert "http" not in html.partition("<pre>")[0], "it needs nothing from elsewhere"
    assert "It was not run, because the campaign does not fit this system:" in html
    document.write(place, document.made("c", file, SEED, made))
    written = json.loads((place / document.FILE).read_text(encoding="utf-8"))
    named = json.loads(document.as_text())
    assert written.keys() == named["properties"].keys()
    assert written["version"] == named["properties"]["version"]["const"]
    assert written["systems"][0].keys() == named["$defs"]["SystemDocument"]["properties"].keys()
    assert [one["verdict"] for one in written["systems"]] == ["pass", "fail", None]
    assert [cell["lost"] for one in written["systems"] for cell in one["cells"]] == [0, 3]
    refused = written["systems"][2]["refused"]
    assert refused == list(made[2].refused)
    assert any("broker.session.timeout.ms" in reason for reason in refused)
    assert all(escape(reason) in html for reason in refused)
    assert document.read(place) == document.made("c", file, SEED, made)


def test_a_document_of_later_days_is_refused(
    made: Sequence[MatrixSystem], file: Path, place: Path
) -> None:
    later = document.made("c", file, SEED, made).model_copy(update={"version": 99})
    document.write(place, later)
    with pytest.raises(ResultsDirectoryError, match="its version is 99"):
        document.read(place)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "it is not valid JSON"),
        ("[]", "it must be an object with names and values"),
        ("{}", "campaign: is missing"),
        ('{"campaign": "c", "sha256": "x", "seed": 1, "systems": 3}', "systems: must be a list"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_damaged_document_is_refused_in_plain_words(
    file: Path, place: Path, written: str, words: str
) -> None:
    (place / document.FILE).write_text(written, encoding="utf-8")
    told = CliRunner().invoke(
        cli, ["matrix", "--systems", "bundled", str(file), "--out", str(place)]
    )
    assert told.exit_code == 2
    assert words in told.stderr
    assert "Input should" not in told.stderr
    assert "Traceback" not in told.output


def test_file_refused_by_every_system_is_an_error(file: Path, place: Path) -> None:
    file.write_text("name: c\n", encoding="utf-8")
    with pytest.raises(DocumentRefused):
        members(file, SYSTEMS, SEED, place)


def test_existing_matrix_is_not_run_again(
    made: Sequence[MatrixSystem], file: Path, place: Path
) -> None:
    document.write(place, document.made("c", file, SEED, made))
    arguments = ["matrix", "--systems", ",".join(SYSTEMS), str(file), "--out", str(place)]
    told = CliRunner().invoke(cli, arguments)
    assert told.exit_code == 1, told.output  # of the one that failed
    assert told.output.splitlines()[0].startswith("sessions: seed 7, results in")
    assert told.output.splitlines()[-1] == str(place / MATRIX_PAGE)
    assert "kafka:4.1.1 refuses it:" in told.output
    assert (place / MATRIX_PAGE).is_file()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--systems", "bundled,bundled"], "a system is given twice"),
        (["--systems", "bundled,pulsar"], "unknown system 'pulsar'"),
        (["--systems", "external"], "is tested with `ackproof run`"),
        (["--systems", "bundled", "--seed", "8"], "has a matrix of seed 7, not of 8"),
    ],
)
def test_bad_usage(
    made: Sequence[MatrixSystem], file: Path, place: Path, arguments: Sequence[str], says: str
) -> None:
    document.write(place, document.made("c", file, SEED, made))
    told = CliRunner().invoke(cli, ["matrix", *arguments, str(file), "--out", str(place)])
    assert told.exit_code == 2, told.output
    assert says in told.output


def test_another_campaign_is_not_mixed_with_it(
    made: Sequence[MatrixSystem], file: Path, place: Path
) -> None:
    document.write(place, document.made("c", file, SEED, made))
    file.write_text(CAMPAIGN.replace("100", "200"), encoding="utf-8")
    arguments = ["matrix", "--systems", "bundled", str(file), "--out", str(place)]
    told = CliRunner().invoke(cli, arguments)
    assert told.exit_code == 2, told.output
    assert "has a matrix of c, not of" in told.output
