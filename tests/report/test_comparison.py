"""Clusters side by side: every figure under its own cluster, what is unknown shown as that."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from rich.console import Console

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.guarantees.decisions import campaign_verdict
from ackproof.checkers.verdict import (
    CampaignResult,
    CellResult,
    Failover,
    Latency,
    Outages,
    RunResult,
    Unavailable,
    Verdict,
    ZooKeeperWork,
)
from ackproof.harness import report
from ackproof.harness.report.comparison import (
    Comparison,
    compare,
    longest_outage,
    share_unavailable,
)
from ackproof.harness.report.rows import rows
from ackproof.harness.report.terminal import print_result
from ackproof.history.cell import Value
from tests.support.builders.results import cell_result


def cell(run: int, acks: str = "all", **changes: object) -> CellResult:
    away = Unavailable(
        longest_ms=1000 * run,
        total_ms=2500 * run,
        traffic_ms=25_000,
        by_fault=(
            Outages(
                fault="kill#1", longest_ms=1000 * run, total_ms=2500 * run, partition=f"t-{run}"
            ),
        ),
    )
    settings: Mapping[str, Value] = {"acks": acks, "min.insync.replicas": 2}
    made = cell_result(f"acks-{acks}", settings=settings, run=run, unavailable=away)
    speed = {"acks_per_second": 1000.4 * run, "ack_latency": took(1.5 * run)}
    return replace(made, **{**speed, **changes})


def took(half_ms: float) -> Latency:
    return Latency(
        records=1000,
        since_due=True,
        p50_ms=half_ms,
        p90_ms=half_ms * 10,
        p99_ms=half_ms * 100,
        p999_ms=half_ms * 1000,
        longest_ms=half_ms * 2000,
    )


def run(number: int, cluster: Mapping[str, Value], **changes: object) -> RunResult:
    made = RunResult(
        number=number,
        clock_bound_ns=0,
        infrastructure_failed=False,
        cluster=cluster,
        zookeeper=ZooKeeperWork(
            writes_to_create=100 * number, writes_under_faults=10 * number, watches=1000 * number
        ),
        failovers=(
            Failover(partitions=10, moved=3, led_ms=3140, acked_ms=4150, writes=7, watches=70),
            Failover(partitions=1000, moved=333, led_ms=9000, acked_ms=9900),
        ),
    )
    return replace(made, **changes)


def result(cells: Sequence[CellResult], runs: Sequence[RunResult]) -> CampaignResult:
    return CampaignResult(
        verdict=campaign_verdict((cell.counts_as for cell in cells), ()),
        cells=tuple(cells),
        anomalies={"lost": sum(cell.lost or 0 for cell in cells)},
        findings=(),
        runs=tuple(runs),
    )


PLAIN, EAGER = {"cluster": "plain"}, {"cluster": "eager"}
TWO = result(
    [cell(1), cell(1, "1"), cell(2, lost=3, verdict=Verdict.FAIL), cell(2, "1")],
    [run(1, PLAIN), run(2, EAGER)],
)


def table(of: CampaignResult) -> dict[tuple[str, str], tuple[str, ...]]:
    """Group and line to what stands under the clusters."""
    found = compared(of)
    return {
        (group.title, line.name): tuple(entry.text for entry in line.entries)
        for group in found.groups
        for line in group.lines
    }


def compared(of: CampaignResult) -> Comparison:
    found = compare(of, rows(of))
    assert found is not None
    return found


def test_every_figure_stands_under_its_cluster() -> None:
    assert compared(TWO).clusters == ("plain", "eager")
    all_ = "acks=all, min ISR 2"
    assert table(TWO) == {
        (all_, "verdict"): ("pass", "fail"),
        (all_, "lost"): ("0", "3"),
        (all_, "duplicated"): ("0", "0"),
        (all_, "unavailable, longest"): ("1.0 s (t-1, kill#1)", "2.0 s (t-2, kill#1)"),
        (all_, "unavailable, share"): (
            "10.0 % (2.5 of 25.0 partition-seconds)",
            "20.0 % (5.0 of 25.0 partition-seconds)",
        ),
        (all_, "acks per second"): ("1,000", "2,001"),
        (all_, "ack, 50 % and 99 % within"): ("1.5 ms, 150 ms", "3 ms, 300 ms"),
        ("acks=1, min ISR 2", "verdict"): ("pass", "pass"),
        ("acks=1, min ISR 2", "lost"): ("0", "0"),
        ("acks=1, min ISR 2", "duplicated"): ("0", "0"),
        ("acks=1, min ISR 2", "unavailable, longest"): (
            "1.0 s (t-1, kill#1)",
            "2.0 s (t-2, kill#1)",
        ),
        ("acks=1, min ISR 2", "unavailable, share"): (
            "10.0 % (2.5 of 25.0 partition-seconds)",
            "20.0 % (5.0 of 25.0 partition-seconds)",
        ),
        ("acks=1, min ISR 2", "acks per second"): ("1,000", "2,001"),
        ("acks=1, min ISR 2", "ack, 50 % and 99 % within"): (
            "1.5 ms, 150 ms",
            "3 ms, 300 ms",
        ),
        ("ZooKeeper", "brokers' watches"): ("1,000", "2,000"),
        ("ZooKeeper", "writes to create the topics"): ("100", "200"),
        ("ZooKeeper", "writes under the faults"): ("10", "20"),
        ("Failover, 10 partitions", "new leader after"): ("3.1 s", "3.1 s"),
        ("Failover, 10 partitions", "acks again after"): ("4.2 s", "4.2 s"),
        ("Failover, 10 partitions", "writes"): ("7", "7"),
        ("Failover, 10 partitions", "brokers' watches"): ("70", "70"),
        ("Failover, 1,000 partitions", "new leader after"): ("9.0 s", "9.0 s"),
        ("Failover, 1,000 partitions", "acks again after"): ("9.9 s", "9.9 s"),
        ("Failover, 1,000 partitions", "writes"): ("unknown", "unknown"),
        ("Failover, 1,000 partitions", "brokers' watches"): ("unknown", "unknown"),
    }


def test_rounds_are_grouped_by_cluster_settings() -> None:
    lost = {1: 2, 2: 0, 3: 5, 4: 0}
    clusters = {1: PLAIN, 2: PLAIN, 3: PLAIN, 4: EAGER}
    cells = [cell(number, lost=many) for number, many in lost.items()]
    of = result(cells, [run(number, cluster) for number, cluster in clusters.items()])
    assert compared(of).rounds == 3
    found = table(of)
    all_ = "acks=all, min ISR 2"
    assert found[all_, "lost"] == ("7", "0")
    assert found[all_, "unavailable, longest"] == ("3.0 s (t-3, kill#1)", "4.0 s (t-4, kill#1)")
    assert found[all_, "unavailable, share"] == (
        "20.0 % (15.0 of 75.0 partition-seconds)",
        "40.0 % (10.0 of 25.0 partition-seconds)",
    )
    assert found[all_, "acks per second"] == ("2,001 (1,000 to 3,001)", "4,002")
    within = "3 ms (1.5 ms to 4.5 ms), 300 ms (150 ms to 450 ms)"
    assert found[all_, "ack, 50 % and 99 % within"] == (within, "6 ms, 600 ms")
    assert found["ZooKeeper", "brokers' watches"] == ("2,000 (1,000 to 3,000)", "4,000")


def test_read_latency_appears_in_the_comparison_if_measured() -> None:
    cells = [cell(1, shown_latency=took(2_000)), cell(2)]
    found = table(result(cells, [run(1, PLAIN), run(2, EAGER)]))
    all_ = "acks=all, min ISR 2"
    assert found[all_, "read, 50 % and 99 % within"] == ("2.0 s, 200.0 s", "unknown")


@pytest.mark.parametrize("known", [3, None])
def test_one_unknown_round_makes_the_figure_unknown(known: int | None) -> None:
    cells = [cell(1, lost=known, unavailable=None), cell(2, lost=None), cell(3)]
    runs = [run(1, PLAIN, zookeeper=ZooKeeperWork(), failovers=()), run(2, PLAIN), run(3, EAGER)]
    found = table(result(cells, runs))
    all_ = "acks=all, min ISR 2"
    assert found[all_, "lost"] == ("unknown" if known is None else "at least 3", "0")
    assert found[all_, "unavailable, longest"] == ("unknown", "3.0 s (t-3, kill#1)")
    assert found["ZooKeeper", "brokers' watches"] == ("unknown", "3,000")
    assert found["Failover, 10 partitions", "new leader after"] == ("unknown", "3.1 s")


def test_a_cluster_without_a_result_of_a_cell_has_none() -> None:
    found = table(result([cell(1)], [run(1, PLAIN), run(2, EAGER)]))
    assert found["acks=all, min ISR 2", "verdict"] == ("pass", "unknown")
    assert found["acks=all, min ISR 2", "lost"] == ("0", "unknown")
    assert found["acks=all, min ISR 2", "unavailable, share"] == (
        "10.0 % (2.5 of 25.0 partition-seconds)",
        "unknown",
    )


def test_unnamed_clusters_are_labelled_by_swept_settings() -> None:
    runs = [run(1, {"brokers": 3}), run(2, {"brokers": 5, "cluster": "x"})]
    assert compared(result([cell(1), cell(2)], runs)).clusters == ("brokers=3", "brokers=5, x")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "campaign.yaml").write_text(yaml.safe_dump({"name": "both", "seed": 4}))
    pq.write_table(ANOMALIES.empty_table(), tmp_path / "anomalies.parquet")
    (tmp_path / "runs").mkdir()
    return tmp_path


def test_the_page_has_it_and_a_picture_of_losses_a_cluster(directory: Path) -> None:
    page = report.write(directory, TWO).page.read_text()
    section = page.partition("<h2>Side by side</h2>")[2].partition("</section>")[0]
    assert '<th class="n" scope="col">plain</th><th class="n" scope="col">eager</th>' in section
    assert '<td class="n alarming">3</td>' in section
    assert '<td class="n faint">unknown</td>' in section
    for name in ("plain", "eager"):
        assert f"<h3>{name}</h3>" in page
    assert page.count('class="picture matrix"') == 2


def test_a_single_cluster_has_its_figures_and_no_heading_of_its_own(directory: Path) -> None:
    page = report.write(directory, result([cell(1)], [run(1, {})])).page.read_text()
    assert "Side by side" not in page
    (table,) = re.findall(r'<table class="figures">(.*?)</table>', page, re.DOTALL)[:1]
    assert re.findall(r'<th class="n" scope="col">(.*?)</th>', table) == [
        "unavailable, longest",
        "unavailable, share",
        "acks per second",
        "ack, 50 % and 99 % within",
    ]
    assert '<th scope="row">acks=all, min ISR 2</th>' in table
    assert page.count('class="picture matrix"') == 1


def test_names_of_clusters_are_escaped(directory: Path) -> None:
    named = result([cell(1), cell(2)], [run(1, PLAIN), run(2, {"cluster": "<script>x"})])
    page = report.write(directory, named).page.read_text()
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page


def test_verdict_json_has_all_of_it_and_gives_it_back(directory: Path) -> None:
    report.write(directory, TWO)
    document = json.loads((directory / "verdict.json").read_text())
    assert document["cells"][2]["unavailable"]["longest_ms"] == 2000
    first = document["runs"][0]
    assert first["cluster"] == PLAIN
    assert first["zookeeper"] == {
        "writes_to_create": 100,
        "writes_under_faults": 10,
        "watches": 1000,
    }
    assert first["failovers"][0] == {
        "partitions": 10,
        "moved": 3,
        "led_ms": 3140,
        "acked_ms": 4150,
        "writes": 7,
        "watches": 70,
    }
    assert report.load(directory) == TWO


def test_a_verdict_of_before_there_was_any_of_it_can_be_read(directory: Path) -> None:
    report.write(directory, TWO)
    document = json.loads((directory / "verdict.json").read_text())
    for one in document["cells"]:
        del one["unavailable"]
    for one in document["runs"]:
        for name in ("cluster", "zookeeper", "failovers"):
            del one[name]
    del document["files"], document["sha256"]
    lost = {"run": 2, "cell": "acks-all", "anomaly": "lost", "topic": "acks-all", "partition": 0}
    rows = pa.Table.from_pylist([lost] * 3, schema=ANOMALIES)
    pq.write_table(rows, directory / "anomalies.parquet")
    (directory / "verdict.json").write_text(json.dumps(document))
    found = report.load(directory)
    assert found is not None
    assert found.runs[0].zookeeper.watches is None
    report.write(directory, found)


def test_the_terminal_has_it_too(directory: Path) -> None:
    written = report.write(directory, TWO)
    console = Console(width=120, file=io.StringIO())
    print_result(console, TWO, written.cells, written.causes)
    told = console.file.getvalue()
    assert "plain" in told
    assert "Failover, 1,000 partitions" in told
    one = result([cell(1)], [run(1, {})])
    console = Console(width=120, file=io.StringIO())
    print_result(console, one, rows(one), ())
    assert "Failover" not in console.file.getvalue(), "it is for comparing"


def test_unavailability_of_a_former_version_has_no_share() -> None:
    former = Unavailable(
        longest_ms=1500,
        total_ms=2500,
        by_fault=(Outages(fault=None, longest_ms=1500, total_ms=2500),),
    )
    assert longest_outage([former]) == "1.5 s (no fault was active)"
    assert share_unavailable([former]) == "2.5 partition-seconds"
    assert longest_outage([Unavailable(longest_ms=0, total_ms=0)]) == "0.0 s"


def test_terminal_tells_the_longest_outage_and_the_share() -> None:
    console = Console(record=True, width=200, file=io.StringIO())
    of = result([cell(1), cell(2, unavailable=None)], [run(1, PLAIN), run(2, EAGER)])
    print_result(console, of, rows(of), [])
    assert (
        "unavailable  longest 1.0 s (t-1, kill#1); 10.0 % (2.5 of 25.0 partition-seconds) in the "
        "1 of 2 cells where it is known"
    ) in console.export_text()
