"""A plug-in's checker is judged like a built-in one, and never holds without evidence."""

import json
import pickle
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from ackproof.checkers.check import check, evidence
from ackproof.checkers.checks.catalogue import BREAKS, CATALOGUE
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.plugin_examination import examined
from ackproof.checkers.checks.share_groups import SHARE_CHECKERS
from ackproof.checkers.engine.oversized_partitions import is_whole
from ackproof.checkers.engine.work_items import work_items
from ackproof.checkers.guarantees.decisions import guarantees
from ackproof.checkers.guarantees.table import GUARANTEES
from ackproof.checkers.interface import (
    Anomaly,
    Examined,
    Extent,
    PluginChecker,
    Promised,
    RecordedRows,
)
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.harness import report
from ackproof.harness.campaign import validation
from ackproof.harness.campaign.plan.runs import manifest_of, runs_of
from ackproof.harness.cli import cli
from ackproof.harness.report.ci import to_markdown
from ackproof.harness.report.rows import rows
from ackproof.history import manifest
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedThreshold
from ackproof.plugins import SWITCH
from ackproof.testing.checkers import CheckerNotConforming, check_checker, checked
from ackproof.testing.histories import SETTINGS, History, sound_history
from tests.support.builders.installations import Install

LATE_MS = 1_000
QUICK = Path(__file__).parents[2] / "campaigns" / "quick.yaml"


def late_acks(recorded: RecordedRows) -> Examined:
    """Find acknowledgements later than a second after the send."""
    begun: dict[int, int] = {}
    found, examined = [], 0
    for row in recorded.tables["sends"].to_pylist():
        if row["type"] == "invoke":
            begun[row["sequence"]] = row["time"]
        elif row["type"] == "ok":
            examined += 1
            took = row["time"] - begun[row["sequence"]]
            if took > LATE_MS * 1_000_000:
                detail = f"acknowledged after {took} ns"
                found.append(
                    Anomaly(
                        detail=detail,
                        time=row["time"],
                        partition=row["partition"],
                        sequence=row["sequence"],
                    )
                )
    return Examined(anomalies=found, examined=examined)


LATE = PluginChecker(
    name="late-ack",
    summary="acknowledged more than a second after it was sent",
    guarantee="Every record is acknowledged within a second.",
    reads={"sends": ("sequence", "type", "time", "partition")},
    examine=late_acks,
)
LATE_CELL = replace(LATE, extent=Extent.CELL)


def late(history: History) -> None:
    history.rows("sends", partition=1)[3]["time"] += 2 * LATE_MS * 1_000_000


def found_in(checker: PluginChecker, history: History) -> tuple[CampaignResult, Guarantee]:
    found = checked(checker, history)
    assert found.guarantee is not None
    return found.result, found.guarantee


@pytest.mark.parametrize("checker", [LATE, LATE_CELL])
def test_sound_checker_conforms(checker: PluginChecker) -> None:
    check_checker(checker, planted=[late])


def test_broken_guarantee_of_a_plugin_fails_the_cell() -> None:
    history = sound_history()
    late(history)
    result, guarantee = found_in(LATE, history)
    assert result.verdict is Verdict.FAIL
    assert result.anomalies["late-ack"] == guarantee.broken == 1
    assert guarantee.is_broken
    assert guarantee.plugin == "on-trial 0"
    assert result.plugins == {"on-trial": "0"}
    assert any("no-late-ack: " in reason for reason in result.cells[0].reasons)


def raising(_: RecordedRows) -> Examined:
    raise RuntimeError("no\nluck")


def leaving(_: RecordedRows) -> Examined:
    raise SystemExit(7)


