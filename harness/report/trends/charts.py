"""The figures of nights: their texts, and small charts of them.

A chart has a line for each system, so that systems side by side do not look like changes from night
to night. Lines join exact figures. An unknown figure is a gap, and a lower bound is a hollow point.

``trends.js`` draws the charts with uPlot from the JSON beside them. Without JavaScript, and on
paper, the same points are an SVG picture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from typing import ClassVar

from markupsafe import Markup

from ackproof.harness.report.axis import library
from ackproof.harness.report.comparison import milliseconds, seconds
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.harness.report.trends.night import NightTotals

_MARGIN = 8
_LOOKS = 8
"""The number of systems with a style of their own. trends.css has the colours and dashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendMeasure:
    """A figure that is shown from night to night.

    Attributes:
        name: The figure's field or property in :class:`NightTotals`.
        title: Its heading.
        words: Returns a value as text.
        applies: Returns whether a result has cells with such a figure. A result without any cell
            may have had.
        charted: Whether it has a chart.
    """

    name: str
    title: str
    words: Callable[[float], str]
    applies: Callable[[NightTotals], bool] = lambda _total: True
    charted: bool = True

    def value(self, total: NightTotals) -> float | None:
        """Return the figure, or None if it is unknown."""
        found: float | None = getattr(total, self.name)
        return found

    def told(self, total: NightTotals) -> str:
        """Return the figure in words."""
        value = self.value(total)
        if value is None:
            return UNKNOWN if self.applies(total) or not total.cells else "-"
        return self.words(value) + ("+" if self.name in total.at_least else "")


def _count(value: float) -> str:
    return number(round(value))


def _seconds(value: float) -> str:
    return seconds(round(value))


def _share(value: float) -> str:
    return f"{100 * value:.3g} %"


