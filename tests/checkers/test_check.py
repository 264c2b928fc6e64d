"""Whole campaigns on disk through Spark: what comes out, where it lies, and what a task that dies
costs."""

import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ackproof.checkers.check import check, evidence
from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.engine.work_items import work_items
from ackproof.checkers.verdict import CampaignResult, CellResult, Verdict
from ackproof.history.manifest import FILE
from tests.support.builders.checked_runs import checked, reconcile
from tests.support.builders.consumers import MadeConsumer, given, seen
from tests.support.builders.histories import (
    ACKS_1,
    AFTER,
    ALL,
    BEFORE,
    DURING,
    Made,
    MadeRun,
    a_fault,
    at,
    cell,
    entry,
    history_of,
    kept,
    losing,
    send,
    write_campaign,
)
from tests.support.oracles.reference_checker import findings

pytestmark = pytest.mark.spark

WELL = kept(BEFORE, DURING, AFTER)
LEFT = {"campaign.yaml", FILE, "runs", "anomalies.parquet", "root-causes.parquet"}


def run(made: Made = WELL, **changes: Any) -> MadeRun:
    return MadeRun(**{"partitions": {("t", 0): made}, **changes})


def only_cell(result: CampaignResult) -> CellResult:
    (found,) = result.cells
    return found


def anomalies(directory: Path) -> list[dict[str, Any]]:
    table = pq.read_table(directory / "anomalies.parquet")
    assert table.schema.equals(ANOMALIES)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_a_kept_promise_passes(tmp_path: Path, spark: SparkSession) -> None:
    told: list[str] = []
    reader = MadeConsumer(
        polls=[seen(1, e.offset, e.producer, e.sequence) for e in WELL.log],
        assigned=[given(0, at(0), 0)],
    )
    made = run(consumers=[reader])
    result = check(write_campaign(tmp_path, made), spark=spark, progress=told.append)
    assert result.verdict is Verdict.PASS
    assert result.findings == ()
    assert result.anomalies == dict.fromkeys(CATALOGUE, 0)
    found = only_cell(result)
    assert (found.sent, found.acked, found.failed, found.indeterminate) == (3, 3, 0, 0)
    assert (found.lost, found.duplicated, found.reordered) == (0, 0, 0)
    assert anomalies(tmp_path) == []
    assert [(one.shown, one.unseen, one.unread) for one in result.consumption.clients] == [
        (3, 0, 0)
    ]
    assert told == ["checking 1 partitions of 1 runs", "judging"]
    assert result == checked(tmp_path)


def test_lost_record_fails_and_is_reported_in_full(tmp_path: Path, spark: SparkSession) -> None:
    torn = WELL.but(log=WELL.log[:1], end=1)
    result = check(write_campaign(tmp_path, run(), run(torn)), spark=spark)
    assert result.verdict is Verdict.FAIL
    assert [found.verdict for found in result.cells] == [Verdict.PASS, Verdict.FAIL]
    assert [found.lost for found in result.cells] == [0, 2]
    assert result.anomalies["lost"] == 2
    first, second = anomalies(tmp_path)
    assert first == {
        "run": 2,
        "cell": "c",
        "anomaly": "lost",
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "producer": 1,
        "sequence": 1,
        "time": at(DURING),
        "fault": "kill#1",
        "seen": None,
        "detail": "acked at offset 1; truncated: the log ends at 1",
    }
    assert (second["time"], second["fault"]) == (at(AFTER), None)


def test_unplanned_run_is_a_finding(tmp_path: Path, spark: SparkSession) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / "runs" / "7").mkdir()
    result = check(directory, spark=spark)
    assert result.verdict is Verdict.PASS
    assert result.findings == (f"{directory / 'runs' / '7'}: the manifest plans no such run",)