@pytest.mark.parametrize(
    ("examine", "reason"),
    [
        (raising, "RuntimeError: no luck"),
        (leaving, "SystemExit: 7"),
        (lambda _: None, "it returned NoneType, but must return Examined"),
        (lambda _: Examined(examined=0), "nothing was examined"),
        (lambda _: Examined(examined=9, lacking=["too few acks"]), "too few acks"),
        (lambda _: Examined(examined=-1), "examined is -1"),
        (lambda _: Examined(examined=None), "examined must be a whole number"),
        (lambda _: Examined(examined=1, lacking="all"), "lacking must be a list of sentences"),
        (lambda _: Examined(examined=1, anomalies=["x"]), "but must be Anomaly"),
        (lambda _: Examined(anomalies=[Anomaly(detail="x")], examined=0), "examined nothing"),
        (
            lambda _: Examined(anomalies=[Anomaly(detail="x", time=1.5)], examined=1),
            "time must be a whole number, not 1.5",
        ),
        (
            lambda _: Examined(anomalies=[Anomaly(detail="x", partition=9)], examined=1),
            "an anomaly names partition 9",
        ),
    ],
)
def test_checker_that_fails_or_lacks_evidence_is_not_checked_and_harms_no_other(
    examine: object, reason: str
) -> None:
    checker = replace(LATE_CELL, examine=examine)  # type: ignore[arg-type]
    result, guarantee = found_in(checker, sound_history())
    assert (guarantee.held, guarantee.checked, guarantee.broken) == (None, False, 0)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any(reason in one for one in result.cells[0].reasons)
    others = [one for one in result.cells[0].guarantees if one.name == "no-acked-record-lost"]
    assert [one.held for one in others] == [True]


def test_broken_guarantee_is_broken_though_evidence_is_lacking() -> None:
    def examine(recorded: RecordedRows) -> Examined:
        return replace(late_acks(recorded), lacking=["one thing"])

    history = sound_history()
    late(history)
    assert found_in(replace(LATE, examine=examine), history)[0].verdict is Verdict.FAIL


def test_guarantee_that_the_settings_do_not_promise_is_not_broken() -> None:
    history = sound_history()
    late(history)
    checker = replace(LATE, not_promised=lambda cell: f"acks={cell.acks}")
    result, guarantee = found_in(checker, history)
    assert result.verdict is Verdict.PASS
    assert (guarantee.promised, guarantee.held, guarantee.broken) == (False, False, 0)
    assert "acks=all" in guarantee.reason
    assert result.anomalies["late-ack"] == 1


@pytest.mark.parametrize("promised", list(Promised))
def test_promise_by_time_follows_that_of_acks_and_reads(promised: Promised) -> None:
    settings = {**SETTINGS, "acks": "0", "enable.idempotence": False}
    history = sound_history(settings, share_group=True)
    late(history)
    result, guarantee = found_in(replace(LATE, promised=promised), history)
    broken = promised is not Promised.WHILE_ACKS_ARE_KEPT
    assert guarantee.is_broken == broken
    assert (result.verdict is Verdict.FAIL) == broken


def fails_to_say(_: Cell) -> str:
    raise RuntimeError("cannot say")


@pytest.mark.parametrize("attribute", ["concerns", "not_promised"])
def test_checker_that_fails_to_state_its_scope_is_unchecked(attribute: str) -> None:
    checker = replace(LATE, **{attribute: fails_to_say})  # type: ignore[arg-type]
    result, guarantee = found_in(checker, sound_history())
    assert not guarantee.checked
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("cannot say" in one for one in result.cells[0].reasons)


def test_checker_of_an_unrecorded_table_does_not_concern_the_cell() -> None:
    checker = replace(LATE, reads={"transactions": ("time",)})
    found = checked(checker, sound_history())
    assert found.guarantee is None
    assert found.result.verdict is Verdict.PASS


def test_table_of_the_whole_run_is_given_without_the_rows_of_other_topics() -> None:
    seen: list[Mapping[str, object]] = []

    def examine(recorded: RecordedRows) -> Examined:
        rows = recorded.tables["assignments"].to_pylist()
        seen.extend(rows)
        return Examined(examined=len(rows))

    history = sound_history()
    other = dict(history.rows("assignments")[0], topic="other")
    history.tables["assignments", "reader-1"].append(other)
    checker = replace(LATE, reads={"assignments": ("client", "event")}, examine=examine)
    checked(checker, history)
    assert [row["client"] for row in seen] == ["member-1", "reader-1"] * 2
    assert seen[0].keys() == {"client", "event"}


