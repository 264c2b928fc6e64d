"""The table of faults and cells: what is known of each, and nothing that is not."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ackproof.checkers.verdict import CellResult, OutagePeriod, Outages, Unavailable, Verdict
from ackproof.harness.report.fault_costs import (
    LINES_MAX,
    NO_FAULT,
    FaultCosts,
    FaultLine,
    fault_costs,
)
from ackproof.harness.report.rows import rows
from ackproof.harness.report.timeline import FaultSpan
from tests.support.builders.results import cell_result, guarantee, of_cells

T0 = 1_700_000_000_000_000_000


def span(number: int, fault: str = "kill") -> FaultSpan:
    return FaultSpan(
        fault_id=number,
        fault=fault,
        target="one",
        servers=("broker-1",),
        start=T0 + number,
        end=None,
        injected=True,
        proven=True,
        evidence={},
        healing={},
    )


def cell(name: str = "c", *by_fault: Outages, **changes: object) -> CellResult:
    away = Unavailable(longest_ms=9, total_ms=9, by_fault=by_fault)
    return cell_result(name, guarantees=[guarantee()], **{"unavailable": away, **changes})


def down(fault: str | None, seconds: float) -> Outages:
    return Outages(fault=fault, longest_ms=round(1000 * seconds), total_ms=0)


def loss(fault: str | None, lost: int, cell: str = "c", **counts: int) -> dict[str, object]:
    none = {"duplicated": 0, "vanished": 0}
    return {"run": 1, "cell": cell, "fault": fault, "lost": lost, **none, **counts}


def costs(
    cells: list[CellResult], losses: list[dict[str, object]], *faults: FaultSpan
) -> FaultCosts:
    return fault_costs(1, faults, rows(of_cells(Verdict.PASS, *cells)), losses)


def texts(line: FaultLine, place: int = 0) -> list[str]:
    return [figure.text for figure in line.costs[place]]


def test_figures_stand_at_their_fault_and_cell() -> None:
    cells = [cell("a", down("kill#1", 4.1)), cell("b")]
    counted = [loss("kill#1", 867, "a"), loss("pause#2", 0, "b", duplicated=3, vanished=1)]
    kill, pause = costs(cells, counted, span(1), span(2, "pause")).shown
    assert (texts(kill), texts(kill, 1)) == (["867 lost", "down 4.1 s"], [])
    assert (texts(pause), texts(pause, 1)) == ([], ["3 duplicated", "1 read, now absent"])
    assert (kill.anchor, kill.lost, kill.longest_ms) == ("fault-1", 867, 4100)


def test_records_of_overlapping_faults_count_for_the_first() -> None:
    found = costs(
        [cell("c", down("kill#1,pause#2", 2))],
        [loss("kill#1,pause#2", 5), loss("kill#1", 1)],
        span(1),
        span(2, "pause"),
    )
    kill, pause = found.shown
    assert texts(kill) == ["1 lost", "5 lost with pause#2", "down 2.0 s, shared"]
    assert texts(pause) == ["5 lost at kill#1", "down 2.0 s, shared"]
    assert (kill.lost, pause.lost) == (6, 0)


def test_outage_is_attributed_to_the_fault_that_was_active_and_not_to_a_healed_one() -> None:
    healed = replace(span(1), end=T0 + 5)
    period = OutagePeriod(
        partition="t-0",
        start=T0 + 9,
        end=T0 + 99,
        length_ms=5_700,
        acked=True,
        fault="kill#1,pause#2",
    )
    away = Unavailable(
        longest_ms=8_000,
        total_ms=1,
        by_fault=(down("kill#1,pause#2", 5.7), down("kill#1", 0.6)),
        periods=(period,),
    )
    kill, pause = costs([cell(unavailable=away)], [], healed, span(2, "pause")).shown
    assert (texts(kill), texts(pause)) == (["down 0.6 s"], ["down 5.7 s"])


def test_unmeasured_cost_is_no_zero() -> None:
    unmeasured = cell("c", unavailable=None, lost=None, duplicated=None)
    (line,) = costs([unmeasured], [], span(1)).shown
    assert texts(line) == ["lost: unknown", "duplicated: unknown", "outage: not measured"]
    assert not any(figure.known for figure in line.costs[0])


def test_losses_without_a_fault_have_a_line_and_none_is_made_up() -> None:
    assert costs([cell()], []).shown == []
    (line,) = costs([cell("c", down(None, 1))], [loss(None, 2)]).shown
    assert (line.label, line.anchor, texts(line)) == (NO_FAULT, None, ["2 lost", "down 1.0 s"])


def test_fault_that_only_a_figure_names_has_a_line() -> None:
    (line,) = costs([cell()], [loss("kill#7", 2)]).shown
    assert (line.label, line.span, texts(line)) == ("kill#7", None, ["2 lost"])


def test_of_many_faults_those_that_cost_most_are_shown_in_their_order() -> None:
    faults = [span(n) for n in range(1, 41)]
    few = costs([cell("c", down("kill#40", 5))], [loss("kill#30", 1), loss("kill#20", 9)], *faults)
    assert [line.label for line in few.shown] == ["kill#20", "kill#30", "kill#40"]
    assert len(few.folded) == 37
    many = costs([cell()], [loss(f"kill#{n}", n) for n in range(1, 41)], *faults)
    assert [line.label for line in many.shown] == [f"kill#{n}" for n in range(29, 41)]
    assert len(many.shown) == LINES_MAX


def test_worst_cells_come_first() -> None:
    failing = replace(cell("b"), verdict=Verdict.FAIL)
    assert [one.cell for one in costs([cell("a"), failing], []).cells] == ["b", "a"]


LABELS = st.lists(st.sampled_from(["kill#1", "pause#2", "cut#3"]), unique=True).map(
    lambda some: ",".join(sorted(some)) or None
)


@given(st.dictionaries(LABELS, st.integers(1, 99)))
def test_every_lost_record_counts_for_one_fault(counts: dict[str | None, int]) -> None:
    counted = [loss(fault, lost) for fault, lost in counts.items()]
    faults = [span(1), span(2, "pause"), span(3, "cut")]
    found = {line.label: line for line in costs([cell()], counted, *faults).shown}
    assert sum(line.lost for line in found.values()) == sum(counts.values())
    for fault, lost in counts.items():
        first, *others = (fault or NO_FAULT).split(",")
        words = f"{lost:,} lost" + (f" with {', '.join(others)}" if others else "")
        assert words in texts(found[first])
        for label in others:
            assert f"{lost:,} lost at {first}" in texts(found[label])
