"""The lost records, one by one and in windows of neighbours."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.root_cause.rows import FILE as ROOT_CAUSES_FILE
from ackproof.checkers.root_cause.rows import FORMER_FILE, ROOT_CAUSES
from ackproof.harness.report.rows import told
from ackproof.history import storage
from ackproof.history.errors import DamagedFiles
from ackproof.history.storage import AnyPath

# --- records acknowledged out of order ------------------------------------------------------------
#
# ``nonmonotonic-send`` compares acks, and ``reordered`` the final log. A log that is truncated
# assigns its offsets again. A later send may then be acked at a lower offset, while no record of
# the final log is out of order. Such sends are attributed to the fault of the lost records.

LOST, SENDS, REORDERED = "lost", "nonmonotonic-send", "reordered"
_PLACE = ("run", "topic", "partition")
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfOrder:
    """The sends of a campaign that were acknowledged out of order.

    Attributes:
        sends: The number of them.
        after_losses: The number that were acked at or below the offset of a lost record that had
            been acked before, by that record's faults; None: no fault was active.
        reordered: The number of records that are out of order in the final log.
    """

    sends: int
    after_losses: Counter[str | None]
    reordered: int

    @property
    def others(self) -> int:
        """Return the number of sends that follow no loss, such as a retry that arrived after later
        sends."""
        return self.sends - self.after_losses.total()

    @property
    def words(self) -> str:
        """Return all of it in sentences, or an empty text without any such send."""
        if not self.sends:
            return ""
        told = [
            (
                "Records acknowledged at a lower offset than a record that the same producer had "
                f"sent before: {self.sends:,} (nonmonotonic-send)."
            )
        ]
        if self.after_losses:
            ordered = sorted(self.after_losses.items(), key=lambda item: (-item[1], item[0] or ""))
            by_fault = ", ".join(f"{fault or 'no fault'} {count:,}" for fault, count in ordered)
            told.append(
                f"{self.after_losses.total():,} of them follow lost records ({by_fault}): the "
                "log was truncated, and its offsets were assigned again."
            )
        if self.others:
            told.append(f"{self.others:,} do not follow a loss.")
        told.append(
            f"{self.reordered:,} records are out of order in the final log (reordered); lost "
            "records cannot be counted there."
        )
        return " ".join(told)


def out_of_order(anomalies: pa.Table) -> OutOfOrder:
    """Return the sends out of order among the rows of ``anomalies.parquet``."""
    counts = {name: _count(anomalies, name) for name in (SENDS, REORDERED)}
    after: Counter[str | None] = Counter()
    if counts[SENDS]:
        rows = anomalies.filter(pc.is_in(anomalies["anomaly"], pa.array([LOST, SENDS])))
        rows = rows.sort_by([(name, "ascending") for name in (*_PLACE, "time")])
        places = [rows[name].combine_chunks().dictionary_encode().indices for name in _PLACE]
        changes = [np.diff(place.to_numpy()) != 0 for place in places]
        bounds = np.flatnonzero(np.logical_or.reduce(changes)) + 1
        for start, end in zip([0, *bounds], [*bounds, len(rows)], strict=True):
            after.update(_after_losses(rows.slice(start, end - start)))
    return OutOfOrder(sends=counts[SENDS], after_losses=after, reordered=counts[REORDERED])


def _count(anomalies: pa.Table, name: str) -> int:
    return int(pc.sum(pc.equal(anomalies["anomaly"], name)).as_py() or 0)


def _after_losses(rows: pa.Table) -> Counter[str | None]:
    """Return the number of sends of one partition that follow a loss, by its faults. ``rows`` are
    in the order of time."""
    lost = pc.equal(rows["anomaly"], LOST).to_numpy(zero_copy_only=False)
    offsets = pc.fill_null(rows["offset"], _NO_OFFSET).to_numpy()
    of_lost = np.where(lost, offsets, _NO_OFFSET)
    highest = np.maximum.accumulate(of_lost)
    # This is the row of the highest lost offset so far.
    places = np.maximum.accumulate(np.where(of_lost == highest, np.arange(len(rows)), 0))
    follows = ~lost & (offsets != _NO_OFFSET) & (highest >= offsets)
    faults = rows["fault"].take(pa.array(places[follows]))
    return Counter(faults.to_pylist())


# --- lost records ---------------------------------------------------------------------------------

ANOMALIES_FILE = "anomalies.parquet"

LISTED_MAX = 100
"""The most records of a window that the page lists one by one. ``anomalies.parquet`` has all."""

WINDOWS_MAX = 500
"""The most windows on the page."""

_COUNTED = {"lost": "lost", "duplicated": "duplicated", "vanished-read": "vanished"}
"""The anomalies that are counted by fault, and their names in the counts."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalyWindow:
    """Anomalies of one kind in one partition with the same faults, in the order of time. Those of
    lost records are in the order of their acks.

    Attributes:
        fault: The fault that the checkers hold responsible, ``isolate#2``; None if none was active.
        records: The number of records or other anomalies.
        offsets: The lowest and highest of their offsets; None if none has one.
        times: The times of the first and the last, in nanoseconds of the Unix epoch; None if they
            are unknown.
        seen: The number of them that consumers had read, in words, as far as it is known.
        rows: The first rows of ``anomalies.parquet``, at most :data:`LISTED_MAX`.
    """

    run: int
    cell: str
    topic: str
    partition: int
    fault: str | None
    records: int
    offsets: tuple[int, int] | None
    times: tuple[int | None, int | None]
    seen: str
    rows: Sequence[Row]

    @property
    def cause(self) -> str:
        """``lost to isolate#2``."""
        return f"lost to {self.fault}" if self.fault else "lost while no fault was active"


