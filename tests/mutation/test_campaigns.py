"""Campaigns as a detector: a broken guarantee with its place, or no certain result."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.report.losses import ANOMALIES_FILE
from ackproof.harness.subprocesses import ChildProcesses
from tests.support.builders.results import cell_result, guarantee
from tools.mutation.campaigns import Campaigns, judge
from tools.mutation.mutants import catalogue
from tools.mutation.results import Finding, Outcome
from tools.mutation.sources import copy_sound

NAME = "quick, seed 1"
LOUD = catalogue()["acks-all-answered-at-append"]


def cell(name: str, verdict: Verdict, *, promised: bool, held: bool | None) -> CellResult:
    made = guarantee(promised=promised, held=held, reason="5 lost")
    return cell_result(name, verdict, guarantees=[made], reasons=("too few acks",))


KEPT = cell("kept", Verdict.PASS, promised=True, held=True)
LOST = cell("lost", Verdict.FAIL, promised=True, held=False)
UNPROMISED = cell("unpromised", Verdict.NOT_GUARANTEED, promised=False, held=False)
UNKNOWN = cell("unknown", Verdict.INCONCLUSIVE, promised=True, held=None)


def result(verdict: Verdict, *cells: CellResult, infrastructure_failed: bool = False):
    run = RunResult(number=1, clock_bound_ns=0, infrastructure_failed=infrastructure_failed)
    return CampaignResult(verdict=verdict, cells=cells, anomalies={}, findings=(), runs=(run,))


def anomalies(directory: Path) -> None:
    """Two records of the cell within reach of isolate#2, one of kill#1; another cell's of pause."""
    rows = [("lost", "isolate#2"), ("lost", "isolate#2"), ("lost", "kill#1"), ("kept", "pause#3")]
    filled = [
        {
            **dict.fromkeys(ANOMALIES.names),
            "run": 1,
            "cell": name,
            "anomaly": "lost",
            "topic": "t",
            "partition": 0,
            "fault": fault,
        }
        for name, fault in [*rows, ("kept", "pause#3"), ("kept", "pause#3")]
    ]
    pq.write_table(pa.Table.from_pylist(filled, schema=ANOMALIES), directory / ANOMALIES_FILE)


def test_broken_guarantee_is_a_find_with_its_place(tmp_path: Path) -> None:
    anomalies(tmp_path)
    found = judge(result(Verdict.FAIL, UNPROMISED, KEPT, LOST, UNKNOWN), NAME, tmp_path)
    assert (found.outcome, found.by) == (Outcome.FOUND, "no-acked-record-lost")
    assert (found.where, found.why) == ("quick, seed 1: lost, isolate#2", "5 lost")


def test_broken_guarantee_without_list_of_anomalies_is_a_find(tmp_path: Path) -> None:
    found = judge(result(Verdict.FAIL, LOST), NAME, tmp_path)
    assert (found.outcome, found.where) == (Outcome.FOUND, "quick, seed 1: lost")


def test_expected_guarantee_is_named_first(tmp_path: Path) -> None:
    names = ("no-acked-record-lost", "min-isr-kept")
    both = [replace(guarantee(promised=True, held=False, reason=n), name=n) for n in names]
    failed = cell_result("lost", Verdict.FAIL, guarantees=both, reasons=("x",))
    for name in names:
        assert judge(result(Verdict.FAIL, failed), NAME, tmp_path, name).by == name
    assert judge(result(Verdict.FAIL, failed), NAME, tmp_path, "commits-kept").by == names[0]


def test_loss_that_was_not_promised_is_no_find(tmp_path: Path) -> None:
    found = judge(result(Verdict.PASS, UNPROMISED, KEPT), NAME, tmp_path)
    assert found.outcome is Outcome.NOT_FOUND


def test_expected_failure_is_no_find(tmp_path: Path) -> None:
    expected = replace(LOST, expected=(Verdict.FAIL, Verdict.PASS))
    found = judge(result(Verdict.PASS, expected, KEPT), NAME, tmp_path)
    assert found.outcome is Outcome.NOT_FOUND


def test_too_little_evidence_is_inconclusive(tmp_path: Path) -> None:
    found = judge(result(Verdict.INCONCLUSIVE, KEPT, UNKNOWN), NAME, tmp_path)
    assert (found.outcome, found.why) == (Outcome.INCONCLUSIVE, "too few acks")
    failed = result(Verdict.PASS, KEPT, infrastructure_failed=True)
    assert judge(failed, NAME, tmp_path).outcome is Outcome.INCONCLUSIVE


def test_expected_verdict_that_did_not_occur_is_no_find(tmp_path: Path) -> None:
    """The campaign fails because nothing was lost, and no guarantee is broken."""
    unmet = replace(KEPT, expected=Verdict.NOT_GUARANTEED)
    found = judge(result(Verdict.FAIL, unmet), NAME, tmp_path)
    assert found.outcome is Outcome.INCONCLUSIVE


class Scripted(Campaigns):
    """Campaigns with a scripted finding for each seed."""

    def __init__(self, file: Path, findings: list[Finding]) -> None:
        super().__init__(ChildProcesses(), [file], seeds=len(findings))
        self.left = findings

    def _run(self, *_about: object) -> Finding:
        return self.left.pop(0)


HELD = Finding(outcome=Outcome.NOT_FOUND)
DOUBTFUL = Finding(outcome=Outcome.INCONCLUSIVE, why="a fault is not proven")
BROKEN = Finding(outcome=Outcome.FOUND, by="no-acked-record-lost", where="seed 2")


@pytest.mark.parametrize(
    ("said", "outcome", "left"),
    [
        ([HELD, DOUBTFUL, HELD], Outcome.NOT_FOUND, 0),
        ([HELD, DOUBTFUL], Outcome.INCONCLUSIVE, 0),
        ([DOUBTFUL, BROKEN, HELD], Outcome.FOUND, 1),
    ],
)
def test_find_ends_the_campaigns_and_most_seeds_decide_otherwise(
    tmp_path: Path, said: list[Finding], outcome: Outcome, left: int
) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text(CAMPAIGN, encoding="utf-8")
    campaigns = Scripted(file, said)
    found = campaigns.examine(LOUD, tmp_path, tmp_path / "place")
    assert (found.outcome, len(campaigns.left)) == (outcome, left)
    assert ("not proven" in found.why) == (outcome is not Outcome.FOUND)


CAMPAIGN = """
name: elsewhere
cluster: {backend: ssh, inventory: absent.yaml}
cells: {acks: all, min.insync.replicas: 2, partitions: 1}
workload: {rate: 100}
faults: []
"""


def test_campaign_that_cannot_run_is_inconclusive_with_reason(tmp_path: Path) -> None:
    sources, file = tmp_path / "sources", tmp_path / "elsewhere.yaml"
    copy_sound(sources)
    file.write_text(CAMPAIGN, encoding="utf-8")
    found = Campaigns(ChildProcesses(), [file], seeds=1).examine(None, sources, tmp_path / "place")
    assert (found.outcome, found.examined) == (Outcome.INCONCLUSIVE, "elsewhere, seed 1")
    assert "absent.yaml" in found.why
