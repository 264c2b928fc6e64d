"""What a checked campaign says of a broken broker: which guarantee, where, or nothing certain."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_results import cell_result, guarantee

from ackproof.checkers.verdict import ANOMALIES, CampaignResult, CellResult, RunResult, Verdict
from ackproof.harness.children import Children
from ackproof.harness.report.losses import ANOMALIES_FILE
from ackproof.harness.selftest.attempt import Finding, Outcome
from ackproof.harness.selftest.campaigns import Campaigns, judged
from ackproof.harness.selftest.sources import copy_sound

NAME = "quick, seed 1"


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


def test_a_broken_promise_is_a_find_with_its_place(tmp_path: Path) -> None:
    anomalies(tmp_path)
    found = judged(result(Verdict.FAIL, UNPROMISED, KEPT, LOST, UNKNOWN), NAME, tmp_path)
    assert (found.outcome, found.by) == (Outcome.FOUND, "no-acked-record-lost")
    assert (found.where, found.why) == ("quick, seed 1: lost, isolate#2", "5 lost")


def test_a_find_is_one_without_a_list_of_anomalies_too(tmp_path: Path) -> None:
    found = judged(result(Verdict.FAIL, LOST), NAME, tmp_path)
    assert (found.outcome, found.where) == (Outcome.FOUND, "quick, seed 1: lost")


def test_what_was_not_promised_is_no_find(tmp_path: Path) -> None:
    found = judged(result(Verdict.PASS, UNPROMISED, KEPT), NAME, tmp_path)
    assert found.outcome is Outcome.NOT_FOUND


def test_what_was_expected_is_no_find(tmp_path: Path) -> None:
    expected = replace(LOST, expected=(Verdict.FAIL, Verdict.PASS))
    found = judged(result(Verdict.PASS, expected, KEPT), NAME, tmp_path)
    assert found.outcome is Outcome.NOT_FOUND


def test_too_little_evidence_is_neither(tmp_path: Path) -> None:
    found = judged(result(Verdict.INCONCLUSIVE, KEPT, UNKNOWN), NAME, tmp_path)
    assert (found.outcome, found.why) == (Outcome.INCONCLUSIVE, "too few acks")
    failed = result(Verdict.PASS, KEPT, infrastructure_failed=True)
    assert judged(failed, NAME, tmp_path).outcome is Outcome.INCONCLUSIVE


def test_a_verdict_that_did_not_come_is_no_find(tmp_path: Path) -> None:
    """Expected to lose, and kept everything: the campaign fails, and no promise is broken."""
    unmet = replace(KEPT, expected=Verdict.NOT_GUARANTEED)
    found = judged(result(Verdict.FAIL, unmet), NAME, tmp_path)
    assert found.outcome is Outcome.INCONCLUSIVE


class Said(Campaigns):
    """Each seed comes to what it is told to."""

    def __init__(self, file: Path, findings: list[Finding]) -> None:
        super().__init__(Children(), [file], seeds=len(findings))
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
def test_a_find_ends_it_and_else_most_seeds_decide(
    tmp_path: Path, said: list[Finding], outcome: Outcome, left: int
) -> None:
    file = tmp_path / "elsewhere.yaml"
    file.write_text(CAMPAIGN, encoding="utf-8")
    campaigns = Said(file, said)
    found = campaigns.look(tmp_path, tmp_path / "place")
    assert (found.outcome, len(campaigns.left)) == (outcome, left)
    assert ("not proven" in found.why) == (outcome is not Outcome.FOUND)


CAMPAIGN = """
name: elsewhere
cluster: {backend: ssh, inventory: absent.yaml}
cells: {acks: all, min.insync.replicas: 2, partitions: 1}
workload: {rate: 100}
faults: []
"""


def test_a_campaign_that_cannot_be_run_is_inconclusive_and_says_why(tmp_path: Path) -> None:
    sources, file = tmp_path / "sources", tmp_path / "elsewhere.yaml"
    copy_sound(sources)
    file.write_text(CAMPAIGN, encoding="utf-8")
    found = Campaigns(Children(), [file], seeds=1).look(sources, tmp_path / "place")
    assert (found.outcome, found.looked) == (Outcome.INCONCLUSIVE, "elsewhere, seed 1")
    assert "absent.yaml" in found.why