def name_of(row: Row) -> str:
    """Return the name of a record: ``producer 0 sequence 17``."""
    return f"producer {row['producer']} sequence {row['sequence']}"


def windows(directory: AnyPath, anomaly: str = LOST) -> list[AnomalyWindow]:
    """Return the anomalies of one kind by partition and fault, in the order of their times.

    Raises DamagedFiles if the file is missing or cannot be read. Otherwise a missing file would
    look like a result without losses.
    """
    rows = _rows(directory)
    order = [(key, "ascending") for key in ("run", "cell", "partition", "time", "sequence")]
    lost = rows.filter(pc.equal(rows["anomaly"], anomaly)).sort_by(order).combine_chunks()
    if not len(lost):
        return []
    codes = [
        lost[name].combine_chunks().dictionary_encode("encode").indices.to_numpy()
        for name in ("run", "cell", "topic", "partition", "fault")
    ]
    _, first, window_of = np.unique(
        np.stack(codes, axis=1), axis=0, return_index=True, return_inverse=True
    )
    by_window = np.argsort(window_of.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(window_of.reshape(-1)))
    places = np.split(by_window, ends[:-1])
    return [_window(lost.take(pa.array(places[number]))) for number in np.argsort(first)]


def _window(rows: pa.Table) -> AnomalyWindow:
    """Return the window of these rows, which have its place in common."""
    place = rows.slice(0, 1).to_pylist()[0]
    offsets = pc.min_max(rows["offset"]).as_py()
    seen = rows["seen"].drop_null()
    return AnomalyWindow(
        **{name: place[name] for name in ("run", "cell", "topic", "partition", "fault")},
        records=len(rows),
        offsets=None if offsets["min"] is None else (offsets["min"], offsets["max"]),
        times=(rows["time"][0].as_py(), rows["time"][-1].as_py()),
        seen=told(pc.sum(seen).as_py() or 0, len(seen) == len(rows)),
        # A row takes a kilobyte as a Python object, and there may be millions.
        rows=rows.slice(0, LISTED_MAX).to_pylist(),
    )


