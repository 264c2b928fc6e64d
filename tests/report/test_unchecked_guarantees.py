"""Unchecked guarantees: shown as unchecked, and never as held, as 0 or as green."""

import json
import re
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from junitparser import JUnitXml, Skipped
from rich.console import Console

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import CampaignResult, Guarantee, Verdict
from ackproof.harness import report
from ackproof.harness.exit_status import ExitStatus, exit_status
from ackproof.harness.report import terminal
from ackproof.harness.report.outcome import guarantees_checked
from ackproof.history.manifest import FILE
from tests.support.builders.checked_runs import checked, run
from tests.support.builders.histories import FINISHED, MadeRun, state, write_campaign
from tests.support.builders.results import cell_result

UNTOLD = (
    "replicas-agree",
    "committed-stays",
    "deposed-leaders-stop",
    "min-isr-kept",
    "one-leader-an-epoch",
    "epochs-rise",
    "servers-stay-up",
)
"""The guarantees that cannot be checked on an external cluster."""


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """Results of a run on an external cluster, of which clients are told no leader epochs."""
    directory = write_campaign(
        tmp_path / "results", run(cluster=[{**state(-9, 1, 0, [1, 2, 3]), "leader_epoch": None}])
    )
    plan = json.loads((directory / FILE).read_text(encoding="utf-8"))
    plan["runs"][0]["external"] = True
    del plan["runs"][0]["unchecked"]  # as in a manifest from before it named them
    (directory / FILE).write_text(json.dumps(plan), encoding="utf-8")
    where = {"backend": "here", "brokers": 3, "zookeepers": 1}
    cluster = {"system": "external", "external": {"bootstrap.servers": "kafka-1:9092"}, **where}
    campaign = {"name": "mine", "seed": 7, "cluster": cluster, "cells": {}}
    (directory / "campaign.yaml").write_text(json.dumps(campaign), encoding="utf-8")
    return directory


def shown(directory: Path, result: CampaignResult) -> tuple[str, str]:
    """The page and the terminal, of results that are written."""
    pq.write_table(ANOMALIES.empty_table(), directory / "anomalies.parquet")
    written = report.write(directory, result)
    console = Console(file=StringIO(), width=200)
    terminal.print_result(console, result, written.cells, written.causes)
    assert isinstance(console.file, StringIO)
    return written.page.read_text(encoding="utf-8"), console.file.getvalue()


def anomalies(page: str) -> dict[str, str]:
    """Return what the page says of each anomaly: its number, or what was done to find it."""
    section = page.partition("<h2>All anomalies</h2>")[2].partition("</section>")[0]
    found = dict(re.findall(r'<tr><td>(.*?)</td><td class="n">(.*?)</td></tr>', section))
    lists = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", section)
    return found | {name: done for done, names in lists for name in names.split(", ")}


ABSENT = "not found in the cells that promise its absence"
INCOMPLETE = "not looked for: the evidence is incomplete"
NOT_CHECKED = "not looked for: not every cell that may have it was checked"
NOT_CONCERNED = "not looked for: no cell of the campaign can have it"


def test_interrupted_run_shows_no_anomaly_as_zero(tmp_path: Path) -> None:
    made = run(closed=False, reads=False, phases=FINISHED[:9], recovery=())
    directory = write_campaign(tmp_path, made)
    page, terminal = shown(directory, checked(directory))
    counts = anomalies(page)
    assert counts["lost"] == INCOMPLETE
    assert set(counts.values()) == {INCOMPLETE, NOT_CONCERNED}
    assert "No guarantee was checked." in page
    assert "No guarantee was checked." in terminal
    document = json.loads((directory / "verdict.json").read_text(encoding="utf-8"))
    assert set(document["anomalies"].values()) == {None}


def test_sound_run_shows_the_anomalies_that_were_looked_for_as_zero(tmp_path: Path) -> None:
    directory = write_campaign(tmp_path, run())
    page, _ = shown(directory, checked(directory))
    assert anomalies(page)["lost"] == ABSENT
    assert anomalies(page)["divergent-replicas"] == NOT_CHECKED
    document = json.loads((directory / "verdict.json").read_text(encoding="utf-8"))
    assert document["anomalies"]["lost"] == 0
    assert document["anomalies"]["divergent-replicas"] is None


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (run(phases=FINISHED[:-1]), "the step teardown did not end"),
        (
            run(phases=[*FINISHED, {**FINISHED[-1], "event": "failed", "detail": "no route"}]),
            "the step teardown failed: no route",
        ),
    ],
)
def test_failed_infrastructure_is_reported_beside_a_pass(
    tmp_path: Path, made: MadeRun, words: str
) -> None:
    directory = write_campaign(tmp_path, made)
    result = checked(directory)
    assert result.verdict is Verdict.PASS
    assert exit_status(result) is ExitStatus.INFRASTRUCTURE
    page, terminal = shown(directory, result)
    for text in (page, terminal, (directory / "junit.xml").read_text(encoding="utf-8")):
        assert words in text
        assert "The infrastructure failed" in text
    assert "Every guarantee held" not in page
    assert '<section class="banner pass">' not in page


def test_external_cluster_says_how_many_guarantees_were_checked(external: Path) -> None:
    result = checked(external)
    assert result.verdict is Verdict.PASS
    found = result.cells[0].guarantees
    unchecked = {one.name for one in found if not one.checked}
    assert unchecked == set(UNTOLD)
    words = f"{len(found) - len(UNTOLD)} of {len(found)} guarantees checked"
    page, terminal = shown(external, result)
    assert f"{words}, none broken: pass" in page
    assert f"verdict: pass ({words}, none broken)" in terminal
    assert anomalies(page)["divergent-replicas"] == NOT_CHECKED
    (suite,) = JUnitXml.fromfile(str(external / "junit.xml"))
    skipped = {case.name: case.result[0].message for case in suite if case.result}
    assert skipped.keys() == unchecked
    assert all(message.startswith("not checked: ") for message in skipped.values())
    assert suite.skipped == len(UNTOLD)
    assert all(isinstance(one, Skipped) for case in suite for one in case.result)


def test_guarantee_counts_as_unchecked_where_it_is_promised_or_nowhere_checked() -> None:
    def found(name: str, *, promised: bool, checked: bool) -> Guarantee:
        return Guarantee(
            name=name, promise="", promised=promised, held=None, checked=checked, reason=""
        )

    cells = [
        cell_result(
            guarantees=(
                found("checked-where-promised", promised=True, checked=True),
                found("promised-in-one-and-unchecked", promised=True, checked=False),
                found("unchecked-in-all", promised=False, checked=False),
            )
        ),
        cell_result(
            guarantees=(
                found("checked-where-promised", promised=False, checked=False),
                found("promised-in-one-and-unchecked", promised=True, checked=True),
                found("unchecked-in-all", promised=False, checked=False),
            )
        ),
    ]
    known = guarantees_checked(cells)
    assert known.total == 3
    assert set(known.missing) == {"promised-in-one-and-unchecked", "unchecked-in-all"}