@pytest.mark.parametrize("text", [None, "[", "runs: many"])
def test_the_campaign_file_is_nothing_to_the_checkers(
    tmp_path: Path, spark: SparkSession, text: str | None
) -> None:
    directory = write_campaign(tmp_path, run())
    (directory / "campaign.yaml").unlink()
    if text is not None:
        (directory / "campaign.yaml").write_text(text, encoding="utf-8")
    assert check(directory, spark=spark).verdict is Verdict.PASS


def test_a_check_without_a_manifest_takes_the_old_anomalies_away(
    tmp_path: Path, spark: SparkSession
) -> None:
    directory = write_campaign(tmp_path, run(losing(WELL, 1)))
    assert check(directory, spark=spark).verdict is Verdict.FAIL
    assert len(anomalies(directory)) == 1
    (directory / FILE).unlink()
    result = check(directory, spark=spark)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.infrastructure_failed
    assert anomalies(directory) == []


def test_no_runs_are_inconclusive(tmp_path: Path) -> None:
    result = check(write_campaign(tmp_path))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.infrastructure_failed
    assert anomalies(tmp_path) == []


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="nowhere is not a results directory"):
        check(tmp_path / "nowhere")


def test_a_damaged_file_leaves_other_partitions_their_verdict(
    tmp_path: Path, spark: SparkSession
) -> None:
    cells = [cell(), cell(name="d", topic="u")]
    faults = a_fault(partitions=("t-0", "u-0"))
    made = run(partitions={("t", 0): WELL, ("u", 0): WELL}, cells=cells, faults=faults)
    directory = write_campaign(tmp_path, made)
    (path,) = history_of(directory).glob("sends.t.*")
    # The footer is whole, and says how many rows there are; what it points to is not.
    content = bytearray(path.read_bytes())
    content[8:200] = bytes(192)
    path.write_bytes(content)
    result = check(directory, spark=spark)
    assert [found.verdict for found in result.cells] == [Verdict.INCONCLUSIVE, Verdict.PASS]
    assert result.verdict is Verdict.INCONCLUSIVE
    assert anomalies(directory) == []
    assert any("sends.t.0" in finding and "digest" in finding for finding in result.findings)


@pytest.mark.parametrize("in_the_way", ["a file", "a directory"])
def test_nothing_temporary_stays(tmp_path: Path, spark: SparkSession, in_the_way: str) -> None:
    directory = write_campaign(tmp_path, run())
    if in_the_way == "a file":
        (directory / ".checking").write_text("left behind", encoding="utf-8")
    else:
        (directory / ".checking" / "rows" / "0-1").mkdir(parents=True)
    assert check(directory, spark=spark).verdict is Verdict.PASS
    assert {path.name for path in directory.iterdir()} == LEFT


def test_checking_twice_gives_the_same(tmp_path: Path, spark: SparkSession) -> None:
    directory = write_campaign(tmp_path, run(losing(WELL, 1)))
    first = check(directory, spark=spark), anomalies(directory)
    assert (check(directory, spark=spark), anomalies(directory)) == first


# Imported by every Python of the test below, Spark's workers among them: a worker about to read
# the sends to u-0 is killed, as by a kernel that is out of memory.
KILLER = """
import os, signal
from ackproof.checkers.index import columns
read_file = columns.read_file

def killed_at(table, path, names, row_group=None):
    if path.name.startswith("sends.u."):
        os.kill(os.getpid(), signal.SIGKILL)
    return read_file(table, path, names, row_group)

columns.read_file = killed_at
"""
CHECK = """
import pathlib, pickle, sys
from ackproof.checkers.check import check
result = check(pathlib.Path(sys.argv[1]))
pathlib.Path(sys.argv[2]).write_bytes(pickle.dumps(result))
"""