MEASURES = (
    TrendMeasure(
        name="lost_guaranteed",
        title="Lost, guaranteed",
        words=_count,
        applies=lambda total: total.guaranteed > 0,
    ),
    TrendMeasure(
        name="lost_elsewhere",
        title="Lost, elsewhere",
        words=_count,
        applies=lambda total: total.guaranteed < total.cells,
    ),
    TrendMeasure(name="duplicated", title="Duplicated", words=_count, charted=False),
    TrendMeasure(name="longest_outage_ms", title="Longest outage", words=_seconds),
    TrendMeasure(name="unavailable_share", title="Unavailable", words=_share, charted=False),
    TrendMeasure(name="p99_ms", title="p99 latency", words=milliseconds),
    TrendMeasure(name="inconclusive_share", title="Inconclusive cells", words=_share),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One night of a chart. ``missing`` is the reason for missing figures, if ``total`` is None.
    ``link`` leads to its report, and is empty without one."""

    date: str
    system: str
    total: NightTotals | None
    missing: str
    link: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """The figure of a night.

    Attributes:
        x, y: Its place in the picture; ``y`` is None if the figure is unknown.
        value: The figure; None if it is unknown.
        told: The night and its figure in words.
        system: The place of its system in those of the chart; None for a night without a verdict.
        hollow: Whether it is a lower bound.
        link: The report of the night; empty without one.
    """

    x: float
    y: float | None
    value: float | None
    told: str
    system: int | None
    hollow: bool
    link: str

    @property
    def look(self) -> int:
        """Return the style of its system."""
        return (self.system or 0) % _LOOKS


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartLine:
    """A line through the figures of neighbouring nights of a system."""

    points: str
    look: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure over the nights.

    Attributes:
        width, height: Its size, in the units of its coordinates.
        top, bottom: The vertical positions of its greatest figure and of 0.
        latest: The figure of the newest night in words.
        words: The chart in words, for screen readers.
        most: The label of the upper grid line; empty if no figure is above 0.
        dots: The nights, the oldest first.
        systems: The name and the style of each system.
    """

    width: ClassVar[int] = 320
    height: ClassVar[int] = 122
    top: ClassVar[int] = 20
    bottom: ClassVar[int] = 100

    title: str
    latest: str
    words: str
    most: str
    first: str
    last: str
    dots: tuple[Dot, ...]
    stretches: tuple[ChartLine, ...]
    systems: tuple[tuple[str, int], ...]

    @property
    def is_known(self) -> bool:
        """Return whether the figure of any night is known."""
        return any(one.value is not None for one in self.dots)

    @property
    def as_document(self) -> Mapping[str, object]:
        """Return the chart as ``trends.js`` reads it. An unknown figure is null."""
        return {
            "systems": [name for name, _ in self.systems],
            "looks": [look for _, look in self.systems],
            "span": [self.first, self.last],
            "nights": [
                [one.system, one.value, one.hollow, one.told, one.link] for one in self.dots
            ],
        }


@cache
def assets() -> Mapping[str, Markup]:
    """Return the script and the style of a page with charts: uPlot's, and ours. They are files of
    the package."""
    uplot = library()
    own = (resources.files(__package__) / "trends.js").read_text(encoding="utf-8")
    return {"script": Markup(f"{uplot.script}\n{own}"), "style": Markup(uplot.style)}


def charts(oldest_first: Sequence[Point]) -> tuple[Chart, ...]:
    """Return the charts of a campaign's nights."""
    systems = list(dict.fromkeys(one.system for one in oldest_first if one.total is not None))
    totals = [one.total for one in oldest_first if one.total is not None]
    charted = [one for one in MEASURES if one.charted and any(map(one.applies, totals))]
    return tuple(_chart(one, oldest_first, systems) for one in charted)


def _chart(measure: TrendMeasure, nights: Sequence[Point], systems: Sequence[str]) -> Chart:
    values = [None if one.total is None else measure.value(one.total) for one in nights]
    known = [value for value in values if value is not None]
    most = max(known, default=0.0)
    step = (Chart.width - 2 * _MARGIN) / len(nights)
    dots = tuple(
        Dot(
            x=round(_MARGIN + step * (at + 0.5), 1),
            y=None if value is None else _height(value, most),
            value=value,
            told=f"{one.date}{one.system and f', {one.system}'}: {_told(measure, one)}",
            system=None if one.total is None else systems.index(one.system),
            hollow=one.total is not None and measure.name in one.total.at_least,
            link=one.link,
        )
        for at, (one, value) in enumerate(zip(nights, values, strict=True))
    )
    return Chart(
        title=measure.title,
        latest=_latest(measure, nights[-1]),
        words=_words(measure, nights, known),
        most=measure.words(most) if most else "",
        first=nights[0].date[:10],
        last=nights[-1].date[:10] if len(nights) > 1 else "",
        dots=dots,
        stretches=tuple(_stretches(dots, len(systems))),
        systems=tuple((name, at % _LOOKS) for at, name in enumerate(systems)),
    )


def _height(value: float, most: float) -> float:
    """Return the vertical position of a figure."""
    return round(Chart.bottom - (Chart.bottom - Chart.top) * (value / most if most else 0), 1)


def _told(measure: TrendMeasure, night: Point) -> str:
    return night.missing if night.total is None else measure.told(night.total)


def _latest(measure: TrendMeasure, night: Point) -> str:
    return "no verdict" if night.total is None else measure.told(night.total)


def _stretches(dots: Sequence[Dot], systems: int) -> Iterator[ChartLine]:
    """Yield the lines of each system, which join exact figures only. A night without a verdict has
    no system, and interrupts all lines."""
    for system in range(systems):
        own = [one for one in dots if one.system in (None, system)]
        for is_exact, group in groupby(own, key=lambda one: one.y is not None and not one.hollow):
            points = list(group)
            if is_exact and len(points) > 1:
                text = " ".join(f"{one.x},{one.y}" for one in points)
                yield ChartLine(points=text, look=system % _LOOKS)


def _words(measure: TrendMeasure, nights: Sequence[Point], known: Sequence[float]) -> str:
    shown = f"{measure.title}, {len(nights)} night{'s' if len(nights) > 1 else ''}"
    if not known:
        return f"{shown}: unknown"
    least, most = measure.words(min(known)), measure.words(max(known))
    unknown = len(nights) - len(known)
    missing = f", unknown in {unknown}" if unknown else ""
    return f"{shown}: {least} to {most}, latest {_latest(measure, nights[-1])}{missing}"
