"""The rows that reports show of each cell. Only this module knows how they follow from a result.

A number that the evidence does not show is None, and is displayed as unknown. A 0 would say that
nothing was lost.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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
from ackproof.history.cell import Value, as_text
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
        name: The cell's name, with its run if there are several.
        settings: All its settings, including the swept ones of its cluster.
        counts: The counts by the names of COUNTS; None if unknown.
        counts_as: The verdict that the campaign counts, which depends on its expectations.
        kept: Whether the cell guarantees that no acked record is lost.
        unavailable: The outages; None if unknown, as the following figures.
        thresholds: The campaign's thresholds on its figures. Those that are not met are among the
            reasons.
    """

    run: int
    cell: str
    name: str
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
    """Return the rows of ``result``, in its order. ``manifest`` gives the clusters' settings."""
    clusters = {run.number: run.cluster for run in manifest.runs} if manifest else {}
    several = len({cell.run for cell in result.cells}) > 1
    return tuple(_row(cell, clusters.get(cell.run, {}), several) for cell in result.cells)


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


def anomalies(result: CampaignResult) -> list[tuple[str, str]]:
    """Return the anomalies with their numbers. If there are none and not every cell was checked for
    them, the text says why."""
    return [
        (name, _why_none(name, result) if count is None else number(count))
        for name, count in known_anomalies(result).items()
    ]


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


REASONS_OF_A_CELL = 3
"""The most reasons of its own that are shown of a cell at once. A stuck producer gives one for each
fault. The report has all of them, cell by cell."""

CELLS_NAMED = 3
"""The most cells with a common reason that are named. For more, their number is shown."""


_STEP_FAILED = re.compile(r"the step \S+ failed: ")
_FOLLOWS = "the other gaps follow from that, and are in the report"


def why(cells: Sequence[CellRow]) -> list[tuple[CellRow, str, str]]:
    """Return the reasons of the verdicts, the worst verdict first: one cell of each kind, the names
    of the cells with this reason, and the reason.

    Reasons that all cells share are given in full. If a step of the run failed, only that is given,
    because the other reasons follow from it.
    """
    shared = set.intersection(*(set(cell.reasons) for cell in cells)) if cells else set[str]()
    groups: dict[tuple[str, str], list[CellRow]] = {}
    for cell in sorted(cells, key=lambda cell: WORST_FIRST.index(cell.kind)):
        failed = [reason for reason in cell.reasons if _STEP_FAILED.match(reason)]
        if failed and len(cell.reasons) > len(failed):
            for reason in (*failed, _FOLLOWS):
                groups.setdefault((cell.words, reason), []).append(cell)
            continue
        own = [reason for reason in cell.reasons if reason not in shared]
        shown, rest = own[:REASONS_OF_A_CELL], len(own) - REASONS_OF_A_CELL
        more = [f"and {rest} more reasons, which are in the report"] if rest > 0 else []
        for reason in (*sorted(shared, key=cell.reasons.index), *shown, *more):
            groups.setdefault((cell.words, reason), []).append(cell)
    return [(of[0], _named(of, cells), reason) for (_, reason), of in groups.items()]


def _named(some: Sequence[CellRow], cells: Sequence[CellRow]) -> str:
    if len(some) == len(cells) > 1:
        return "every cell"
    names = [cell.name for cell in some]
    if len(names) > CELLS_NAMED:
        names[CELLS_NAMED - 1 :] = [f"{len(names) - CELLS_NAMED + 1} more cells"]
    return ", ".join(names)


def _row(cell: CellResult, cluster: Mapping[str, Value], several: bool) -> CellRow:
    return CellRow(
        run=cell.run,
        cell=cell.cell,
        name=f"run {cell.run} {cell.cell}" if several else cell.cell,
        settings={**cell.settings.settings, **cluster},
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
