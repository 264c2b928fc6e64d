"""Prometheus metrics of a run that goes on, read from the files that it has written so far."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ackproof.harness.report.axis.sends import Sends
from ackproof.harness.report.live.server import Scrape
from ackproof.harness.report.live.source import RunSource, RunState
from ackproof.history.schema import SENDS
from ackproof.history.writer import TableWriter
from ackproof.testing.histories import BEGIN_NS, CELL, TOPIC, History, sound_history

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy" / "grafana" / "ackproof.json"
MS = 1_000_000


def scraped(run: RunState | None) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return the samples of a run as Prometheus parses them."""
    text = generate_latest(Scrape(run)).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: Mapping[Any, float], name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def names(samples: Mapping[tuple[str, Any], float]) -> set[str]:
    return {name for name, _ in samples}


def state_of(directory: Path, made: History) -> RunState:
    made.write(directory)
    found = RunSource(directory, clock=lambda: BEGIN_NS).read()
    assert found is not None
    return found


def without_steps(made: History, *steps: str) -> None:
    """Remove the rows of the steps that the run has not come to."""
    for row in [row for row in made.rows("phases") if row["phase"] in steps]:
        made.remove(row)


def test_metrics_count_the_sends_of_each_cell_and_their_latencies(tmp_path: Path) -> None:
    made = sound_history(records=10)
    for row, kind in zip(
        made.rows("sends")[-4:], ("invoke", "fail", "invoke", "info"), strict=True
    ):
        row.update(type=kind, offset=None)
    samples = scraped(state_of(tmp_path / "out", made))
    for name, count in (("sends", 10), ("acks", 8), ("failures", 1), ("unknown_outcomes", 1)):
        assert value(samples, f"ackproof_{name}_total", cell=CELL) == count
    bucket = "ackproof_ack_latency_seconds_bucket"
    assert value(samples, bucket, cell=CELL, le="0.0025") == 0
    assert value(samples, bucket, cell=CELL, le="0.005") == 8
    assert value(samples, bucket, cell=CELL, le="+Inf") == 8
    assert value(samples, "ackproof_ack_latency_seconds_count", cell=CELL) == 8
    total = value(samples, "ackproof_ack_latency_seconds_sum", cell=CELL)
    assert total == pytest.approx(0.04)


def test_latency_counts_from_the_time_at_which_a_record_was_due(tmp_path: Path) -> None:
    made = sound_history(records=1)
    (invoke, _) = made.rows("sends")
    invoke["due"] = invoke["time"] - 200 * MS
    samples = scraped(state_of(tmp_path / "out", made))
    assert value(samples, "ackproof_ack_latency_seconds_sum", cell=CELL) == pytest.approx(0.205)


def busy(tmp_path: Path) -> RunState:
    """Return a run in the step faults that has a sample of each metric."""
    made = sound_history()
    without_steps(made, "heal", "recover", "flush", "final-read", "collect", "teardown")
    row = {"fault": "kill", "target": "leader(t, any)", "time": BEGIN_NS, "facts": None}
    events = [(1, "inject", None), (1, "healed", True), (2, "inject", None)]
    made.tables["faults", "harness"] = [
        {**row, "fault_id": number, "event": event, "proven": proven, "servers": ["broker-2"]}
        for number, event, proven in events
    ]
    made.rows("cluster", 1)[-1].update(leader=-1, isr=[3])
    made.tables["servers", "harness"].append(
        {"time": BEGIN_NS, "server": "broker-1", "event": "ended", "exit_code": 1}
    )
    return state_of(tmp_path / "out", made)


def test_metrics_name_open_faults_findings_and_partitions(tmp_path: Path) -> None:
    samples = scraped(busy(tmp_path))
    place = {"topic": TOPIC, "partition": "1"}
    opened = {"fault": "kill", "number": "2", "target": "broker-2"}
    assert value(samples, "ackproof_fault_open", **opened) == 1
    assert sum(name == "ackproof_fault_open" for name, _ in samples) == 1
    assert value(samples, "ackproof_findings_total") == 1
    assert value(samples, "ackproof_partition_isr_size", **place) == 1
    assert value(samples, "ackproof_partition_leader", **place) == -1
    assert value(samples, "ackproof_run_step", step="faults") == 1
    info = {"campaign": "made", "system": "bundled", "seed": "1", "run": "1"}
    assert value(samples, "ackproof_run_info", **info) == 1


def test_unobserved_values_have_no_sample(tmp_path: Path) -> None:
    made = sound_history(records=0)
    for row in made.rows("cluster"):
        made.remove(row)
    samples = scraped(state_of(tmp_path / "out", made))
    assert names(samples) == {
        *("ackproof_run_info", "ackproof_run_step", "ackproof_findings_total"),
        "ackproof_unreadable_history_files",
    }
    assert scraped(None) == {}


def test_unreadable_history_takes_its_samples_and_not_the_page(tmp_path: Path) -> None:
    made = sound_history()
    made.write(tmp_path / "out")
    history = tmp_path / "out" / "runs" / "1" / "history"
    for path in [*history.glob("phases.*"), *history.glob("sends.*")]:
        path.write_bytes(b"damaged")
    samples = scraped(RunSource(tmp_path / "out").read())
    assert value(samples, "ackproof_findings_total") is None
    assert value(samples, "ackproof_acks_total", cell=CELL) is None
    assert value(samples, "ackproof_unreadable_history_files") == 3


