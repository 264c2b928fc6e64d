"""A campaign from night to night, on pages and as rows of text: squares of verdicts, charts of
figures, flaky cells, and faults.

How often each fault was injected, took effect and healed, and how often a cell changed its verdict,
counts only what was judged. An inconclusive cell, one that guarantees nothing, and a run without a
verdict are neither passes nor failures.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby

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
from ackproof.infra.systems.product import BUNDLED

# --- reliability ----------------------------------------------------------------------------------

SEEDS_NAMED_MAX = 3


def system_of(night: Night) -> str:
    """Return the system of a night with its metadata quorum; empty if it is unknown."""
    return ", ".join(filter(None, (night.system, night.metadata_quorum)))


# --- flaky cells ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyCell:
    """A cell that passes and fails on the same system in the same campaign.

    Attributes:
        system: The system with its metadata quorum.
        version: The version of the bundled system; empty for others, whose name has it.
        name: The stable name of the cell.
        passes, fails: The runs in which it passed and failed.
        undecided: The runs in which it was inconclusive.
        changes: The changes from one to the other, in the order of time.
        latest: Whether it passed or failed at last, and since when, in words.
        seeds: Seeds with which it passed and failed, so that the seed alone does not explain it.
    """

    system: str
    version: str
    name: str
    passes: int
    fails: int
    undecided: int
    changes: int
    latest: str
    seeds: tuple[int, ...]

    @property
    def of_seeds(self) -> str:
        """Return the seeds in words; empty without any."""
        if not self.seeds:
            return ""
        named = ", ".join(map(str, self.seeds[:SEEDS_NAMED_MAX]))
        left = len(self.seeds) - SEEDS_NAMED_MAX
        return f"{named} and {left} more" if left > 0 else named


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """The outcome of a cell in one run. ``verdict`` is the one that the campaign counts."""

    date: str
    seed: tuple[int | None, int]
    verdict: Verdict


def flaky_cells(oldest_first: Iterable[Night]) -> tuple[FlakyCell, ...]:
    """Return the flaky cells of one campaign, those with most changes first. A single change is
    included: it may be a regression or a correction."""
    outcomes: dict[tuple[str, str, str], list[_Outcome]] = {}
    for night in oldest_first:
        # Ackproof's version is that of the bundled system. The names of others have theirs.
        version = (night.system == BUNDLED and night.ackproof) or ""
        for cell in sorted(night.cells, key=lambda one: one.run):
            key = system_of(night), version, cell.cell
            outcomes.setdefault(key, []).append(_outcome(night, cell))
    found = [_flaky(*key, of) for key, of in outcomes.items()]
    flaky = [one for one in found if one is not None]
    return tuple(sorted(flaky, key=lambda one: -one.changes))


def _outcome(night: Night, cell: CellFigures) -> _Outcome:
    return _Outcome(
        date=date_of(night.began_s),
        seed=(night.seed, cell.run),
        verdict=cell.kind if cell.counts_as is None else cell.counts_as,
    )


def _flaky(system: str, version: str, name: str, outcomes: Sequence[_Outcome]) -> FlakyCell | None:
    judged = [one for one in outcomes if one.verdict in (Verdict.PASS, Verdict.FAIL)]
    passed = [one for one in judged if one.verdict is Verdict.PASS]
    failed = [one for one in judged if one.verdict is Verdict.FAIL]
    if not passed or not failed:
        return None
    stretches = [list(of) for _, of in groupby(judged, key=lambda one: one.verdict)]
    last = stretches[-1]
    word = "passes" if last[0].verdict is Verdict.PASS else "fails"
    both = {one.seed for one in passed} & {one.seed for one in failed}
    return FlakyCell(
        system=system,
        version=version,
        name=name,
        passes=len(passed),
        fails=len(failed),
        undecided=sum(one.verdict is Verdict.INCONCLUSIVE for one in outcomes),
        changes=len(stretches) - 1,
        latest=f"{word} since {last[0].date}",
        seeds=tuple(sorted({seed for seed, _ in both if seed is not None})),
    )


# --- faults ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRate:
    """The success of a fault on a system, over all runs.

    Attributes:
        fault: Its name, as ``kill``.
        attempts: The number of times that it was begun.
        injected: The injections that ended without an error; None if older results do not say.
        proven: The injections whose effect was proven.
        unchecked: The injections whose effect was not checked.
        healed: The faults whose heal was proven.
    """

    fault: str
    system: str
    attempts: int
    injected: int | None
    proven: int
    unchecked: int
    healed: int

    @property
    def figures(self) -> tuple[tuple[str, bool], ...]:
        """Return the injected, proven and healed faults in words, each with whether some certainly
        were not."""
        proven = self._share(self.proven)
        if self.unchecked:
            proven += f", {number(self.unchecked)} not checked"
        injected = UNKNOWN if self.injected is None else self._share(self.injected)
        return (
            (injected, self.injected is not None and self.injected < self.attempts),
            (proven, self.proven + self.unchecked < self.attempts),
            (self._share(self.healed), self.healed < self.attempts),
        )

    def _share(self, count: int) -> str:
        """Return a part of the attempts in words. It is only 100 % if it is all of them."""
        percent = min(99, round(100 * count / self.attempts)) if count < self.attempts else 100
        return f"{number(count)} of {number(self.attempts)} ({percent} %)"


def fault_rates(
    runs: Iterable[tuple[str, Sequence[FaultDocument]]],
) -> tuple[FaultRate, ...]:
    """Return the rates of each fault on each system, by name. ``runs`` are results with their
    system and their faults."""
    found: dict[tuple[str, str], list[FaultDocument]] = {}
    for system, faults in runs:
        for one in faults:
            found.setdefault((one.name.rpartition("#")[0] or one.name, system), []).append(one)
    return tuple(_rate(*key, of) for key, of in sorted(found.items()))


def _rate(fault: str, system: str, of: Sequence[FaultDocument]) -> FaultRate:
    injected = [one.injected for one in of]
    return FaultRate(
        fault=fault,
        system=system,
        attempts=len(of),
        injected=None if None in injected else sum(map(bool, injected)),
        proven=sum(one.proven is True for one in of),
        unchecked=sum(one.proven is None for one in of),
        healed=sum(one.healed is not None for one in of),
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
