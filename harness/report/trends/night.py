"""A night: the result of a checked campaign, in figures that can be compared from night to night.

A figure that the evidence does not show is None. A total with an unknown cell is a lower bound, and
is marked as such. Neither becomes 0.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from ackproof.checkers.verdict import Verdict
from ackproof.harness.report import cell_names, outcome
from ackproof.harness.report.cell_document import CellDocument, DocumentPart
from ackproof.harness.report.comparison import label
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.rows import ROWS, UNKNOWN
from ackproof.history.cell import as_text

_SHARE_DIGITS = 6

Count = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[float, Field(ge=0, lt=2**63)]
"""A figure that a cluster can have, so that arithmetic on it cannot fail."""


class Figures(DocumentPart):
    """The figures that a cell and a whole result have in common; null where they are unknown."""

    acked: Count
    """Acknowledged records."""
    lost: Count | None
    """Acknowledged records that are absent from the final log."""
    duplicated: Count | None
    """Records at two or more offsets in the log."""
    longest_outage_ms: Count | None
    """The longest outage of any partition."""
    unavailable_share: Amount | None
    """The part of the time with traffic in which partitions acknowledged nothing, 0 to 1."""
    p99_ms: Amount | None
    """The time within which 99 % of the records were acknowledged. For a whole result it is that of
    its slowest cell."""


class CellFigures(Figures):
    """The figures of one cell of one run."""

    run: int
    """The run's number."""
    cell: str
    """The cell's name, after that of its cluster where clusters are compared."""
    verdict: Verdict
    """The cell's verdict."""
    kind: Verdict
    """The verdict that decides the colour: a pass with a threshold that is not met is a fail."""
    guaranteed: bool
    """Whether the cell guarantees that no acknowledged record is lost."""
    counts_as: Verdict | None = None
    """The verdict that the campaign counts, which depends on its expectations; null in lines of
    earlier versions."""
    title: str = ""
    """The cell's name for readers; empty in lines of earlier versions."""


class NightTotals(Figures):
    """The figures of a whole result."""

    cells: Count
    """The number of cells of all runs."""
    inconclusive: Count
    """The number of cells whose verdict is inconclusive, or that have an undecided threshold."""
    guaranteed: Count
    """The number of cells that guarantee that no acknowledged record is lost."""
    lost_guaranteed: Count | None
    """Lost records of the cells that guarantee no loss; null also if there is no such cell."""
    lost_elsewhere: Count | None
    """Lost records of the other cells; null also if there is no such cell."""
    at_least: tuple[str, ...] = ()
    """The names of the figures that are unknown for some cell. Their values are lower bounds."""

    @property
    def inconclusive_share(self) -> float | None:
        """The part of the cells that are inconclusive; None without cells."""
        return self.inconclusive / self.cells if self.cells else None


class Night(DocumentPart):
    """One result: a line of the file."""

    history_version: Literal[1] = 1
    """The version of the line. Removing a name or changing its meaning makes a new version."""
    began: str | None
    """The time at which the first run began, UTC; null if no run began."""
    campaign: str | None
    """The campaign's name."""
    campaign_sha256: str | None
    """The digest of the resolved campaign, without its seed and its system."""
    system: str | None
    """The system under test with its version, as in the campaign file."""
    metadata_quorum: str | None
    """The place of the metadata: ZooKeeper or KRaft."""
    ackproof: str | None
    """The version of Ackproof, and so of the bundled broker."""
    seed: int | None
    """The seed of the schedule."""
    verdict: Verdict
    """The campaign's verdict."""
    words: str
    """The verdict with its qualifications: `pass, 14 of 21 guarantees checked`."""
    exit_status: int | None
    """The exit status of `ackproof run`."""
    total: NightTotals
    """The figures of all cells together."""
    cells: tuple[CellFigures, ...]
    """The figures of each cell."""
    verdict_version: int
    """The schema version of `verdict.json`."""
    verdict_sha256: str | None
    """The digest in `verdict.json`; null of a version that had none."""

    @property
    def key(self) -> tuple[object, ...]:
        """Return the identity of the results. It stays the same if they are checked again."""
        return self.campaign, self.system, self.seed, self.began or self.verdict_sha256

    @property
    def began_s(self) -> float | None:
        """Return the time at which it began, in seconds of the Unix epoch."""
        return seconds_of(self.began)

    @property
    def kind(self) -> Verdict:
        """Return the verdict that decides the colour."""
        return outcome.kind(self.verdict, self.exit_status)


