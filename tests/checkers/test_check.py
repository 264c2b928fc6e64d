"""Whole campaigns on disk through Spark: finished, broken, and what a killed harness leaves."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_histories import (
    CELL_ROW,
    FINISHED,
    Made,
    MadeRun,
    entry,
    fault_rows,
    send,
    write_campaign,
)
from pyspark.sql import SparkSession
from reference_checker import findings

from checkers.catalogue import CHECKERS
from checkers.check import check
from checkers.evidence import gather
from checkers.items import work_items
from checkers.reconcile import items_table, reconcile_batches
from checkers.verdict import ANOMALIES, CampaignResult, CellResult, Verdict

pytestmark = pytest.mark.spark

KEPT = Made(
    sends=[
        send("invoke", 1, 0, 10),
        send("ok", 1, 0, 11, 0),
        send("invoke", 1, 1, 149),
        send("ok", 1, 1, 150, 1),
    ],
    log=[entry(0, 1, 0), entry(1, 1, 1)],
    end=2,
)
LOSING = KEPT.but(log=KEPT.log[:1], end=1)
ACKS_1 = {**CELL_ROW, "acks": "1", "enable_idempotence": False}


def run(made: Made = KEPT, **changes: Any) -> MadeRun:
    return MadeRun(**{"partitions": {("t", 0): made}, **changes})


def only_cell(result: CampaignResult) -> CellResult:
    (cell,) = result.cells
    return cell


def anomalies(directory: Path) -> list[dict[str, Any]]:
    table = pq.read_table(directory / "anomalies.parquet")
    assert table.schema.equals(ANOMALIES)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_a_kept_promise_passes(tmp_path: Path, spark: SparkSession) -> None:
    told: list[str] = []
    result = check(write_campaign(tmp_path, run()), spark=spark, progress=told.append)
    assert result.verdict is Verdict.PASS
    assert result.findings == ()
    assert result.anomalies == dict.fromkeys(CHECKERS, 0)
    cell = only_cell(result)
    assert (cell.sent, cell.acked, cell.failed, cell.indeterminate) == (2, 2, 0, 0)
    assert anomalies(tmp_path) == []
    assert told == ["checking 1 partitions of 1 runs", "judging"]


def test_a_lost_record_fails_and_is_told_in_full(tmp_path: Path, spark: SparkSession) -> None:
    result = check(write_campaign(tmp_path, run(), run(LOSING)), spark=spark)
    assert result.verdict is Verdict.FAIL
    assert [cell.verdict for cell in result.cells] == [Verdict.PASS, Verdict.FAIL]
    assert [cell.lost for cell in result.cells] == [0, 1]
    assert result.anomalies["lost"] == 1
    assert anomalies(tmp_path) == [
        {
            "run": 2,
            "cell": "c",
            "anomaly": "lost",
            "topic": "t",
            "partition": 0,
            "offset": 1,
            "producer": 1,
            "sequence": 1,
            "time": 150,
            "fault": "kill#1",
            "detail": "acked at offset 1; truncated: the log ends at 1",
        }
    ]


def test_the_same_loss_with_acks_1_is_measured_not_failed(
    tmp_path: Path, spark: SparkSession
) -> None:
    result = check(write_campaign(tmp_path, run(LOSING, cells=[ACKS_1])), spark=spark)
    assert result.verdict is Verdict.NOT_GUARANTEED
    assert only_cell(result).lost == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"cells": [{**CELL_ROW, "minimum_acked": 3}]}, "2 acked records, at least 3 are needed"),
        ({"cells": [{**CELL_ROW, "partitions": 2}]}, "partition 1: no final read"),
        ({"faults": fault_rows(("injected", 1, None), ("healed", 2, True))}, "proven to have"),
        ({"phases": FINISHED[:-1]}, "the step final-read did not end"),
        ({"reads": False}, "partition 0: no final read"),
        ({"closed": False}, "is a part, its writer did not close"),
        ({"without": frozenset({"sends"})}, "records, but no send was recorded"),
        ({"without": frozenset({"log"})}, "the final read got 2 records, its files hold 0"),
    ],
)
def test_too_little_evidence_is_inconclusive_with_the_reason(
    tmp_path: Path, spark: SparkSession, changes: dict[str, Any], reason: str
) -> None:
    result = check(write_campaign(tmp_path, run(**changes)), spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any(reason in given for given in only_cell(result).reasons)
    assert anomalies(tmp_path) == []


def test_nothing_acked_is_never_a_pass(tmp_path: Path, spark: SparkSession) -> None:
    silent = Made(sends=[send("invoke", 1, 0, 1), send("info", 1, 0, 2)], log=[], end=0)
    cells = [{**CELL_ROW, "minimum_acked": 0}]
    result = check(write_campaign(tmp_path, run(silent, cells=cells)), spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE


def test_a_loss_in_a_complete_partition_counts_whatever_else_lacks(
    tmp_path: Path, spark: SparkSession
) -> None:
    partitions = {("t", 0): LOSING, ("t", 1): KEPT.but(complete=False, log=[])}
    cells = [{**CELL_ROW, "partitions": 2}]
    made = run(partitions=partitions, cells=cells, phases=FINISHED[:-1])
    result = check(write_campaign(tmp_path, made), spark=spark)
    assert result.verdict is Verdict.FAIL
    assert only_cell(result).lost == 1


def test_a_harness_killed_while_sending(tmp_path: Path, spark: SparkSession) -> None:
    """Parts only, an unfinished dot-file, no log, no reads, a fault still open."""
    made = run(
        closed=False,
        reads=False,
        without=frozenset({"log"}),
        phases=FINISHED[:5],
        faults=fault_rows(("inject", 90, None), ("injected", 100, None), ("verified", 1, True)),
    )
    directory = write_campaign(tmp_path, made)
    history = directory / "runs" / "1" / "history"
    (history / ".sends.t.0.w.part-000009.parquet").write_bytes(b"PAR1 and then nothing")
    result = check(directory, spark=spark)
    cell = only_cell(result)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert (cell.sent, cell.acked, cell.lost) == (2, 2, 0)
    assert {"the step flush did not end", "kill#1 on leader(t, 0) is not proven healed"} <= {
        *cell.reasons
    }


def test_a_damaged_file_leaves_other_partitions_their_verdict(
    tmp_path: Path, spark: SparkSession
) -> None:
    cells = [CELL_ROW, {**CELL_ROW, "cell": "d", "topic": "u"}]
    made = run(partitions={("t", 0): KEPT, ("u", 0): KEPT}, cells=cells)
    directory = write_campaign(tmp_path, made)
    next(directory.glob("runs/1/history/sends.t.*")).write_bytes(b"no parquet")
    result = check(directory, spark=spark)
    assert [cell.verdict for cell in result.cells] == [Verdict.INCONCLUSIVE, Verdict.PASS]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert anomalies(directory) == []
    assert any("t-0: damaged history" in finding for finding in result.findings)


def test_a_file_of_unknown_name_makes_its_run_inconclusive(
    tmp_path: Path, spark: SparkSession
) -> None:
    directory = write_campaign(tmp_path, run(), run())
    (directory / "runs" / "1" / "history" / "log.whose.parquet").write_bytes(b"")
    result = check(directory, spark=spark)
    assert [cell.verdict for cell in result.cells] == [Verdict.INCONCLUSIVE, Verdict.PASS]


def test_contradictory_events_are_no_evidence(tmp_path: Path, spark: SparkSession) -> None:
    twice = KEPT.but(sends=[*KEPT.sends, send("invoke", 1, 1, 160)])
    result = check(write_campaign(tmp_path, run(twice)), spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE


def test_runs_that_are_missing_make_the_campaign_inconclusive(
    tmp_path: Path, spark: SparkSession
) -> None:
    result = check(write_campaign(tmp_path, run(), planned=3), spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert only_cell(result).verdict is Verdict.PASS
    assert result.findings == ("1 of 3 runs are there",)


@pytest.mark.parametrize("text", [None, "[", "a string"])
def test_a_campaign_file_that_cannot_be_read_is_told(
    tmp_path: Path, spark: SparkSession, text: str | None
) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / "campaign.yaml").unlink()
    if text is not None:
        (directory / "campaign.yaml").write_text(text, encoding="utf-8")
    result = check(directory, spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "campaign.yaml" in result.findings[0]


def test_no_runs_are_inconclusive(tmp_path: Path) -> None:
    result = check(write_campaign(tmp_path))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert anomalies(tmp_path) == []


def test_a_run_that_never_wrote_its_cells(tmp_path: Path, spark: SparkSession) -> None:
    directory = write_campaign(tmp_path, run(), run())
    next(directory.glob("runs/2/history/cells.*")).unlink()
    result = check(directory, spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert only_cell(result).run == 1


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere is no directory of results"):
        check(tmp_path / "nowhere")


def test_spark_giving_up_is_a_verdict_not_a_crash(tmp_path: Path, spark: SparkSession) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / ".checking").write_text("in the way", encoding="utf-8")
    result = check(directory, spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.findings[0].startswith("the checkers failed: ")


def test_nothing_temporary_stays(tmp_path: Path, spark: SparkSession) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / ".checking").mkdir()
    (directory / ".checking" / "rows").mkdir()
    check(directory, spark=spark)
    assert {path.name for path in directory.iterdir()} == {
        "campaign.yaml",
        "runs",
        "anomalies.parquet",
    }


def test_checking_twice_gives_the_same(tmp_path: Path, spark: SparkSession) -> None:
    directory = write_campaign(tmp_path, run(LOSING))
    first = check(directory, spark=spark), anomalies(directory)
    assert (check(directory, spark=spark), anomalies(directory)) == first


def arbitrary(rng: random.Random) -> Made:
    """What a broken cluster could leave: copies, holes, strangers, any order."""
    sends = []
    for time in range(rng.randrange(60)):
        producer, kind = rng.randrange(3), rng.choice(["ok", "ok", "ok", "info", "fail", None])
        sends.append(send("invoke", producer, time, time))
        if kind:
            offset = rng.choice([None, rng.randrange(80)]) if kind == "ok" else None
            sends.append(send(kind, producer, time, time + 1, offset))
    invoked = [(event.producer, event.sequence) for event in sends]
    log = [
        entry(offset, *rng.choice([*invoked, (9, offset), (None, None)]))
        for offset in range(80)
        if rng.random() < 0.8
    ]
    sends = sends or [send("invoke", 0, 0, 0)]
    return Made(sends=sends, log=log, end=80, complete=rng.random() < 0.8)


@pytest.mark.parametrize("seed", range(3))
def test_spark_agrees_with_the_plain_implementation(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    rng = random.Random(seed)
    cells = [
        {**CELL_ROW, "partitions": 3},
        {**ACKS_1, "cell": "d", "topic": "u.v", "partitions": 2},
    ]
    runs = [
        run(
            partitions={
                (c["topic"], p): arbitrary(rng) for c in cells for p in range(c["partitions"])
            },
            cells=cells,
        )
        for _ in range(2)
    ]
    result = check(write_campaign(tmp_path, *runs), spark=spark)
    expected = {
        (number, topic, partition, *finding)
        for number, made_run in enumerate(runs, start=1)
        for (topic, partition), made in made_run.partitions.items()
        for finding in findings(made)
    }
    names = ("run", "topic", "partition", "anomaly", "offset", "producer", "sequence")
    rows = [tuple(row[name] for name in names) for row in anomalies(tmp_path)]
    assert set(rows) == expected
    assert len(rows) == len(expected) > 100
    assert rows == sorted(rows, key=lambda row: row[:3])
    counted = Counter(row[3] for row in rows)
    assert result.anomalies == {name: counted[name] for name in CHECKERS}
    for cell in result.cells:
        topic = "t" if cell.cell == "c" else "u.v"
        mine = Counter(row[3] for row in rows if row[:2] == (cell.run, topic))
        assert (cell.lost, cell.duplicated, cell.reordered) == (
            mine["lost"],
            mine["duplicated"],
            mine["reordered"],
        )


def test_one_item_a_task(tmp_path: Path, spark: SparkSession) -> None:
    """Memory grows with one partition: no task may be given two, whatever their number."""

    cells = [{**CELL_ROW, "partitions": 17}]
    write_campaign(tmp_path, run(cells=cells))
    items = work_items(gather(tmp_path / "runs" / "1" / "history", 1))
    work = spark.createDataFrame(items_table(items))
    spread = work.repartitionByRange(len(items), "run", "topic", "partition")
    assert [len(rows) for rows in spread.rdd.glom().collect()] == [1] * 17


def test_a_rule_that_throws_leaves_the_others_alone(tmp_path: Path) -> None:
    """Labelling what is lost fails; counts and the other rules do not."""
    write_campaign(tmp_path, run(LOSING))
    (item,) = work_items(gather(tmp_path / "runs" / "1" / "history", 1))
    unlabelled = items_table([replace(item, fault_labels=[])])
    rows = pa.Table.from_batches(reconcile_batches(unlabelled.to_batches())).to_pylist()
    assert [row["anomaly"] for row in rows] == [None]
    (problem,) = rows[0]["problems"]
    assert problem["checker"] == "lost"
    assert problem["message"].startswith("t-0: the checker lost failed: ")
    assert rows[0]["acked"] == 2
