"""Rows written by columns: written as if row by row, or refused and kept."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ackproof.history.errors import HistoryError, WriteFailed
from ackproof.history.reader import partitions, read, read_files
from ackproof.history.writer import ROWS_MAX, PartitionedWriter
from tests.support.builders.examples import examples

NAMES = ("partition", "sequence", "type", "time", "offset", "error", "due", "key", "tombstone")
WIDE = st.integers(0, 2**63 - 1)
ROWS = st.tuples(
    st.integers(0, 4),
    WIDE,
    st.sampled_from(["invoke", "ok", "fail", "info"]),
    WIDE,
    st.none() | WIDE,
    st.none() | st.sampled_from(["_MSG_TIMED_OUT", "_QUEUE_FULL"]),
    st.none() | WIDE,
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.booleans(),
)


def sends(directory: Path) -> PartitionedWriter:
    return PartitionedWriter(directory, "sends", "w")


def put(columns, *rows: tuple) -> None:
    for row in rows:
        for name, value in zip(NAMES, row, strict=True):
            columns[name].append(value)


def found(directory: Path) -> dict[int, list[tuple]]:
    """The rows of each partition, but for what is the same in all."""
    return {
        number: [tuple(row.values()) for row in read_files("sends", of["sends"], NAMES).to_pylist()]
        for (_, number), of in partitions(directory).items()
    }


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.lists(ROWS, max_size=8), max_size=4))
def test_each_row_is_in_the_file_of_its_partition_in_order(
    tmp_path_factory: pytest.TempPathFactory, flushed: list[list[tuple]]
) -> None:
    directory = tmp_path_factory.mktemp("history")
    writer = sends(directory)
    columns = writer.columns("t", 3, {"cell": "c", "producer": 4})
    for rows in flushed:
        put(columns, *rows)
        writer.flush()
        assert len(columns) == 0
    writer.close()
    rows = [row for some in flushed for row in some]
    assert found(directory) == {
        number: [row for row in rows if row[0] == number] for number in {row[0] for row in rows}
    }
    same = read(directory, "sends", ["cell", "topic", "producer"]).to_pylist()
    assert same == [{"cell": "c", "topic": "t", "producer": 4}] * len(rows)
    closed = {row["partition"]: row["rows"] for row in read(directory, "closings").to_pylist()}
    told = {number: sum(row[0] == number for row in rows) for number in {0, 1, 2, *closed}}
    assert closed == told, "or one without rows has no closing"


def as_block(rows: list[tuple]) -> dict[str, object]:
    """Columns of these rows: arrays where there is no null, masked ones where numbers have some,
    one value where all have the same."""
    made: dict[str, object] = {}
    for name, values in zip(NAMES, zip(*rows, strict=True), strict=True):
        if len({*values}) == 1:
            made[name] = values[0]
        elif name in ("type", "error", "tombstone"):
            made[name] = list(values)
        else:
            nulls = [value is None for value in values]
            kind = np.int32 if name in ("partition", "key") else np.int64
            numbers = np.array([value or 0 for value in values], kind)
            made[name] = np.ma.masked_array(numbers, nulls) if any(nulls) else numbers
    return made


@settings(deadline=None, max_examples=examples(30))
@given(st.lists(st.tuples(st.sampled_from("brf"), st.lists(ROWS, min_size=1)), max_size=8))
def test_rows_that_come_at_once_are_written_in_order_among_those_that_come_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, list[tuple]]]
) -> None:
    directory = tmp_path_factory.mktemp("history")
    writer = sends(directory)
    columns = writer.columns("t", 5, {"cell": "c", "producer": 4})
    expected: list[tuple] = []
    for event, rows in events:
        if event == "f":
            writer.flush()
            continue
        expected += rows
        if event == "b":
            columns.extend(len(rows), **as_block(rows))
        else:
            put(columns, *rows)
    assert len(columns) <= len(expected)
    writer.close()
    assert found(directory) == {
        number: [row for row in expected if row[0] == number]
        for number in {row[0] for row in expected}
    }


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("sequence", None, "sequence"),
        ("time", "noon", "schema"),
        ("time", np.array([0.5, 1.0]), "float64 in column time"),
        ("partition", np.array([0, 1], np.int64), "int64 in column partition"),
        ("sequence", np.array([1, 2, 3]), "3 values of sequence for 2 rows"),
        ("type", ["ok"], "1 values of type for 2 rows"),
        ("cell", "c", "cell"),
    ],
)
def test_rows_at_once_that_do_not_fit_are_refused(
    tmp_path: Path, name: str, value: object, why: str
) -> None:
    writer = sends(tmp_path)
    columns = writer.columns("t", 2, {"cell": "c", "producer": 4})

    def record() -> None:
        columns.extend(2, **{**as_block([ROW, ROW]), name: value})
        writer.close()

    with pytest.raises(HistoryError, match=why):
        record()
    assert list(tmp_path.iterdir()) == []


ROW = (0, 1, "invoke", 2, None, None, None, None, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("sequence", None), ("time", "noon"), ("sequence", 2**63), ("partition", None)],
)
def test_rows_that_do_not_fit_are_refused_and_nothing_is_said_to_be_whole(
    tmp_path: Path, name: str, value: object
) -> None:
    writer = sends(tmp_path)
    columns = writer.columns("t", 2, {"cell": "c", "producer": 4})
    put(columns, ROW, ROW)
    columns[name][1] = value
    for end in (writer.flush, writer.close):
        with pytest.raises(HistoryError, match="sends"):
            end()
    assert list(tmp_path.iterdir()) == []
    columns[name][1] = columns[name][0]
    writer.close()
    assert found(tmp_path) == {0: [ROW, ROW]}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("longer", [True, False])
def test_columns_of_different_lengths_are_refused(tmp_path: Path, name: str, longer: bool) -> None:
    """Or what follows would be told of other records than it is true of."""
    writer = sends(tmp_path)
    columns = writer.columns("t", 1, {"cell": "c", "producer": 4})
    put(columns, ROW, ROW)
    if longer:
        columns[name].append(columns[name][0])
    else:
        columns[name].pop()
    with pytest.raises(HistoryError, match="not as many"):
        writer.close()


def test_rows_of_a_failed_flush_are_written_once_at_the_next(tmp_path: Path) -> None:
    writer = sends(tmp_path / "history")
    columns = writer.columns("t", 2, {"cell": "c", "producer": 4})
    other = (1, 9, "ok", 3, 7, None, None, None, None)
    put(columns, ROW, other)
    (tmp_path / "history").rename(tmp_path / "gone")
    with pytest.raises(WriteFailed):
        writer.flush()
    (tmp_path / "gone").rename(tmp_path / "history")
    put(columns, ROW)
    writer.close()
    assert found(tmp_path / "history") == {0: [ROW, ROW], 1: [other]}


def test_columns_are_flushed_each_second_and_earlier_if_large(tmp_path: Path) -> None:
    writer = sends(tmp_path)
    columns = writer.columns("t", 1, {"cell": "c", "producer": 4})
    writer.flush_due(100.0)
    put(columns, ROW)
    writer.flush_due(100.9)
    assert len(columns) == 1
    writer.flush_due(101.0)
    assert len(columns) == 0
    for name, value in zip(NAMES, ROW, strict=True):
        columns[name].extend([value] * ROWS_MAX)
    writer.flush_due(101.1)
    assert len(columns) == 0
    assert len(found(tmp_path)[0]) == ROWS_MAX + 1
