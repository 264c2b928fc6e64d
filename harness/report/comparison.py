"""The clusters of a campaign side by side: their losses, their outages and their latencies.

Each cluster has a column. If it had several runs (rounds, each with a seed of its own), records are
added up, and the longest outage is the longest of all runs. For other figures the column has the
median, with the smallest and the largest. A figure that is not known of every run is shown as
unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

from ackproof.checkers.verdict import (
    CampaignResult,
    Failover,
    Latency,
    RunResult,
    Unavailable,
    Verdict,
)
from ackproof.harness.report import cell_names
from ackproof.harness.report.rows import (
    UNKNOWN,
    CellRow,
    number,
    told,
    total,
    worst,
)
from ackproof.history.cell import Value, as_text

NAMED = "cluster"
"""The setting that holds the name of a compared cluster."""
SYSTEM = "system"
"""The setting that holds the system under test, if results of several systems are compared."""

Key = tuple[tuple[str, str], ...]
T = TypeVar("T")
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedText:
    """The text in a line under a cluster. ``verdict`` is set if it is one, and ``alarming`` marks
    it."""

    text: str
    verdict: Verdict | None = None
    alarming: bool = False

    @property
    def unknown(self) -> bool:
        return self.text == UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonLine:
    """One figure, under every cluster in their order."""

    name: str
    entries: tuple[ComparedText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonGroup:
    """Lines that belong together."""

    title: str
    lines: tuple[ComparisonLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureTable:
    """The figures of one cluster with a row for each group. A row has its title and one entry for
    each heading, or None for a figure that does not apply."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, tuple[ComparedText | None, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The columns and lines of a comparison.

    Attributes:
        clusters: Their names, or their swept settings; empty for a single cluster.
        rounds: The largest number of runs of a cluster.
    """

    clusters: tuple[str, ...]
    rounds: int
    groups: tuple[ComparisonGroup, ...]

    @property
    def tables(self) -> tuple["FigureTable", ...]:
        """Return the figures of the first cluster as tables: one of the cells, and one for each
        other kind of group. Groups are of one kind if they have a figure in common."""
        tables: list[tuple[dict[str, None], list[ComparisonGroup]]] = []
        for group in self.groups:
            names = dict.fromkeys(line.name for line in group.lines)
            alike = next((one for one in tables if one[0].keys() & names.keys()), None)
            if alike is None:
                tables.append((names, [group]))
            else:
                alike[0].update(names)
                alike[1].append(group)
        return tuple(
            FigureTable(headings=tuple(names), rows=tuple(_row(one, names) for one in groups))
            for names, groups in tables
        )


def _row(
    group: ComparisonGroup, names: Iterable[str]
) -> tuple[str, tuple[ComparedText | None, ...]]:
    found = {line.name: line.entries[0] for line in group.lines}
    return group.title, tuple(found.get(name) for name in names)


def compare(
    result: CampaignResult, cells: Sequence[CellRow], *, counted: bool = False
) -> Comparison | None:
    """Return the comparison of a checked campaign, or None without a run. ``counted`` says whether
    verdicts and counts are among the figures of a single cluster, too. Otherwise they are shown
    elsewhere, with all others."""
    clusters = _clusters(result.runs)
    if not clusters:
        return None
    groups = [
        *_cell_groups(cells, clusters, counted or len(clusters) > 1),
        _zookeeper_group(list(clusters.values())),
        *_failover_groups(list(clusters.values())),
    ]
    return Comparison(
        clusters=tuple(_label(key) for key in clusters),
        rounds=max(map(len, clusters.values())),
        groups=tuple(groups),
    )


def label(cluster: Mapping[str, Value]) -> str:
    """Return the label of a cluster: its name, then its other swept settings."""
    return _label(_key(cluster))


def _key(cluster: Mapping[str, Value]) -> Key:
    return tuple((name, as_text(value)) for name, value in cluster.items())


def _label(key: Key) -> str:
    return ", ".join(value if name in (NAMED, SYSTEM) else f"{name}={value}" for name, value in key)


def _clusters(runs: Sequence[RunResult]) -> dict[Key, list[RunResult]]:
    found: dict[Key, list[RunResult]] = {}
    for run in runs:
        found.setdefault(_key(run.cluster), []).append(run)
    return found


def _cell_groups(
    cells: Sequence[CellRow], clusters: Mapping[Key, Sequence[RunResult]], counted: bool
) -> Iterator[ComparisonGroup]:
    swept = {name for key in clusters for name, _ in key}
    titles = cell_names.in_words(
        {
            (1, cell.cell): {k: v for k, v in cell.settings.items() if k not in swept}
            for cell in cells
        }
    )
    runs = [{run.number for run in of} for of in clusters.values()]
    for name in dict.fromkeys(cell.cell for cell in cells):
        mine = [cell for cell in cells if cell.cell == name]
        by_cluster = [[cell for cell in mine if cell.run in numbers] for numbers in runs]
        yield ComparisonGroup(title=titles[1, name], lines=tuple(_cell_lines(by_cluster, counted)))


def _cell_lines(by_cluster: Sequence[Sequence[CellRow]], counted: bool) -> Iterator[ComparisonLine]:
    if counted:
        yield _line("verdict", by_cluster, _verdict)
        yield _line("lost", by_cluster, lambda cells: _counted(cells, "lost", alarming=True))
        yield _line("duplicated", by_cluster, lambda cells: _counted(cells, "duplicated"))
    yield _line("unavailable, longest", by_cluster, lambda cells: _away(cells, longest_outage))
    yield _line("unavailable, share", by_cluster, lambda cells: _away(cells, share_unavailable))
    yield _line("acks per second", by_cluster, _acks_per_second)
    yield _line("ack, 50 % and 99 % within", by_cluster, lambda cells: _within(cells, "ack"))
    if any(cell.shown_latency for cells in by_cluster for cell in cells):
        yield _line("read, 50 % and 99 % within", by_cluster, lambda c: _within(c, "shown"))


def _zookeeper_group(by_cluster: Sequence[Sequence[RunResult]]) -> ComparisonGroup:
    def of(name: str) -> Callable[[Sequence[RunResult]], ComparedText]:
        return lambda runs: _spread([getattr(run.zookeeper, name) for run in runs], number)

    return ComparisonGroup(
        title="ZooKeeper",
        lines=(
            _line("brokers' watches", by_cluster, of("watches")),
            _line("writes to create the topics", by_cluster, of("writes_to_create")),
            _line("writes under the faults", by_cluster, of("writes_under_faults")),
        ),
    )


def _failover_groups(by_cluster: Sequence[Sequence[RunResult]]) -> Iterator[ComparisonGroup]:
    planned = dict.fromkeys(
        one.partitions for runs in by_cluster for run in runs for one in run.failovers
    )
    for partitions in planned:
        yield ComparisonGroup(
            title=f"Failover, {partitions:,} partitions",
            lines=tuple(_failover_lines(by_cluster, partitions)),
        )


def _failover_lines(
    by_cluster: Sequence[Sequence[RunResult]], partitions: int
) -> Iterator[ComparisonLine]:
    def of(name: str, words: Callable[[int], str]) -> Callable[[Sequence[RunResult]], ComparedText]:
        return lambda runs: _spread(
            [getattr(_failover(run, partitions), name) for run in runs], words
        )

    yield _line("new leader after", by_cluster, of("led_ms", seconds))
    yield _line("acks again after", by_cluster, of("acked_ms", seconds))
    yield _line("writes", by_cluster, of("writes", number))
    yield _line("brokers' watches", by_cluster, of("watches", number))


def _failover(run: RunResult, partitions: int) -> Failover:
    found = (one for one in run.failovers if one.partitions == partitions)
    return next(found, Failover(partitions=partitions))


def _line(
    name: str, by_cluster: Sequence[Sequence[T]], entry: Callable[[Sequence[T]], ComparedText]
) -> ComparisonLine:
    return ComparisonLine(name=name, entries=tuple(entry(of) for of in by_cluster))


def _verdict(cells: Sequence[CellRow]) -> ComparedText:
    if not cells:
        return ComparedText(text=UNKNOWN)
    found = worst(cells)
    return ComparedText(text=found.words, verdict=found.kind)


def _counted(cells: Sequence[CellRow], name: str, *, alarming: bool = False) -> ComparedText:
    known, whole = total(cells, name)
    return ComparedText(text=told(known, whole and bool(cells)), alarming=alarming and known > 0)


def _away(cells: Sequence[CellRow], words: Callable[[Sequence[Unavailable]], str]) -> ComparedText:
    known = [cell.unavailable for cell in cells if cell.unavailable is not None]
    if not known or len(known) < len(cells):
        return ComparedText(text=UNKNOWN)
    return ComparedText(text=words(known))


def longest_outage(of: Sequence[Unavailable]) -> str:
    """Return the longest outage in words, with its partition and fault: ``7.3 s (t-0, kill#1)``."""
    most = seconds(max(one.longest_ms for one in of))
    outages = [outage for one in of for outage in one.by_fault]
    if not outages:
        return most
    longest = max(outages, key=lambda outage: outage.longest_ms)
    fault = longest.fault or "no fault was active"
    return f"{most} ({', '.join(filter(None, (longest.partition, fault)))})"


def share_unavailable(of: Sequence[Unavailable]) -> str:
    """Return the share of the time in which partitions were unavailable, in words: ``16.7 % (20.0
    of 120.0 partition-seconds)``."""
    away_s = sum(one.total_ms for one in of) / 1000
    traffic_s = sum(one.traffic_ms or 0 for one in of) / 1000
    if any(one.traffic_ms is None for one in of) or not traffic_s:
        return f"{away_s:,.1f} partition-seconds"
    share = 100 * away_s / traffic_s
    return f"{share:.1f} % ({away_s:,.1f} of {traffic_s:,.1f} partition-seconds)"


def _acks_per_second(cells: Sequence[CellRow]) -> ComparedText:
    return _spread([_whole(cell.acks_per_second) for cell in cells], number)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _within(cells: Sequence[CellRow], what: str) -> ComparedText:
    """Return the median latencies and their spread, since records were due."""
    told: list[Latency | None] = [getattr(cell, f"{what}_latency") for cell in cells]
    known = [one for one in told if one is not None]
    if not known or len(known) < len(told):
        return ComparedText(text=UNKNOWN)
    parts = [[getattr(one, name) for one in known] for name in ("p50_ms", "p99_ms")]
    return ComparedText(text=", ".join(_spread(values, milliseconds).text for values in parts))


def _spread(values: Sequence[N | None], words: Callable[[N], str]) -> ComparedText:
    """Return the median and the spread of values. Whole numbers (``N``) stay whole."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return ComparedText(text=UNKNOWN)
    middle = median(known)
    text = words(round(middle) if isinstance(known[0], int) else middle)
    if min(known) < max(known):
        text += f" ({words(min(known))} to {words(max(known))})"
    return ComparedText(text=text)


def seconds(milliseconds: int) -> str:
    """Return milliseconds as text, such as ``4.1 s``. None of the figures is measured more finely
    than a tenth of a second."""
    return f"{milliseconds / 1000:.1f} s"


def milliseconds(value: float) -> str:
    """Return a latency as text, such as ``4.13 ms``. From a second on it is as in
    :func:`seconds`."""
    return seconds(round(value)) if value >= 1000 else f"{value:.3g} ms"
