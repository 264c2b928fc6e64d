"""The sends of a run on its time axis: acks, failures, latencies, and where records were lost.

Each writer's files of a partition are read by themselves, so that memory does not grow with the
run. Of latencies, counts remain: of each bin, in steps of 1 %
(:data:`checkers.checks.latency.BIN`). They add up over writers and cells, so that a percentile is
one of the records and not an average of percentiles. It is at most 1 % too high.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array, codes_of, numbers_of
from ackproof.checkers.checks.latency import BIN
from ackproof.checkers.index import columns
from ackproof.checkers.index.partition_history import record_numbers
from ackproof.harness.report.axis.bins import Bins, Pairs, pairs
from ackproof.harness.report.axis.document import CellTraffic, Curve, Latencies
from ackproof.history import reader
from ackproof.history.names import SendType
from ackproof.history.storage import AnyPath

_STEPS = 1 << 13
"""More than the steps of any latency: of nanoseconds in 64 bits there are 4,400."""
_NS_PER_MS = 1_000_000
_COLUMNS = ("cell", "producer", "sequence", "type", "time", "due")


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
        _count(rows, within, counted)
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


def _count(rows: pa.Table, within: Bins, counted: Mapping[str, _Counted]) -> None:
    """Add the rows of one writer and partition."""
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}
    cell, kind = codes_of(rows["cell"], names), codes_of(rows["type"], kinds)
    time, due = numbers_of(rows["time"]), numbers_of(rows["due"])
    producer, sequence = numbers_of(rows["producer"]), numbers_of(rows["sequence"])
    numbers, first = record_numbers(cell, producer, sequence)
    invoked = kind == kinds.get(SendType.INVOKE, NONE)
    since = np.full(len(first), NONE, dtype=np.int64)
    since[numbers[invoked]] = np.where(due == NONE, time, due)[invoked]
    took = np.where(since[numbers] == NONE, NONE, np.maximum(time - since[numbers], 1))
    for name, code in names.items():
        if name not in counted:
            continue
        of, mine = counted[name], cell == code
        for type_, into in (
            (SendType.OK, of.acked),
            (SendType.FAIL, of.failed),
            (SendType.INFO, of.unknown),
        ):
            into += within.sums(time[mine & (kind == kinds.get(type_, NONE))])
        timed = mine & (kind == kinds.get(SendType.OK, NONE)) & (took != NONE)
        of.steps.append(_steps(within.of(time[timed]), took[timed]))


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
