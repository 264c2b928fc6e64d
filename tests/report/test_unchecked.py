"""The parts that a result does not cover stand beside its verdict, and covered parts do not."""

from dataclasses import replace

from ackproof.checkers.verdict import CellResult, Verdict
from ackproof.harness.report.page import SHOWN_MAX, PageContent, Unchecked, render, unchecked
from ackproof.harness.report.rows import rows
from ackproof.harness.report.timeline import FaultSpan
from tests.support.builders.results import cell_result, guarantee, of_cells

ALL = {"acks": "all", "min.insync.replicas": 2}
LOOSE = {"acks": "1", "min.insync.replicas": 2}
CHECKED = guarantee()
MISSED = replace(
    guarantee("replicas-agree", held=None, reason="no raw log was collected"), checked=False
)


def span(number: int, *, proven: bool | None) -> FaultSpan:
    return FaultSpan(
        fault_id=number,
        fault="kill",
        target="one",
        servers=("broker-1",),
        start=1,
        end=2,
        injected=True,
        proven=proven,
        evidence={},
        healing={},
    )


def found(*cells: CellResult, faults: tuple[FaultSpan, ...] = ()) -> list[Unchecked]:
    result = of_cells(Verdict.PASS, *cells)
    return unchecked(result, rows(result), {1: faults})


def test_result_that_covers_everything_has_no_line() -> None:
    whole = cell_result(settings=ALL, guarantees=[CHECKED])
    assert found(whole, faults=(span(1, proven=True),)) == []


def test_unchecked_guarantee_is_one_line_for_all_cells_with_the_same_reason() -> None:
    cells = [
        cell_result(n, settings=s, guarantees=[CHECKED, MISSED])
        for n, s in (("a", ALL), ("b", LOOSE))
    ]
    (line,) = found(*cells)
    assert (line.subject, line.run) == ("replicas-agree", None)
    assert line.sentence == "not checked in every cell: no raw log was collected"
    other = replace(cells[1], guarantees=(CHECKED, replace(MISSED, reason="another reason")))
    first, second = found(cells[0], other)
    assert first.sentence == "not checked in acks=all, min ISR 2: no raw log was collected"
    assert second.sentence == "not checked in acks=1, min ISR 2: another reason"


def test_one_gap_that_leaves_several_guarantees_undecided_is_one_line() -> None:
    gap = "no ack during kill#1 on broker-1, which affected t-0"
    missed = [replace(MISSED, name=n, reason=n, lacking=gap) for n in ("epochs-rise", "no-unseen")]
    (line,) = found(cell_result(settings=ALL, guarantees=[CHECKED, *missed]))
    assert line.subject == "epochs-rise, no-unseen"
    assert line.sentence == f"not checked in acks=all, min ISR 2: {gap}"


def test_guarantee_of_unknown_result_is_named_and_an_unpromised_one_is_not() -> None:
    unknown = replace(CHECKED, held=None, reason="a file is missing")
    assert [one.sentence for one in found(cell_result(settings=ALL, guarantees=[unknown]))] == [
        "not checked in acks=all, min ISR 2: a file is missing"
    ]
    assert found(cell_result(guarantees=[replace(unknown, promised=False)])) == []


def test_unproven_faults_and_inconclusive_cells_are_named_with_their_reason() -> None:
    cell = cell_result(
        verdict=Verdict.INCONCLUSIVE, settings=ALL, guarantees=[CHECKED], reasons=("few", "late")
    )
    failed = replace(span(4, proven=None), injected=False)
    faults = (span(1, proven=True), span(2, proven=False), span(3, proven=None), failed)
    assert [(one.subject, one.sentence) for one in found(cell, faults=faults)] == [
        ("kill#2", "its effect was not proven, so that it counts as no fault"),
        ("kill#3", "its effect was not verified, so that it counts as no fault"),
        ("kill#4", "its injection failed, so that it counts as no fault"),
        ("acks=all, min ISR 2", "inconclusive: few (and 1 more reason)"),
    ]


def test_page_folds_long_lists_beside_a_pass_and_is_not_green_there() -> None:
    missed = [replace(MISSED, name=f"rule-{n}", reason=f"why {n}") for n in range(SHOWN_MAX + 2)]
    result = of_cells(Verdict.PASS, cell_result(settings=ALL, guarantees=[CHECKED, *missed]))
    html = render(
        PageContent(
            campaign={"name": "made", "seed": 1},
            result=result,
            cells=rows(result),
            timelines={},
            axes={},
            windows=(),
        )
    )
    banner, _, rest = html.partition('<section class="unchecked"')
    assert '<section class="banner' in banner
    block = rest.partition("</section>")[0]
    assert block.count("<li>") == SHOWN_MAX + 2
    assert "2 more" in block.partition("<summary>")[2]
    assert "badge pass" not in block
