"""Pictures of logs in the report: one for each group of causes, readable, escaped, and never in the
way of a report."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ackproof.checkers.pictures.facts import subject_of_row
from ackproof.checkers.pictures.log_picture import (
    ClientFacts,
    Facts,
    LogFacts,
    LogPicture,
    Subject,
    log_picture,
)
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.verdict import CampaignResult, Cause, Verdict
from ackproof.harness import report
from ackproof.harness.report.causes import causes as causes_on_page
from ackproof.harness.report.causes import grouped
from ackproof.harness.report.page import PageContent, render
from ackproof.harness.report.pictures import drawn
from ackproof.harness.report.pictures.rendering import drawing
from tests.support.builders.checked_runs import WELL, run
from tests.support.builders.consumers import MadeConsumer, seen
from tests.support.builders.consumers import given as assigned
from tests.support.builders.histories import at, write_campaign
from tests.support.builders.losses import World, lose
from tests.support.builders.planted_logs import facts_of, lost_in_an_election, reported, tables_of
from tests.support.builders.results import cell_result, of_cells
from tests.support.processes.browser import Eyes

FAIL = Verdict.FAIL
SUBJECT = Subject(
    run=1, cell="c", topic="t", partition=0, anomaly="lost", row=7, at=5, offsets=((5, 5),)
)


def cause(number: int, **changes: object) -> Cause:
    made = Cause(
        run=1,
        cell="c",
        anomaly="lost",
        topic="t",
        partition=0,
        number=number,
        kind="unexplained",
        sentence=f"sentence {number}",
        records=1,
        promised=1,
        first_offset=5,
        last_offset=5,
        first_time=1,
        last_time=1,
        leaders=(),
        epochs=(),
        next_leader=None,
        next_epoch=None,
        next_offset=None,
        faults=(f"kill#{number}",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def page_of(causes: list[Cause], pictures: dict[Cause, LogPicture | str]) -> str:
    """Return a page with these causes and pictures."""
    result = replace(of_cells(FAIL, cell_result("c", FAIL, lost=1)), causes=tuple(causes))
    return render(
        PageContent(
            campaign={"name": "made", "seed": 1},
            result=result,
            cells=(),
            timelines={},
            axes={},
            windows=(),
            pictures=drawn.Pictures(causes=pictures),
            causes=causes_on_page(result),
        )
    )


def svgs(html: str) -> list[str]:
    return re.findall(r'<svg width=.*?role="img".*?</svg>', html, re.DOTALL)


def test_report_draws_the_logs_around_a_loss(tmp_path: Path, eyes: Eyes) -> None:
    directory = reported(lost_in_an_election(tmp_path / "results", replicas=2, more=60))
    file = directory / "report.html"
    html = file.read_text()
    (svg,) = svgs(html)
    tree = ElementTree.fromstring(svg)
    title, desc = tree[0], tree[1]
    assert title.text == "t-0, offsets 1 to 62: 62 records acknowledged and lost"
    assert "broker-2 led next, in epoch 1 from offset 1" in (desc.text or "")
    ids = {element.get("id") for element in tree.iter()}
    assert set(tree.get("aria-labelledby", "").split()) <= ids
    texts = [element.text for element in tree.iter("text")]
    assert "epoch 0, lost" in texts
    assert "not observed: its raw log was not collected" in texts
    assert "ackproof explain DIR --record 1" in html
    assert eyes.faults(file) == []


def test_five_pictures_are_open_and_the_others_are_folded() -> None:
    causes = [cause(number) for number in range(1, 8)]
    picture = log_picture(SUBJECT, Facts(final_log=LogFacts()))
    html = page_of(causes, dict.fromkeys(causes, picture))
    assert html.count('<details class="logs" open>') == drawn.OPENED_MAX == 5
    assert html.count('<details class="logs">') == 2
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))


def test_grouped_causes_share_one_picture() -> None:
    causes = [cause(1), cause(2, faults=("kill#1",), partition=1)]
    result = replace(of_cells(FAIL, cell_result("c", FAIL, lost=1)), causes=tuple(causes))
    assert len(grouped(result.causes)) == 1
    assert causes_on_page(result).firsts == causes[:1]


def test_reason_of_a_missing_picture_is_in_its_place() -> None:
    html = page_of([cause(1)], {cause(1): "<b>no such run</b>"})
    assert "No picture of the logs: &lt;b&gt;no such run&lt;/b&gt;." in html
    assert svgs(html) == []


def test_names_in_a_picture_are_escaped() -> None:
    subject = replace(SUBJECT, topic="<script>alert(1)</script>", anomaly="unseen")
    facts = Facts(
        final_log=LogFacts(unobserved="<img src=x>"),
        clients={"<b>reader</b>": ClientFacts(given={5: frozenset({None})})},
    )
    html = page_of([cause(1)], {cause(1): log_picture(subject, facts)})
    for markup in ("<script>alert", "<img src=x", "<b>reader"):
        assert markup not in html
    ElementTree.fromstring(svgs(html)[0])


def test_damaged_results_cost_the_pictures_and_not_the_report(tmp_path: Path) -> None:
    directory = lost_in_an_election(tmp_path / "results")
    result = reported_result(directory)
    (directory / "root-causes.parquet").write_bytes(b"damaged")
    pictures = drawn.of_report(directory, causes_on_page(result).firsts, ())
    assert [type(one) for one in pictures.causes.values()] == [str]


def reported_result(directory: Path) -> CampaignResult:
    reported(directory)
    result = report.load(directory)
    assert result is not None
    return result


@pytest.mark.parametrize("count", [1, 3, 300])
def test_blocks_of_a_log_cover_its_columns_and_texts_fit(count: int) -> None:
    world = World(acks="1")
    lose(world, CauseKind.NOT_REPLICATED, count, count)
    picture = log_picture(subject_of_row(*tables_of(world), 1), facts_of(world))
    made = drawing(picture)
    shown = sum(not column.is_elided for column in picture.columns)
    for line in made.lines:
        assert all(block.x + block.width < made.width for block in line.blocks)
        assert not line.blocks or sum(block.width + 1 for block in line.blocks) == shown * 20


def test_report_draws_records_missing_from_consumer_reads(tmp_path: Path) -> None:
    polls = [seen(number, e.offset, e.producer, e.sequence) for number, e in enumerate(WELL.log, 1)]
    reader = MadeConsumer(polls=[polls[0], polls[2]], assigned=[assigned(0, at(0), 0)])
    directory = reported(write_campaign(tmp_path, run(consumers=(reader,))))
    html = (directory / "report.html").read_text()
    section = html[html.index("<h2>Consumers</h2>") :]
    assert "The logs: t-0, offset 1: 1 record passed over by a consumer" in section
    assert re.search(r'<svg.*aria-labelledby="gap-1-logs-title', section)
