"""Consumers' counts on the page, on a terminal and in ``verdict.json``: only where there are any,
and missing figures are unknown."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ackproof.checkers.verdict import (
    CampaignResult,
    ClientCounts,
    Consumption,
    GroupCounts,
    Verdict,
)
from ackproof.harness.report import page, verdict
from ackproof.harness.report.clients import (
    CLIENT_COUNTS,
    CONSUMER_MEANINGS,
    GROUP_COUNTS,
    consumer_tables,
)
from ackproof.harness.report.rows import rows
from ackproof.harness.report.terminal import print_result
from tests.support.builders.results import cell_result

NAMES = (*CLIENT_COUNTS, "distinct")
CLEAN: dict[str, Any] = dict.fromkeys(NAMES, 0)
READER = ClientCounts(
    run=1, cell="c", client="reader-0", member=False, group=None, **{**CLEAN, "shown": 1234}
)
OF_A_GROUP = {**CLEAN, "shown": 600, "vanished": None, "unseen": None, "unread": None}
MEMBER = ClientCounts(run=1, cell="c", client="t-g-0", member=True, group="t-g", **OF_A_GROUP)
GROUP = GroupCounts(
    run=1,
    cell="c",
    group="t-g",
    committed=77,
    commit_errors=2,
    commits_lost=0,
    commits_regressed=0,
    skipped_by_commit=None,
)


def result(*clients: ClientCounts, groups: tuple[GroupCounts, ...] = (GROUP,)) -> CampaignResult:
    return CampaignResult(
        verdict=Verdict.PASS,
        cells=(cell_result(),),
        anomalies={"lost": 0},
        findings=(),
        consumption=Consumption(clients=clients, groups=groups),
    )


def page_of(checked: CampaignResult) -> str:
    campaign = {"name": "n", "seed": 1}
    return page.render(
        page.PageContent(
            campaign=campaign,
            result=checked,
            cells=rows(checked),
            timelines={},
            axes={},
            windows=(),
        )
    )


def printed(checked: CampaignResult) -> str:
    console = Console(width=220, file=io.StringIO())
    print_result(console, checked, rows(checked), [])
    return console.file.getvalue()


def lines_of(html: str) -> list[list[str]]:
    """The cells of the section's lines."""
    section = html.partition("<h2>Consumers</h2>")[2].partition("<details>")[0]
    lines = re.findall(r"<tr>(.*?)</tr>", section)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]


def test_consumption_reads_back_unchanged(tmp_path: Path) -> None:
    checked = result(READER, MEMBER)
    verdict.write(tmp_path, verdict.to_document({"name": "n", "seed": 1}, checked))
    assert verdict.read(tmp_path) == checked
    document = json.loads((tmp_path / verdict.FILE).read_text())
    (reader, member), (group,) = (document["consumption"][k] for k in ("clients", "groups"))
    assert (reader["client"], reader["shown"], reader["vanished"]) == ("reader-0", 1234, 0)
    assert (member["group"], member["vanished"]) == ("t-g", None)
    assert (group["group"], group["committed"], group["skipped_by_commit"]) == ("t-g", 77, None)


def test_a_verdict_of_former_days_has_none() -> None:
    document = verdict.to_document({"name": "n", "seed": 1}, result(READER))
    del document["consumption"]
    assert verdict.from_document(document).consumption == Consumption()


def test_the_page_has_every_client_and_every_group() -> None:
    clients, reader, member, groups, group = lines_of(page_of(result(READER, MEMBER)))
    assert clients == ["cell", "client", "group", *CLIENT_COUNTS.values()]
    assert reader == ["c", "reader-0", "tail reader", "1,234", *["0"] * 8]
    assert member == ["c", "t-g-0", "t-g", "600", *["0"] * 5, "unknown", "-", "-"]
    assert groups == ["cell", "group", *GROUP_COUNTS.values()]
    assert group == ["c", "t-g", "77", "2", "0", "0", "unknown"]


def test_every_heading_is_explained() -> None:
    html = page_of(result(READER, MEMBER))
    assert {*CLIENT_COUNTS.values(), *GROUP_COUNTS.values()} == set(CONSUMER_MEANINGS)
    assert all(f"<dt>{name}</dt>" in html for name in CONSUMER_MEANINGS)


def test_several_runs_have_a_run_column() -> None:
    html = page_of(result(READER, replace(READER, run=2), groups=()))
    heading, *lines = lines_of(html)
    assert heading[:2] == ["run", "cell"]
    assert [line[0] for line in lines] == ["1", "2"]


def test_a_terminal_has_a_line_a_group() -> None:
    told = printed(result(READER, MEMBER, replace(MEMBER, client="t-g-1", shown=400)))
    reader = next(line.split() for line in told.splitlines() if "tail reader" in line)
    group = next(line.split() for line in told.splitlines() if " t-g " in line)
    # Columns without any count stand in a line below.
    assert reader == ["c", "tail", "reader", "1,234", "0", *["-"] * 3]
    assert group == ["c", "t-g", "1,000", "unknown", "77", "2", "unknown"]
    none = "again, nonmonotonic, skipped, foreign, inconsistent, unseen, lost, regressed"
    assert f"none: {none}" in " ".join(told.split())


@pytest.mark.parametrize("member", [MEMBER, replace(MEMBER, group=None)])
def test_group_without_commit_evidence_is_shown_as_unknown(member: ClientCounts) -> None:
    told = printed(result(member, groups=()))
    group = next(line.split() for line in told.splitlines() if line.split()[2:3] == ["600"])
    assert group[-5:] == ["unknown"] * 5


def test_report_without_consumers_has_no_consumer_section() -> None:
    empty = result(groups=())
    assert "<h2>Consumers</h2>" not in page_of(empty)
    assert "consumers" not in printed(empty)


def test_names_are_escaped() -> None:
    script = "<script>alert(3)</script>"
    wicked = replace(MEMBER, cell=script, client=script, group=script)
    html = page_of(result(wicked, groups=(replace(GROUP, cell=script, group=script),)))
    assert script not in html
    assert "&lt;script&gt;alert(3)" in html


def test_cells_of_consumers_are_named_for_readers() -> None:
    told = result(MEMBER, groups=(GROUP,))
    (clients_of, groups_of) = consumer_tables(told, {(1, "c"): "acks=all, min ISR 2"})
    for table in (clients_of, groups_of):
        assert {line[0] for line in table.lines} == {"acks=all, min ISR 2"}
    assert {line[0] for line in consumer_tables(told, {})[0].lines} == {"c"}
