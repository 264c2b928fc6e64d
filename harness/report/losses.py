"""The lost records, told at two lengths: windows of neighbours, and every one by itself."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.checkers.verdict import ANOMALIES, Verdict
from ackproof.harness.report.rows import CellRow, told
from ackproof.history import storage
from ackproof.history.errors import DamagedFiles
from ackproof.history.storage import AnyPath

# --- records acknowledged out of order ------------------------------------------------------------
#
# ``nonmonotonic-send`` looks at acks, ``reordered`` at the final log. A log that is truncated gives
# its offsets out again: then a later send is acked at a lower offset, while nothing of what the
# final log has stands out of order. Such sends are laid to the fault that the lost records are laid
# to.

LOST, SENDS, REORDERED = "lost", "nonmonotonic-send", "reordered"
_PLACE = ("run", "topic", "partition")
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfOrder:
    """The sends of a campaign that were acknowledged out of order.

    Attributes:
        sends: How many there are.
        after_losses: How many were acked at or below the offset of a record that had been acked
            before and is lost, by that record's faults; None: no fault was on.
        reordered: How many records stand out of order in the final log.
    """

    sends: int
    after_losses: Counter[str | None]
    reordered: int

    @property
    def others(self) -> int:
        """How many sends follow no loss: a retry that came in behind later sends is one."""
        return self.sends - self.after_losses.total()

    @property
    def words(self) -> str:
        """The whole of it in sentences; empty without any such send."""
        if not self.sends:
            return ""
        told = [
            f"Acknowledged at a lower offset than one that the same producer had sent before: "
            f"{self.sends:,} (nonmonotonic-send)."
        ]
        if self.after_losses:
            ordered = sorted(self.after_losses.items(), key=lambda item: (-item[1], item[0] or ""))
            by_fault = ", ".join(f"{fault or 'no fault'} {count:,}" for fault, count in ordered)
            told.append(
                f"{self.after_losses.total():,} of them follow lost records ({by_fault}): the log "
                f"was truncated, and its offsets were given out again."
            )
        if self.others:
            told.append(f"{self.others:,} follow no loss.")
        told.append(
            f"Out of order in the final log stand {self.reordered:,} (reordered); records that are "
            f"lost cannot count there."
        )
        return " ".join(told)


def out_of_order(anomalies: pa.Table) -> OutOfOrder:
    """Return them from the rows of ``anomalies.parquet``."""
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
    """The sends of one partition that follow a loss, by its faults. ``rows``: by time."""
    lost = pc.equal(rows["anomaly"], LOST).to_numpy(zero_copy_only=False)
    offsets = pc.fill_null(rows["offset"], _NO_OFFSET).to_numpy()
    of_lost = np.where(lost, offsets, _NO_OFFSET)
    highest = np.maximum.accumulate(of_lost)
    # The row of the highest lost offset so far.
    places = np.maximum.accumulate(np.where(of_lost == highest, np.arange(len(rows)), 0))
    follows = ~lost & (offsets != _NO_OFFSET) & (highest >= offsets)
    faults = rows["fault"].take(pa.array(places[follows]))
    return Counter(faults.to_pylist())


# --- lost records ---------------------------------------------------------------------------------

ANOMALIES_FILE = "anomalies.parquet"
AUTOPSIES_FILE = "autopsies.parquet"

LISTED_MAX = 100_000
"""Records that the page names one by one; further ones are in ``anomalies.parquet`` alone."""

_COUNTED = {"lost": "lost", "duplicated": "duplicated", "vanished-read": "vanished"}
"""The anomalies that are counted by fault, and their names there."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWindow:
    """Records of one partition, lost to the same fault, in the order of their acks.

    Attributes:
        fault: What the checkers hold responsible, ``isolate#2``; None where no fault was on.
        rows: The rows of ``anomalies.parquet``.
    """

    run: int
    cell: str
    topic: str
    partition: int
    fault: str | None
    rows: Sequence[Row]

    @property
    def cause(self) -> str:
        """``lost to isolate#2``."""
        return f"lost to {self.fault}" if self.fault else "lost while no fault was on"

    @property
    def seen(self) -> str:
        """How many of them consumers were shown before, as far as that is known."""
        known = [row["seen"] for row in self.rows if row["seen"] is not None]
        return told(sum(known), len(known) == len(self.rows))

    @property
    def offsets(self) -> tuple[int, int] | None:
        """First and last offset of the acks; None where the client was told none."""
        told = [row["offset"] for row in self.rows if row["offset"] is not None]
        return (min(told), max(told)) if told else None

    @property
    def times(self) -> tuple[int, int]:
        """First and last ack, nanoseconds of the Unix epoch."""
        return self.rows[0]["time"], self.rows[-1]["time"]


