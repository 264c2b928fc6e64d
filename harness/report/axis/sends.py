"""The sends of a run: on the time axis of a report, and so far, for the live page.

Both read each writer's files of a partition by themselves, so that memory does not grow with the
run. A latency counts from the time at which the record was due, else from its send.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, codes_of, numbers_of
from ackproof.checkers.checks.latency import BIN
from ackproof.checkers.index import columns
from ackproof.checkers.index.partition_history import record_numbers
from ackproof.harness.report.axis.bins import NS_PER_S, Bins, Pairs, pairs
from ackproof.harness.report.axis.document import CellTraffic, Curve, Latencies
from ackproof.history import reader
from ackproof.history.errors import DamagedFiles, HistoryError
from ackproof.history.names import CLOSED_SUFFIX, FileStem, SendType
from ackproof.history.storage import AnyPath

_COLUMNS = ("cell", "producer", "sequence", "type", "time", "due")


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of ``sends`` of one writer and partition, a value for each row.

    Attributes:
        cells: The cells by name, each with its code in ``cell``.
        since: The time from which the latency of the row's record counts if the row is a send.
        types: Whether the row has the type.
    """

    cells: Mapping[str, int]
    cell: Array
    producer: Array
    sequence: Array
    time: Array
    since: Array
    types: Mapping[SendType, Array]


def _decoded(rows: pa.Table) -> _Rows:
    cells: dict[str, int] = {}
    kinds: dict[str, int] = {}
    cell, kind = codes_of(rows["cell"], cells), codes_of(rows["type"], kinds)
    time, due = numbers_of(rows["time"]), numbers_of(rows["due"])
    return _Rows(
        cells=cells,
        cell=cell,
        producer=numbers_of(rows["producer"]),
        sequence=numbers_of(rows["sequence"]),
        time=time,
        since=np.where(due == NONE, time, due),
        types={each: kind == kinds.get(each, NONE) for each in SendType},
    )


# --- on the time axis -----------------------------------------------------------------------------

# Of latencies, counts remain: of each bin, in steps of 1 % (:data:`checkers.checks.latency.BIN`).
# They add up over writers and cells, so that a percentile is one of the records and not an average
# of percentiles. It is at most 1 % too high.

_STEPS = 1 << 13
"""More than the steps of any latency: of nanoseconds in 64 bits there are 4,400."""
_NS_PER_MS = 1_000_000


