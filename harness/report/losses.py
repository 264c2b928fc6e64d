"""The lost records, told at two lengths: windows of neighbours, and every one by itself."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

ANOMALIES_FILE = "anomalies.parquet"

LISTED_MAX = 5000
"""Records that the page lists one by one; the rest is in ``anomalies.parquet``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWindow:
    """Records of one partition, lost under the same faults. Times of their acks, nanoseconds."""

    run: int
    cell: str
    topic: str
    partition: int
    fault: str | None
    records: int
    first_offset: int | None
    last_offset: int | None
    first_time: int | None
    last_time: int | None


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


def windows(records: Iterable[Mapping[str, Any]]) -> Iterator[LossWindow]:
    """Neighbours that were lost under the same faults, as one window each."""

    def place(row: Mapping[str, Any]) -> tuple[Any, ...]:
        return row["run"], row["cell"], row["topic"], row["partition"], row["fault"]

    for (run, cell, topic, partition, fault), rows in groupby(records, key=place):
        group = list(rows)
        offsets = [row["offset"] for row in group if row["offset"] is not None]
        times = [row["time"] for row in group if row["time"] is not None]
        yield LossWindow(
            run=run,
            cell=cell,
            topic=topic,
            partition=partition,
            fault=fault,
            records=len(group),
            first_offset=min(offsets, default=None),
            last_offset=max(offsets, default=None),
            first_time=min(times, default=None),
            last_time=max(times, default=None),
        )
