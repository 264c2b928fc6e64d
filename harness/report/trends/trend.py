"""A campaign from night to night on pages: squares of verdicts, and charts of figures."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from rich import box
from rich.console import Console
from rich.table import Table

from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.harness.console import plain
from ackproof.harness.report.document import FaultDocument
from ackproof.harness.report.rendering import templates
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.harness.report.terminal import styled
from ackproof.harness.report.trends.charts import MEASURES, Chart, Point, assets, charts
from ackproof.harness.report.trends.night import CellFigures, Night, date_of
from ackproof.harness.report.trends.reliability import (
    FaultRate,
    FlakyCell,
    fault_rates,
    flaky_cells,
    system_of,
)

# --- trends ---------------------------------------------------------------------------------------

NIGHTS_SHOWN = 30
"""The number of nights of each campaign that are shown, the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendSquare:
    """A night of a campaign or a cell.

    Attributes:
        kind: A verdict, ``broken`` or ``none``.
        letter: The kind as a letter.
        told: The kind in words.
        link: The page that the square leads to; empty for none.
        system: The system, as in :attr:`TrendResult.system`.
    """

    kind: str
    letter: str
    told: str
    link: str = ""
    system: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendResult:
    """One result in a trend.

    Attributes:
        campaign: The campaign's name, or the best guess at it.
        date: The time at which it began.
        night: The figures; None without a verdict that can be trusted, for the reason ``trouble``.
        link: The page of the report; empty for none.
        faults: The faults of its runs; None if they are unknown.
    """

    campaign: str
    date: str
    night: Night | None
    trouble: str = ""
    link: str = ""
    faults: Sequence[FaultDocument] | None = None

    @property
    def system(self) -> str:
        """Return the system with its metadata quorum; empty if it is unknown."""
        return "" if self.night is None else system_of(self.night)

    @property
    def square(self) -> TrendSquare:
        """The whole result as a square."""
        if self.night is None:
            told = f"{self.date}: {self.trouble}"
            return TrendSquare(kind="broken", letter="?", told=told, link=self.link)
        told = f"{self.date}, seed {self.night.seed}: {self.night.words}"
        return _square(self.night.kind, told, self.system, self.link)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendCell:
    """A cell from night to night: its stable name, its name for readers, and its squares."""

    name: str
    title: str
    squares: tuple[TrendSquare, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A campaign from night to night. Squares begin with the newest night, as pages need them.

    Attributes:
        left_out: The number of earlier nights that are not shown.
        cells: Its cells, by name.
        flaky: The cells that passed and failed on the same system in the shown nights.
        faults: The success of each fault in the shown nights.
    """

    campaign: str
    left_out: int
    squares: tuple[TrendSquare, ...]
    cells: tuple[TrendCell, ...]
    charts: tuple[Chart, ...]
    flaky: tuple[FlakyCell, ...]
    faults: tuple[FaultRate, ...]

    def title(self, name: str) -> str:
        """Return a cell's name for readers."""
        return next(one.title for one in self.cells if one.name == name)


def occasion(night: Night) -> TrendResult:
    """Return a night of the history file as part of a trend."""
    return TrendResult(campaign=night.campaign or UNKNOWN, date=date_of(night.began_s), night=night)


def by_campaign(occasions: Iterable[TrendResult]) -> Mapping[str, Sequence[TrendResult]]:
    """Return the occasions of each campaign, in the given order."""
    campaigns: dict[str, list[TrendResult]] = {}
    for one in occasions:
        campaigns.setdefault(one.campaign, []).append(one)
    return campaigns


def trends(newest_first: Iterable[TrendResult], shown: int = NIGHTS_SHOWN) -> Iterator[Trend]:
    """Yield the trend of each campaign, over its latest nights."""
    for campaign, of in by_campaign(newest_first).items():
        latest = of[:shown]
        nights = [one.night for one in latest if one.night is not None]
        yield Trend(
            campaign=campaign,
            left_out=len(of) - len(latest),
            squares=tuple(one.square for one in latest),
            cells=tuple(_cells(latest)),
            charts=charts([_point(one) for one in reversed(latest)]),
            flaky=flaky_cells(reversed(nights)),
            faults=fault_rates((one.system, one.faults or ()) for one in latest),
        )


def _cells(newest_first: Sequence[TrendResult]) -> Iterator[TrendCell]:
    by_night = [_by_cell(one.night) for one in newest_first]
    names = dict.fromkeys(name for cells in by_night for name in cells)
    titles = {
        name: next(cells[name][0].title for cells in by_night if name in cells) for name in names
    }
    often = Counter(titles.values())
    for name in sorted(names):
        # Two cells that never were in one night may have the same title.
        title = titles[name] if often[titles[name]] == 1 else ""
        squares = (_of_cell(*one, name) for one in zip(newest_first, by_night, strict=True))
        yield TrendCell(name=name, title=title or name, squares=tuple(squares))


def sum_in_words(values: Iterable[int | None]) -> str:
    """Return the sum of the known values, with a + where some are unknown; empty for no value."""
    counted = list(values)
    known = [value for value in counted if value is not None]
    if not known:
        return UNKNOWN if counted else ""
    return number(sum(known)) + ("+" if len(known) < len(counted) else "")


def _point(one: TrendResult) -> Point:
    night = one.night
    return Point(
        date=one.date,
        system=one.system,
        total=None if night is None else night.total,
        missing=one.trouble,
        link=one.link,
    )


def _by_cell(night: Night | None) -> Mapping[str, list[CellFigures]]:
    """Return the cells of a night by name. Several cells of a name are rounds of one cell."""
    cells: dict[str, list[CellFigures]] = {}
    for cell in () if night is None else night.cells:
        cells.setdefault(cell.cell, []).append(cell)
    return cells


def _of_cell(
    one: TrendResult, cells: Mapping[str, Sequence[CellFigures]], name: str
) -> TrendSquare:
    rounds = cells.get(name)
    if not rounds:
        told = f"{one.date}: absent"
        return TrendSquare(kind="none", letter="", told=told, system=one.system)
    worst = min((cell.kind for cell in rounds), key=WORST_FIRST.index)
    lost = sum_in_words(cell.lost for cell in rounds)
    return _square(worst, f"{one.date}: {worst.value}, {lost} lost", one.system)


def _square(kind: Verdict, told: str, system: str, link: str = "") -> TrendSquare:
    letter = kind.value[0].upper()
    return TrendSquare(kind=kind.value, letter=letter, told=told, link=link, system=system)


# --- the last night -------------------------------------------------------------------------------
#
# Only verdicts and lost records are compared. Times differ from night to night: of ten equal
# nights, the last has the longest outage in one case of ten. `ackproof compare` tests times.

LAST_NIGHT = timedelta(hours=12)
"""Results that began within this time before the newest belong to the last night, which may have
runs of several seeds or systems."""


def worse_than_before(oldest_first: Sequence[Night]) -> Iterator[str]:
    """Yield each respect in which a result of the last night is worse than all results before that
    night, one sentence each.

    A result is compared with those of the same campaign and system. If there are none, because the
    system is new, it is compared with all of the campaign.
    """
    last, before = _split(oldest_first)
    for night in last:
        for reason in _reasons(night, _comparable(night, before)):
            yield f"{_name(night)}: {reason}"


def not_compared(oldest_first: Sequence[Night]) -> Iterator[str]:
    """Yield the results of the last night that were not compared, one sentence each."""
    last, before = _split(oldest_first)
    for night in last:
        known = _comparable(night, before)
        if not known:
            yield f"{_name(night)}: there is no earlier night to compare it with"
        elif night.total.lost_guaranteed is None and night.total.guaranteed:
            yield f"{_name(night)}: the number of lost records is unknown"


def _split(oldest_first: Sequence[Night]) -> tuple[list[Night], list[Night]]:
    """Return the results of the last night, and those before."""
    newest = max((one.began_s or 0.0 for one in oldest_first), default=0.0)
    since = newest - LAST_NIGHT.total_seconds()
    at = len(oldest_first)
    while at and _since(oldest_first[at - 1], since):
        at -= 1
    return list(oldest_first[at:]), list(oldest_first[:at])


def _since(night: Night, time_s: float) -> bool:
    """Return whether a night began after a time. A night without a time stands behind its
    neighbours, and goes with them."""
    return night.began_s is None or night.began_s > time_s


def _comparable(night: Night, before: Sequence[Night]) -> list[Night]:
    same = [one for one in before if one.campaign == night.campaign]
    return [one for one in same if one.system == night.system] or same


def _reasons(night: Night, before: Sequence[Night]) -> Iterator[str]:
    if not before:
        return
    worst = min((one.kind for one in before), key=WORST_FIRST.index)
    if WORST_FIRST.index(night.kind) < WORST_FIRST.index(worst):
        yield f"{night.words}; no night before was worse than {worst.value}"
    lost = night.total.lost_guaranteed
    most = max(one.total.lost_guaranteed or 0 for one in before)
    if lost is not None and lost > most:
        nights = f"{len(before)} night{'s' if len(before) > 1 else ''}"
        yield (
            f"{lost:,} guaranteed records lost; at most {most:,} in the {nights} before, as "
            "far as known"
        )


def _name(night: Night) -> str:
    system = f" on {night.system}" if night.system else ""
    return f"{night.campaign}{system}, {date_of(night.began_s)}"


# --- rows of text, and the page of all nights -----------------------------------------------------

# --- rows of text ---------------------------------------------------------------------------------

TEXTS = ("began (UTC)", "verdict", "system")
NUMBERS = ("seed", "cells", "acked", *(measure.title.lower() for measure in MEASURES))
"""The headings of the columns that are aligned to the left (TEXTS), and to the right."""


_SYLLABLES = {
    "duplicated": "dupli-\ncated",
    "elsewhere": "else-\nwhere",
    "guaranteed": "guaran-\nteed",
    "inconclusive": "incon-\nclusive",
    "unavailable": "unavail-\nable",
}


def texts(night: Night) -> tuple[str, str, str]:
    """Return the cells under :data:`TEXTS`."""
    return date_of(night.began_s), night.words, night.system or ""


def numbers(night: Night) -> tuple[str, ...]:
    """Return the cells under :data:`NUMBERS`."""
    return (
        "" if night.seed is None else str(night.seed),
        number(night.total.cells),
        number(night.total.acked),
        *(measure.told(night.total) for measure in MEASURES),
    )


def print_nights(console: Console, oldest_first: Sequence[Night], last: int) -> None:
    """Print a table for each campaign, of its ``last`` nights."""
    for campaign, of in by_campaign(map(occasion, oldest_first)).items():
        nights = [one.night for one in of if one.night is not None]
        console.print(plain(f"{campaign}: {_how_many(len(nights), last)}"), soft_wrap=True)
        console.print(_table(nights[-last:]))


def _folded(heading: str) -> str:
    """Return a heading over several lines, so that the table fits into a log."""
    return " ".join(_SYLLABLES.get(word, word) for word in heading.split()).replace(" ", "\n")


def _how_many(nights: int, last: int) -> str:
    if nights > last:
        return f"the last {last} of {nights} nights"
    return f"{nights} night{'s' if nights > 1 else ''}"


def _table(nights: Sequence[Night]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in TEXTS:
        table.add_column(_folded(heading), overflow="fold")
    for heading in NUMBERS:
        table.add_column(_folded(heading), justify="right", overflow="fold")
    for night in nights:
        began, words, system = texts(night)
        verdict = styled(plain(words).plain, night.kind)
        table.add_row(began, verdict, plain(system), *numbers(night))
    return table


# --- the page -------------------------------------------------------------------------------------


def render(oldest_first: Sequence[Night], troubles: Sequence[str], last: int) -> str:
    """Return the page. ``troubles`` are the lines of the file that are not shown. ``last`` is the
    number of nights of each campaign in the charts, while the tables have all."""
    occasions = [occasion(one) for one in reversed(oldest_first)]
    return (
        templates()
        .get_template("history.html")
        .render(
            trends=list(trends(occasions, last)),
            nights=by_campaign(occasions),
            total=len(oldest_first),
            troubles=troubles,
            charts=assets(),
            headings=(TEXTS, NUMBERS),
            texts=texts,
            numbers=numbers,
        )
    )
