"""The lost records, told at two lengths: windows of neighbours, and every one by itself."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.report.timeline import Timeline

ANOMALIES_FILE = "anomalies.parquet"

LISTED_MAX = 100_000
"""Records that the page names one by one; further ones are in ``anomalies.parquet`` alone."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWindow:
    """Records of one partition, lost to the same fault, in the order of their acks.

    Attributes:
        fault: The faults on when they were acked, ``isolate#2``; for a record acked while none
            was, the fault nearest in time: what was acked just before a leader was cut off had no
            time to be replicated, and a deposed leader goes on acknowledging for a moment after
            the links are healed. None in a run without faults.
        outside: How many of them were acked while no fault was on.
        rows: The rows of ``anomalies.parquet``.
    """

    run: int
    cell: str
    topic: str
    partition: int
    fault: str | None
    outside: int
    rows: Sequence[Row]

    @property
    def offsets(self) -> tuple[int, int] | None:
        """First and last offset of the acks; None where the client was told none."""
        told = [row["offset"] for row in self.rows if row["offset"] is not None]
        return (min(told), max(told)) if told else None

    @property
    def times(self) -> tuple[int, int]:
        """First and last ack, nanoseconds of the Unix epoch."""
        return self.rows[0]["time"], self.rows[-1]["time"]


def lost(directory: Path) -> list[dict[str, Any]]:
    """The rows of anomalies.parquet that are lost records, in the order of their acks."""
    file = directory / ANOMALIES_FILE
    if not file.exists():
        return []
    rows = pq.read_table(file)
    order = [(key, "ascending") for key in ("run", "cell", "partition", "time", "sequence")]
    records: list[dict[str, Any]] = (
        rows.filter(pc.equal(rows["anomaly"], "lost")).sort_by(order).to_pylist()
    )
    return records


def windows(records: Iterable[Row], timelines: Mapping[int, Timeline]) -> list[LossWindow]:
    """The lost records, grouped by partition and fault. ``timelines``: by run number."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in records:
        fault = row["fault"] or _nearest_fault(row["time"], timelines.get(row["run"]))
        place = row["run"], row["cell"], row["topic"], row["partition"], fault
        groups.setdefault(place, []).append(row)
    return [
        LossWindow(
            run=run,
            cell=cell,
            topic=topic,
            partition=partition,
            fault=fault,
            outside=sum(row["fault"] is None for row in rows),
            rows=rows,
        )
        for (run, cell, topic, partition, fault), rows in groups.items()
    ]


def _nearest_fault(time: int, timeline: Timeline | None) -> str | None:
    faults = timeline.faults if timeline else ()
    distances = [
        (abs(boundary - time), fault.label)
        for fault in faults
        for boundary in (fault.start, fault.end)
        if boundary is not None
    ]
    return min(distances)[1] if distances else None
