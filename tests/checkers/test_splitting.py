"""A partition in slices gives what it gives as a whole, wherever it is cut."""

import ast
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ackproof.checkers.check import evidence
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.row_times import ANY
from ackproof.checkers.context.timeline import ObservedAnomaly, PartitionTimeline, UnderMinIsr
from ackproof.checkers.engine.oversized_partitions import reconcile_oversized, split_of
from ackproof.checkers.engine.results import PartitionTotals
from ackproof.checkers.engine.slices import ANOMALOUS_MAX, SLICE_ROWS
from ackproof.checkers.engine.spark.jobs import reconcile_all
from ackproof.checkers.engine.tasks import rows_of
from ackproof.checkers.engine.work_items import WorkItem, work_items
from ackproof.checkers.root_cause.partition_context import (
    ContextFault,
    LeadershipTerm,
    PartitionContext,
    PartitionProducers,
)
from ackproof.history.schema import LOG, SENDS
from tests.support.builders.checked_runs import reconcile
from tests.support.builders.examples import examples
from tests.support.builders.histories import (
    CELL,
    TOPIC,
    Entry,
    MadeRun,
    Send,
    cell,
    entry,
    kept,
    losing,
    send,
    write_campaign,
)

SLOW = settings(
    deadline=None,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Partition(NamedTuple):
    """Some of what a partition can have; the log ends at ``end``."""

    sends: Sequence[Send]
    log: Sequence[Entry]
    end: int


def here(function: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
    return [function(task) for task in tasks]


@pytest.fixture(scope="module")
def item(tmp_path_factory: pytest.TempPathFactory) -> WorkItem:
    made = MadeRun(partitions={(TOPIC, 0): kept(1, 2)}, cells=[cell()])
    (run,), _ = evidence(write_campaign(tmp_path_factory.mktemp("campaign"), made))
    (found,) = work_items(run)
    return found


@st.composite
def partitions(draw: st.DrawFn) -> Partition:
    """Whatever a broken cluster could leave: losses, copies, strangers, acks at any offset, of
    producers of which none sends two records in one nanosecond."""
    sends: list[Send] = []
    records = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20)), unique=True))
    behind = draw(st.integers(0, 3))
    for number, (producer, sequence) in enumerate(records):
        begun = 1_000_000 * number
        sends.append(send("invoke", producer, sequence, begun))
        kind = draw(st.sampled_from(["ok", "ok", "ok", "info", "fail", None]))
        near = st.integers(max(number - behind, 0), number)
        offset = draw(st.none() | near | st.integers(0, 30)) if kind == "ok" else None
        if kind:
            took = draw(st.integers(1, 5_000))
            sends.append(send(kind, producer, sequence, begun + 1_000 * took + number + 1, offset))
    twice = draw(st.lists(st.sampled_from(sends), max_size=2)) if sends else []
    sends += [replace(event, time=event.time + 500) for event in twice]
    offsets = sorted(draw(st.sets(st.integers(0, 30))))
    content = st.tuples(st.integers(0, 3), st.integers(0, 20)) | st.just((None, None))
    if records:
        content |= st.sampled_from(records)
    epochs = st.none() | st.integers(0, 3)
    log = [entry(offset, *draw(content), leader_epoch=draw(epochs)) for offset in offsets]
    return Partition(sends=sends, log=log, end=draw(st.integers(25, 31)))


TIMES = st.integers(0, 30_000_000)


@st.composite
def timelines(draw: st.DrawFn) -> PartitionTimeline:
    elected, deposed = (sorted(draw(st.lists(TIMES, min_size=4, max_size=4))) for _ in range(2))
    edges = sorted(draw(st.lists(TIMES, min_size=2, max_size=2, unique=True)))
    told = [ObservedAnomaly(anomaly="two-leaders", time=draw(TIMES), detail="two")] * draw(
        st.integers(0, 1)
    )
    return PartitionTimeline(
        acks=draw(st.sampled_from(["all", "1"])),
        clock_bound_ns=draw(st.sampled_from([0, 1_000, None])),
        disks_kept=draw(st.booleans()),
        epochs=(0, 1, 2, 3),
        elected_after=elected,
        deposed=deposed,
        log_ends=draw(st.lists(st.integers(-1, 30), min_size=4, max_size=4)),
        watched_until=draw(TIMES),
        under_min_isr=[
            UnderMinIsr(
                start=edges[0], end=edges[1], epoch=draw(st.sampled_from([None, 0, 1, 2])), isr="1"
            )
        ],
        watched=True,
        told=told,
    )


