"""``verdict.json`` says all that its schema names, and nothing else; older ones can be read."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.verdict import (
    CampaignResult,
    Cause,
    CellResult,
    ClientCounts,
    Consumption,
    Failover,
    GroupCounts,
    Latency,
    OutagePeriod,
    Outages,
    RunResult,
    TransactionCounts,
    Unavailable,
    Verdict,
)
from ackproof.harness import environment, report
from ackproof.harness.campaign.validation import load
from ackproof.harness.directory import DamagedResults
from ackproof.harness.report import verdict
from ackproof.harness.report.document import VERSION, schema
from ackproof.harness.report.opportunities import first_of
from ackproof.history.cell import Cell
from ackproof.history.manifest import Manifest, PlannedCell, PlannedFault, PlannedRun
from ackproof.history.schema import FAULTS, PHASES
from tests.support.builders.results import cell_result, guarantee, threshold

TEMPLATE = Path(environment.__file__).parent / "campaign" / "docs" / "template.yaml"
T0 = 1_942_453_020_123_000_000  # 2031-07-22T02:17:00.123Z
SECOND = 1_000_000_000


SETTINGS = {"acks": "all", "min.insync.replicas": 2}


def cell(run: int) -> CellResult:
    away = Outages(fault="kill#1", longest_ms=1, total_ms=2)
    lost = 3 if run == 1 else 0
    came = Verdict.NOT_GUARANTEED if lost else Verdict.PASS
    made = cell_result(
        "acks-all",
        came,
        settings=SETTINGS,
        guarantees=[guarantee(promised=not lost, held=not lost)],
        run=run,
        lost=lost,
        duplicated=1 if lost else 0,
        expected=(came,),
        unavailable=Unavailable(longest_ms=1, total_ms=2, by_fault=(away,), periods=(PERIOD,)),
        transactions=TransactionCounts(committed=2, not_committed=1, unknown=0, found={"G0": 1}),
        thresholds=(replace(threshold(), measured=1.0),),
    )
    return replace(made, acks_per_second=12.5, ack_latency=LATENCY, shown_latency=LATENCY)


PERIOD = OutagePeriod(
    partition="acks-all-0", start=T0, end=T0 + SECOND, length_ms=1000, acked=True, fault="kill#1"
)
LATENCY = Latency(
    records=9,
    since_due=True,
    p50_ms=0.5,
    p90_ms=1.0,
    p99_ms=2.0,
    p999_ms=3.0,
    longest_ms=4.0,
)


def run(number: int, brokers: int) -> RunResult:
    return RunResult(
        number=number,
        clock_bound_ns=0,
        infrastructure_failed=False,
        cluster={"brokers": brokers, "min.insync.replicas": 9},
        failovers=(Failover(partitions=10),),
    )


CLIENT = ClientCounts(
    run=1,
    cell="acks-all",
    client="member-0",
    member=True,
    group="g",
    shown=9,
    distinct=8,
    again=1,
    nonmonotonic=0,
    skipped=0,
    foreign=0,
    inconsistent=0,
    vanished=0,
    unseen=None,
    unread=None,
)
GROUP = GroupCounts(
    run=1,
    cell="acks-all",
    group="g",
    committed=3,
    commit_errors=1,
    commits_lost=0,
    commits_regressed=0,
    skipped_by_commit=0,
)
CAUSE = Cause(
    run=1,
    cell="acks-all",
    anomaly="lost",
    topic="acks-all",
    partition=0,
    number=1,
    kind="unexplained",
    sentence="nothing in the history explains it.",
    records=3,
    promised=2,
    first_offset=7,
    last_offset=9,
    first_time=T0,
    last_time=T0 + SECOND,
    leaders=(1,),
    epochs=(4,),
    faults=("kill#1",),
)
RESULT = CampaignResult(
    verdict=Verdict.PASS,
    cells=(cell(1), cell(2)),
    anomalies={"lost": 3, "duplicated": 1},
    findings=("one",),
    runs=(run(1, 3), run(2, 5)),
    consumption=Consumption(clients=(CLIENT,), groups=(GROUP,)),
    causes=(CAUSE,),
)


def write(file: Path, schema: pa.Schema, rows: list[dict[str, object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    filled = [{name: row.get(name) for name in schema.names} for row in rows]
    pq.write_table(pa.Table.from_pylist(filled, schema=schema), file)


def step(event: str, at_s: int) -> dict[str, object]:
    return {"phase": "deploy", "event": event, "time": T0 + at_s * SECOND}


def fault(event: str, at_s: int, *, proven: bool | None = None) -> dict[str, object]:
    told = {"fault": "kill", "target": "leader(t, 0)", "servers": ["broker-1"], "fault_id": 1}
    return {**told, "event": event, "time": T0 + at_s * SECOND, "proven": proven}


def anomaly(kind: str, partition: int, fault: str | None) -> dict[str, object]:
    place = {"run": 1, "cell": "acks-all", "topic": "acks-all", "partition": partition}
    return {**place, "anomaly": kind, "fault": fault}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    campaign = load(TEMPLATE).resolved(seed=42)
    (tmp_path / "campaign.yaml").write_text(campaign.to_yaml())
    cells = (PlannedCell(cell=Cell(name="acks-all", topic="acks-all", settings=SETTINGS)),)
    planned = {"session_timeout_ms": 1, "replica_lag_ms": 1, "recovery_ms": 1, "cells": cells}
    kill = PlannedFault(
        fault_id=1, fault="kill", target="t", start_ms=1, hold_ms=1, story="crash-loop#1 bounce-2"
    )
    runs = [
        PlannedRun(number=number, seed=1, faults=(kill,), writers=(), **planned)
        for number in (1, 2)
    ]
    Manifest(campaign="c", seed=42, baseline=False, runs=tuple(runs)).write(tmp_path)
    for number in (1, 2):
        history = tmp_path / "runs" / str(number) / "history"
        begin = 100 * (number - 1)
        steps = [step("start", begin), step("end", begin + 60)]
        write(history / "phases.harness.parquet", PHASES, steps)
        write(
            history / "faults.harness.parquet",
            FAULTS,
            [fault("injected", 1), fault("verified", 2, proven=True), fault("healed", 3)],
        )
    found = [
        anomaly("lost", 1, "kill#1"),
        anomaly("duplicated", 0, None),
        *[anomaly("lost", 0, "kill#1")] * 2,
        anomaly("phantom", 0, None),
    ]
    write(tmp_path / "anomalies.parquet", ANOMALIES, found)
    environment.write(tmp_path)
    return tmp_path


def written(directory: Path, result: CampaignResult = RESULT) -> dict[str, Any]:
    report.write(directory, result)
    document: dict[str, Any] = json.loads((directory / "verdict.json").read_text())
    return document


def objects(value: object, node: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], Any]]:
    """Every object in the document with the schema of objects that it is to meet."""
    made = schema()
    for one in node.get("anyOf", [node]):
        if "$ref" in one:
            one = made["$defs"][one["$ref"].rpartition("/")[2]]
        if isinstance(value, Mapping) and "properties" in one:
            yield one, value
            for name, part in value.items():
                yield from objects(part, one["properties"].get(name, {}))
        if isinstance(value, list) and "items" in one:
            for part in value:
                yield from objects(part, one["items"])


def test_every_name_is_documented_and_every_documented_one_is_there(directory: Path) -> None:
    seen = set()
    for node, value in objects(written(directory), schema()):
        seen.add(node["description"])
        assert value.keys() >= set(node["required"]) == set(node["properties"])
        if "additionalProperties" not in node:
            assert value.keys() == set(node["properties"])
    parts = [part for part in schema()["$defs"].values() if "properties" in part]
    assert len(seen) == len(parts) + 1, "nothing of some part was written"


def test_each_name_in_the_schema_has_a_description() -> None:
    made = schema()
    for part in (made, *made["$defs"].values()):
        for name, one in part.get("properties", {}).items():
            assert len(one.get("description", "")) > 5, name


def test_when_where_and_how(directory: Path) -> None:
    found = written(directory)
    assert (found["version"], found["seed"]) == (VERSION, 42)
    assert (found["system"], found["backend"]) == ("bundled", "local")
    assert found["metadata_quorum"] == "zookeeper"
    assert (found["began"], found["duration_s"]) == ("2031-07-22T02:17:00.123Z", 160.0)
    assert [one["duration_s"] for one in found["runs"]] == [60.0, 60.0]
    assert found["command"] == f"ackproof run {directory / 'campaign.yaml'} --seed 42"
    assert found["versions"] == environment.found().versions.model_dump()
    assert found["versions"]["zookeeper"] is not None
    assert found["machine"]["cores"] > 0


def test_the_page_says_it_too(directory: Path) -> None:
    document = written(directory)
    page = (directory / "report.html").read_text()
    for told in ("2031-07-22 02:17", "2 min 40 s", document["command"]):
        assert told in page
    for version in document["versions"].values():
        assert str(version) in page


def test_absence_of_loss_is_reported_with_its_limits(directory: Path) -> None:
    kept = replace(RESULT, cells=(replace(cell(2), run=1), cell(2)))
    page = report.write(directory, kept).page.read_text()
    assert "0 of 20 acknowledged records were lost." in page
    assert "1 of 1 faults that could have lost a record lost one." in page


def test_faults_are_listed_with_their_losses(directory: Path) -> None:
    found = written(directory)
    first, second = found["faults"]
    assert (first["run"], second["run"]) == (1, 2)
    assert first == {
        "run": 1,
        "name": "kill#1",
        "target": "leader(t, 0)",
        "servers": ["broker-1"],
        "story": "crash-loop#1 bounce-2",
        "began": "2031-07-22T02:17:01.123Z",
        "healed": None,
        "proven": True,
        "injected": True,
    }
    told = [
        (one["partition"], one["fault"], one["lost"], one["duplicated"]) for one in found["losses"]
    ]
    assert told == [(0, None, 0, 1), (0, "kill#1", 2, 0), (1, "kill#1", 1, 0)]


def test_each_lost_record_counts_for_the_same_fault_everywhere(directory: Path) -> None:
    found = written(directory)
    losses: Counter[tuple[int, str, str | None]] = Counter()
    for row in found["losses"]:
        losses[row["run"], row["cell"], first_of(row["fault"])] += row["lost"]
    for part in ("opportunities", "exposure"):
        counted = Counter(
            {(row["run"], row["cell"], row["fault"]): row["lost"] for row in found[part]}
        )
        assert losses.total()
        assert +counted == +losses, part


def test_faults_are_listed_despite_a_damaged_history(directory: Path) -> None:
    damaged = directory / "runs" / "1" / "history" / "sends.t.0.p0.parquet"
    damaged.write_bytes(b"damaged")
    found = written(directory)
    assert [(one["run"], one["name"]) for one in found["faults"]] == [(1, "kill#1"), (2, "kill#1")]
    assert found["opportunities"] is None


def test_cell_has_the_swept_settings_of_its_cluster_and_its_own(
    directory: Path,
) -> None:
    first, second = written(directory)["cells"]
    assert (first["brokers"], second["brokers"]) == (3, 5)
    assert first["min.insync.replicas"] == 2
    assert report.load(directory) == RESULT


def test_unrecorded_facts_are_null(directory: Path) -> None:
    for file in ("environment.json", "manifest.json"):
        (directory / file).unlink()
    (directory / "campaign.yaml").write_text(yaml.safe_dump({"name": "no campaign"}))
    for file in directory.glob("runs/*/history/*"):
        file.write_bytes(b"damaged")
    found = written(directory)
    for name in ("seed", "began", "duration_s", "system", "backend", "machine", "command"):
        assert found[name] is None
    assert found["metadata_quorum"] is None
    assert set(found["versions"].values()) == {None}
    assert found["faults"] == []
    assert found["verdict"] == "pass"


def test_command_is_the_same_from_every_working_directory(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = set()
    for place in (directory, directory.parent, Path("/")):
        monkeypatch.chdir(place)
        commands.add(written(directory)["command"])
    assert commands == {f"ackproof run {directory / 'campaign.yaml'} --seed 42"}


def test_causes_are_grouped_as_on_the_page(directory: Path) -> None:
    other = replace(CAUSE, cell="acks-1", topic="other", partition=4, records=2, promised=0)
    unlike = replace(CAUSE, kind="unanswered", number=2, promised=0)
    found = written(directory, replace(RESULT, causes=(CAUSE, unlike, other)))
    assert len(found["causes"]) == 3
    first, second = found["cause_groups"]
    assert second["kind"] == "unanswered"
    assert first == {
        "run": 1,
        "anomaly": "lost",
        "kind": "unexplained",
        "faults": ["kill#1"],
        "sentence": CAUSE.sentence,
        "records": 5,
        "promised": 2,
        "cells": {"acks-all": 3, "acks-1": 2},
        "partitions": ["acks-all-0", "other-4"],
    }


def test_a_large_campaign_says_that_it_is_meant(directory: Path) -> None:
    file = directory / "campaign.yaml"
    file.write_text(file.read_text().replace("\nruns: 1\n", "\nruns: 100\n"))
    assert written(directory)["command"].endswith("/campaign.yaml --seed 42 --yes")


def test_a_verdict_of_before_there_was_a_version_can_be_read(directory: Path) -> None:
    document = written(directory)
    kept = ("campaign", "seed", "verdict", "cells", "anomalies", "findings", "baseline", "runs")
    old = {name: document[name] for name in kept}
    for one in old["cells"]:
        del one["brokers"], one["thresholds"]
    for one in old["runs"]:
        del one["duration_s"]
    (directory / "verdict.json").write_text(json.dumps(old))
    cells = tuple(replace(one, thresholds=()) for one in RESULT.cells)
    former = replace(RESULT, cells=cells, consumption=Consumption(), causes=())
    assert verdict.read(directory) == former
    assert verdict.read_document(directory / "verdict.json").began is None


@pytest.mark.parametrize("version", [VERSION + 1, "new"])
def test_future_document_version_is_refused(directory: Path, version: object) -> None:
    document = {**written(directory), "version": version}
    (directory / "verdict.json").write_text(json.dumps(document))
    with pytest.raises(DamagedResults, match=f"its version is {version}"):
        verdict.read(directory)


def test_without_a_run_there_is_no_date(directory: Path) -> None:
    for file in directory.glob("runs/*/history/phases*"):
        file.unlink()
    assert written(directory, replace(RESULT, cells=(), runs=()))["began"] is None
