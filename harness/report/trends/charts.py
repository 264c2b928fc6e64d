"""The figures of nights: their texts, and small charts of them as SVG coordinates.

A chart has a line for each system, so that systems side by side do not look like changes from night
to night. Lines join exact figures. An unknown figure is a gap, and a lower bound is a hollow point.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import ClassVar

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
    """One night of a chart. ``missing`` is the reason for missing figures, if ``total`` is None."""

    date: str
    system: str
    total: NightTotals | None
    missing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A known figure. ``hollow`` marks a lower bound."""

    x: float
    y: float
    told: str
    look: int
    hollow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingDot:
    """A night whose figure is unknown."""

    x: float
    told: str


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
    gaps: tuple[MissingDot, ...]
    stretches: tuple[ChartLine, ...]
    systems: tuple[tuple[str, int], ...]


def charts(oldest_first: Sequence[Point]) -> tuple[Chart, ...]:
    """Return the charts of a campaign's nights."""
    systems = dict.fromkeys(one.system for one in oldest_first if one.total is not None)
    looks = {system: at % _LOOKS for at, system in enumerate(systems)}
    totals = [one.total for one in oldest_first if one.total is not None]
    charted = [one for one in MEASURES if one.charted and any(map(one.applies, totals))]
    return tuple(_chart(one, oldest_first, looks) for one in charted)


def _chart(measure: TrendMeasure, nights: Sequence[Point], looks: Mapping[str, int]) -> Chart:
    values = [None if one.total is None else measure.value(one.total) for one in nights]
    known = [value for value in values if value is not None]
    most = max(known, default=0.0)
    step = (Chart.width - 2 * _MARGIN) / len(nights)
    dots: dict[int, Dot] = {}
    gaps = []
    for at, (one, value) in enumerate(zip(nights, values, strict=True)):
        x = round(_MARGIN + step * (at + 0.5), 1)
        told = f"{one.date}{one.system and f', {one.system}'}: {_told(measure, one)}"
        if one.total is None or value is None:
            gaps.append(MissingDot(x=x, told=told))
            continue
        dots[at] = Dot(
            x=x,
            y=round(Chart.bottom - (Chart.bottom - Chart.top) * (value / most if most else 0), 1),
            told=told,
            look=looks[one.system],
            hollow=measure.name in one.total.at_least,
        )
    return Chart(
        title=measure.title,
        latest=_told(measure, nights[-1]),
        words=_words(measure, nights, known),
        most=measure.words(most) if most else "",
        first=nights[0].date[:10],
        last=nights[-1].date[:10] if len(nights) > 1 else "",
        dots=tuple(dots.values()),
        gaps=tuple(gaps),
        stretches=tuple(_stretches(nights, dots, looks)),
        systems=tuple(looks.items()),
    )


def _told(measure: TrendMeasure, night: Point) -> str:
    return night.missing if night.total is None else measure.told(night.total)


def _stretches(
    nights: Sequence[Point], dots: Mapping[int, Dot], looks: Mapping[str, int]
) -> list[ChartLine]:
    """Return the lines of each system, which join exact figures only. A night without any figures
    has no system, and interrupts all lines."""
    exact = {at: dot for at, dot in dots.items() if not dot.hollow}
    found = []
    for system, look in looks.items():
        own = [at for at, one in enumerate(nights) if one.total is None or one.system == system]
        for is_known, group in groupby(own, key=exact.__contains__):
            points = [exact[at] for at in group] if is_known else []
            if len(points) > 1:
                text = " ".join(f"{dot.x},{dot.y}" for dot in points)
                found.append(ChartLine(points=text, look=look))
    return found


def _words(measure: TrendMeasure, nights: Sequence[Point], known: Sequence[float]) -> str:
    shown = f"{measure.title}, {len(nights)} night{'s' if len(nights) > 1 else ''}"
    if not known:
        return f"{shown}: unknown"
    least, most = measure.words(min(known)), measure.words(max(known))
    unknown = len(nights) - len(known)
    missing = f", unknown in {unknown}" if unknown else ""
    return f"{shown}: {least} to {most}, latest {_told(measure, nights[-1])}{missing}"