def name_of(row: Row) -> str:
    """What a record is called: ``producer 0 sequence 17``."""
    return f"producer {row['producer']} sequence {row['sequence']}"


def lost(directory: AnyPath) -> tuple[list[dict[str, Any]], int]:
    """The rows of anomalies.parquet that are lost records, in the order of their acks: those that
    are listed, and how many there are.

    Raises DamagedFiles when it is not there or cannot be read: that nothing is lost would be said
    otherwise, by a file that is gone.
    """
    rows = _rows(directory)
    order = [(key, "ascending") for key in ("run", "cell", "partition", "time", "sequence")]
    found = rows.filter(pc.equal(rows["anomaly"], "lost")).sort_by(order)
    # As Python's objects a row takes a kilobyte, and there may be millions.
    return found.slice(0, LISTED_MAX).to_pylist(), len(found)


def counts(directory: AnyPath) -> Counter[tuple[int, str, str]]:
    """Return the number of rows of each run, cell and anomaly. Raises as :func:`lost`."""
    place = ["run", "cell", "anomaly"]
    found = _rows(directory, place).group_by(place).aggregate([([], "count_all")]).to_pylist()
    return Counter({tuple(row[name] for name in place): row["count_all"] for row in found})


def by_fault(directory: AnyPath) -> list[dict[str, Any]]:
    """Return how many records are lost, duplicated, and shown and gone, by run, cell, partition and
    fault; in that order. Raises as :func:`lost`."""
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


def order(directory: AnyPath) -> OutOfOrder:
    """Return the sends that were acked out of order. Raises as :func:`lost`."""
    return out_of_order(_rows(directory))


def first_rows(directory: AnyPath) -> dict[tuple[int, str, str], Row]:
    """The earliest row of each run, cell and anomaly. Raises as :func:`lost`."""
    rows = _rows(directory)
    numbered = rows.append_column("row", pa.array(np.arange(len(rows))))
    by_time = numbered.sort_by([("time", "ascending"), ("partition", "ascending")])
    grouped = by_time.group_by(["run", "cell", "anomaly"], use_threads=False)
    chosen = grouped.aggregate([("row", "first")])["row_first"]
    return {(row["run"], row["cell"], row["anomaly"]): row for row in rows.take(chosen).to_pylist()}


def windows(records: Iterable[Row]) -> list[LossWindow]:
    """The lost records, grouped by partition and fault."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in records:
        place = row["run"], row["cell"], row["topic"], row["partition"], row["fault"]
        groups.setdefault(place, []).append(row)
    return [
        LossWindow(run=run, cell=cell, topic=topic, partition=partition, fault=fault, rows=rows)
        for (run, cell, topic, partition, fault), rows in groups.items()
    ]


def of_failed(windows: Iterable[LossWindow], cells: Iterable[CellRow]) -> list[LossWindow]:
    """Those of cells that failed."""
    failed = {(cell.run, cell.cell) for cell in cells if cell.verdict is Verdict.FAIL}
    return [window for window in windows if (window.run, window.cell) in failed]


def _rows(directory: AnyPath, columns: Sequence[str] | None = None) -> pa.Table:
    file = directory / ANOMALIES_FILE
    if not file.is_file():
        raise DamagedFiles({file: "is missing"})
    try:
        source = file if isinstance(file, Path) else storage.opened(file)
        return pq.read_table(source, schema=ANOMALIES, columns=columns)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise DamagedFiles({file: str(error).splitlines()[0]}) from None