def seconds_of(began: str | None) -> float | None:
    """Return the seconds of the Unix epoch of a recorded time, or None if it is not a time."""
    try:
        return None if began is None else datetime.fromisoformat(began).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def date_of(began_s: float | None) -> str:
    """Return a time as ``2031-07-24 02:17`` (UTC), or that it is unknown."""
    try:
        if began_s is not None:
            return f"{datetime.fromtimestamp(began_s, UTC):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):  # the year is not in the calendar
        pass
    return UNKNOWN


def night_of(document: VerdictDocument, campaign_sha256: str | None = None) -> Night:
    """Return the figures of a result. Raises ValueError for a figure that no cluster can have. Only
    a document without a seal has one."""
    clusters = {run.number: label(run.cluster) for run in document.runs}
    names = [_name(clusters.get(cell.run, ""), cell.cell) for cell in document.cells]
    settings = {
        (1, name): cell.model_extra or {} for name, cell in zip(names, document.cells, strict=True)
    }
    titles = cell_names.in_words(settings)
    return Night(
        began=document.began,
        campaign=document.campaign,
        campaign_sha256=campaign_sha256,
        system=document.system,
        metadata_quorum=document.metadata_quorum,
        ackproof=document.versions.ackproof,
        seed=document.seed,
        verdict=document.verdict,
        words=document.words,
        exit_status=document.exit_status,
        total=_totals(document.cells),
        cells=tuple(
            _figures(cell, name, titles[1, name])
            for name, cell in zip(names, document.cells, strict=True)
        ),
        verdict_version=document.version,
        verdict_sha256=document.sha256,
    )


def _name(cluster: str, cell: str) -> str:
    """Return the stable name of a cell, after that of its cluster where clusters are compared. The
    rounds of a cell have the same name."""
    return ", ".join(part for part in (cluster, cell) if part)


def _figures(cell: CellDocument, name: str, title: str) -> CellFigures:
    return CellFigures(
        run=cell.run,
        cell=name,
        title=title,
        verdict=cell.verdict,
        kind=cell.kind,
        counts_as=cell.counts_as,
        guaranteed=cell.promises_no_loss,
        acked=cell.acked,
        lost=cell.lost,
        duplicated=cell.duplicated,
        longest_outage_ms=_longest_outage(cell),
        unavailable_share=_share([cell]),
        p99_ms=_p99(cell),
    )


def _totals(cells: Sequence[CellDocument]) -> NightTotals:
    counts: Mapping[str, Sequence[int | None]] = {
        "lost": [cell.lost for cell in cells],
        "lost_guaranteed": [cell.lost for cell in cells if cell.promises_no_loss],
        "lost_elsewhere": [cell.lost for cell in cells if not cell.promises_no_loss],
        "duplicated": [cell.duplicated for cell in cells],
    }
    longest: Mapping[str, Sequence[float | None]] = {
        "longest_outage_ms": [_longest_outage(cell) for cell in _with_outages(cells)],
        "p99_ms": [_p99(cell) for cell in cells],
    }
    figures: dict[str, Any] = {
        **{name: sum(known) if (known := _known(of)) else None for name, of in counts.items()},
        **{name: max(_known(of), default=None) for name, of in longest.items()},
    }
    every = {**counts, **longest}
    return NightTotals(
        acked=sum(cell.acked for cell in cells),
        unavailable_share=_share(_with_outages(cells)),
        cells=len(cells),
        guaranteed=sum(cell.promises_no_loss for cell in cells),
        inconclusive=sum(Verdict.INCONCLUSIVE in (cell.verdict, cell.kind) for cell in cells),
        at_least=tuple(name for name, of in every.items() if 0 < len(_known(of)) < len(of)),
        **figures,
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _with_outages(cells: Sequence[CellDocument]) -> list[CellDocument]:
    """Return the cells that can have an outage. With acks=0 no broker acknowledges anything."""
    return [cell for cell in cells if as_text((cell.model_extra or {}).get(ROWS, "")) != "0"]


def _longest_outage(cell: CellDocument) -> int | None:
    return None if cell.unavailable is None else cell.unavailable.longest_ms


def _p99(cell: CellDocument) -> float | None:
    return None if cell.ack_latency is None else cell.ack_latency.p99_ms


def _share(cells: Sequence[CellDocument]) -> float | None:
    """Return the unavailable part of the time with traffic. Return None unless it is known of each
    cell, because a part of the cells gives no lower bound."""
    known = [cell.unavailable for cell in cells if cell.unavailable is not None]
    traffic_ms = sum(one.traffic_ms or 0 for one in known)
    if len(known) < len(cells) or not traffic_ms or any(one.traffic_ms is None for one in known):
        return None
    return round(sum(one.total_ms for one in known) / traffic_ms, _SHARE_DIGITS)
