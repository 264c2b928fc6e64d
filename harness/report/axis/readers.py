"""The consumers of a run on its time axis: their lag, what was not yet delivered to them, and the
changes of their partitions."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, codes_of, numbers_of
from ackproof.checkers.index import columns
from ackproof.checkers.index.partition_history import record_numbers
from ackproof.harness.report.axis.bins import Bins, carried, thinned
from ackproof.harness.report.axis.document import Mark, ReaderCurves
from ackproof.history import reader
from ackproof.history.cell import Cell
from ackproof.history.names import SendType
from ackproof.history.storage import AnyPath

Key = tuple[str, int]
Row = Mapping[str, Any]

_SENDS = ("cell", "producer", "sequence", "type", "time", "offset")
_POLLS = ("client", "cell", "producer", "sequence", "time", "offset")

_NO_OFFSETS = "acks have no offsets with acks=0, so the end of the log is unknown"
_NO_COMMITS = "no commit of this group is recorded as successful"
_TRANSACTIONAL = "records of aborted transactions are never delivered, so they are not counted"
_MISSING = "the history has no partition of this consumer"
_NAMED_MAX = 4
"""The most members that a mark names."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """A consumer group with its members, or a tail reader, and its rows of two tables."""

    name: str
    is_group: bool
    clients: frozenset[str]
    assignments: Sequence[Row]
    commits: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Columns of sends or polls of a partition. ``cell`` and ``client`` are codes, which both
    tables share."""

    cell: Array
    producer: Array
    sequence: Array
    time: Array
    offset: Array
    client: Array

    def where(self, chosen: Array) -> "_Rows":
        columns = {field.name: getattr(self, field.name)[chosen] for field in fields(self)}
        return _Rows(**columns)


def curves(
    history: AnyPath,
    cells: Sequence[Cell],
    transactional: Collection[str],
    planned: Iterable[tuple[str, str]],
    within: Bins,
) -> list[ReaderCurves]:
    """Return the consumers of each cell. Raises DamagedFiles.

    Args:
        history: The directory of the run's tables.
        cells: The cells.
        transactional: The names of the cells that are written in transactions.
        planned: The planned consumers, each as its cell and its client. Those of which the history
            has nothing are among the result.
        within: The bins.
    """
    assignments = reader.read(history, "assignments").to_pylist()
    commits = reader.read(history, "commits").to_pylist()
    files = reader.partitions(history, ("sends", "polls"))
    found = []
    for cell in cells:
        readers = list(_readers(cell, assignments, commits))
        own = {key: files[key] for key in cell.topic_partitions if key in files and readers}
        sums = _sums(own, readers, within)
        for one in readers:
            lag, undelivered = sums[one.name]
            why = [_NO_COMMITS if one.is_group and not one.commits else _NO_OFFSETS] * (lag is None)
            if cell.name in transactional:
                undelivered = None
                why.append(_TRANSACTIONAL)
            found.append(
                ReaderCurves(
                    cell=cell.name,
                    name=one.name,
                    lag=None if lag is None else lag.tolist(),
                    undelivered=None if undelivered is None else undelivered.tolist(),
                    why="; ".join(why),
                    marks=_marks(one.assignments, within) if one.is_group else None,
                )
            )
    recorded = {row["client"] for row in assignments}
    found += [
        ReaderCurves(cell=cell, name=client, lag=None, undelivered=None, why=_MISSING, marks=None)
        for cell, client in planned
        if client not in recorded
    ]
    return found


def _readers(cell: Cell, assignments: Sequence[Row], commits: Sequence[Row]) -> Iterable[_Reader]:
    by_name: dict[tuple[bool, str], list[Row]] = {}
    for row in assignments:
        if row["topic"] == cell.topic:
            is_group = row["group"] is not None
            by_name.setdefault((is_group, row["group"] or row["client"]), []).append(row)
    for (is_group, name), rows in sorted(by_name.items()):
        yield _Reader(
            name=name,
            is_group=is_group,
            clients=frozenset(row["client"] for row in rows),
            assignments=rows,
            commits=[
                row
                for row in commits
                if is_group
                and (row["group"], row["topic"]) == (name, cell.topic)
                and row["type"] == SendType.OK
            ],
        )


def _sums(
    files: Mapping[Key, Mapping[str, Sequence[AnyPath]]],
    readers: Sequence[_Reader],
    within: Bins,
) -> dict[str, tuple[Array | None, Array | None]]:
    """Return the lag and the undelivered records of each reader, summed over partitions. One
    partition is in memory at a time."""
    nothing = np.zeros(within.count, dtype=np.int64)
    found: dict[str, tuple[Array | None, Array | None]] = {
        one.name: (nothing if one.commits or not one.is_group else None, nothing) for one in readers
    }
    for key, by_table in files.items():
        names: dict[str, int] = {}
        acks, polls = (_acks(by_table["sends"], names), _polls(by_table["polls"], names))
        end = _end(acks, within)
        for one in readers:
            lag, undelivered = found[one.name]
            mine = polls.where(
                np.isin(polls.client, [names.get(name, NONE) for name in one.clients])
            )
            if lag is not None:
                position = _position(one, key, mine, within)
                lag = None if end is None else lag + np.maximum(end - position, 0)
            found[one.name] = lag, undelivered + _undelivered(acks, mine, within)
    return found