@dataclass(slots=True)
class _Counted:
    """The counts of a cell by bin. ``steps`` holds numbers ``bin * _STEPS + step`` of latencies
    with their counts, a pair for each group of files."""

    acked: Array
    failed: Array
    unknown: Array
    steps: list[tuple[Array, Array]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCell:
    """A cell by its title, with the times of the acks of its lost and its duplicated records, or of
    their sends without an ack. None if it is unknown which records these are. ``whole`` says
    whether there are no others."""

    title: str
    whole: bool
    lost: Array | None
    duplicated: Array | None


def span(history: AnyPath) -> tuple[int, int] | None:
    """Return the times of the first and the last event of sends, or None without any."""
    found = []
    for file in reader.files(history, "sends"):
        times = columns.read_file("sends", file, ["time"])["time"]
        if len(times):
            bounds = pc.min_max(times).as_py()
            found.append((bounds["min"], bounds["max"]))
    firsts, lasts = zip(*found, strict=True) if found else ((), ())
    return (min(firsts), max(lasts)) if found else None


def traffic(
    history: AnyPath, within: Bins, cells: Mapping[str, ShownCell]
) -> tuple[list[CellTraffic], Latencies]:
    """Return the sends of each of ``cells``, and the latencies of all of them together."""
    counted = {name: _nothing(within) for name in cells}
    for paths in reader.by_stem(history, "sends").values():
        rows = pa.concat_tables(columns.read_file("sends", path, _COLUMNS) for path in paths)
        _count(_decoded(rows), within, counted)
    found = [
        CellTraffic(
            name=name,
            title=cell.title,
            acked=counted[name].acked.tolist(),
            failed=pairs(counted[name].failed),
            unknown=pairs(counted[name].unknown),
            latency=_latencies(counted[name].steps, within),
            whole=cell.whole,
            lost=_by_bin(cell.lost, within),
            duplicated=_by_bin(cell.duplicated, within),
        )
        for name, cell in cells.items()
    ]
    together = [step for one in counted.values() for step in one.steps]
    return found, _latencies(together, within)


def _nothing(within: Bins) -> _Counted:
    acked, failed, unknown = np.zeros((3, within.count), dtype=np.int64)
    return _Counted(acked=acked, failed=failed, unknown=unknown)


def _by_bin(times: Array | None, within: Bins) -> Pairs | None:
    return None if times is None else pairs(within.sums(times))


def _count(rows: _Rows, within: Bins, counted: Mapping[str, _Counted]) -> None:
    """Add the rows of one writer and partition."""
    numbers, first = record_numbers(rows.cell, rows.producer, rows.sequence)
    invoked, acked = rows.types[SendType.INVOKE], rows.types[SendType.OK]
    since = np.full(len(first), NONE, dtype=np.int64)
    since[numbers[invoked]] = rows.since[invoked]
    took = np.where(since[numbers] == NONE, NONE, np.maximum(rows.time - since[numbers], 1))
    for name, code in rows.cells.items():
        if name not in counted:
            continue
        of, mine = counted[name], rows.cell == code
        for type_, into in (
            (SendType.OK, of.acked),
            (SendType.FAIL, of.failed),
            (SendType.INFO, of.unknown),
        ):
            into += within.sums(rows.time[mine & rows.types[type_]])
        timed = mine & acked & (took != NONE)
        of.steps.append(_steps(within.of(rows.time[timed]), took[timed]))


def _steps(places: Array, took: Array) -> tuple[Array, Array]:
    steps = np.ceil(np.log(took) / np.log(BIN)).astype(np.int64)
    numbers, counts = np.unique(places * _STEPS + steps, return_counts=True)
    return numbers, counts


def _latencies(steps: Sequence[tuple[Array, Array]], within: Bins) -> Latencies:
    empty = np.empty(0, dtype=np.int64)
    numbers = np.concatenate([empty, *(one for one, _ in steps)])
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    running = np.cumsum(np.concatenate([empty, *(counts for _, counts in steps)])[order])
    running = np.append(0, running)
    edges = np.searchsorted(numbers, np.arange(within.count + 1) * _STEPS)
    before, records = running[edges[:-1]], np.diff(running[edges])

    def within_share(share: float) -> Curve:
        ranks = before + np.ceil(records * share).astype(np.int64)
        places = np.searchsorted(running[1:], ranks)
        known = records > 0
        milliseconds = np.full(within.count, np.nan)
        milliseconds[known] = BIN ** (numbers[places[known]] % _STEPS) / _NS_PER_MS
        return [_short(value) if ok else None for value, ok in _zipped(milliseconds, known)]

    return Latencies(p50=within_share(0.5), p99=within_share(0.99), p999=within_share(0.999))


def _zipped(values: Array, known: Array) -> Iterable[tuple[float, bool]]:
    return zip(values.tolist(), known.tolist(), strict=True)


def _short(milliseconds: float) -> float:
    """Return a latency with four digits, which is more than its steps have."""
    return float(f"{milliseconds:.4g}")


# --- so far ---------------------------------------------------------------------------------------

# Every row is read once. A history file only grows: a part gets further batches, further parts
# follow, and the closed file has the rows of all parts in their order. So a number of rows is a
# position.

BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""The upper bounds of the latency histogram in seconds; one bucket above them has the rest."""

_BOUNDS_NS = np.array([round(bound * 1e9) for bound in BOUNDS_S], dtype=np.int64)
_SEQUENCE_BITS = 40
"""The bits of a sequence number in the key of a record: more than any run sends."""


@dataclass(slots=True)
class CellSends:
    """The sends of a cell so far.

    Attributes:
        latencies: The number of acknowledged sends in each bucket of :data:`BOUNDS_S`.
        latency_sum_s: The sum of their latencies in seconds.
    """

    sent: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    latencies: Array = field(default_factory=lambda: np.zeros(len(BOUNDS_S) + 1, dtype=np.int64))
    latency_sum_s: float = 0.0


@dataclass(slots=True)
class _Stream:
    """The files of one producer and partition.

    Attributes:
        taken: The number of rows that were counted.
        complete: The number of rows of each part that gets no further ones, by its name.
        closed: Whether the closed file was read to its end.
        keys, since: The records without an outcome, and the times from which their latencies count.
    """

    taken: int = 0
    complete: dict[str, int] = field(default_factory=dict)
    closed: bool = False
    keys: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    since: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class Sends:
    """The sends of the run with this ``history``, as far as :meth:`follow` has read them.

    Attributes:
        cells: The sends by the name of the cell. A cell without any row is missing.
        seconds: The number of outcomes of each type by second of the Unix epoch.
        unreadable: The problem of each file that could not be read.
    """

    def __init__(self, history: AnyPath) -> None:
        self._history = history
        self._streams: dict[FileStem, _Stream] = {}
        self.cells: dict[str, CellSends] = {}
        self.seconds: dict[str, Counter[int]] = {}
        self.unreadable: dict[str, str] = {}

    def follow(self) -> None:
        """Count the rows that were written since the last call."""
        self.unreadable = {}
        try:
            files = reader.by_stem(self._history, "sends")
        except (HistoryError, OSError) as error:
            self.unreadable["sends"] = str(error)
            return
        for stem, paths in files.items():
            stream = self._streams.setdefault(stem, _Stream())
            try:
                for rows in _new_rows(stream, paths):
                    self._count(stream, rows)
            except DamagedFiles as error:
                # A part that has gone meanwhile is in the closed file, which the next call finds.
                if all(path.exists() for path in paths):
                    self.unreadable[str(stem)] = str(error)

    def _count(self, stream: _Stream, table: pa.Table) -> None:
        stream.taken += len(table)
        rows = _decoded(table)
        took = _took(stream, rows)
        for name, code in rows.cells.items():
            found, mine = self.cells.setdefault(name, CellSends()), rows.cell == code
            counts = {each: int(np.count_nonzero(mine & of)) for each, of in rows.types.items()}
            found.sent += counts[SendType.INVOKE]
            found.acked += counts[SendType.OK]
            found.failed += counts[SendType.FAIL]
            found.unknown += counts[SendType.INFO]
            timed = took[mine & (took != NONE)]
            found.latencies += np.bincount(
                np.searchsorted(_BOUNDS_NS, timed), minlength=len(found.latencies)
            )
            found.latency_sum_s += float(timed.sum()) / NS_PER_S
        for each in (SendType.OK, SendType.FAIL, SendType.INFO):
            whole = rows.time[rows.types[each]] // NS_PER_S
            seconds, counted = np.unique(whole, return_counts=True)
            series = self.seconds.setdefault(each, Counter())
            series.update(dict(zip(seconds.tolist(), counted.tolist(), strict=True)))


def _new_rows(stream: _Stream, paths: Sequence[AnyPath]) -> list[pa.Table]:
    """Return the rows behind those that were taken. Nothing is taken if a file cannot be read.
    Raises DamagedFiles."""
    if stream.closed:
        return []
    closed = paths[-1].suffix == CLOSED_SUFFIX
    if closed and reader.count_rows(paths) == stream.taken:  # only the footer is read
        stream.closed = True
        return []
    found: list[pa.Table] = []
    complete: dict[str, int] = {}
    before = 0
    for path in paths:
        rows_known = stream.complete.get(path.name)
        if rows_known is None:
            rows = columns.read_file("sends", path, _COLUMNS)
            found.append(rows.slice(max(0, stream.taken - before)))
            rows_known = len(rows)
        before += rows_known
        if path is not paths[-1]:
            complete[path.name] = rows_known
    stream.complete, stream.closed = complete, closed
    return [rows for rows in found if len(rows)]


def _took(stream: _Stream, rows: _Rows) -> Array:
    """Return the latency of each acknowledgement in nanoseconds, and NONE for all other rows."""
    keys = (rows.producer << _SEQUENCE_BITS) | rows.sequence
    invoked = rows.types[SendType.INVOKE]
    keys_open = np.concatenate([stream.keys, keys[invoked]])
    since = np.concatenate([stream.since, rows.since[invoked]])
    order = np.argsort(keys_open, kind="stable")
    keys_open, since = keys_open[order], since[order]
    took = np.full(len(keys), NONE, dtype=np.int64)
    acked = np.flatnonzero(rows.types[SendType.OK])
    if len(keys_open):
        places = np.searchsorted(keys_open, keys[acked]).clip(max=len(keys_open) - 1)
        known = keys_open[places] == keys[acked]
        took[acked[known]] = np.maximum(rows.time[acked] - since[places], 0)[known]
    left = ~np.isin(keys_open, keys[~invoked])
    stream.keys, stream.since = keys_open[left], since[left]
    return took