@st.composite
def scenes(draw: st.DrawFn) -> PartitionContext:
    times = sorted(draw(st.lists(TIMES, min_size=4, max_size=4)))
    leadership_terms = [
        LeadershipTerm(
            epoch=epoch,
            leader=draw(st.integers(1, 3)),
            seen=seen,
            elected_after=seen - draw(st.integers(0, 1_000_000)),
            deposed=seen + draw(st.integers(0, 9_000_000)),
            log_end=draw(st.integers(-1, 30)),
            clean=draw(st.none() | st.booleans()),
        )
        for epoch, seen in enumerate(times)
    ]
    fault = ContextFault(label="kill#1", servers=["broker-1"], start=5_000_000, end=9_000_000)
    return PartitionContext(
        leadership_terms=leadership_terms,
        faults=[fault],
        sender=PartitionProducers(client="librdkafka", retries=3),
    )


def with_files(
    item: WorkItem, partition: Partition, directory: Path, row_group: int, **changes: Any
) -> WorkItem:
    """Return the item with one file for each producer, with so many rows in a row group."""
    sends = []
    for producer in sorted({event.producer for event in partition.sends}):
        rows = [vars(event) for event in partition.sends if event.producer == producer]
        sends.append(
            _written(directory / f"sends.{TOPIC}.0.{producer}.parquet", SENDS, rows, row_group)
        )
    own = [None if one.producer is None else CELL for one in partition.log]
    log = [
        {**vars(one), "cell": one.cell or name}
        for one, name in zip(partition.log, own, strict=True)
    ]
    return replace(
        item,
        sends=sends,
        log=[_written(directory / f"log.{TOPIC}.0.reader.parquet", LOG, log, row_group)],
        records=len(log),
        expected=ANY,  # times begin at 0
        **{"read": FinalRead(complete=True, start=0, end=partition.end), **changes},
    )


def _written(path: Path, schema: pa.Schema, rows: Sequence[Mapping[str, Any]], each: int) -> str:
    constant = {"cell": CELL, "topic": TOPIC, "partition": 0, "timestamp": 0}
    columns = [
        pa.array(
            [row.get(field.name, constant.get(field.name)) for row in rows],
            field.type.value_type if pa.types.is_dictionary(field.type) else field.type,
        ).cast(field.type)
        for field in schema
    ]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path, row_group_size=each)
    return str(path)


def whole(item: WorkItem) -> tuple[list[str], PartitionTotals]:
    rows, totals = reconcile(item)
    return _told(rows.to_pylist()), totals


def in_slices(
    item: WorkItem, directory: Path, slice_rows: int, anomalous_max: int = ANOMALOUS_MAX
) -> tuple[list[str], PartitionTotals] | None:
    split = split_of(item, slice_rows)
    if split is None:
        return None
    split = replace(split, anomalous_max=anomalous_max)
    metrics = reconcile_oversized(here, split, directory / "rows", directory / "aside")
    assert metrics is not None
    assert not (directory / "aside").exists()
    rows = (row for batch in rows_of(directory / "rows") for row in batch.to_pylist())
    return _told(rows), reduce(PartitionTotals.and_, metrics)


