"""The rows that reports show of each cell. Only this module knows how they follow from a result.

A number that the evidence does not show is None, and is displayed as unknown. A 0 would say that
nothing was lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ackproof.checkers.guarantees.table import NO_LOSS
from ackproof.checkers.thresholds import Threshold
from ackproof.checkers.verdict import (
    WORST_FIRST,
    CampaignResult,
    CellResult,
    Guarantee,
    Latency,
    Unavailable,
    Verdict,
    counted_as,
    is_broken,
)
from ackproof.harness.report import cell_names
from ackproof.harness.report.cell_names import CellKey
from ackproof.history.cell import Value, as_text, library_of
from ackproof.history.manifest import Manifest

ROWS, COLUMNS = "acks", "min.insync.replicas"
"""The settings by which losses are arranged. They are shown of every cell."""

COUNTS = ("sent", "acked", "failed", "indeterminate", "lost", "duplicated", "reordered")
UNKNOWN = "unknown"
NOT_CHECKED = "not checked"
NOT_CONCERNED = "does not apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRow:
    """One cell of one run.

    Attributes:
        name: The cell's stable name, with its run if there are several.
        title: Its name for readers (:mod:`harness.report.cell_names`).
        settings: All its settings, including the swept ones of its cluster.
        counts: The counts by the names of COUNTS; None if unknown.
        counts_as: The verdict that the campaign counts, which depends on its expectations.
        kept: Whether the cell guarantees that no acked record is lost.
        unavailable: The outages; None if unknown, as the following figures.
        thresholds: The campaign's thresholds on its figures. Those that are not met are among the
            reasons.
        libraries: The client libraries of its consumer groups, as far as they are known.
    """

    run: int
    cell: str
    name: str
    title: str
    settings: Mapping[str, Value]
    counts: Mapping[str, int | None]
    verdict: Verdict
    counts_as: Verdict
    expected: Sequence[Verdict]
    reasons: Sequence[str]
    guarantees: Sequence[Guarantee]
    kept: bool
    unavailable: Unavailable | None = None
    acks_per_second: float | None = None
    ack_latency: Latency | None = None
    shown_latency: Latency | None = None
    thresholds: Sequence[Threshold] = ()
    libraries: frozenset[str] = frozenset()

    @property
    def title_and_name(self) -> str:
        """Return the name for readers, with the stable name if that is another."""
        return self.name if self.title == self.name else f"{self.title} ({self.name})"

    @property
    def verdict_counts_as(self) -> Verdict:
        """Return the verdict that the campaign counts without the thresholds."""
        return counted_as(self.verdict, self.expected)

    @property
    def is_broken(self) -> bool:
        """Return whether a guarantee was broken that the campaign does not expect to be broken."""
        return is_broken(self.verdict, self.expected)

    @property
    def kind(self) -> Verdict:
        """Return the verdict that decides the colour. A cell that fails the campaign, or leaves it
        undecided, is never green."""
        return min(self.verdict, self.counts_as, key=WORST_FIRST.index)

    @property
    def as_expected(self) -> bool:
        return self.verdict in self.expected

    @property
    def words(self) -> str:
        """Return the verdict in words, with the expected one and whether its thresholds are met."""
        came = self.verdict.value
        if self.expected:
            opinion = " or ".join(self.expected)
            several = f" ({opinion})" if len(self.expected) > 1 else ""
            came += f", as expected{several}" if self.as_expected else f", expected {opinion}"
        met = [one.met for one in self.thresholds]
        if False in met:
            return f"{came}, threshold not met"
        return f"{came}, threshold undecided" if None in met else came


def rows(result: CampaignResult, manifest: Manifest | None = None) -> tuple[CellRow, ...]:
    """Return the rows of ``result``, in its order. ``manifest`` gives the clusters' settings, and
    the client libraries of groups."""
    libraries = _libraries(manifest) if manifest else {}
    clusters = {run.number: run.cluster for run in manifest.runs} if manifest else {}
    several = len({cell.run for cell in result.cells}) > 1
    settings = {
        (cell.run, cell.cell): {**cell.settings.settings, **clusters.get(cell.run, {})}
        for cell in result.cells
    }
    titles = cell_names.in_words(settings)
    found = (_row(cell, settings, titles, several=several) for cell in result.cells)
    return tuple(
        replace(row, libraries=libraries.get((row.run, row.cell), frozenset())) for row in found
    )


def _libraries(manifest: Manifest) -> Mapping[CellKey, frozenset[str]]:
    """Return the client libraries of the consumer groups of each cell."""
    return {
        (run.number, planned.cell.name): frozenset(
            library_of(group.client) for group in planned.groups if group.client is not None
        )
        for run in manifest.runs
        for planned in run.cells
    }


def columns(cells: Sequence[CellRow]) -> tuple[str, ...]:
    """Return the settings to show of cells: the two that every table has, and all that differ."""
    names = dict.fromkeys((ROWS, COLUMNS, *(name for cell in cells for name in cell.settings)))
    differ = [n for n in names if len({as_text(c.settings.get(n, "")) for c in cells}) > 1]
    return tuple(dict.fromkeys((ROWS, COLUMNS, *differ)))


def setting(cell: CellRow, name: str) -> str:
    """Return a setting's value as Kafka writes it, or an empty text if the cell has none."""
    return as_text(cell.settings.get(name, ""))


