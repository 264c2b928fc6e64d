"""Everything that is written, printed and returned about a result says the same.

Results are generated with every verdict, expectation, guarantee and failure that checking yields.
Each is written out, and what a reader, a script and a CI server get is read back and compared.
"""

import html
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase
from rich.console import Console

from ackproof.checkers import thresholds
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.guarantees.decisions import campaign_verdict
from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.verdict import CampaignResult, CellResult, Guarantee, RunResult, Verdict
from ackproof.harness.comparing import differences, output
from ackproof.harness.exit_status import ExitStatus, exit_status
from ackproof.harness.report import index, verdict
from ackproof.harness.report import terminal as terminal_of_results
from ackproof.harness.report.ci import to_markdown
from ackproof.harness.report.outcome import HELD, outcome
from ackproof.harness.report.rows import rows
from ackproof.harness.report.similar_texts import grouped
from ackproof.harness.running import execution
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedThreshold
from tests.support.builders.examples import examples

GUARANTEES = {
    NO_LOSS: "lost",
    "no-duplicates": "duplicated",
    "replicas-agree": "divergent-replicas",
    "no-aborted-read": "aborted-read",
    "recovers": None,
}
"""Some guarantees, each with the anomaly that breaks it."""

SELDOM = st.sampled_from([False, False, False, False, True])
COUNTS = st.one_of(st.none(), st.integers(min_value=0, max_value=9))
EXPECTED = st.one_of(
    st.just(()), st.just(()), st.lists(st.sampled_from(Verdict), unique=True, max_size=2).map(tuple)
)

LIMITS = st.one_of(
    st.just([]),
    st.lists(
        st.builds(
            PlannedThreshold,
            measure=st.sampled_from(["lost", "duplicated", "failed.share", "latency.p99"]),
            operator=st.sampled_from(sorted(thresholds.OPERATORS)),
            limit=st.integers(min_value=0, max_value=9),
        ),
        max_size=3,
    ),
)
"""Thresholds, some of which are on what was not measured."""


@st.composite
def guarantees(draw: st.DrawFn, name: str, *, breaks: bool, decided: bool) -> Guarantee:
    """A guarantee, which is broken only in a cell that ``breaks`` some. In a cell that is
    ``decided``, what was promised and checked is known."""
    broken = draw(st.integers(0, 3)) if breaks else 0
    promised = bool(broken) or draw(st.booleans())
    unbroken = [True, None] if promised else [True, None, False]
    held = False if broken else draw(st.sampled_from(unbroken))
    return Guarantee(
        name=name,
        promise="A promise.",
        promised=promised,
        held=held,
        broken=broken,
        checked=held is not None or (not (decided and promised) and draw(st.booleans())),
        anomaly=GUARANTEES[name],
        reason="so",
    )


@st.composite
def cells(draw: st.DrawFn, run: int, number: int) -> CellResult:
    """A cell whose verdict follows from its guarantees, as in ``checkers.guarantees``."""
    decided, breaks = not draw(SELDOM), draw(SELDOM)
    names = draw(st.lists(st.sampled_from([*GUARANTEES][1:]), unique=True))
    found = [draw(guarantees(name, breaks=breaks, decided=decided)) for name in (NO_LOSS, *names)]
    if any(one.broken for one in found):
        came = Verdict.FAIL
    elif decided:
        came = Verdict.PASS if found[0].promised else Verdict.NOT_GUARANTEED
    else:
        came = Verdict.INCONCLUSIVE
    none_lost = came is Verdict.PASS or (found[0].promised and found[0].held)
    lost = found[0].broken or (0 if none_lost else draw(COUNTS))
    cell = CellResult(
        run=run,
        settings=Cell(name=f"c{number}", topic=f"t{number}", settings={"acks": "all"}),
        sent=10,
        acked=9,
        failed=1,
        indeterminate=0,
        lost=lost,
        duplicated=draw(COUNTS),
        reordered=draw(COUNTS),
        guarantees=tuple(found),
        verdict=came,
        expected=draw(EXPECTED),
        reasons=("so",),
    )
    evidence = thresholds.Evidence(
        ended=True, complete=came is not Verdict.INCONCLUSIVE, acks="all", tail_readers=False
    )
    limits = thresholds.judged(draw(LIMITS), cell, evidence)
    return replace(cell, thresholds=tuple(limits))