def _told(rows: Iterator[dict[str, Any]] | Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@SLOW
@given(data=st.data())
def test_slices_yield_the_same_results_as_the_whole_partition(
    tmp_path_factory: pytest.TempPathFactory, item: WorkItem, data: st.DataObject
) -> None:
    """Rows, root causes and counts, whatever happened."""
    directory = tmp_path_factory.mktemp("one")
    partition = data.draw(partitions())
    read = FinalRead(
        complete=data.draw(st.sampled_from([True, True, False])),
        start=0,
        end=partition.end,
        listed=data.draw(st.sampled_from([None, 3, partition.end])),
        began=data.draw(st.sampled_from([None, 9_000_000, 2**62])),
    )
    given_item = with_files(
        item,
        partition,
        directory,
        data.draw(st.integers(1, 9)),
        timeline=data.draw(timelines()),
        context=data.draw(scenes()),
        read=read,
        sends_whole=data.draw(st.sampled_from([True, True, False])),
        fault_bounds=[4_000_000, 12_000_000],
        fault_labels=[None, "kill#1", None],
        moments=["before"],
        moment_starts=[0],
        moment_ends=[6_000_000],
        unpromised_before=data.draw(st.sampled_from([0, 9_000_000])),
    )
    sliced = in_slices(given_item, directory, data.draw(st.integers(1, 12)))
    if sliced is None:
        return
    rows, totals = whole(given_item)
    assert sliced[0] == rows
    assert sliced[1].counts == totals.counts
    assert Counter(sliced[1].check_errors) == Counter(totals.check_errors)
    assert sliced[1].consumption == totals.consumption
    assert sorted(map(repr, sliced[1].causes)) == sorted(map(repr, totals.causes))


@SLOW
@given(partition=partitions(), anomalous_max=st.integers(1, 4), slice_rows=st.integers(3, 12))
def test_rare_anomalies_may_be_judged_by_slices(
    tmp_path_factory: pytest.TempPathFactory,
    item: WorkItem,
    partition: Partition,
    anomalous_max: int,
    slice_rows: int,
) -> None:
    """With stories of their own, each under its own number, and the same rows apart from that."""
    directory = tmp_path_factory.mktemp("one")
    given_item = with_files(item, partition, directory, 5)
    sliced = in_slices(given_item, directory, slice_rows, anomalous_max)
    if sliced is None:
        return
    rows, totals = whole(given_item)
    assert _without_root_causes(sliced[0]) == _without_root_causes(rows)
    assert sliced[1].counts == totals.counts
    assert sum(one.records for one in sliced[1].causes) == sum(one.records for one in totals.causes)


def test_duplicate_is_counted_once_when_its_copies_stand_at_acked_offsets(
    tmp_path: Path, item: WorkItem
) -> None:
    """Another part needs the rows at offsets 4 and 8, where its own records were acknowledged."""
    sends = [
        event
        for number, offset in ((1, 0), (2, 4), (3, 8))
        for event in (
            send("invoke", 0, number, 1_000_000 * number),
            send("ok", 0, number, 1_000_000 * number + 1_001, offset),
        )
    ]
    log = [entry(0, 0, 1), entry(4, 0, 1), entry(8, 0, 1), entry(12, 0, 1)]
    partition = Partition(sends=sends, log=log, end=25)
    given_item = with_files(item, partition, tmp_path, 5)
    sliced = in_slices(given_item, tmp_path, 3, anomalous_max=1)
    assert sliced is not None
    rows, totals = whole(given_item)
    assert totals.counts["duplicated"] == sliced[1].counts["duplicated"] == 1
    assert _without_root_causes(sliced[0]) == _without_root_causes(rows)


def _without_root_causes(rows: Sequence[str]) -> list[str]:
    return _told({**json.loads(row), "root_cause": None} for row in rows)


def planted() -> Partition:
    """Something for each rule, with its witness far away: sixty records of one producer, each sent
    and acked before the next, at the offset of their number, but for what is said here."""
    stands = dict(zip(range(60), range(60), strict=True))
    acked = dict(stands)
    del stands[5]  # lost, and rewritten
    stands[6] = 60  # moved
    stands[20], stands[45] = acked[20], acked[45] = 45, 20  # reordered
    acked[7] = 50  # as another was
    sends = []
    for number in range(60):
        sends.append(send("invoke", 1, number, 1_000_000 * number))
        kind, offset = ("fail", None) if number == 30 else ("ok", acked[number])
        sends.append(send(kind, 1, number, 1_000_000 * number + 1_001 + number, offset))
    sends += [send("invoke", 2, number, 70_000_000 + number) for number in (5, 6)]
    held = {place: (1, number) for number, place in stands.items()}
    held |= {5: (2, 5), 6: (2, 6), 61: (1, 10), 62: (3, 30), 63: (None, None)}
    log = [
        entry(place, *record, leader_epoch=0 if place == 40 else int(place > 25))
        for place, record in sorted(held.items())
    ]
    log.append(replace(entry(64, 1, 3, leader_epoch=1), cell="elsewhere"))
    return Partition(sends=sends, log=log, end=66)


@pytest.mark.parametrize("slice_rows", [1, 3, 10, 40, 60])
def test_each_rule_finds_the_same_in_slices_as_in_the_whole(
    tmp_path: Path, item: WorkItem, slice_rows: int
) -> None:
    timeline = PartitionTimeline(
        acks="all",
        clock_bound_ns=0,
        disks_kept=True,
        epochs=(0, 1),
        elected_after=(0, 26_000_000),
        deposed=(10_000_000, 90_000_000),
        log_ends=(0, 26),
        watched_until=90_000_000,
        under_min_isr=[UnderMinIsr(start=50_000_000, end=59_000_000, epoch=None, isr="1")],
        told=[ObservedAnomaly(anomaly="two-leaders", time=1, detail="two")],
    )
    given_item = with_files(item, planted(), tmp_path, 4, timeline=timeline)
    rows, totals = whole(given_item)
    # Partitions with retention or compaction are never split.
    never = {"deleted-too-early", "tombstone-too-early", "resurrected-value"}
    assert {json.loads(row)["anomaly"] for row in rows} == CHECKERS.keys() - never
    assert in_slices(given_item, tmp_path, slice_rows) == (rows, totals)


def test_unreadable_file_is_reported_by_the_whole_check(tmp_path: Path, item: WorkItem) -> None:
    given_item = with_files(item, planted(), tmp_path, 4)
    damaged = Path(given_item.sends[0])
    damaged.write_bytes(damaged.read_bytes()[:-9])
    assert split_of(given_item, 10) is None
    assert any(
        f"sends.{TOPIC}.0.1.parquet" in doubt.message for doubt in whole(given_item)[1].check_errors
    )


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> list[WorkItem]:
    """Three partitions, of which each has lost a record."""
    topics = ("t", "u", "v")
    losses = {(topic, 0): losing(kept(*range(1, 9)), 3) for topic in topics}
    made = MadeRun(partitions=losses, cells=[cell(name=topic, topic=topic) for topic in topics])
    (run,), _ = evidence(write_campaign(tmp_path_factory.mktemp("campaign"), made))
    return work_items(run)


@pytest.mark.spark
def test_spark_yields_the_same_for_slices_as_for_the_whole(
    tmp_path: Path, several: list[WorkItem], spark: SparkSession
) -> None:
    told = {}
    for slice_rows in (1, SLICE_ROWS):
        rows = tmp_path / str(slice_rows)
        totals = reconcile_all(spark, several, rows, slice_rows)
        assert [path.name for path in totals.rows] == (
            ["oversized-0", "oversized-1", "oversized-2"] if slice_rows == 1 else ["0-3"]
        )
        batches = (batch for directory in totals.rows for batch in rows_of(directory))
        found = _told(row for batch in batches for row in batch.to_pylist())
        told[slice_rows] = totals.partitions, found
    assert told[1] == told[SLICE_ROWS]
    assert len(told[1][1]) == 3


# As in test_check: the worker that judges a slice of u-0 is killed, as by a kernel that is out of
# memory.
KILLER = """
import os, signal
from ackproof.checkers.engine import oversized_partitions
with_witnesses = oversized_partitions.with_witnesses

def killed_at(task):
    if task.split.item.topic == "u":
        os.kill(os.getpid(), signal.SIGKILL)
    return with_witnesses(task)

oversized_partitions.with_witnesses = killed_at
"""
RECONCILE = """
import pathlib, pickle, sys
from ackproof.checkers.engine.spark.session import session
from ackproof.checkers.engine.spark.jobs import reconcile_all
items, rows = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes()), pathlib.Path(sys.argv[2])
with session(rows / "spark") as spark:
    totals = reconcile_all(spark, items, rows, slice_rows=1)
print([
    (topic, found.counts["lost"], [doubt.message for doubt in found.doubts])
    for (_, (topic, _)), found in sorted(totals.partitions.items())
])
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_slice_that_dies_takes_down_its_own_partition_alone(
    tmp_path: Path, several: list[WorkItem]
) -> None:
    (tmp_path / "items").write_bytes(pickle.dumps(several))
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(KILLER, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
    ended = subprocess.run(
        [sys.executable, "-c", RECONCILE, tmp_path / "items", tmp_path / "rows"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    before, died, after = ast.literal_eval(ended.stdout)
    assert (before, after) == (("t", 1, []), ("v", 1, []))
    (topic, lost, (doubt,)) = died
    assert (topic, lost) == ("u", 0)
    assert doubt.startswith("u-0: could not be checked: SparkException: Python worker exited")