def number(value: int | None) -> str:
    """Return a number as text, such as ``10,173``."""
    return UNKNOWN if value is None else f"{value:,}"


def total(cells: Iterable[CellRow], name: str) -> tuple[int, bool]:
    """Return the sum of the known counts, and whether all are known."""
    values = [cell.counts[name] for cell in cells]
    return sum(value for value in values if value is not None), None not in values


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomalies:
    """The anomalies of a campaign by name.

    Attributes:
        found: Those that were found, with their numbers.
        absent: Those that were looked for in every cell that might have them, and not found.
        unknown: Those of which none was found, although not every such cell was checked for them,
            by the reason.
    """

    found: Mapping[str, int]
    absent: Sequence[str]
    unknown: Mapping[str, Sequence[str]]


def anomalies(result: CampaignResult) -> Anomalies:
    """Return the anomalies of a campaign."""
    known = known_anomalies(result)
    unknown: dict[str, list[str]] = {}
    for name, count in known.items():
        if count is None:
            unknown.setdefault(_why_none(name, result), []).append(name)
    return Anomalies(
        found={name: count for name, count in known.items() if count},
        absent=[name for name, count in known.items() if count == 0],
        unknown=unknown,
    )


def known_anomalies(result: CampaignResult) -> dict[str, int | None]:
    """Return the number of each anomaly, or None if there are none and not every cell that might
    have them was checked for them."""
    looked: dict[str, bool] = {}
    for one in (one for cell in result.cells for one in cell.guarantees if one.anomaly):
        looked[one.anomaly or ""] = one.checked and looked.get(one.anomaly or "", True)
    untold = bool(result.cells) and not looked  # cells of older results lack it
    return {
        name: rows if rows or looked.get(name, untold) else None
        for name, rows in result.anomalies.items()
    }


def _why_none(anomaly: str, result: CampaignResult) -> str:
    """Return whether the evidence is incomplete, or the cells were not checked for the anomaly."""
    cells = [c for c in result.cells if any(one.anomaly == anomaly for one in c.guarantees)]
    if not result.cells or any(cell.lost is None for cell in cells):
        return UNKNOWN
    return NOT_CHECKED if cells else NOT_CONCERNED


def told(known: int, whole: bool) -> str:
    """Return a sum in words: ``12``, ``at least 12``, ``unknown``."""
    if whole:
        return number(known)
    return f"at least {known:,}" if known else UNKNOWN


def worst(cells: Sequence[CellRow]) -> CellRow:
    """Return the first cell with the worst verdict."""
    return min(cells, key=lambda cell: WORST_FIRST.index(cell.kind))


def _row(
    cell: CellResult,
    settings: Mapping[CellKey, Mapping[str, Value]],
    titles: Mapping[CellKey, str],
    *,
    several: bool,
) -> CellRow:
    key = cell.run, cell.cell
    return CellRow(
        run=cell.run,
        cell=cell.cell,
        name=f"run {cell.run} {cell.cell}" if several else cell.cell,
        title=titles[key],
        settings=settings[key],
        counts={name: getattr(cell, name) for name in COUNTS},
        verdict=cell.verdict,
        counts_as=cell.counts_as,
        expected=cell.expected,
        reasons=tuple(_reasons(cell)),
        guarantees=cell.guarantees,
        kept=any(one.name == NO_LOSS and one.promised for one in cell.guarantees),
        unavailable=cell.unavailable,
        acks_per_second=cell.acks_per_second,
        ack_latency=cell.ack_latency,
        shown_latency=cell.shown_latency,
        thresholds=cell.thresholds,
    )


def _reasons(cell: CellResult) -> list[str]:
    """Return the reasons of a cell, those that fail it first. They are without its name, which
    stands beside them, or once for all cells with the same reason."""
    own = [reason.removeprefix(f"{cell.cell}: ") for reason in cell.reasons]
    failing = [one for one in cell.thresholds if not one.met]
    unmet = [one.words for one in sorted(failing, key=lambda one: one.met is None)]
    return own + unmet if cell.is_broken else unmet + own
