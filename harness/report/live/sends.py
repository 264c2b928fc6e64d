"""The sends of a run so far, by cell and by second. Every row is read once.

A history file only grows: a part gets further batches, further parts follow, and the closed file
has the rows of all parts in their order. A number of rows is therefore a position.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array, codes_of, numbers_of
from ackproof.checkers.index import columns
from ackproof.harness.report.axis.bins import NS_PER_S
from ackproof.history import reader
from ackproof.history.errors import DamagedFiles, HistoryError
from ackproof.history.names import CLOSED_SUFFIX, FileStem, SendType
from ackproof.history.storage import AnyPath

BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""The upper bounds of the latency histogram in seconds; one bucket above them has the rest."""

_BOUNDS_NS = np.array([round(bound * 1e9) for bound in BOUNDS_S], dtype=np.int64)
_COLUMNS = ("cell", "producer", "sequence", "type", "time", "due")
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

    def _count(self, stream: _Stream, rows: pa.Table) -> None:
        stream.taken += len(rows)
        cells: dict[str, int] = {}
        kinds: dict[str, int] = {}
        cell, kind = codes_of(rows["cell"], cells), codes_of(rows["type"], kinds)
        time = numbers_of(rows["time"])
        took = _took(stream, rows, kind, kinds, time)
        for name, code in cells.items():
            found, mine = self.cells.setdefault(name, CellSends()), cell == code
            counts = {
                each: int(np.count_nonzero(mine & (kind == kinds.get(each, NONE))))
                for each in SendType
            }
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
            whole = time[kind == kinds.get(each, NONE)] // NS_PER_S
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


def _took(
    stream: _Stream, rows: pa.Table, kind: Array, kinds: Mapping[str, int], time: Array
) -> Array:
    """Return the latency of each acknowledgement in nanoseconds, and NONE for all other rows.

    It counts from the time at which the record was due, else from its send, as in the report.
    """
    due = numbers_of(rows["due"])
    keys = (numbers_of(rows["producer"]) << _SEQUENCE_BITS) | numbers_of(rows["sequence"])
    invoked = kind == kinds.get(SendType.INVOKE, NONE)
    keys_open = np.concatenate([stream.keys, keys[invoked]])
    since = np.concatenate([stream.since, np.where(due == NONE, time, due)[invoked]])
    order = np.argsort(keys_open, kind="stable")
    keys_open, since = keys_open[order], since[order]
    took = np.full(len(keys), NONE, dtype=np.int64)
    acked = np.flatnonzero(kind == kinds.get(SendType.OK, NONE))
    if len(keys_open):
        places = np.searchsorted(keys_open, keys[acked]).clip(max=len(keys_open) - 1)
        known = keys_open[places] == keys[acked]
        took[acked[known]] = np.maximum(time[acked] - since[places], 0)[known]
    left = ~np.isin(keys_open, keys[~invoked])
    stream.keys, stream.since = keys_open[left], since[left]
    return took
