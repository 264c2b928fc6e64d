"""The causes of a verdict: few, the most important first, each once, in one sentence."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import (
    CampaignResult,
    Cause,
    CellResult,
    ClientCounts,
    Consumption,
    Verdict,
)
from ackproof.harness import report
from ackproof.harness.report.leading_causes import (
    SHOWN_MAX,
    LeadingCause,
    cells_in_words,
    faults_in_words,
    leading_causes,
    mechanism,
    permitted_causes,
)
from ackproof.harness.report.losses import AnomalyWindow
from ackproof.harness.report.page import Links, PageContent, render
from ackproof.harness.report.rows import rows
from ackproof.harness.report.similar_texts import grouped
from ackproof.harness.report.terminal import print_result
from ackproof.harness.report.timeline import FaultSpan
from ackproof.harness.report.violations import violations
from ackproof.history.manifest import Manifest, PlannedCell, PlannedGroup, PlannedRun
from tests.support.builders import failing_nightly
from tests.support.builders.results import cell_result, guarantee, of_cells, threshold

ALL = {"acks": "all", "min.insync.replicas": 2}


def cause(cell: str = "c", *, promised: int = 0, **changes: object) -> Cause:
    made = Cause(
        run=1,
        cell=cell,
        anomaly="lost",
        topic="t",
        partition=0,
        number=1,
        kind=CauseKind.UNCLEAN_ELECTION,
        sentence="long story.",
        records=9,
        promised=promised,
        leaders=(5,),
        next_leader=4,
        isr_before=(5,),
        faults=("kill#4",),
    )
    return replace(made, **changes)


def failed(name: str = "c", lost: int = 3, **changes: object) -> CellResult:
    broken = guarantee(held=False, broken=lost)
    return cell_result(
        name,
        Verdict.FAIL,
        settings=ALL,
        guarantees=[broken],
        lost=lost,
        reasons=(f"{broken.name}: so",),
        **changes,
    )


def client_counts(client: str, group: str) -> ClientCounts:
    own = {"run": 1, "cell": "c", "client": client, "member": True, "group": group}
    return ClientCounts(**{**dict.fromkeys(ClientCounts.__slots__), **own})


def fault_span(number: int, start: int, end: int | None) -> FaultSpan:
    return FaultSpan(
        fault_id=number,
        fault="kill",
        target="one",
        servers=("broker-1",),
        start=start,
        end=end,
        injected=True,
        proven=True,
        evidence={},
        healing={},
    )


def found(result: CampaignResult, **first_rows: object) -> list[LeadingCause]:
    return leading_causes(result, rows(result), {(1, "c", k): v for k, v in first_rows.items()})


def test_failing_night_of_17_cells_begins_with_the_sentence_that_matters(tmp_path: Path) -> None:
    result = failing_nightly.write(tmp_path)
    report.write(tmp_path, result)
    page = (tmp_path / "report.html").read_text()
    banner = page.partition('<section class="banner')[2].partition("</section>")[0]
    first = banner[banner.index("<li>") :].partition("</li>")[0]
    assert "broker-4 was elected outside the ISR [5]; 867 promised records lost in 3 cells" in first
    assert '<a href="#fault-4">kill#4</a>' in first
    assert '<a href="#cause-1">root cause 1</a>' in first
    assert banner.count("<li>") <= SHOWN_MAX
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert document["leading_causes"][0] == {
        "verdict": "fail",
        "sentence": failing_nightly.LEADING,
        "run": 1,
        "cells": [
            "acks-all.minisr-1.idempotence-true",
            "acks-all.minisr-2",
            "acks-all.minisr-2.idempotence-true",
        ],
        "records": 867,
        "faults": ["kill#4"],
        "guarantees": ["no-acked-record-lost", "committed-stays"],
        "kinds": ["unclean-election"],
        "remedies": [
            "No setting: this is a defect. With unclean.leader.election.enable=false only an order "
            "(kafka-leader-election --election-type unclean) elects a broker outside the ISR: ask "
            "whether an administrator gave one. Try another release, or report it. (KIP-460, topic "
            "unclean.leader.election.enable)"
        ],
        "example": "",
    }
    assert report.load(tmp_path) == result


def test_terminal_ends_a_failing_night_in_about_ten_lines(tmp_path: Path) -> None:
    result = failing_nightly.write(tmp_path)
    console = Console(width=100, file=io.StringIO())
    print_result(console, result, *report.shown(tmp_path, result))
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 10
    assert lines[0] == "cells  17: 3 fail, 6 inconclusive, 8 not-guaranteed"
    assert f"fail  {failing_nightly.LEADING}" in lines
    assert any("Connection refused" in line and "29 more of this kind" in line for line in lines)
    assert lines[-1] == "verdict: fail (A guarantee was broken)"


def test_cause_in_several_cells_and_anomalies_is_one_entry() -> None:
    causes = (
        cause("a", promised=5),
        cause("a", promised=2, anomaly="vanished-read", records=2),
        cause("b", promised=1, records=4),
    )
    result = replace(of_cells(Verdict.FAIL, failed("a"), failed("b")), causes=causes)
    (entry,) = found(result)
    assert entry.sentence == (
        "broker-4 was elected outside the ISR [5]; 6 promised records lost and 2 read, now absent "
        "in 2 cells (acks=all, min ISR 2 (a); acks=all, min ISR 2 (b)), and 7 that no guarantee "
        "covers, attributed to kill#4"
    )
    assert (entry.records, entry.run, entry.faults) == (8, 1, ("kill#4",))


def test_lost_commit_has_the_advice_for_the_library_of_the_group_that_the_manifest_plans() -> None:
    broken = guarantee("commits-kept", held=False, broken=7, anomaly="commit-lost")
    cell = cell_result("c", Verdict.FAIL, settings=ALL, guarantees=[broken], reasons=("so",))
    group = PlannedGroup(name="c-g", delivery="at-least-once", client="aiokafka")
    planned = PlannedRun(
        number=1,
        seed=1,
        session_timeout_ms=3_000,
        replica_lag_ms=4_000,
        recovery_ms=60_000,
        cells=(PlannedCell(cell=cell.settings, groups=(group,)),),
        faults=(),
        writers=(),
    )
    planned_by = Manifest(campaign="c", seed=1, baseline=False, runs=(planned,))
    result = of_cells(Verdict.FAIL, cell)
    for manifest, many in ((planned_by, 2), (None, 1)):
        one, *_ = leading_causes(result, rows(result, manifest), {})
        assert one.anomaly == "commit-lost"
        assert len(one.remedies) == many
        assert ("aiokafka 0.14" in one.remedies[-1]) == (many == 2)


def test_consequences_of_a_loss_are_part_of_its_cause_and_other_guarantees_are_not() -> None:
    cell = failed()
    further = (
        guarantee("committed-stays", held=False, broken=3, anomaly="watermark-regressed"),
        guarantee("commits-kept", held=False, broken=7, anomaly="commit-lost"),
    )
    cell = replace(cell, guarantees=(*cell.guarantees, *further))
    result = replace(of_cells(Verdict.FAIL, cell), causes=(cause(promised=3),))
    lost, commits = found(result, **{"commit-lost": {"fault": "pause#2,kill#4", "time": 1}})
    assert lost.guarantees == ("no-acked-record-lost", "committed-stays")
    assert commits.sentence == (
        "commits-kept was broken: 7 cases of commit-lost in acks=all, min ISR 2, the first "
        "attributed to pause#2 and kill#4"
    )
    assert lost.example == ""


def test_broken_guarantee_without_a_root_cause_has_its_first_anomaly_as_an_example() -> None:
    broken = guarantee("commits-in-order", held=False, broken=2, anomaly="commit-regressed")
    cell = replace(failed(), guarantees=(broken,), reasons=("commits-in-order: so",))
    seen = {"topic": "t", "partition": 3, "offset": 1000, "detail": "committed, then 67"}
    row = {**seen, "fault": None, "time": 1_500_000_000}
    (entry,) = found(of_cells(Verdict.FAIL, cell), **{"commit-regressed": row})
    assert entry.example == (
        "commit-regressed: an offset that a group committed, but a member later read back an older "
        "one. The first, at 00:00:01.500 (UTC) in t-3 at offset 1,000: committed, then 67."
    )


def test_broken_guarantee_tells_its_cases_from_undecided_ones_and_those_not_covered() -> None:
    broken = guarantee("commits-in-order", held=False, broken=2, anomaly="commit-regressed")
    broken = replace(broken, undecided=3, found=9)
    cell = replace(failed(), guarantees=(broken,), reasons=("commits-in-order: so",))
    (entry,) = found(of_cells(Verdict.FAIL, cell))
    assert entry.sentence == (
        "commits-in-order was broken: 2 cases of commit-regressed of 9 found (3 undecided, 4 not "
        "covered) in acks=all, min ISR 2"
    )
    assert entry.remedies[0].startswith("Just after a failover of Kafka 4's coordinator: ")


def test_cases_without_a_root_cause_are_listed_with_their_faults_clients_and_logs(
    tmp_path: Path,
) -> None:
    name = "commits-in-order"
    broken = guarantee(name, held=False, broken=2, anomaly="commit-regressed")
    cell = replace(failed(), guarantees=(broken,), reasons=(f"{name}: so",))
    result = replace(
        of_cells(Verdict.FAIL, cell),
        consumption=Consumption(clients=(client_counts("member-0", "g"),)),
    )
    row = {"detail": "member-0 had committed it for g; member-0 received offset 5"}
    window = AnomalyWindow(
        run=1,
        cell="c",
        topic="t",
        partition=3,
        fault=None,
        records=2,
        offsets=(8, 9),
        times=(2_500_000_000, 3_000_000_000),
        seen="unknown",
        rows=(row,),
    )
    log = tmp_path / "runs/1/logs/client-1/member-0.log"
    log.parent.mkdir(parents=True)
    lines = ("1970-01-01 00:00:01,000 a", "1970-01-01 00:00:02,000 b", "1970-01-01 00:00:09,000 c")
    log.write_text("\n".join(lines))
    leading = found(result)
    faults = {1: (fault_span(1, 1_000_000_000, 2_000_000_000), fault_span(2, 4_000_000_000, None))}
    (one,) = violations(tmp_path, leading, {"commit-regressed": [window]}, faults, result)
    (line,) = one.lines
    assert line.between == "0.5 s after the heal of kill#1, 1.5 s before kill#2"
    assert [(at.server, at.number) for at in line.lines] == [("member-0", 2)]
    links = Links.of(rows(result), faults, (), (), [one])
    assert links.of_leading(leading[0]) == [("violation-1", "the cases of commit-regressed")]
    page = render(
        PageContent(
            campaign={"name": "n", "seed": 1},
            result=result,
            cells=rows(result),
            timelines={},
            axes={},
            windows=(),
            leading=leading,
            violations=[one],
        )
    )
    section = page.partition('id="violation-1"')[2].partition("</section>")[0]
    assert "8 to 9" in section
    assert "member-0 received offset 5" in section


def test_loss_without_a_root_cause_is_still_named() -> None:
    (entry,) = found(of_cells(Verdict.FAIL, failed(lost=1)), lost={"fault": None, "time": 1})
    assert entry.sentence == (
        "no-acked-record-lost was broken: 1 promised record lost in acks=all, min ISR 2, the first "
        "while no fault was active"
    )


def test_nothing_is_said_of_faults_at_an_unknown_time() -> None:
    """A record in another partition than it was sent to has no time."""
    (entry,) = found(of_cells(Verdict.FAIL, failed(lost=1)), lost={"fault": None, "time": None})
    assert entry.sentence == (
        "no-acked-record-lost was broken: 1 promised record lost in acks=all, min ISR 2"
    )


def test_unexpected_failures_come_before_expected_ones() -> None:
    cells = failed("a", expected=(Verdict.FAIL,)), failed("b")
    causes = cause("a", promised=900, records=900), cause("b", promised=1, faults=("pause#1",))
    first, second = found(replace(of_cells(Verdict.FAIL, *cells), causes=causes))
    assert (first.words, second.words) == ("fail", "fail, as expected")


def test_cell_unlike_expected_names_the_cause_of_its_permitted_losses() -> None:
    cell = cell_result(
        "c", Verdict.NOT_GUARANTEED, settings=ALL, expected=(Verdict.PASS,), reasons=("9 lost",)
    )
    result = replace(of_cells(Verdict.FAIL, cell), causes=(cause(),))
    first, second = found(result)
    assert first.sentence.startswith("broker-4 was elected outside the ISR [5]; 9 records lost in")
    assert first.words == "not-guaranteed, expected pass"
    assert second.sentence == "acks=all, min ISR 2: 9 lost"
    assert permitted_causes(result, rows(result)) == []


def test_permitted_losses_are_no_cause_of_the_verdict() -> None:
    cell = cell_result("c", Verdict.NOT_GUARANTEED, settings=ALL, lost=9)
    result = replace(of_cells(Verdict.NOT_GUARANTEED, cell), causes=(cause(faults=()),))
    assert found(result) == []
    (entry,) = permitted_causes(result, rows(result))
    assert (entry.kind, entry.words) == (Verdict.NOT_GUARANTEED, "permitted")
    assert entry.sentence.endswith(
        "9 records lost in acks=all, min ISR 2, while no fault was active"
    )


def test_permitted_anomaly_of_a_failed_cell_broke_nothing() -> None:
    cell = failed()
    committed = guarantee("committed-stays", held=False, broken=3, anomaly="watermark-regressed")
    gap = "no ack during kill#1"
    cell = replace(cell, guarantees=(*cell.guarantees, committed), reasons=(*cell.reasons, gap))
    again = cause(anomaly="duplicated", kind=CauseKind.RETRIED, faults=("pause#1",))
    result = replace(of_cells(Verdict.FAIL, cell), causes=(cause(promised=3), again))
    (lost,) = found(result)
    assert lost.guarantees == ("no-acked-record-lost", "committed-stays")
    (permitted,) = permitted_causes(result, rows(result))
    assert (permitted.words, permitted.guarantees) == ("permitted", ())


def test_reasons_of_one_kind_are_one_entry_with_their_count() -> None:
    cells = [
        cell_result(
            name, Verdict.INCONCLUSIVE, settings=ALL, reasons=(f"no ack during kill#{n} on t-{n}",)
        )
        for n, name in enumerate("ab")
    ]
    (entry,) = found(of_cells(Verdict.INCONCLUSIVE, *cells))
    assert entry.sentence == ("every cell: no ack during kill#0 on t-0 (and 1 more of this kind)")
    assert len(entry.cells) == 2


def test_threshold_that_is_not_met_is_a_cause() -> None:
    limit = threshold(met=False)
    cell = cell_result("c", Verdict.PASS, settings=ALL, thresholds=(limit,), reasons=())
    (entry,) = found(of_cells(Verdict.FAIL, cell))
    assert limit.words in entry.sentence


def test_sound_result_has_no_causes() -> None:
    assert found(of_cells(Verdict.PASS, cell_result(settings=ALL))) == []


@pytest.mark.parametrize("kind", [*CauseKind, "more", "a kind of a later version"])
def test_each_kind_has_words_even_if_no_broker_is_known(kind: str) -> None:
    bare = cause(kind=kind, leaders=(), next_leader=None, isr_before=())
    for words in (mechanism([bare]), mechanism([cause(kind=kind)])):
        assert words
        assert "None" not in words


def test_long_lists_of_cells_and_faults_are_counted() -> None:
    assert cells_in_words(["a"]) == "in a"
    assert cells_in_words(["a", "b", "c"]) == "in 3 cells"
    assert faults_in_words(["kill#1"]) == "attributed to kill#1"
    active = faults_in_words(["kill#1", "pause#2"], is_known=False)
    assert active == "while kill#1 and pause#2 were active"
    assert faults_in_words([f"kill#{n}" for n in range(6)]) == (
        "attributed to kill#0, kill#1, kill#2 and 3 more faults"
    )


def test_texts_are_grouped_without_their_numbers() -> None:
    first, second = grouped(["run 1: broker-2 went", "the end", "run 7: broker-3 went"])
    assert first.in_short == "run 1: broker-2 went (and 1 more of this kind)"
    assert second.in_short == "the end"
