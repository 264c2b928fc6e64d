"""Comparison of results: changes are reported, noise is called noise, and unknown figures stay
unknown."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner
from rich.console import Console

from ackproof.checkers.verdict import CampaignResult, RunResult, Unavailable, Verdict
from ackproof.harness.cli import cli
from ackproof.harness.comparing.differences import CellDifference, Differences, as_document, compare
from ackproof.harness.comparing.output import print_differences, render
from ackproof.harness.comparing.sides import Side, partners
from ackproof.harness.report import verdict
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.opportunities import Exposure, ExposureKind
from ackproof.history.schema import SENDS
from tests.support.builders.results import cell_result, guarantee
from tests.support.processes.browser import Eyes

T0 = 1_942_453_020_000_000_000
MS = 1_000_000
ACKED = 1000
PARTITIONS = 3
FAULTS = 3


def sends(cell: str, waits_ms: Sequence[float], every_ms: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    place = {"cell": cell, "topic": "t", "partition": 0, "producer": 0, "error": None}
    for sequence, wait_ms in enumerate(waits_ms):
        began = T0 + sequence * every_ms * MS
        named = {**place, "sequence": sequence, "offset": None}
        rows.append({**named, "type": "invoke", "time": began})
        rows.append({**named, "type": "ok", "time": began + int(wait_ms * MS)})
    return rows


def results(
    directory: Path,
    *,
    seed: int = 1,
    cells: Sequence[str] = ("all",),
    outcome: Verdict | None = None,
    lost: Mapping[str, int] | None = None,
    waits_ms: float = 3.0,
    every_ms: int = 50,
    runs: int = 1,
    acks: str = "all",
    away_ms: Sequence[int] = (1000,),
    campaign: Mapping[str, object] | None = None,
    plugins: Mapping[str, str] | None = None,
) -> Path:
    """Results of a campaign. ``lost``: records of every run, put down to its first fault;
    ``outcome``: where it is not given, a loss was not promised not to be."""
    directory.mkdir()
    named = {"name": "quick", "seed": seed, **(campaign or {})}
    (directory / "campaign.yaml").write_text(yaml.safe_dump(named))
    gone = sum((lost or {}).values())
    came = outcome or (Verdict.NOT_GUARANTEED if gone else Verdict.PASS)
    kept = guarantee(
        promised=came is not Verdict.NOT_GUARANTEED,
        held=not gone,
        broken=gone if came is Verdict.FAIL else 0,
    )
    settings = {"acks": acks, "partitions": PARTITIONS}
    numbers = range(1, runs + 1)
    made = [
        replace(
            cell_result(name, came, topic="t", settings=settings, guarantees=[kept]),
            run=number,
            sent=ACKED,
            acked=ACKED,
            lost=gone,
            unavailable=Unavailable(
                longest_ms=away_ms[(number - 1) % len(away_ms)],
                total_ms=away_ms[(number - 1) % len(away_ms)],
                traffic_ms=10_000,
            ),
        )
        for number in numbers
        for name in cells
    ]
    told = CampaignResult(
        verdict=came,
        cells=tuple(made),
        anomalies={},
        findings=(),
        plugins=plugins or {},
        runs=tuple(
            RunResult(number=number, clock_bound_ns=0, infrastructure_failed=False)
            for number in numbers
        ),
    )
    trials = [
        Exposure(
            run=number,
            cell=name,
            kind=ExposureKind.LEADER_CHANGES,
            events=2,
            fault=f"kill#{fault}",
            lost=gone if fault == 1 and name == cells[0] else 0,
        )
        for number in numbers
        for name in cells
        for fault in range(1, FAULTS + 1)
    ]
    verdict.write(directory, verdict.to_document(named, told, exposure=trials))
    rng = np.random.default_rng(seed)
    for number in numbers:
        history = directory / "runs" / str(number) / "history"
        history.mkdir(parents=True)
        for name in cells:
            waits = waits_ms * rng.uniform(0.8, 1.2, ACKED)
            table = pa.Table.from_pylist(sends(name, waits, every_ms), SENDS)
            pq.write_table(table, history / f"sends.t.0.{name}.parquet")
    return directory


def told(found: Differences, cell: int = 0) -> dict[str, str]:
    return {line.measure.name: line.result for line in _cell(found, cell).lines}


def shown(found: Differences, cell: int = 0) -> dict[str, tuple[str, str]]:
    return {
        line.measure.name: (line.measure.a, line.measure.b) for line in _cell(found, cell).lines
    }


def _cell(found: Differences, number: int) -> CellDifference:
    return found.cells[number]


def test_repeated_run_differs_by_noise_only(tmp_path: Path) -> None:
    found = compare(results(tmp_path / "a"), results(tmp_path / "b", seed=2))
    results_ = told(found)
    assert results_.pop("verdict") == "the same"
    same = ("lost", "duplicated", "unavailable, longest", "unavailable, share")
    assert {results_.pop(name) for name in same} == {"the same"}
    assert set(results_.values()) <= {
        "1 run per side cannot show a difference: 6 would be enough",
        "the same",
    }
    assert found.tests == 0
    assert found.unlike == ("different seeds, 1 and 2, and so different schedules of faults",)


def test_results_with_other_plugins_are_unlike(tmp_path: Path) -> None:
    with_one = results(tmp_path / "b", plugins={"own-faults": "1.2"})
    found = compare(results(tmp_path / "a"), with_one)
    assert found.unlike == ("plug-ins: none and own-faults 1.2",)


def test_none_lost_is_bounded_by_the_faults_that_could_have_lost_some(tmp_path: Path) -> None:
    found = compare(results(tmp_path / "a"), results(tmp_path / "b", lost={"kill#1": 4}))
    assert shown(found)["lost"] == (
        "0 of 1,000; in 0 of 3 faults: at most 64 % of faults (95 % confidence)",
        "4 of 1,000; in 1 of 3 faults: 1.6 to 87 % of faults (95 % confidence at each end)",
    )


@pytest.mark.parametrize(("few", "many", "words"), [(0, 900, "worse"), (6, 900, "changed")])
def test_single_run_a_side_is_too_few_and_names_the_needed_number(
    tmp_path: Path, few: int, many: int, words: str
) -> None:
    """Test one fault in one run. Judged by records, 900 of 1,000 would be beyond doubt."""
    a = results(tmp_path / "a", lost={"kill#1": few})
    b = results(tmp_path / "b", outcome=Verdict.FAIL, lost={"kill#1,kill#2": many})
    found = compare(a, b)
    assert told(found)["verdict"] == words
    assert told(found)["lost"] == "1 run per side cannot show a difference: 6 would be enough"
    console = Console(width=80, file=io.StringIO())
    print_differences(console, found)
    assert "chance" in console.file.getvalue()
    assert "within noise" not in console.file.getvalue()


def test_exposure_of_both_sides_is_compared_without_a_test(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a"), results(tmp_path / "b")
    found = compare(a, b)
    assert [
        (line.what, line.a.partition(",")[0], line.b.partition(",")[0]) for line in found.exposure
    ] == [
        ("any fault", "0 of 3 faults", "0 of 3 faults"),
        ("leader changes", "0 of 3 faults", "0 of 3 faults"),
    ]
    assert "leader changes" in render(found, ("", ""))
    document = {**json.loads((b / "verdict.json").read_text()), "exposure": None}
    verdict.write(b, document)
    assert [line.b for line in compare(a, b).exposure] == ["unknown", "unknown"]


def test_losses_are_compared_by_how_many_there_were(tmp_path: Path) -> None:
    """The faults that lost records are the same on both sides; how many they lost is not."""
    a = results(tmp_path / "a", lost={"kill#1": 6}, runs=6)
    b = results(tmp_path / "b", lost={"kill#1": 300}, runs=6)
    found = compare(a, b)
    assert told(found)["lost"] == "more, p = 0.0022"
    assert told(found)["duplicated"] == "the same"


def test_acks_that_take_twice_as_long_are_no_noise(tmp_path: Path) -> None:
    found = compare(results(tmp_path / "a", runs=6), results(tmp_path / "b", runs=6, waits_ms=6.0))
    for percent in (50, 95, 99):
        result = told(found)[f"ack, {percent} % within"]
        assert result.startswith(("+9", "+10")), result
        assert "within noise" not in result


def test_half_the_rate_is_no_noise(tmp_path: Path) -> None:
    found = compare(results(tmp_path / "a", runs=6), results(tmp_path / "b", runs=6, every_ms=100))
    assert shown(found)["acks per second"] == ("20.0", "10.0")
    assert told(found)["acks per second"].startswith("-50 %")


def test_with_runs_enough_these_are_compared(tmp_path: Path) -> None:
    slow = (9000, 9100, 9200, 9300, 9400, 9500)
    quick = (1000, 1100, 1200, 1300, 1400, 1500)
    a = results(tmp_path / "a", runs=6, away_ms=quick)
    found = compare(a, results(tmp_path / "b", runs=6, away_ms=slow))
    lines = {line.measure.name: line for line in found.cells[0].lines}
    assert lines["unavailable, longest"].differs
    assert lines["unavailable, longest"].why == "between runs"
    assert lines["ack, 50 % within"].why == "between runs"
    assert not lines["ack, 50 % within"].differs
    few = compare(results(tmp_path / "c"), results(tmp_path / "d", away_ms=slow[:1]))
    assert (
        told(few)["unavailable, longest"]
        == "1 run per side cannot show a difference: 6 would be enough"
    )


def test_unknown_figures_are_shown_as_unknown(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", acks="0"), results(tmp_path / "b", acks="0")
    assert shown(compare(a, b))["ack, 50 % within"] == ("unknown", "unknown")
    assert told(compare(a, b))["ack, 50 % within"] == "no test: no recorded acks in A and B"
    c, d = results(tmp_path / "c"), results(tmp_path / "d", lost={"kill#1": 4})
    document = {**json.loads((d / "verdict.json").read_text()), "opportunities": None}
    verdict.write(d, document)
    (d / "runs" / "1" / "history" / "sends.t.0.all.parquet").write_bytes(b"damaged")
    found = compare(c, d)
    assert shown(found)["lost"][1] == "4 of 1,000"
    assert shown(found)["acks per second"][1] == "unknown"
    assert told(found)["acks per second"] == "no test: no recorded acks in B"


def test_comparison_lists_differences_and_unmatched_cells(tmp_path: Path) -> None:
    a = results(tmp_path / "a", cells=("all", "one"), campaign={"cluster": {"brokers": 3}})
    b = results(
        tmp_path / "b", cells=("all", "two"), campaign={"name": "other", "cluster": {"brokers": 5}}
    )
    found = compare(a, b)
    assert found.unlike == ("different campaigns: quick and other", "cluster.brokers: 3 and 5")
    assert [one.cell for one in found.cells] == ["all"]
    assert (found.only_a, found.only_b) == ((("", "one"),), (("", "two"),))


def test_cell_that_was_named_otherwise_is_compared_by_its_settings(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a", cells=("all.x-1",)), results(tmp_path / "b", cells=("orders",))
    found = compare(a, b)
    assert [(one.cell, one.runs) for one in found.cells] == [("all.x-1", (1, 1))]
    assert all(one.startswith("0 of 1,000") for one in shown(found)["lost"])
    assert (found.only_a, found.only_b) == ((), ())


def side_of(cells: Mapping[str, Mapping[str, object]]) -> Side:
    """Results with one run of these cells, each with its settings."""
    counts = dict.fromkeys(
        ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered"), 0
    )
    known = [
        CellDocument.model_validate(
            {"cell": name, "topic": name, "verdict": "pass", "guarantees": (), **counts, **settings}
        )
        for name, settings in cells.items()
    ]
    return Side(
        directory=Path(), document=VerdictDocument(verdict=Verdict.PASS, cells=tuple(known))
    )


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"c": {"rf": 3}}, {"c": {"rf": 2}, "c.rf-3": {"rf": 3}}, {"c": "c.rf-3"}),
        ({"c": {"rf": 3}}, {"c": {"rf": 2}}, {"c": "c"}),
        ({"c": {"rf": 3}, "d": {"rf": 2}}, {"d": {"rf": 3}, "c": {"rf": 2}}, {"c": "d", "d": "c"}),
        ({"c": {"rf": 3}, "d": {"rf": 3}}, {"d": {"rf": 3}}, {"d": "d"}),
        ({"c": {"rf": 3}}, {"d": {"rf": 2}}, {}),
    ],
)
def test_partner_of_a_cell_has_its_settings_or_else_its_name(
    a: Mapping[str, Mapping[str, object]],
    b: Mapping[str, Mapping[str, object]],
    expected: Mapping[str, str],
) -> None:
    found = partners(side_of(a), side_of(b))
    assert {one: other for (_, one), (_, other) in found.items()} == expected


def test_empty_list_of_a_newer_campaign_file_is_no_difference(tmp_path: Path) -> None:
    a = results(tmp_path / "a", campaign={"cells": {"acks": 1}})
    newer = {"cells": {"acks": 1, "name": [], "topic": {}}, "expect": [], "service": None}
    assert compare(a, results(tmp_path / "b", campaign=newer)).unlike == ()
    named = {"cells": {"acks": 1, "name": [{"where": {}, "name": "orders"}]}}
    found = compare(a, results(tmp_path / "c", campaign=named)).unlike
    assert found == ("cells.name[1].name: not set and orders",)


def test_comparison_fits_80_columns(tmp_path: Path) -> None:
    a = results(tmp_path / "a", cells=("all", "one"), campaign={"x": "\x1b[31mred"})
    b = results(tmp_path / "b", cells=("all", "two"), outcome=Verdict.FAIL, lost={"kill#1": 4})
    console = Console(width=80, file=io.StringIO())
    print_differences(console, compare(a, b))
    text = console.file.getvalue()
    assert "\x1b" not in text
    for needed in (
        "0 of 1,000",
        "4 of 1,000",
        "worse",
        "only in A: one",
        "cannot show a difference",
    ):
        assert needed in " ".join(text.split())
    body = text[text.index("unlike") :]
    assert max(map(len, body.splitlines())) <= 80
    assert "…" not in text


def test_comparison_is_a_page_that_escapes_everything(tmp_path: Path, eyes: Eyes) -> None:
    script = "<script>alert(1)<br>"
    a = results(tmp_path / "a", cells=("all", "one"), runs=6, campaign={"name": script})
    b = results(
        tmp_path / "b",
        cells=("all", script),
        runs=6,
        waits_ms=6,
        outcome=Verdict.FAIL,
        lost={"k": 4},
    )
    (a / "report.html").touch()
    page = tmp_path / "pages" / "page.html"
    told = CliRunner().invoke(cli, ["compare", str(a), str(b), "--html", str(page)])
    assert told.exit_code == 0, told.output
    text = page.read_text()
    assert 'href="../a/report.html"' in text
    for needed in ("Only in A", "0 of 6,000", "worse", "different campaigns", "p = 0.0022"):
        assert needed in text
    assert "<script>" not in text
    assert eyes.faults(page) == []
    refused = CliRunner().invoke(cli, ["compare", str(a), str(b), "--html", str(tmp_path)])
    assert (refused.exit_code, "--html" in refused.output) == (2, True)


def test_comparison_is_available_as_json(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a"), results(tmp_path / "b", lost={"kill#1": 4})
    told = CliRunner().invoke(cli, ["compare", str(a), str(b), "--json"])
    assert told.exit_code == 0, told.output
    document = json.loads(told.stdout)
    assert document == json.loads(json.dumps(as_document(compare(a, b))))
    lost = next(one for one in document["cells"][0]["measures"] if one["name"] == "lost")
    assert (lost["a"], lost["b"], lost["differs"], lost["p"]) == (0, 4, None, None)


def gate(a: Path, b: Path, *kinds: str) -> tuple[int, str]:
    """Return the exit status of ``compare --fail-on`` and what it said on standard error."""
    options = [word for kind in kinds for word in ("--fail-on", kind)]
    done = CliRunner().invoke(cli, ["compare", str(a), str(b), *options])
    return done.exit_code, done.stderr


def test_gate_is_open_without_thresholds_and_for_equal_results(tmp_path: Path) -> None:
    a, b = results(tmp_path / "a"), results(tmp_path / "b", seed=2)
    broken = results(tmp_path / "c", outcome=Verdict.FAIL, lost={"all": 3})
    assert gate(a, broken) == (0, "")
    status, said = gate(a, b, "broken", "worse", "inconclusive")
    assert status == 0
    assert said.startswith("worse: only the verdicts were compared: ")


def test_gate_fails_for_a_broken_guarantee_of_the_second(tmp_path: Path) -> None:
    a = results(tmp_path / "a")
    b = results(tmp_path / "b", outcome=Verdict.FAIL, lost={"all": 3})
    assert gate(a, b, "broken") == (1, "broken: all broke no-acked-record-lost\n")
    assert gate(a, b, "worse")[0] == 4
    assert gate(a, b, "broken", "worse")[0] == 1
    assert gate(b, a, "broken", "worse")[0] == 0


def test_gate_fails_for_an_inconclusive_or_missing_cell(tmp_path: Path) -> None:
    a = results(tmp_path / "a", cells=("all", "one"))
    b = results(tmp_path / "b", outcome=Verdict.INCONCLUSIVE)
    status, said = gate(a, b, "inconclusive")
    assert status == 3
    assert said == "inconclusive: all is inconclusive\ninconclusive: one of A is not in B\n"


def test_gate_fails_for_slower_acks_only_where_runs_tell(tmp_path: Path) -> None:
    a = results(tmp_path / "a", runs=12)
    b = results(tmp_path / "b", runs=12, waits_ms=6.0)
    status, said = gate(a, b, "worse")
    assert status == 4
    assert "ack latency" in said or "p50" in said or "50" in said
    assert gate(b, a, "worse") == (0, "")


@pytest.mark.parametrize("damage", ["nothing", "empty", "unchecked"])
def test_a_directory_without_a_verdict_is_bad_usage(tmp_path: Path, damage: str) -> None:
    a, b = results(tmp_path / "a"), tmp_path / "b"
    if damage != "nothing":
        b.mkdir()
    if damage == "unchecked":
        (b / "campaign.yaml").write_text("name: quick")
    for pair in ((a, b), (b, a)):
        told = CliRunner().invoke(cli, ["compare", *map(str, pair)])
        assert told.exit_code == 2
        assert f"{b} has no verdict.json" in told.stderr
