"""The time axis of a run: everything that the page shows over time, from the history.

:func:`read` returns the document that ``axis.js`` draws with uPlot (``uplot/``, its version is in
the first line of the script). Without JavaScript, and on paper, the static picture of
:mod:`harness.report.figures` is in its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import Array
from ackproof.checkers.context.faults import Partition, faults_of
from ackproof.checkers.verdict import CellResult
from ackproof.harness.report.axis import cluster, readers, sends
from ackproof.harness.report.axis.bins import Bins, Pairs, bins, lanes
from ackproof.harness.report.axis.document import Band, Document, ReaderCurves, ServerStop
from ackproof.harness.report.axis.sends import ShownCell
from ackproof.harness.report.timeline import FaultSpan, fault_anchor
from ackproof.history import reader
from ackproof.history.cell import Cell
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun
from ackproof.history.storage import AnyPath

_BEFORE = ("deploy", "ready")
_AFTERWARDS = ("final-read", "failover", "collect", "teardown")
"""The steps before and after the axis: no client of the workload runs then."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The script and the style of a page with time axes: uPlot's, with its licence, and ours."""

    script: str
    style: str


@cache
def library() -> Assets:
    """Return uPlot's script, with its licence, and its style."""
    licence, script, style = map(
        _text, ("uplot/LICENSE", "uplot/uPlot.iife.min.js", "uplot/uPlot.min.css")
    )
    return Assets(script=f"/*!\n{licence}*/\n{script}", style=style)


@cache
def assets() -> Assets:
    """Return the assets, which are the same for all pages."""
    uplot = library()
    return Assets(
        script=f"{uplot.script}\n{_text('axis.js')}", style=f"{uplot.style}\n{_text('axis.css')}"
    )


