"""The history file keeps the figures of results from night to night, and its trends are honest."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.verdict import (
    WORST_FIRST,
    CampaignResult,
    CellResult,
    Latency,
    Unavailable,
    Verdict,
)
from ackproof.harness.cli import cli
from ackproof.harness.report import index
from ackproof.harness.report.document import FaultDocument
from ackproof.harness.report.trends import night_file
from ackproof.harness.report.trends.charts import MEASURES, Chart, assets
from ackproof.harness.report.trends.night import CellFigures, Night
from ackproof.harness.report.trends.trend import (
    fault_rates,
    flaky_cells,
    not_compared,
    occasion,
    render,
    trends,
    worse_than_before,
)
from tests.support.builders.results import (
    cell_result,
    guarantee,
    night,
    of_cells,
    result,
    threshold,
)
from tests.support.processes.browser import Eyes

KAFKA = {"name": "nightly", "seed": 1, "cluster": {"system": "kafka:4.1.1"}}


def history(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["history", *map(str, arguments)])


def add(file: Path, *results: Path, keep: int | None = None) -> Result:
    return history("add", *results, "--to", file, *(["--keep", keep] if keep else []))


def nights(file: Path) -> list[Night]:
    return night_file.nights(night_file.read(file))


def measured(
    name: str,
    acks: str,
    *,
    longest_ms: int | None = 1000,
    p99_ms: float | None = 20,
    lost: int | None = 0,
    promised: bool = True,
) -> CellResult:
    """Return a cell whose figures are known, unless they are None."""
    held = None if lost is None else lost == 0
    return cell_result(
        name,
        Verdict.INCONCLUSIVE if lost is None else Verdict.FAIL if lost else Verdict.PASS,
        settings={"acks": acks},
        guarantees=[guarantee(promised=promised, held=held, broken=lost or 0)],
        lost=lost,
        unavailable=longest_ms and Unavailable(longest_ms=longest_ms, total_ms=10, traffic_ms=100),
        ack_latency=p99_ms
        and Latency(
            records=10, since_due=True, p50_ms=1, p90_ms=2, p99_ms=p99_ms, p999_ms=99, longest_ms=99
        ),
    )


def figures(root: Path, *cells: CellResult) -> Night:
    """Return the night of a result of these cells."""
    worst = min((cell.counts_as for cell in cells), key=WORST_FIRST.index)
    return night_file.night(night(root, "figures", 1, of_cells(worst, *cells)))


def charts(*oldest_first: Night) -> dict[str, Chart]:
    (trend,) = trends([occasion(one) for one in reversed(oldest_first)])
    return {chart.title: chart for chart in trend.charts}


# The file


def test_result_added_twice_is_one_line(tmp_path: Path) -> None:
    file, results = tmp_path / "cache" / "history.jsonl", night(tmp_path, "a", 1)
    assert add(file, results).output == f"{file}: 1 added\n"
    written = file.read_bytes()
    assert add(file, results, results).output == f"{file}: 1 already present\n"
    assert file.read_bytes() == written
    assert written.count(b"\n") == 1


def test_history_line_repeats_the_result(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    add(file, night(tmp_path, "a", 1, result(Verdict.FAIL, lost=3)))
    line = json.loads(file.read_text())
    told = {name: line[name] for name in ("began", "campaign", "system", "seed", "verdict")}
    assert told == {
        "began": "2031-07-23T02:17:00.000Z",
        "campaign": "nightly",
        "system": "bundled",
        "seed": 1,
        "verdict": "fail",
    }
    assert (line["exit_status"], line["verdict_version"], line["history_version"]) == (1, 3, 1)
    names = ("lost", "lost_guaranteed", "lost_elsewhere", "duplicated", "acked", "cells")
    assert [line["total"][name] for name in names] == [8, 3, 5, 2, 20, 2]
    assert [(cell["cell"], cell["lost"]) for cell in line["cells"]] == [("all", 3), ("one", 5)]


def test_result_checked_again_replaces_its_line(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    add(file, night(tmp_path, "a", 1), night(tmp_path, "b", 2))
    again = night(tmp_path, "a", 1, result(Verdict.FAIL, lost=3))
    assert add(file, again).output == f"{file}: 1 replaced after a new check\n"
    assert [one.verdict for one in nights(file)] == [Verdict.FAIL, Verdict.PASS]


def test_results_that_cannot_be_believed_are_refused_and_the_others_added(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    edited, unchecked = night(tmp_path, "edited", 1), night(tmp_path, "unchecked", 2)
    verdict_file = edited / "verdict.json"
    verdict_file.write_text(verdict_file.read_text().replace('"acked": 10', '"acked": 11'))
    (unchecked / "verdict.json").unlink()
    swapped = night(tmp_path, "swapped", 3)
    (swapped / "campaign.yaml").write_text("name: other")
    done = add(file, edited, unchecked, swapped, tmp_path / "nowhere", night(tmp_path, "good", 4))
    assert done.exit_code == 2
    for told in (
        "edited: the results cannot be believed: verdict.json was changed after the check",
        f"never checked; run ackproof check {unchecked}",
        "campaign.yaml was changed after the check",
        "nowhere has no results of a campaign",
    ):
        assert told in done.output
    assert [one.seed for one in nights(file)] == [4]


def test_no_file_is_made_where_every_result_is_refused(tmp_path: Path) -> None:
    assert add(tmp_path / "history.jsonl", tmp_path).exit_code == 2
    assert not (tmp_path / "history.jsonl").exists()


def test_lines_that_are_not_understood_are_named_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    add(file, night(tmp_path, "a", 1))
    later = b'{"history_version": 2,  "verdict": "fine"}'
    strange = (b'{"history_version": 1}', b'{"began": ', b"\xff\xfe", b"[" * 100_000, b"null")
    whole = file.read_bytes()
    file.write_bytes(b"\n".join((whole.rstrip(b"\n"), later, *strange)))  # the last line is cut off
    done = add(file, night(tmp_path, "b", 2), keep=1)
    assert done.exit_code == 0
    kept = file.read_bytes().splitlines()
    assert kept[:-1] == [later, *strange]
    assert "line 1 is kept but not shown: its version is 2" in done.output
    for number in range(2, 7):
        assert f"line {number} is kept but not shown: " in done.output
    assert [one.seed for one in nights(file)] == [2]
    shown = history("trend", file)
    assert shown.exit_code == 0
    assert "line 3 is kept but not shown: it is not valid JSON at column 11" in shown.output


@pytest.mark.parametrize("content", ["# Read me\n", '{\n "version": 3\n}\n', '{"version": 3}'])
def test_file_that_is_no_history_stays_as_it_is(tmp_path: Path, content: str) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    for done in (add(file, night(tmp_path, "a", 1)), history("trend", file)):
        assert done.exit_code == 2
        assert "is not a history file and was not changed: line 1: " in done.output
    assert file.read_text() == content


def test_path_that_cannot_be_used_is_bad_usage(tmp_path: Path) -> None:
    results, file = night(tmp_path, "a", 1), tmp_path / "file"
    file.touch()
    for done, told in (
        (add(tmp_path, results), "is not a file"),
        (add(file / "below", results), "cannot be used"),
        (history("trend", tmp_path / "nowhere"), "does not exist; to create it: ackproof history"),
        (history("trend", file, "--html", file), "is the history file itself"),
        (history("trend", file, "--html", tmp_path), "cannot be used"),
        (history("trend", file, "--last", 0), "--last"),
        (history("add", results, "--to", file, "--keep", 0), "--keep"),
        (history("add", "--to", file), "RESULTS"),
        (history("add", results), "--to"),
    ):
        assert done.exit_code == 2, done.output
        assert told in done.output


def test_oldest_nights_of_each_campaign_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    other = {"name": "other", "seed": 9, "cluster": {"system": "bundled"}}
    late_first = [night(tmp_path, f"n{day}", day) for day in (3, 1, 2)]
    done = add(file, *late_first, night(tmp_path, "o", 0, campaign=other), keep=2)
    assert done.output == f"{file}: 4 added; 1 dropped because of their age\n"
    assert [(one.campaign, one.seed) for one in nights(file)] == [
        ("other", 9),
        ("nightly", 2),
        ("nightly", 3),
    ]


def test_of_several_that_add_at_once_none_is_left_out(tmp_path: Path) -> None:
    real, file = tmp_path / "real.jsonl", tmp_path / "history.jsonl"
    real.touch()
    file.symlink_to(real.name)
    found = [night_file.night(night(tmp_path, f"n{day}", day)) for day in range(6)]
    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(night_file.add, file, [one]) for one in found]:
            done.result()
    assert file.is_symlink()
    assert [one.seed for one in nights(real)] == list(range(6))
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_night_without_any_run_stays_behind_those_before_it(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    first, last = (night_file.night(night(tmp_path, f"n{day}", day)) for day in (1, 3))
    never = first.model_copy(update={"began": None, "verdict_sha256": "b", "seed": 2})
    night_file.add(file, [first, never])
    night_file.add(file, [last])
    assert [one.seed for one in nights(file)] == [1, 2, 3]


def test_equal_nights_in_a_merged_file_are_one(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    add(file, night(tmp_path, "a", 1))
    older = file.read_bytes()
    add(file, night(tmp_path, "a", 1, result(Verdict.FAIL, lost=3)))
    file.write_bytes(older + file.read_bytes())
    (only,) = nights(file)
    assert only.verdict is Verdict.FAIL


def test_digest_of_a_campaign_is_that_of_every_seed_and_system(tmp_path: Path) -> None:
    same = {"name": "nightly", "seed": 5, "cluster": {"system": "kafka:4.1.1"}}
    other = {"name": "nightly", "seed": 5, "cluster": {"system": "bundled", "brokers": 5}}
    first, second, third = (
        night_file.night(night(tmp_path, f"n{at}", at, campaign=one)).campaign_sha256
        for at, one in enumerate((KAFKA, same, other))
    )
    assert first == second != third


def test_verdict_with_impossible_figures_is_refused(tmp_path: Path) -> None:
    results = night(
        tmp_path, "quick-20310801T021700Z", 1, of_cells(Verdict.PASS, measured("a", "all"))
    )
    file = results / "verdict.json"
    document = json.loads(file.read_text())
    document["cells"][0]["unavailable"]["longest_ms"] = -1
    del document["sha256"]  # a former version had no seal
    document["files"] = {}
    document["runs"] = []
    file.write_text(json.dumps(document))
    done = add(tmp_path / "history.jsonl", results)
    assert (done.exit_code, "Traceback" in done.output) == (2, False)
    (entry,) = index.entries(tmp_path)
    assert entry.document is None
    assert entry.trouble


# The figures


def test_unknown_figures_are_null_and_lower_bounds_are_named(tmp_path: Path) -> None:
    known, unknown = measured("a", "all"), measured("b", "all", longest_ms=None, p99_ms=None)
    total = figures(tmp_path, known, unknown).total
    assert (total.longest_outage_ms, total.p99_ms, total.unavailable_share) == (1000, 20, None)
    assert total.at_least == ("longest_outage_ms", "p99_ms")
    lost = figures(tmp_path, measured("a", "all", lost=2), measured("b", "all", lost=None)).total
    assert (lost.lost_guaranteed, lost.inconclusive) == (2, 1)
    assert set(lost.at_least) == {"lost", "lost_guaranteed"}
    none = figures(tmp_path, measured("b", "all", longest_ms=None, p99_ms=None, lost=None)).total
    assert (none.lost, none.longest_outage_ms, none.p99_ms, none.at_least) == (None,) * 3 + ((),)


def test_cell_without_acknowledgements_makes_no_outage_unknown(tmp_path: Path) -> None:
    cells = measured("a", "all"), measured("b", "0", longest_ms=None, promised=False)
    total = figures(tmp_path, *cells).total
    assert (total.longest_outage_ms, total.unavailable_share, total.at_least) == (1000, 0.1, ())


def test_figures_show_unknown_lower_bound_or_absent(tmp_path: Path) -> None:
    told = {one.name: one for one in MEASURES}
    lost = figures(tmp_path, measured("a", "all", lost=2), measured("b", "all", lost=None)).total
    assert told["lost_guaranteed"].told(lost) == "2+"
    assert told["lost_elsewhere"].told(lost) == "-"
    assert told["inconclusive_share"].told(lost) == "50 %"
    mixed = measured("a", "all", lost=None), measured("b", "1", lost=1, promised=False)
    assert told["lost_guaranteed"].told(figures(tmp_path, *mixed).total) == "unknown"
    empty = night_file.night(night(tmp_path, "e", 1, of_cells(Verdict.INCONCLUSIVE))).total
    assert {one.told(empty) for one in MEASURES} == {"unknown"}


def test_cell_with_a_threshold_shows_its_outcome(tmp_path: Path) -> None:
    unmet = replace(measured("a", "all", longest_ms=28_041), thresholds=(threshold(met=False),))
    undecided = replace(measured("b", "all", longest_ms=None), thresholds=(threshold(met=None),))
    found = figures(tmp_path, unmet, undecided)
    assert [cell.verdict for cell in found.cells] == [Verdict.PASS] * 2
    assert found.total.inconclusive == 1
    (trend,) = trends([occasion(found)])
    kinds = {cell.name: [square.kind for square in cell.squares] for cell in trend.cells}
    assert kinds == {"a": ["fail"], "b": ["inconclusive"]}


# The charts


def test_unknown_figure_is_a_gap_and_joins_nothing(tmp_path: Path) -> None:
    known = figures(tmp_path, measured("a", "all"))
    unknown = figures(tmp_path, measured("a", "all", longest_ms=None))
    days = [
        one.model_copy(update={"began": f"2031-07-{at + 10}T02:17:00.000Z"})
        for at, one in enumerate((known, known, unknown, known))
    ]
    chart = charts(*days)["Longest outage"]
    assert [dot.y for dot in chart.dots] == [chart.top, chart.top, None, chart.top]
    assert [dot.value for dot in chart.dots] == [1000, 1000, None, 1000]
    assert chart.dots[2].told == "2031-07-12 02:17, bundled, zookeeper: unknown"
    (stretch,) = chart.stretches
    assert stretch.points == f"{chart.dots[0].x},20.0 {chart.dots[1].x},20.0"
    assert chart.words == "Longest outage, 4 nights: 1.0 s to 1.0 s, latest 1.0 s, unknown in 1"


def test_chart_without_any_known_figure_has_no_0(tmp_path: Path) -> None:
    unknown = figures(tmp_path, measured("a", "all", longest_ms=None, p99_ms=None))
    text = render([unknown], [], 30)
    assert charts(unknown)["p99 latency"].words == "p99 latency, 1 night: unknown"
    labels = re.findall(
        r'<figcaption><b>([^<]+)</b>.*?<p class="chart-most">([^<]+)</p>', text, re.DOTALL
    )
    assert dict(labels)["p99 latency"] == dict(labels)["Longest outage"] == "unknown"
    assert dict(labels)["Lost, guaranteed"] == "0"


def test_lower_bound_is_hollow_and_joins_nothing(tmp_path: Path) -> None:
    known = figures(tmp_path, measured("a", "all"))
    bound = figures(tmp_path, measured("a", "all"), measured("b", "all", longest_ms=None))
    chart = charts(known, bound)["Longest outage"]
    assert [dot.hollow for dot in chart.dots] == [False, True]
    assert chart.stretches == ()
    assert chart.latest == "1.0 s+"


def test_systems_have_a_line_each(tmp_path: Path) -> None:
    one = figures(tmp_path, measured("a", "all"))
    other = one.model_copy(update={"system": "kafka:4.1.1"})
    chart = charts(one, other, one, other)["p99 latency"]
    names = ("bundled, zookeeper", "kafka:4.1.1, zookeeper")
    assert chart.systems == ((names[0], 0), (names[1], 1))
    assert [dot.system for dot in chart.dots] == [0, 1, 0, 1]
    assert [(line.look, line.points.count(",")) for line in chart.stretches] == [(0, 2), (1, 2)]


def test_result_without_a_verdict_interrupts_the_index_charts(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        night(tmp_path, f"nightly-2031072{day}T021700Z", day - 1)
    (tmp_path / "nightly-20310722T021700Z" / "verdict.json").unlink()
    (trend,) = trends(one.occasion for one in index.entries(tmp_path))
    chart = next(one for one in trend.charts if one.title == "Lost, elsewhere")
    assert [(one.value, one.system) for one in chart.dots] == [(5, 0), (None, None), (5, 0)]
    told = "2031-07-22 02:17: not checked: the run is in progress, or ended early"
    assert chart.dots[1].told == told
    assert chart.stretches == ()
    assert index.render(tmp_path).count("<svg") == len(trend.charts)


# Flaky cells and the success of faults

OUTCOMES = {
    "P": Verdict.PASS,
    "F": Verdict.FAIL,
    "I": Verdict.INCONCLUSIVE,
    "N": Verdict.NOT_GUARANTEED,
}


def sequence(letters: str, **changes: object) -> list[Night]:
    """Return nights of one cell, one a letter, each of a day and a seed of its own."""
    made = []
    for day, letter in enumerate(letters):
        cell = CellFigures.model_construct(
            run=1, cell="c", kind=OUTCOMES[letter], counts_as=OUTCOMES[letter]
        )
        named = {"system": "bundled", "metadata_quorum": "zookeeper", "ackproof": "1.0"}
        began = f"2031-07-{day + 1:02}T02:17:00.000Z"
        values = {**named, "began": began, "seed": day, "cells": (cell,), **changes}
        made.append(Night.model_construct(**values))
    return made


@pytest.mark.parametrize(
    ("letters", "figures"),
    [
        ("PPPP", None),
        ("FFFF", None),
        ("PIPN", None),
        ("NFIF", None),
        ("PF", (1, 1, 0, 1, "fails since 2031-07-02 02:17")),
        ("FFPIP", (2, 2, 1, 1, "passes since 2031-07-03 02:17")),
        ("PFPIFF", (2, 3, 1, 3, "fails since 2031-07-05 02:17")),
    ],
)
def test_cell_is_flaky_only_if_it_passed_and_failed(
    letters: str, figures: tuple[object, ...] | None
) -> None:
    found = flaky_cells(sequence(letters))
    told = [(one.passes, one.fails, one.undecided, one.changes, one.latest) for one in found]
    assert told == ([] if figures is None else [figures])


@given(st.lists(st.tuples(st.sampled_from("PFIN"), st.sampled_from("ab")), max_size=12))
def test_flaky_cells_are_those_of_each_system_alone(runs: list[tuple[str, str]]) -> None:
    nights = [
        one.model_copy(update={"system": system})
        for one, (_, system) in zip(sequence("".join(of for of, _ in runs)), runs, strict=True)
    ]
    flaky = {one.system.partition(",")[0]: one for one in flaky_cells(nights)}
    for system in "ab":
        letters = [of for of, where in runs if where == system]
        assert (system in flaky) == {"P", "F"}.issubset(letters)
        if system in flaky:
            found = flaky[system]
            counts = (found.passes, found.fails, found.undecided)
            assert counts == tuple(map(letters.count, "PFI"))
            assert 1 <= found.changes < found.passes + found.fails
            assert found.latest.startswith("passes") == ([*filter("PF".count, letters)][-1] == "P")


def test_another_release_of_the_bundled_system_makes_no_cell_flaky() -> None:
    before, after = sequence("PPP"), sequence("FFF", ackproof="2.0")
    assert flaky_cells([*before, *after]) == ()
    (found,) = flaky_cells([*before, *sequence("FF")])
    assert (found.version, found.of_seeds) == ("1.0", "0, 1")
    kafka = {"system": "kafka:4.1.1"}
    (found,) = flaky_cells([*sequence("P", **kafka), *sequence("F", ackproof="2.0", **kafka)])
    assert found.version == ""


def test_cell_that_fails_as_expected_is_not_flaky(tmp_path: Path) -> None:
    as_expected = replace(measured("a", "all", lost=2), expected=(Verdict.FAIL,))
    unmet = replace(measured("a", "all"), expected=(Verdict.FAIL,))
    expected, surprise = (figures(tmp_path, one) for one in (as_expected, unmet))
    assert flaky_cells([expected, expected]) == ()
    (found,) = flaky_cells([expected, surprise])
    assert (found.passes, found.fails) == (1, 1)


def fault(
    name: str, *, proven: bool | None = True, healed: bool = True, **more: bool
) -> FaultDocument:
    began = "2031-07-23T02:17:00.000Z"
    return FaultDocument(
        run=1,
        name=name,
        target="any",
        servers=(),
        began=began,
        proven=proven,
        healed=began if healed else None,
        **{"injected": True, **more},
    )


def test_faults_are_counted_by_name_and_system() -> None:
    first = [fault("kill#1"), fault("kill#2", proven=False), fault("command:az-outage#3")]
    second = [fault("kill#1", proven=None, healed=False), fault("kill#9", injected=False)]
    rates = {
        (one.fault, one.system): one.figures
        for one in fault_rates([("a", first), ("a", second), ("b", [fault("kill#1")])])
    }
    all_of_one = ("1 of 1 (100 %)", False)
    assert rates == {
        ("command:az-outage", "a"): (all_of_one,) * 3,
        ("kill", "a"): (
            ("3 of 4 (75 %)", True),
            ("2 of 4 (50 %), 1 not checked", True),
            ("3 of 4 (75 %)", True),
        ),
        ("kill", "b"): (all_of_one,) * 3,
    }


def test_unchecked_faults_are_neither_successes_nor_failures() -> None:
    old = fault("kill#1", proven=None).model_copy(update={"injected": None})
    (rate,) = fault_rates([("a", [old, fault("kill#2")])])
    assert rate.figures[:2] == (("unknown", False), ("1 of 2 (50 %), 1 not checked", False))
    many = [fault("kill#1")] * 999 + [fault("kill#2", proven=False)]
    (rate,) = fault_rates([("a", many)])
    assert rate.figures[1] == ("999 of 1,000 (99 %)", True)


def test_cells_have_names_for_readers(tmp_path: Path) -> None:
    cells = measured("acks-all", "all"), measured("acks-1", "1", promised=False)
    (trend,) = trends([occasion(figures(tmp_path, *cells))])
    assert {cell.name: cell.title for cell in trend.cells} == {
        "acks-all": "acks=all",
        "acks-1": "acks=1",
    }
    first = figures(tmp_path, measured("renamed", "all"))
    (trend,) = trends([occasion(one) for one in (first, figures(tmp_path, *cells))])
    titles = {cell.name: cell.title for cell in trend.cells}
    assert titles == {"renamed": "renamed", "acks-all": "acks-all", "acks-1": "acks=1"}


# The command and the page


def test_trend_prints_the_last_nights_with_the_newest_at_the_bottom(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    add(file, *(night(tmp_path, f"n{day}", day, result(lost=None)) for day in (1, 2, 3)))
    told = history("trend", file, "--last", 2).output
    assert "nightly: the last 2 of 3 nights" in told
    assert "2031-07-23" not in told
    assert told.index("2031-07-24") < told.index("2031-07-25")
    assert "unknown" in told.split("2031-07-25")[1]


def test_empty_history_has_no_nights_yet(tmp_path: Path) -> None:
    file, page = tmp_path / "history.jsonl", tmp_path / "pages" / "trend.html"
    file.touch()
    done = history("trend", file, "--html", page, "--fail-on", "worse")
    assert (done.exit_code, done.output) == (0, f"{file} has no nights yet\n{page}\n")
    assert "has no nights yet" in page.read_text()


def test_page_escapes_everything_and_loads_nothing(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    named = {"name": script, "seed": 1, "cluster": {"system": script}}
    evil = cell_result(script, guarantees=[guarantee()])
    file, page = tmp_path / "history.jsonl", tmp_path / "trend.html"
    add(file, night(tmp_path, "a", 1, of_cells(Verdict.PASS, evil), named))
    with file.open("a") as damaged:
        damaged.write(f'{{"history_version": 1, "{script}": 1}}\n')
    assert history("trend", file, "--html", page).exit_code == 0
    text = page.read_text().replace(assets()["script"], "")  # uPlot names its home
    assert "line 2 is kept but not shown" in text
    for raw in ("<script>alert", "http://", "https://", "@import", "url("):
        assert raw not in text


def test_page_is_fit_to_be_seen_in_a_browser(tmp_path: Path, eyes: Eyes) -> None:
    first = figures(tmp_path, measured("a", "all"), measured("b", "1", promised=False))
    second = figures(tmp_path, measured("a", "all", lost=3), measured("b", "1", p99_ms=None))
    unknown = figures(tmp_path, measured("a", "all", lost=None, longest_ms=None, p99_ms=None))
    other = first.model_copy(update={"system": "kafka:4.1.1"})
    page = tmp_path / "trend.html"
    page.write_text(render([first, second, other, unknown], ["h.jsonl: line 2 is bad"], 30))
    assert eyes.faults(page) == []


# Worse than before


def told_of(*oldest_first: Night) -> tuple[list[str], list[str]]:
    return list(worse_than_before(oldest_first)), list(not_compared(oldest_first))


def of_night(root: Path, day: float, of: CampaignResult | None = None, **changes: str) -> Night:
    found = night_file.night(night(root, "n", day, of))
    return found.model_copy(update=changes)


def test_last_night_is_worse_if_its_verdict_is_worse_than_all_before(tmp_path: Path) -> None:
    good = [of_night(tmp_path, day) for day in (1, 2)]
    unclear = of_night(tmp_path, 3, result(Verdict.INCONCLUSIVE, lost=None))
    reasons, notes = told_of(*good, unclear)
    assert reasons == [
        "nightly on bundled, 2031-07-25 02:17: inconclusive; no night before was worse than pass"
    ]
    assert notes == ["nightly on bundled, 2031-07-25 02:17: the number of lost records is unknown"]
    assert told_of(unclear, *good) == ([], [])
    assert told_of(unclear, *good, of_night(tmp_path, 4, result(Verdict.INCONCLUSIVE)))[0] == []


def test_last_night_is_worse_if_more_was_lost_than_ever(tmp_path: Path) -> None:
    before = of_night(tmp_path, 1, result(Verdict.FAIL, lost=2))
    last = of_night(tmp_path, 2, result(Verdict.FAIL, lost=3))
    (reason,), _ = told_of(before, last)
    assert reason.endswith(
        "3 guaranteed records lost; at most 2 in the 1 night before, as far as known"
    )
    assert told_of(last, of_night(tmp_path, 3, result(Verdict.FAIL, lost=3)))[0] == []


def test_every_result_of_the_last_night_is_compared(tmp_path: Path) -> None:
    before = of_night(tmp_path, 1)
    bad, good = of_night(tmp_path, 2, result(Verdict.FAIL, lost=1)), of_night(tmp_path, 2.1)
    assert len(told_of(before, bad, good)[0]) == 2
    assert told_of(before, bad, of_night(tmp_path, 3))[0] == []


def test_new_system_is_compared_with_the_campaign(tmp_path: Path) -> None:
    before = of_night(tmp_path, 1, system="kafka:4.1.0")
    last = of_night(tmp_path, 2, result(Verdict.FAIL, lost=1), system="kafka:4.1.1")
    assert told_of(before, last)[0]
    always_bad = of_night(tmp_path, 1, result(Verdict.FAIL, lost=9), system="bundled")
    same = of_night(tmp_path, 1, system="kafka:4.1.1")
    assert told_of(always_bad, same, last)[0]


def test_first_night_is_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    add(file, night(tmp_path, "a", 1, result(Verdict.FAIL, lost=1)))
    done = history("trend", file, "--fail-on", "worse")
    assert done.exit_code == 0
    assert (
        "not compared: nightly on bundled, 2031-07-23 02:17: there is no earlier night"
        in done.output
    )


def test_worse_night_exits_with_4(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    bad = result(Verdict.FAIL, lost=1)
    add(file, night(tmp_path, "a", 1), night(tmp_path, "b", 2, bad))
    assert history("trend", file).exit_code == 0
    assert history("trend", file, "--fail-on", "worse").exit_code == 4