# What is installed.

SOURCE = """
from ackproof.checkers.interface import Anomaly, Examined, PluginChecker

def examine(recorded):
    rows = recorded.tables["log"]
    found = [Anomaly(detail="it is there", offset=0, time=1)] if {found} else []
    return Examined(anomalies=found, examined=len(rows))

OWN = PluginChecker(
    name="own-check",
    summary="an own anomaly",
    guarantee="Nothing of its own.",
    reads={{"log": ("offset",)}},
    examine=examine,
)
"""


def installed(install: Install, found: bool = False, **how: str) -> None:
    source = SOURCE.format(found=found)
    install("checks", source, **{"group": "ackproof.checkers", "own_check": "OWN", **how})


def planned_with(directory: Path, **checkers: str) -> Path:
    sound_history().write(directory)
    plan = manifest.read(directory)
    named = {name.replace("_", "-"): plugin for name, plugin in checkers.items()}
    (run,) = plan.runs
    cells = tuple(cell.model_copy(update={"checkers": named}) for cell in run.cells)
    runs = (run.model_copy(update={"cells": cells}),)
    plan.model_copy(update={"runs": runs}).write(directory)
    return directory


def of(result: CampaignResult, name: str) -> Guarantee:
    return next(one for one in result.cells[0].guarantees if one.name == name)


def test_installed_checker_checks_old_results(install: Install, tmp_path: Path) -> None:
    installed(install, found=True)
    result = check(planned_with(tmp_path / "made"), in_process=True)
    assert of(result, "no-own-check").is_broken
    assert result.plugins == {"checks": "1.0"}
    found = pq.read_table(tmp_path / "made" / "anomalies.parquet").to_pylist()
    assert [(row["anomaly"], row["partition"]) for row in found] == [
        ("own-check", 0),
        ("own-check", 1),
    ]