@st.composite
def results(draw: st.DrawFn) -> CampaignResult:
    """A campaign whose verdict follows from its cells."""
    runs = [
        RunResult(number=n, clock_bound_ns=0, infrastructure_failed=draw(SELDOM))
        for n in range(1, draw(st.integers(0, 2)) + 1)
    ]
    of = [draw(cells(run.number, n)) for run in runs for n in range(draw(st.integers(1, 2)))]
    gaps = () if runs else ("the manifest does not exist",)
    failed = tuple(f"run {run.number}: no end" for run in runs if run.infrastructure_failed)
    promised = {one.anomaly: one for cell in of for one in cell.guarantees}
    counted = {
        name: sum(getattr(cell, name) or 0 for cell in of) for name in ("lost", "duplicated")
    }
    return CampaignResult(
        verdict=campaign_verdict((cell.counts_as for cell in of), gaps),
        cells=tuple(of),
        anomalies={
            name: counted.get(name, getattr(promised.get(name), "broken", 0))
            for name in (*filter(None, GUARANTEES.values()), "G0")
        },
        findings=(*gaps, *failed, *draw(st.sampled_from([(), ("a fault did not bite",)]))),
        baseline=bool(runs) and draw(SELDOM),
        skipped=draw(st.sampled_from([(), ("slow-disk: refused",)])),
        plugins=draw(st.sampled_from([{}, {"own-faults": "1.2"}])),
        runs=tuple(runs),
    )


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The outputs of a run, read back."""

    status: ExitStatus
    terminal: str
    page: str
    document: verdict.VerdictDocument
    loaded: CampaignResult | None
    junit: list[TestCase]
    entry: index.ResultEntry
    compared: str
    markdown: str


def outputs(root: Path, result: CampaignResult) -> Outputs:
    """Write, print and return everything about a result, and read it back."""
    directory = root / "one"
    (directory / "runs").mkdir(parents=True)
    (directory / "campaign.yaml").write_text("name: one\nseed: 1\n", encoding="utf-8")
    pq.write_table(ANOMALIES.empty_table(), directory / "anomalies.parquet")
    console, comparing = (Console(file=StringIO(), width=300) for _ in range(2))
    status = execution.tell(directory, result, console)
    output.print_differences(comparing, differences.compare(directory, directory))
    (entry,) = index.entries(root)
    return Outputs(
        status=status,
        terminal=console.file.getvalue(),
        page=html.unescape((directory / "report.html").read_text(encoding="utf-8")),
        document=verdict.read_document(directory / verdict.FILE),
        loaded=verdict.read(directory),
        junit=[case for suite in JUnitXml.fromfile(str(directory / "junit.xml")) for case in suite],
        entry=entry,
        compared=comparing.file.getvalue(),
        markdown=to_markdown("one, seed 1", result, rows(result)),
    )


@given(result=results())
@settings(max_examples=examples(15), deadline=None)
def test_no_output_contradicts_another(result: CampaignResult) -> None:
    with tempfile.TemporaryDirectory() as root:
        found = outputs(Path(root), result)
    assert found.loaded == result
    status_agrees(result, found)
    headline_agrees(result, found)
    junit_agrees(result, found)
    guarantees_agree(result, found)
    thresholds_agree(result, found)
    counts_agree(result, found)


def status_agrees(result: CampaignResult, found: Outputs) -> None:
    """The exit status is the same everywhere, and 0 only of what failed in no way."""
    assert found.status == found.document.exit_status == exit_status(result)
    broken = [g for _, g in result.broken]
    assert (found.status is ExitStatus.BROKEN) == bool(broken)
    if found.status is ExitStatus.HELD:
        assert result.verdict in (Verdict.PASS, Verdict.NOT_GUARANTEED)
        assert not any(run.infrastructure_failed for run in result.runs)


def headline_agrees(result: CampaignResult, found: Outputs) -> None:
    """Terminal, page, index and comparison have one verdict, and none is green for nothing."""
    came = outcome(result)
    banner = re.search(r'<section class="banner (.*?)">\s*<h2>(.*?)</h2>', found.page)
    assert banner is not None
    assert banner[2] == f"{came.headline}: {result.verdict.value}"
    assert banner[1] == found.document.kind.value
    assert (banner[1] == "pass") == (found.status is ExitStatus.HELD and result.verdict == "pass")
    assert re.search(rf"^verdict: {result.verdict.value}\b", found.terminal, re.MULTILINE)
    assert found.document.verdict is result.verdict
    assert found.document.words.startswith(result.verdict.value)
    assert f"one: one, seed 1, date unknown, {len(result.runs)} run" in found.compared
    assert found.document.words in found.compared
    assert found.document.words in found.entry.occasion.square.told
    assert found.entry.occasion.square.kind == banner[1]
    promised = [g for cell in result.cells for g in cell.guarantees if g.promised]
    if came.headline == HELD:
        assert all(one.held for one in promised)
    for note in came.notes:
        assert note in found.page
        assert note in found.terminal
    for finding in result.findings:
        assert finding in found.page
    for kind in grouped(result.findings)[: terminal_of_results.FINDINGS_MAX]:
        assert f"finding: {kind.in_short}" in found.terminal


def junit_agrees(result: CampaignResult, found: Outputs) -> None:
    """A CI server sees a failure, an error or neither, as the exit status has it."""
    kinds = {type(one) for case in found.junit for one in case.result}
    failed = found.status in (ExitStatus.BROKEN, ExitStatus.UNMET)
    assert (Failure in kinds) == failed
    if not failed:
        undecided = found.status in (ExitStatus.INCONCLUSIVE, ExitStatus.INFRASTRUCTURE)
        assert (Error in kinds) == undecided
    for cell, one, case in by_guarantee(result, found):
        if one.broken and cell.is_broken:
            assert case == {Failure}
        elif one.held:
            assert case == set()
        else:
            assert case in ({Skipped}, {Error})
            assert (case == {Error}) == (one.held is None and cell.verdict == "inconclusive")


def by_guarantee(
    result: CampaignResult, found: Outputs
) -> Iterator[tuple[CellResult, Guarantee, set[type]]]:
    """Each guarantee with what ``junit.xml`` says of it."""
    cases = iter(case for case in found.junit if case.name in GUARANTEES)
    for cell in result.cells:
        for one in cell.guarantees:
            case = next(cases)
            assert case.name == one.name
            yield cell, one, {type(each) for each in case.result}
    assert next(cases, None) is None


def guarantees_agree(result: CampaignResult, found: Outputs) -> None:
    """The page says of each guarantee what the document says."""
    words = re.findall(r"<dt>[^<]*</dt>\s*<dd>(?:<b>)?([a-z ]+)", found.page)
    said = iter(word for word in words if word in WORDS)
    for one in (one for cell in result.cells for one in cell.guarantees):
        word = next(said)
        assert (word == "broken") == bool(one.broken)
        assert (word == "held") == bool(one.held and one.promised)
        assert (word == "not checked") == (one.promised and not one.checked)


def thresholds_agree(result: CampaignResult, found: Outputs) -> None:
    """Every output shows every threshold with what was measured and whether it is met."""
    limits = [(cell, one) for cell in result.cells for one in cell.thresholds]
    told = [one for cell in found.document.cells for one in cell.thresholds]
    assert [(one.measure, one.measured, one.met) for one in told] == [
        (one.measure, one.measured, one.met) for _, one in limits
    ]
    cases = [case for case in found.junit if case.name.startswith(MEASURES)]
    table = found.page.partition("<h2>Thresholds</h2>")[2].partition("</table>")[0]
    lines = table.partition("<tbody>")[2].split("<tr>")[1:]
    in_markdown = found.markdown.partition("### Thresholds")[2].partition("\n###")[0]
    printed = [" ".join(line.split()) for line in found.terminal.splitlines()]
    titles = {(cell.run, cell.cell): cell.title for cell in rows(result)}
    for (cell, one), case, line in zip(limits, cases, lines, strict=True):
        assert case.name == f"{one.measure} {one.bound}"
        assert {type(each) for each in case.result} == CASES[one.met]
        kind = {True: "pass", False: "fail", None: "inconclusive"}[one.met]
        figures = f"<td>{one.measure}</td><td>{one.bound}</td><td>{one.figure}</td>"
        assert f'{figures}<td><span class="badge {kind}">{one.status}' in line
        row = f"{titles[cell.run, cell.cell]} {one.measure} {one.bound} {one.figure} {one.status}"
        assert any(row in text for text in printed)
        shown = f"{one.measure} | {one.bound} | {one.figure} | {one.status}"
        assert shown in re.sub(r"\\(.)", r"\1", in_markdown)
        assert cell.counts_as in {False: ("fail",), None: ("fail", "inconclusive")}.get(
            one.met, Verdict
        )
    if any(one.met is False for _, one in limits):
        assert found.status in (ExitStatus.UNMET, ExitStatus.BROKEN)
    elif any(one.met is None for _, one in limits):
        assert found.status is not ExitStatus.HELD


CASES: dict[bool | None, set[type]] = {True: set(), False: {Failure}, None: {Error}}
MEASURES = tuple(thresholds.MEASURES)


WORDS = ("broken", "not promised", "held", "not checked", "undetermined")


def counts_agree(result: CampaignResult, found: Outputs) -> None:
    """Check that a count unknown in one output is a number in none."""
    section = found.page.partition("<h2>All anomalies</h2>")[2].partition("</section>")[0]
    listed = dict(re.findall(r'<tr><td>(.*?)</td><td class="n">(.*?)</td></tr>', section))
    absent = re.search(
        r"<dt>not found in the cells that promise its absence</dt><dd>(.*?)</dd>", section
    )
    for name, count in found.document.anomalies.items():
        assert listed.get(name) == (str(count) if count else None)
        assert (name in absent[1].split(", ") if absent else False) == (count == 0)
        looked = [g for cell in result.cells for g in cell.guarantees if g.anomaly == name]
        if count == 0:
            assert all(one.checked for one in looked)
    lost = [cell.lost for cell in found.document.cells]
    assert lost == [cell.lost for cell in result.cells]
    shown_lost = re.findall(r'<td class="n lost( faint)?">(.*?)</td>', found.page)
    assert [text for _, text in shown_lost] == ["unknown" if n is None else str(n) for n in lost]
    kept = [c.lost for c in result.cells if c.guarantees[0].promised]
    if kept and None not in kept:
        assert found.entry.lost_promised == str(sum(kept))
    elif not any(kept):
        assert found.entry.lost_promised in ("-", "unknown", "0+")
