"""The faults of a run as the history tells them: when each was on, and what is proven of it.

A fault is on from ``injected`` (``inject`` where it never got so far) until it is proven healed;
one that was not proven healed is on until the end.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DISK_LOSING: Mapping[str, str] = {
    "power-loss": "what was not yet synced to disk is gone",
    "wipe": "the log directory is gone",
}
"""Faults that take data from a replica's disk. All others leave what was written where it is: a
killed process has its writes in the page cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFacts:
    """One fault of a run.

    Attributes:
        label: e.g. ``kill#1``: name and fault_id.
        target: The expression it was aimed at.
        servers: The servers that stood for, None where the history does not tell.
        start, end: Nanoseconds of the Unix epoch; end is None where no heal was proven.
        bit: Whether it is proven to have bitten.
    """

    name: str
    label: str
    target: str
    servers: tuple[str, ...] | None
    start: int
    end: int | None
    bit: bool

    @property
    def loses_disk(self) -> bool:
        """Whether it takes data from disks; see DISK_LOSING."""
        return self.name in DISK_LOSING


def faults_of(table: pa.Table) -> tuple[FaultFacts, ...]:
    """The faults that a run's ``faults`` table tells of, by their number."""
    events: dict[int, list[Mapping[str, Any]]] = {}
    for row in table.to_pylist():
        events.setdefault(row["fault_id"], []).append(row)
    return tuple(_facts(number, rows) for number, rows in sorted(events.items()))


def _facts(number: int, rows: Sequence[Mapping[str, Any]]) -> FaultFacts:
    rows = sorted(rows, key=lambda row: row["time"])
    begun = next((row for row in rows if row["event"] == "injected"), rows[0])
    healed = next((row for row in rows if row["event"] == "healed" and row["proven"]), None)
    return FaultFacts(
        name=rows[0]["fault"],
        label=f"{rows[0]['fault']}#{number}",
        target=rows[0]["target"],
        servers=_servers(row["resolved"] for row in rows),
        start=begun["time"],
        end=healed["time"] if healed else None,
        bit=any(row["event"] == "verified" and row["proven"] for row in rows),
    )


def _servers(resolved: Iterable[str | None]) -> tuple[str, ...] | None:
    try:
        found = json.loads(next(text for text in resolved if text))["servers"]
    except (StopIteration, ValueError, KeyError, TypeError):
        return None
    return tuple(map(str, found)) if isinstance(found, list) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindows:
    """Which faults were on, by time: ``labels[n]`` from ``bounds[n - 1]`` until ``bounds[n]``."""

    bounds: tuple[int, ...]
    labels: tuple[str | None, ...]

    def at(self, times: npt.NDArray[Any]) -> pa.Array:
        """The faults on at each time, comma-separated; null where none was."""
        interval = np.searchsorted(np.array(self.bounds, dtype=np.int64), times, side="right")
        return pa.array(self.labels, pa.string()).take(pa.array(interval))


NO_FAULTS = FaultWindows(bounds=(), labels=(None,))


def windows(faults: Sequence[FaultFacts]) -> FaultWindows:
    """The windows of a run's faults."""
    edges = {fault.start for fault in faults} | {fault.end for fault in faults}
    bounds = sorted(edge for edge in edges if edge is not None)
    on = [
        ",".join(f.label for f in faults if f.start <= since and (f.end is None or since < f.end))
        for since in bounds
    ]
    return FaultWindows(bounds=tuple(bounds), labels=(None, *(labels or None for labels in on)))