def _acks(paths: Iterable[AnyPath], names: dict[str, int]) -> _Rows:
    """Return the acknowledged sends of a partition."""
    kinds: dict[str, int] = {}
    found = []
    for path in paths:
        rows = columns.read_file("sends", path, _SENDS)
        acked = codes_of(rows["type"], kinds) == kinds.get(SendType.OK, NONE)
        found.append(_rows(rows, names, with_clients=False).where(acked))
    return _together(found)


def _polls(paths: Iterable[AnyPath], names: dict[str, int]) -> _Rows:
    return _together(
        [
            _rows(columns.read_file("polls", path, _POLLS), names, with_clients=True)
            for path in paths
        ]
    )


def _rows(rows: pa.Table, names: dict[str, int], *, with_clients: bool) -> _Rows:
    numbers = {name: numbers_of(rows[name]) for name in ("producer", "sequence", "time", "offset")}
    # A payload of no client has no cell and no producer.
    cell = codes_of(pc.fill_null(rows["cell"], ""), names)
    client = codes_of(rows["client"], names) if with_clients else np.full(len(rows), NONE)
    return _Rows(cell=cell, client=client, **numbers)


def _together(found: Sequence[_Rows]) -> _Rows:
    empty = np.empty(0, dtype=np.int64)
    return _Rows(
        **{
            field.name: np.concatenate([empty, *(getattr(one, field.name) for one in found)])
            for field in fields(_Rows)
        }
    )


def _end(acks: _Rows, within: Bins) -> Array | None:
    """Return the end of a partition's log by bin: the offset after the highest one that was acked
    in the last bin with an ack. Return None if acks have no offsets."""
    named = acks.where(acks.offset != NONE)
    if len(acks.time) and not len(named.time):
        return None
    highest = np.full(within.count, NONE, dtype=np.int64)
    np.maximum.at(highest, within.of(named.time), named.offset + 1)
    return carried(highest, highest != NONE, 0)


def _position(one: _Reader, key: Key, polls: _Rows, within: Bins) -> Array:
    """Return the position of a reader in a partition by bin: what its group has committed, or the
    offset after the last record that it read."""
    rows = one.commits if one.is_group else one.assignments
    told = [
        (row["time"], row["offset"])
        for row in rows
        if (row["topic"], row["partition"]) == key and row["offset"] is not None
    ]
    times, offsets = (np.array([pair[n] for pair in told], dtype=np.int64) for n in (0, 1))
    if not one.is_group:
        times = np.concatenate([times, polls.time])
        offsets = np.concatenate([offsets, polls.offset + 1])
    order = np.argsort(times, kind="stable")
    last = np.full(within.count, NONE, dtype=np.int64)
    last[within.of(times[order])] = offsets[order]
    return carried(last, last != NONE, 0)


def _undelivered(acks: _Rows, polls: _Rows, within: Bins) -> Array:
    """Return the number of records, by bin, that were acknowledged by its end and not yet read."""
    ours = polls.where(polls.producer != NONE)
    numbers, first = record_numbers(
        np.concatenate([acks.cell, ours.cell]),
        np.concatenate([acks.producer, ours.producer]),
        np.concatenate([acks.sequence, ours.sequence]),
    )
    never = np.iinfo(np.int64).max
    read = np.full(len(first), never)
    np.minimum.at(read, numbers[len(acks.time) :], ours.time)
    read_at = read[numbers[: len(acks.time)]]
    known = read_at != never
    delivered = np.maximum(read_at, acks.time)[known]
    left: Array = np.cumsum(within.sums(acks.time) - within.sums(delivered))
    return left


def _marks(rows: Sequence[Row], within: Bins) -> list[Mark]:
    """Return the changes of the partitions of a group's members."""
    changes: dict[tuple[int, str, str], int] = Counter(
        (row["time"], row["client"], row["event"]) for row in rows
    )
    ordered = sorted(changes)
    found = []
    for places in thinned((time for time, _, _ in ordered), within):
        own = [ordered[place] for place in places]
        words = [
            f"{client}: {changes[time, client, event]} {event}"
            for time, client, event in own[:_NAMED_MAX]
        ]
        left = len(own) - len(words)
        more = [f"and {left} more"] if left else []
        found.append(Mark(at=within.seconds(own[0][0]), words=", ".join([*words, *more])))
    return found