def _text(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


def read(
    number: int,
    history: AnyPath,
    faults: Sequence[FaultSpan],
    cells: Sequence[CellResult],
    anomalies: pa.Table,
    planned: PlannedRun | None = None,
    titles: Mapping[str, str] = MappingProxyType({}),
) -> Document | None:
    """Return the time axis of a run, or None if nothing was sent in it. Raises DamagedFiles if its
    history cannot be read.

    Args:
        number: The run's number.
        history: The directory of its tables.
        faults: Its faults.
        cells: The results of its cells.
        anomalies: Its lost and duplicated records: rows of ``anomalies.parquet``.
        planned: Its plan, if that is known.
        titles: The names of its cells for readers.
    """
    phases = reader.read(history, "phases").to_pylist()
    rows = reader.read(history, "cluster").to_pylist()
    within = _bins(history, faults, phases)
    if within is None:
        return None
    traffic, latency = sends.traffic(history, within, _shown(cells, titles, anomalies))
    settings = [cell.settings for cell in cells]
    facts = faults_of(
        reader.read(history, "faults").to_pylist(), planned.faults if planned else None
    )
    consumers, damage = _readers(history, settings, planned, within)
    partitions, left = cluster.partition_rows(
        rows, settings, facts, within, _damage(anomalies, within)
    )
    return Document(
        start_ms=within.start // 1_000_000,
        bin_s=within.width / 1_000_000_000,
        bins=within.count,
        faults=_bands(number, faults, within, _servers(history)),
        cells=traffic,
        latency=latency,
        partitions=partitions,
        partitions_left=left,
        unobserved=cluster.unobserved(rows, within),
        cluster=cluster.state_rows(rows, within),
        readers=consumers,
        readers_damage=damage,
    )


def _readers(
    history: AnyPath, cells: Sequence[Cell], planned: PlannedRun | None, within: Bins
) -> tuple[list[ReaderCurves], str]:
    """Return the consumers, or why they cannot be read: that costs the other charts nothing."""
    transactional = [one.cell.name for one in planned.cells if one.transactional] if planned else []
    clients = [
        (one.cell, one.client)
        for one in (planned.writers if planned else ())
        # A client that would replace another one starts only if that one is crashed.
        if one.table == "polls" and one.cell and one.client and one.instead_of is None
    ]
    try:
        return readers.curves(history, cells, transactional, clients, within), ""
    except DamagedFiles as error:
        return [], str(error)


def _bins(
    history: AnyPath, faults: Sequence[FaultSpan], phases: Sequence[Mapping[str, Any]]
) -> Bins | None:
    """Return the bins from the beginning of the workload, or of the first send without it, to the
    last event of producers, faults or steps."""
    span = sends.span(history)
    if span is None:
        return None
    times = [*span]
    times += [time for fault in faults for time in (fault.start, fault.end) if time is not None]
    times += [row["time"] for row in phases if row["phase"] not in (*_BEFORE, *_AFTERWARDS)]
    return bins(min(times), max(times))


def _servers(history: AnyPath) -> Sequence[Mapping[str, Any]]:
    """Return the starts and ends of the servers in the order of time, or nothing if they cannot be
    read: that costs the bands of faults their steps alone."""
    try:
        rows = reader.read(history, "servers").to_pylist()
    except DamagedFiles:
        return ()
    return sorted(rows, key=lambda row: row["time"])


def _stops(
    fault: FaultSpan, servers: Sequence[Mapping[str, Any]], within: Bins
) -> Sequence[ServerStop]:
    """Return the servers that a rolling fault stopped, each with the time of its next start."""
    ends = [row for row in servers if row["event"] == "ended" and row["fault_id"] == fault.fault_id]
    found = []
    for end in ends:
        starts = (
            row["time"]
            for row in servers
            if row["event"] == "started"
            and row["server"] == end["server"]
            and row["time"] > end["time"]
        )
        until = next(starts, None)
        found.append(
            ServerStop(
                server=end["server"],
                since=within.seconds(end["time"]),
                until=None if until is None else within.seconds(until),
            )
        )
    return found if len(found) > 1 else ()


def _bands(
    number: int,
    faults: Sequence[FaultSpan],
    within: Bins,
    servers: Sequence[Mapping[str, Any]],
) -> list[Band]:
    ordered = sorted(faults, key=lambda fault: (fault.start, fault.fault_id))
    spans = [(fault.start, within.end if fault.end is None else fault.end + 1) for fault in ordered]
    return [
        Band(
            anchor=fault_anchor(number, fault.fault_id),
            label=fault.label,
            servers=", ".join(fault.servers),
            since=within.seconds(fault.start),
            until=None if fault.end is None else within.seconds(fault.end),
            lane=lane,
            proven=bool(fault.proven),
            stops=_stops(fault, servers, within),
        )
        for fault, lane in zip(ordered, lanes(spans), strict=True)
    ]


def _shown(
    cells: Sequence[CellResult], titles: Mapping[str, str], anomalies: pa.Table
) -> dict[str, ShownCell]:
    return {
        cell.cell: ShownCell(
            title=titles.get(cell.cell, cell.cell),
            whole=cell.lost is not None and cell.duplicated is not None,
            lost=_times(anomalies, cell.cell, "lost", known=cell.lost is not None),
            duplicated=_times(
                anomalies, cell.cell, "duplicated", known=cell.duplicated is not None
            ),
        )
        for cell in cells
    }


def _times(anomalies: pa.Table, cell: str, anomaly: str, *, known: bool) -> Array | None:
    """Return the times of a cell's anomalies. Return None if it is unknown whether there are more
    than none."""
    chosen = pc.and_(pc.equal(anomalies["cell"], cell), pc.equal(anomalies["anomaly"], anomaly))
    times = anomalies.filter(chosen)["time"].drop_null()
    return times.to_numpy() if len(times) or known else None


def _damage(anomalies: pa.Table, within: Bins) -> dict[Partition, cluster.Damage]:
    """Return the damage of each partition that has some."""
    timed = anomalies.filter(pc.is_valid(anomalies["time"]))
    binned = timed.append_column("bin", pa.array(within.of(timed["time"].to_numpy())))
    grouped = binned.group_by(["topic", "partition", "anomaly", "bin"])
    pairs: dict[Partition, dict[str, Pairs]] = {}
    for row in grouped.aggregate([([], "count_all")]).to_pylist():
        of = pairs.setdefault((row["topic"], row["partition"]), {})
        of.setdefault(row["anomaly"], []).append((row["bin"], row["count_all"]))
    return {
        key: cluster.Damage(sorted(of.get("lost", [])), sorted(of.get("duplicated", [])))
        for key, of in pairs.items()
    }