@pytest.mark.long
def test_a_task_that_dies_takes_down_its_own_partition_alone(tmp_path: Path) -> None:
    """Test three cells. The worker of the middle one dies each time; the last one has lost a
    record."""
    topics = {"t": WELL, "u": WELL, "v": losing(WELL, 2)}
    made = run(
        partitions={(topic, 0): of for topic, of in topics.items()},
        cells=[cell(name=topic, topic=topic) for topic in topics],
        faults=a_fault(partitions=[f"{topic}-0" for topic in topics]),
    )
    directory = write_campaign(tmp_path / "results", made)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(KILLER, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-c", CHECK, directory, tmp_path / "result"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    result = unpickled(tmp_path / "result")
    assert {found.cell: found.verdict for found in result.cells} == {
        "t": Verdict.PASS,
        "u": Verdict.INCONCLUSIVE,
        "v": Verdict.FAIL,
    }
    assert result.verdict is Verdict.FAIL
    assert [found.lost for found in result.cells] == [0, None, 1]
    assert any("u-0: could not be checked" in reason for reason in result.cells[1].reasons)
    assert [row["cell"] for row in anomalies(directory)] == ["v"]
    assert {path.name for path in directory.iterdir()} == LEFT


def unpickled(path: Path) -> CampaignResult:
    import pickle

    result: CampaignResult = pickle.loads(path.read_bytes())
    return result


def arbitrary(rng: random.Random) -> Made:
    """Return a history as a broken cluster could leave it: copies, holes, unknown records, in any
    order."""
    sends = []
    for number in range(rng.randrange(60)):
        producer, kind = rng.randrange(3), rng.choice(["ok", "ok", "ok", "info", "fail", None])
        time = at(0) + number
        sends.append(send("invoke", producer, number, time))
        if kind:
            offset = rng.choice([None, rng.randrange(80)]) if kind == "ok" else None
            sends.append(send(kind, producer, number, time + 1, offset))
    invoked = [(event.producer, event.sequence) for event in sends]
    log = [
        entry(offset, *rng.choice([*invoked, (9, offset), (None, None)]))
        for offset in range(80)
        if rng.random() < 0.8
    ]
    sends = sends or [send("invoke", 0, 0, at(0))]
    return Made(sends=sends, log=log, end=80, complete=rng.random() < 0.8)


@pytest.mark.parametrize("seed", range(3))
def test_spark_agrees_with_the_plain_implementation(
    tmp_path: Path, spark: SparkSession, seed: int
) -> None:
    rng = random.Random(seed)
    cells = [cell(ALL, partitions=3), cell(ACKS_1, name="d", topic="u.v", partitions=2)]
    keys = [key for planned in cells for key in planned.cell.topic_partitions]
    runs = [run(partitions={key: arbitrary(rng) for key in keys}, cells=cells) for _ in range(2)]
    directory = write_campaign(tmp_path, *runs)
    result = check(directory, spark=spark)
    assert result == checked(directory)
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
    assert result.anomalies == {name: counted[name] for name in CATALOGUE}
    for found in result.cells:
        mine = Counter(row[3] for row in rows if row[:2] == (found.run, found.settings.topic))
        assert found.lost in (mine["lost"], None if not mine["lost"] else -1)
        assert found.duplicated in (mine["duplicated"], None if not mine["duplicated"] else -1)


def test_a_rule_that_throws_leaves_the_others_alone(tmp_path: Path) -> None:
    """Labelling what is lost fails; counts and the other rules do not."""
    (evident,), _ = evidence(write_campaign(tmp_path, run(WELL.but(log=WELL.log[:1], end=1))))
    (item,) = work_items(evident)
    rows, totals = reconcile(replace(item, fault_labels=[]))
    assert len(rows) == 0
    (doubt,) = totals.check_errors
    assert doubt.checker == "lost"
    assert doubt.message.startswith("t-0: the checker lost failed: ")
    assert totals.counts["acked"] == 3
    assert "lost" not in totals.counts


def test_missing_history_is_judged_without_a_spark_session(
    tmp_path: Path, spark: SparkSession
) -> None:
    """It would take seconds to start, to read nothing; what is found is the same."""
    directory = write_campaign(tmp_path, run())
    shutil.rmtree(history_of(directory))
    found = check(directory, master="none that there is")
    assert found == check(directory, spark=spark)
    assert found.verdict is Verdict.INCONCLUSIVE