@pytest.mark.parametrize("off", [False, True])
def test_checker_that_the_run_was_planned_with_and_is_gone_is_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, off: bool
) -> None:
    monkeypatch.setenv(SWITCH, "off" if off else "on")
    result = check(planned_with(tmp_path / "made", own_check="checks 1.0"), in_process=True)
    guarantee = of(result, "no-own-check")
    assert (guarantee.held, guarantee.checked, guarantee.plugin) == (None, False, "checks 1.0")
    assert result.verdict is Verdict.INCONCLUSIVE
    why = "ACKPROOF_PLUGINS=off" if off else "no installed plug-in registers the checker own-check"
    assert any(why in reason for reason in result.cells[0].reasons)
    report.write(tmp_path / "made", result)
    document = json.loads((tmp_path / "made" / "verdict.json").read_text(encoding="utf-8"))
    assert document["anomalies"]["own-check"] is None
    page = (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    assert "checks 1.0" in page


def test_checker_of_an_unplanned_version_is_a_finding(install: Install, tmp_path: Path) -> None:
    installed(install, version="2.0")
    result = check(planned_with(tmp_path / "made", own_check="checks 1.0"), in_process=True)
    assert result.verdict is Verdict.PASS
    words = "the checker own-check belongs to checks 2.0, but a run was planned with checks 1.0"
    assert words in result.findings


def test_missing_checker_leaves_a_threshold_that_is_not_met_decided(
    install: Install, tmp_path: Path
) -> None:
    installed(install)
    directory = planned_with(tmp_path / "made", gone="checks 1.0")
    plan = manifest.read(directory)
    limit = PlannedThreshold(measure="unavailable.longest", operator="<=", limit=-1)
    (run,) = plan.runs
    cells = tuple(cell.model_copy(update={"thresholds": (limit,)}) for cell in run.cells)
    plan.model_copy(update={"runs": (run.model_copy(update={"cells": cells}),)}).write(directory)
    (cell,) = check(directory, in_process=True).cells
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert [one.met for one in cell.thresholds] == [False]


def test_unimportable_checker_is_a_finding_and_breaks_no_check(
    install: Install, tmp_path: Path
) -> None:
    install("checks", "import no_such", group="ackproof.checkers", own_check="OWN")
    result = check(planned_with(tmp_path / "made"), in_process=True)
    assert result.verdict is Verdict.PASS
    assert any("the checker own-check of the plug-in checks 1.0" in f for f in result.findings)
    planned = check(planned_with(tmp_path / "two", own_check="checks 1.0"), in_process=True)
    assert planned.verdict is Verdict.INCONCLUSIVE


def test_report_has_the_place_of_a_plugin_and_needs_it_no_more(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(install, found=True)
    directory = planned_with(tmp_path / "made")
    report.write(directory, check(directory, in_process=True))
    monkeypatch.setenv(SWITCH, "off")
    CATALOGUE.look_again()
    loaded = report.load(directory)
    assert loaded is not None
    report.write(directory, loaded)
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "Checkers of plug-ins" in page
    assert "it is there" in page
    assert "Nothing of its own." in page
    assert "no-own-check" in (directory / "junit.xml").read_text(encoding="utf-8")
    summary = to_markdown("made", loaded, rows(loaded))
    assert "no-own-check (checks 1.0): broken in 1 cell" in summary


def test_commands_know_the_checker_of_a_plugin(install: Install) -> None:
    installed(install)
    listed = CliRunner().invoke(cli, ["checkers", "own-check"])
    assert "an own anomaly" in listed.output
    assert "checks 1.0" in listed.output
    anomaly = CliRunner().invoke(cli, ["explain", "own-check"])
    assert "no-own-check" in anomaly.output
    assert "checks 1.0" in anomaly.output
    guarantee = CliRunner().invoke(cli, ["explain", "no-own-check"])
    assert "Nothing of its own." in guarantee.output


def test_commands_refuse_a_checker_that_cannot_be_used(install: Install) -> None:
    installed(install, own_check="NO_SUCH")
    for command in ("checkers", "explain"):
        refused = CliRunner().invoke(cli, [command, "own-check"])
        assert refused.exit_code == 2
        assert "cannot be used" in refused.output
    everything = CliRunner().invoke(cli, ["checkers"])
    assert everything.exit_code == 0
    assert "cannot be used" in everything.output


def test_campaign_is_planned_with_the_checkers_that_concern_its_cells(install: Install) -> None:
    installed(install)
    campaign = validation.check(QUICK).campaign.resolved(seed=1)
    (run,) = manifest_of(campaign, runs_of(campaign)).runs
    assert {name for cell in run.cells for name in cell.checkers.items()} == {
        ("own-check", "checks 1.0")
    }
    assert run.plugins == {"checks": "1.0"}


def test_campaign_is_refused_while_a_checker_cannot_be_used(install: Install) -> None:
    installed(install, own_check="NO_SUCH")
    with pytest.raises(validation.CampaignRefused) as refusal:
        validation.check(QUICK)
    assert "the checker own-check of the plug-in checks 1.0 cannot be used" in str(refusal.value)
    assert "ACKPROOF_PLUGINS=off" in str(refusal.value)


def test_worker_without_the_plugin_says_so(install: Install, tmp_path: Path) -> None:
    """Test a Spark cluster with workers that have another version of the plug-in, or none."""
    installed(install)
    (run,), _ = evidence(planned_with(tmp_path / "made"))
    item, *_ = work_items(run)
    (work,) = item.plugin_work
    assert examined(work).totals.lacking == ()
    assert pickle.loads(pickle.dumps(item)).plugin_work == [work]
    for other in (replace(work, plugin="checks 2.0"), replace(work, checker="none", plugin="n 1")):
        (lacking,) = examined(other).totals.lacking
        assert f"Install {other.plugin} on every worker" in lacking
    assert is_whole(item)
    assert not is_whole(replace(item, plugin_work=[], consumers=[]))


# What is registered.


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": "lost"}, "the name lost is a built-in one's"),
        (
            {"name": "duplicates"},
            "its guarantee 'no-duplicates' has the name of a built-in guarantee",
        ),
        ({"name": "Late"}, "is not a valid name: use lower-case words joined by hyphens"),
        ({"summary": ""}, "its summary must be one line of text"),
        ({"guarantee": "two\nlines"}, "its guarantee must be one line of text"),
        ({"extent": "cell"}, "its extent must be one of Extent.PARTITION, Extent.CELL"),
        ({"promised": "always"}, "its promised must be one of"),
        ({"examine": None}, "examine: must be a function"),
        ({"reads": {}}, "its reads must map each table to the columns"),
        ({"reads": {"send": ("time",)}}, "it reads the table 'send'"),
        ({"reads": {"sends": "time"}}, "it must give the columns of the table sends as a list"),
        ({"reads": {"sends": ("tme",)}}, "the table sends has no column 'tme'"),
    ],
)
def test_object_that_is_no_checker_is_refused(changes: dict[str, object], problem: str) -> None:
    with pytest.raises(CheckerNotConforming) as refusal:
        check_checker(replace(LATE, **changes), planted=[late])  # type: ignore[arg-type]
    assert problem in str(refusal.value)