def counts(directory: AnyPath) -> Counter[tuple[int, str, str]]:
    """Return the number of rows of each run, cell and anomaly. Raises as :func:`windows`."""
    place = ["run", "cell", "anomaly"]
    found = _rows(directory, place).group_by(place).aggregate([([], "count_all")]).to_pylist()
    return Counter({tuple(row[name] for name in place): row["count_all"] for row in found})


def by_fault(directory: AnyPath) -> list[dict[str, Any]]:
    """Return the numbers of lost, duplicated and vanished records by run, cell, partition and
    fault, in that order. Raises as :func:`windows`."""
    place = ["run", "cell", "topic", "partition", "fault"]
    rows = _rows(directory)
    told = rows.filter(pc.is_in(rows["anomaly"], pa.array(list(_COUNTED))))
    counts: dict[tuple[Any, ...], dict[str, int]] = {}
    for row in told.group_by([*place, "anomaly"]).aggregate([([], "count_all")]).to_pylist():
        key = tuple(row[name] for name in place)
        count = counts.setdefault(key, dict.fromkeys(_COUNTED.values(), 0))
        count[_COUNTED[row["anomaly"]]] = row["count_all"]
    ordered = sorted(counts, key=lambda key: (*key[:-1], key[-1] or ""))
    return [{**dict(zip(place, key, strict=True)), **counts[key]} for key in ordered]


def by_anomaly(directory: AnyPath) -> dict[tuple[int, str, str | None, str], int]:
    """Return the number of all rows by run, cell, faults and anomaly. Raises as :func:`windows`."""
    place = ["run", "cell", "fault", "anomaly"]
    found = _rows(directory, place).group_by(place).aggregate([([], "count_all")]).to_pylist()
    return {
        (row["run"], row["cell"], row["fault"], row["anomaly"]): row["count_all"] for row in found
    }


def over_time(directory: AnyPath) -> pa.Table:
    """Return the rows of lost and duplicated records with their places and times. Raises as
    :func:`lost`."""
    rows = _rows(directory, ["run", "cell", "topic", "partition", "anomaly", "time"])
    return rows.filter(pc.is_in(rows["anomaly"], pa.array(["lost", "duplicated"])))


def order(directory: AnyPath) -> OutOfOrder:
    """Return the sends that were acked out of order. Raises as :func:`windows`."""
    return out_of_order(_rows(directory))


def first_rows(directory: AnyPath) -> dict[tuple[int, str, str], Row]:
    """Return the earliest row of each run, cell and anomaly. Raises as :func:`windows`."""
    rows = _rows(directory)
    numbered = rows.append_column("row", pa.array(np.arange(len(rows))))
    by_time = numbered.sort_by([("time", "ascending"), ("partition", "ascending")])
    grouped = by_time.group_by(["run", "cell", "anomaly"], use_threads=False)
    chosen = grouped.aggregate([("row", "first")])["row_first"]
    return {(row["run"], row["cell"], row["anomaly"]): row for row in rows.take(chosen).to_pylist()}


def anomalies(directory: AnyPath) -> pa.Table:
    """Return all rows of anomalies.parquet. Raises as :func:`windows`."""
    return _rows(directory)


def root_causes(directory: AnyPath) -> pa.Table:
    """Return all rows of root-causes.parquet, or of ``autopsies.parquet`` in results of earlier
    versions. Raises as :func:`windows`."""
    file, former = directory / ROOT_CAUSES_FILE, directory / FORMER_FILE
    return _read(former if former.is_file() and not file.is_file() else file, ROOT_CAUSES)


def _rows(directory: AnyPath, columns: Sequence[str] | None = None) -> pa.Table:
    return _read(directory / ANOMALIES_FILE, ANOMALIES, columns)


def _read(file: AnyPath, schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    if not file.is_file():
        raise DamagedFiles({file: "is missing"})
    try:
        source = file if isinstance(file, Path) else storage.opened(file)
        return pq.read_table(source, schema=schema, columns=columns)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedFiles({file: str(error).splitlines()[0]}) from None