def test_results_without_a_run_have_no_state(tmp_path: Path) -> None:
    assert RunSource(tmp_path / "absent").read() is None
    (tmp_path / "runs" / "x").mkdir(parents=True)
    assert RunSource(tmp_path).read() is None
    (tmp_path / "runs" / "1").mkdir()
    assert RunSource(tmp_path).read() is None, "there is no manifest"


def test_next_run_of_a_campaign_begins_without_the_values_of_the_last(tmp_path: Path) -> None:
    made = sound_history()
    made.write(tmp_path / "out")
    source = RunSource(tmp_path / "out")
    first = source.read()
    (tmp_path / "out" / "runs" / "2" / "history").mkdir(parents=True)
    second = source.read()
    assert first is not None
    assert second is not None
    assert (first.number, list(first.cells)) == (1, [CELL])
    assert (second.number, list(second.cells), second.step) == (2, [], "start")
    assert second.partitions == second.servers == []


# --- following files that grow ----------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_sends_are_counted_once_however_the_files_grow(tmp_path_factory, data) -> None:
    history = tmp_path_factory.mktemp("history")
    made = sound_history(partitions=1, records=data.draw(st.integers(1, 40)))
    rows = made.rows("sends")
    writer = TableWriter(
        history, "sends", "producer-1", partition=(TOPIC, 0), part_bytes=1, closing=False
    )
    followed = Sends(history)
    for row in rows:
        writer.append(tuple(row.get(name) for name in SENDS.names))
        if data.draw(st.booleans()):
            writer.flush()
        if data.draw(st.booleans()):
            followed.follow()
    writer.flush()
    followed.follow()
    if data.draw(st.booleans()):
        writer.close()
    followed.follow()
    followed.follow()
    counted = followed.cells[CELL]
    assert (counted.sent, counted.acked) == (len(rows) // 2, len(rows) // 2)
    assert counted.latencies.sum() == len(rows) // 2
    assert counted.latency_sum_s == pytest.approx(0.005 * len(rows) / 2)
    assert sum(followed.seconds["ok"].values()) == len(rows) // 2
    assert not followed.unreadable


# --- the dashboard for Grafana ----------------------------------------------------------------


@pytest.fixture
def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return document


def queries(document: Mapping[str, Any]) -> list[str]:
    panels = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    annotations = [one["expr"] for one in document["annotations"]["list"] if "expr" in one]
    variables = [one["definition"] for one in document["templating"]["list"] if "definition" in one]
    return [*panels, *annotations, *variables]


def test_each_query_of_the_dashboard_names_a_metric_and_its_labels(
    dashboard: Mapping[str, Any], tmp_path: Path
) -> None:
    labels: dict[str, set[str]] = {}
    for name, with_values in scraped(busy(tmp_path)):
        labels.setdefault(name, set()).update(label for label, _ in with_values)
    for query in queries(dashboard):
        used = re.findall(r"ackproof_\w+", query)
        assert used, query
        assert set(used) <= labels.keys(), query
        for name, selector in re.findall(r"(ackproof_\w+)\{([^}]*)\}", query):
            assert set(re.findall(r"(\w+)\s*(?:=|!)", selector)) <= labels[name], query
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            known = set().union(
                *(labels[name] for name in re.findall(r"ackproof_\w+", target["expr"]))
            )
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known, target
    shown = {name for query in queries(dashboard) for name in re.findall(r"ackproof_\w+", query)}
    derived = {name for name in labels if re.search("_(count|sum|created)$", name)}
    assert labels.keys() - derived == shown, "each metric is on the dashboard"


def test_dashboard_has_the_shape_that_grafana_imports(dashboard: Mapping[str, Any]) -> None:
    assert dashboard["id"] is None, "Grafana gives it a number of its own"
    assert re.fullmatch(r"[\w-]{1,40}", dashboard["uid"])
    assert dashboard["title"]
    assert isinstance(dashboard["schemaVersion"], int)
    assert dashboard["time"].keys() == {"from", "to"}
    variables = {one["name"]: one["type"] for one in dashboard["templating"]["list"]}
    assert variables == {"datasource": "datasource", "cell": "query"}
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert sorted(set(numbers)) == sorted(numbers)
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in dashboard["panels"]:
        assert panel["type"] in ("stat", "timeseries", "state-timeline")
        assert panel["title"]
        assert panel["datasource"] == source
        assert panel["fieldConfig"].keys() == {"defaults", "overrides"}
        assert panel["fieldConfig"]["defaults"]["noValue"] == "not observed"
        refs = [target["refId"] for target in panel["targets"]]
        assert refs == sorted(set(refs))
        assert all(target["datasource"] == source for target in panel["targets"])
    taken = [
        (panel["gridPos"]["x"] + x, panel["gridPos"]["y"] + y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["h"])
    ]
    assert len(taken) == len(set(taken)), "no panel covers another"
    assert all(x < 24 for x, _ in taken)
    (faults,) = [one for one in dashboard["annotations"]["list"] if one.get("expr")]
    assert (faults["expr"], faults["datasource"]) == ("ackproof_fault_open", source)
