"""The subjects of pictures among the rows of ``anomalies.parquet`` and ``root-causes.parquet``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.checks.catalogue import DIVERGENT
from ackproof.checkers.pictures.log_picture import Column, Subject, columns_of, merged
from ackproof.checkers.root_cause.duplicates import DUPLICATED

_PLACE = ("run", "cell", "anomaly", "topic", "partition")
_NAME = ("offset", "producer", "sequence")

Row = Mapping[str, Any]


def subject_of_row(anomalies: pa.Table, root_causes: pa.Table, number: int) -> Subject:
    """Return the subject of a row of ``anomalies.parquet``: all records of its cause, or, without a
    cause, the neighbouring records with the same words.

    Args:
        anomalies: The rows of ``anomalies.parquet``.
        root_causes: The rows of ``root-causes.parquet``.
        number: The number of the row, from 1.
    """
    (row,) = anomalies.slice(number - 1, 1).to_pylist()
    mine = _where(root_causes, {name: row[name] for name in _PLACE})
    same = _where(mine, {name: row[name] for name in _NAME})
    if len(same):
        found = same.slice(0, 1).to_pylist()[0]
        return _subject(_where(mine, {"cause": found["cause"]}), found, row, number)
    alike = _where(anomalies, {name: row[name] for name in (*_PLACE, "detail")})
    return _subject(_neighbours(alike, row), row, row, number)


def subject_of_cause(
    anomalies: pa.Table, root_causes: pa.Table, place: Row, cause: int
) -> Subject | None:
    """Return the subject of a cause, with its first record as the representative. Return None if it
    has no row, as the line that stands for causes that are not listed.

    Args:
        anomalies, root_causes: As in :func:`subject_of_row`.
        place: The run, cell, anomaly, topic and partition.
        cause: The number of the cause there.
    """
    mine = _where(root_causes, {**{name: place[name] for name in _PLACE}, "cause": cause})
    if not len(mine):
        return None
    first = mine.slice(0, 1).to_pylist()[0]
    number = number_of(anomalies, first)
    if number is None:
        return None
    return _subject(mine, first, anomalies.slice(number - 1, 1).to_pylist()[0], number)


def number_of(anomalies: pa.Table, row: Row) -> int | None:
    """Return the number of the first row of ``anomalies.parquet``, from 1, with the anomaly and the
    record of ``row``, or None if there is none."""
    is_it = _matches(anomalies, {name: row[name] for name in (*_PLACE, *_NAME)})
    found = pc.index(is_it, True).as_py()
    return None if found < 0 else found + 1


def _where(rows: pa.Table, values: Row) -> pa.Table:
    return rows.filter(_matches(rows, values))


def _matches(rows: pa.Table, values: Row) -> pa.ChunkedArray:
    found = pa.chunked_array([pa.repeat(pa.scalar(True), len(rows))])
    for name, value in values.items():
        column = rows[name]
        same = pc.is_null(column) if value is None else pc.equal(column, value)
        found = pc.and_(found, pc.fill_null(same, False))
    return found


def _neighbours(alike: pa.Table, row: Row) -> pa.Table:
    """Return those of the rows whose offsets form an unbroken run with that of ``row``."""
    if row["offset"] is None:
        return _where(alike, {name: row[name] for name in _NAME})
    runs = merged(_ranges(alike, row["anomaly"]))
    first, last = next(one for one in runs if one[0] <= row["offset"] <= one[1])
    return alike.filter(
        pc.and_(pc.greater_equal(alike["offset"], first), pc.less_equal(alike["offset"], last))
    )


def _subject(mine: pa.Table, cause: Row, row: Row, number: int) -> Subject:
    """Return the subject of some rows. ``cause`` is one of them, ``row`` its row of anomalies, with
    this number."""
    is_copy, has_cause = row["anomaly"] == DUPLICATED, "cause" in mine.column_names
    times = pc.min_max(mine["time"]).as_py()
    offsets = merged(_ranges(mine, row["anomaly"]))
    in_ranges = sum(last - first + 1 for first, last in offsets)
    made = Subject(
        **{name: row[name] for name in _PLACE},
        row=number,
        kind=cause["kind"] if has_cause else None,
        detail=row["detail"] or "",
        name=None if row["producer"] is None else (row["producer"], row["sequence"]),
        at=None if is_copy else row["offset"],
        records=in_ranges if row["anomaly"] == DIVERGENT else len(mine),
        offsets=offsets,
        times=None if times["min"] is None else (times["min"], times["max"]),
        faults=tuple(filter(None, (row["fault"] or "").split(","))),
    )
    if has_cause:
        made = _with_cause(made, cause, mine, is_copy=is_copy)
    return _with_names(made, mine)


def _ranges(mine: pa.Table, anomaly: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets that the rows of one cause, or of none, are about."""
    if anomaly == DIVERGENT and "last_offset" in mine.column_names:
        yield from zip(mine["offset"].to_pylist(), mine["last_offset"].to_pylist(), strict=True)
        return
    is_copy = anomaly == DUPLICATED and "offsets" in mine.column_names
    found = pc.list_flatten(mine["offsets"]) if is_copy else mine["offset"]
    offsets = np.unique(found.drop_null().to_numpy())
    runs = np.split(offsets, np.flatnonzero(np.diff(offsets) > 1) + 1)
    yield from ((int(run[0]), int(run[-1])) for run in runs if len(run))


def _with_cause(subject: Subject, cause: Row, mine: pa.Table, *, is_copy: bool) -> Subject:
    return replace(
        subject,
        epochs=_known(cause["epochs"]),
        leaders=_known(cause["leaders"]),
        next_epoch=cause["next_epoch"],
        next_leader=cause["next_leader"],
        next_offset=cause["next_offset"],
        cut_by=tuple(sorted(pc.list_flatten(mine["cut_by"]).unique().to_pylist())),
        copies=tuple(cause["offsets"] or ()) if is_copy else (),
        brokers=_known(cause["brokers"]),
    )


def _known(numbers: Sequence[int | None] | None) -> tuple[int, ...]:
    """Return the distinct known numbers of a list, in its order."""
    return tuple(dict.fromkeys(one for one in numbers or () if one is not None))


def _with_names(subject: Subject, mine: pa.Table) -> Subject:
    """Return the subject with the name of each record at an offset that has a column."""
    shown = shown_offsets(columns_of(subject))
    drawn = mine.filter(pc.is_in(mine["offset"], pa.array(shown, pa.int64())))
    columns_ = (drawn[name].to_pylist() for name in _NAME)
    names = {
        offset: (producer, sequence)
        for offset, producer, sequence in zip(*columns_, strict=True)
        if producer is not None
    }
    return replace(subject, names=names)


def shown_offsets(columns: Sequence[Column]) -> list[int]:
    """Return the offsets that have a column."""
    return [column.first for column in columns if not column.is_elided]
