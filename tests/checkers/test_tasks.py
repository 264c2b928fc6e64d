"""Tasks made from partitions: their division does not change the results."""

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from math import ceil
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ackproof.checkers.check import evidence
from ackproof.checkers.engine.tasks import (
    ITEM_BYTES,
    ROWS_AT_ONCE,
    Task,
    carry_out,
    grouped,
    rows_of,
    written,
)
from ackproof.checkers.engine.work_items import WorkItem, work_items
from tests.support.builders.checked_runs import reconcile
from tests.support.builders.histories import (
    AFTER,
    BEFORE,
    DURING,
    MadeRun,
    cell,
    kept,
    losing,
    write_campaign,
)

WELL = kept(BEFORE, DURING, AFTER)
ANYWHERE = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[WorkItem]:
    """Nine partitions, of each third one a record is lost."""
    partitions = {("t", n): losing(WELL, 1) if n % 3 == 0 else WELL for n in range(9)}
    made = MadeRun(partitions=partitions, cells=[cell(partitions=9)])
    (run,), _ = evidence(write_campaign(tmp_path_factory.mktemp("campaign"), made))
    return work_items(run)


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory, items: list[WorkItem]) -> dict[int, WorkItem]:
    """Items whose files have so many bytes."""
    directory = tmp_path_factory.mktemp("sized")
    found = {}
    for size in (0, 1, 3, 10):
        file = directory / str(size)
        with file.open("wb") as written:
            written.truncate(size * ITEM_BYTES)
        found[size] = replace(items[0], sends=[], log=[str(file)])
    return found


@ANYWHERE
@given(
    sizes=st.lists(st.sampled_from([0, 1, 3, 10]), min_size=1, max_size=30),
    most=st.integers(1, 9),
    smallest=st.integers(0, 40),
    largest=st.integers(1, 100),
)
def test_groups_are_neighbours_of_about_as_many_bytes(
    sized: dict[int, WorkItem], sizes: list[int], most: int, smallest: int, largest: int
) -> None:
    given_items = [sized[size] for size in sizes]
    groups = grouped(given_items, most, smallest * ITEM_BYTES, largest * ITEM_BYTES)
    assert [item for group in groups for some in group for item in some] == given_items
    total = sum(size + 1 for size in sizes)
    assert 1 <= len(groups) <= max(most, ceil(total / largest))
    assert all(groups)
    share = min(max(total / most, smallest), largest)
    weights = [[size + 1 for some in group for size in sizes_of(some, sized)] for group in groups]
    # Without its last one, a group is no larger than what it was to hold.
    assert all(sum(weight[:-1]) <= share for weight in weights)
    assert (len(groups) - 1) * share <= sum(map(sum, weights))


def sizes_of(group: Iterable[WorkItem], sized: dict[int, WorkItem]) -> list[int]:
    by_file = {item.log[0]: size for size, item in sized.items()}
    return [by_file[item.log[0]] for item in group]


def test_files_that_are_not_there_weigh_nothing(items: list[WorkItem]) -> None:
    gone = [replace(item, sends=["/nowhere/sends"], log=["/nowhere/log"]) for item in items]
    assert [[len(some) for some in group] for group in grouped(gone, 3)] == [[3], [3], [3]]


@pytest.mark.parametrize("seed", range(3))
def test_grouped_items_yield_the_same_as_single_items(
    tmp_path: Path, items: list[WorkItem], seed: int
) -> None:
    """Whatever the groups are."""
    rng = random.Random(seed)
    cuts = [0, *sorted(rng.sample(range(1, len(items)), rng.randrange(0, 5))), len(items)]
    told = []
    for number, (begin, end) in enumerate(pairwise(cuts)):
        middle = rng.randint(begin, end - 1)
        batches = [some for some in (items[begin:middle], items[middle:end]) if some]
        task = Task(batches=batches, rows=str(tmp_path / f"{number:09}.arrows"))
        told += carry_out(task)
        assert carry_out(task) == told[begin:end], "once more it gives the same"
    alone = [reconcile(item) for item in items]
    assert told == [(item.key, totals) for item, (_, totals) in zip(items, alone, strict=True)]
    found = pa.Table.from_batches(rows_of(tmp_path)).to_pylist()
    assert found == pa.concat_tables([rows for rows, _ in alone]).to_pylist()
    assert len(found) == 3


def test_few_rows_of_many_partitions_are_one_batch(tmp_path: Path, items: list[WorkItem]) -> None:
    """Each would be a row group of ``anomalies.parquet``."""
    carry_out(Task(batches=[[item] for item in items], rows=str(tmp_path / "0.arrows")))
    assert [len(batch) for batch in rows_of(tmp_path)] == [3]


def test_many_rows_are_several_batches(tmp_path: Path, items: list[WorkItem]) -> None:
    """A task holds no more of them than it must."""
    some, _ = reconcile(items[0])
    with written(tmp_path / "0.arrows") as rows:
        for _ in range(ROWS_AT_ONCE):
            rows.write(some)
    assert len(list(rows_of(tmp_path))) == len(some)