@pytest.mark.parametrize(
    ("checker", "problem"),
    [
        (replace(LATE, examine=lambda _: Examined(examined=1)), "it does not find planted[0]"),
        (replace(LATE, not_promised=lambda _: "never", examine=raising), "it does not hold in the"),
        (
            replace(
                LATE,
                examine=lambda _: Examined(anomalies=[Anomaly(detail="always")], examined=1),
            ),
            "in the sound history it finds: always",
        ),
        (replace(LATE, reads={"transactions": ("time",)}), "it does not concern the sound history"),
    ],
)
def test_checker_that_breaks_its_contract_does_not_conform(
    checker: PluginChecker, problem: str
) -> None:
    with pytest.raises(CheckerNotConforming) as refusal:
        check_checker(checker, planted=[late])
    assert problem in str(refusal.value)


def unanswered(recorded: RecordedRows) -> Examined:
    """Find late acks, and take every send without an outcome for lost."""
    found = late_acks(recorded)
    rows = recorded.tables["sends"].to_pylist()
    answered = {row["sequence"] for row in rows if row["type"] != "invoke"}
    lost = [row["sequence"] for row in rows if row["sequence"] not in answered]
    anomalies = [*found.anomalies, *(Anomaly(detail="unanswered", sequence=one) for one in lost)]
    return replace(found, anomalies=anomalies)


def test_checker_that_blames_a_crashed_client_does_not_conform() -> None:
    with pytest.raises(CheckerNotConforming, match="when producer-1 was crashed it finds: unans"):
        check_checker(replace(LATE, examine=unanswered), planted=[late])


def test_plant_that_changes_nothing_is_refused() -> None:
    with pytest.raises(CheckerNotConforming, match=r"planted\[0\] changes nothing"):
        check_checker(LATE, planted=[lambda _: None])


def test_each_built_in_guarantee_is_that_of_its_anomaly() -> None:
    named = {"recovers", "groups-recover", "servers-stay-up"}
    assert {*BREAKS.values(), *named} == GUARANTEES.keys()
    assert BREAKS.keys() | SHARE_CHECKERS.keys() == CATALOGUE.built_in.keys() - {"G0"}
    assert CHECKERS.keys() < BREAKS.keys()
    shared = {one.breaks: one.guarantee for one in SHARE_CHECKERS.values()}
    assert guarantees() == {**GUARANTEES, **shared}
    found = checked(LATE, sound_history())
    for one in found.result.cells[0].guarantees:
        if one.anomaly in BREAKS:
            assert BREAKS[one.anomaly] == one.name
