"""Faults over a timeline: a band each, and their names above, none on another.

A story is one colour: its steps are named by what they are in it, below a line with its name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from ackproof.harness.report.timeline import NS_PER_S, FaultSpan

COLOURS = ("#e15b4f", "#7c5cd6", "#1f9aa8", "#c79a1b", "#5f6b7a")
STOREY_PT = 12.0
"""Height of a line of names, in points."""

_FONT_PT = 9
_FOOT_PT = 4.0
_LETTERS = 105
"""How many of a name's letters fill the width of the picture, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """What stands over a band or, ``spans``, over those of a story; ``start`` and ``end`` of it,
    and ``middle`` of the words, in seconds since the first ack; ``storey`` from 0."""

    text: str
    start: float
    end: float
    middle: float
    storey: int
    colour: str
    spans: bool = False


def names(faults: Sequence[FaultSpan], first: int, last: int) -> tuple[Name, ...]:
    """The names of faults over a picture from second ``first`` to ``last`` of the Unix epoch; where
    bands overlap or are narrow, above each other."""
    house = _House(width=max(1, last - first))
    groups = zip(_groups(faults), cycle(COLOURS), strict=False)
    for (title, group), colour in groups:
        spans = [_seconds(fault, first, last) for fault in group]
        for fault, (start, end) in zip(group, spans, strict=True):
            text = fault.label if fault.part is None else fault.part.step
            house.place(text, start, end, colour)
        if title is not None:
            starts, ends = zip(*spans, strict=True)
            above = max(one.storey for one in house.names[-len(group) :]) + 1
            house.place(title, min(starts), max(ends), colour, above=above, spans=True)
    return tuple(house.names)


def draw(figure: Figure, grid: Sequence[Axes], placed: Sequence[Name]) -> None:
    """Bands over all of ``grid``, which is in ``figure``, and the names above the first."""
    top = grid[0]
    for name in placed:
        height_pt = _FOOT_PT + STOREY_PT * name.storey
        if name.spans:
            at_top = top.get_xaxis_transform()
            shifted = offset_copy(at_top, figure, y=height_pt, units="points")
            top.plot(
                [name.start, name.end],
                [1, 1],
                color=name.colour,
                linewidth=1.2,
                transform=shifted,
                clip_on=False,
            )
        else:
            for axes in grid:
                axes.axvspan(name.start, name.end, color=name.colour, alpha=0.16, linewidth=0)
        top.annotate(
            name.text,
            (name.middle, 1),
            xytext=(0, height_pt + 1),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=_FONT_PT,
            weight="bold",
            color=name.colour,
        )


def _groups(faults: Sequence[FaultSpan]) -> Iterator[tuple[str | None, Sequence[FaultSpan]]]:
    """Each fault by itself, or the steps of a story with its name, by when they begin. What the
    story is about stands in the list below the picture, where there is room."""
    groups: dict[object, list[FaultSpan]] = {}
    for fault in sorted(faults, key=lambda fault: fault.start):
        key = fault.fault_id if fault.part is None else fault.part.title
        groups.setdefault(key, []).append(fault)
    for group in groups.values():
        part = group[0].part
        yield None if part is None else part.story, group


def _seconds(fault: FaultSpan, first: int, last: int) -> tuple[float, float]:
    """From when to when, on the picture; what is not proven healed lasts to its end."""
    start = fault.start / NS_PER_S - first
    end = (last if fault.end is None else fault.end / NS_PER_S) - first
    return start, max(start, end)


@dataclass(slots=True)
class _House:
    """Names, storey by storey. ``width``: of the picture, in seconds."""

    width: float
    names: list[Name] = field(default_factory=list)
    _taken: list[list[tuple[float, float]]] = field(default_factory=list)

    def place(
        self,
        text: str,
        start: float,
        end: float,
        colour: str,
        *,
        above: int = 0,
        spans: bool = False,
    ) -> None:
        """On the lowest storey from ``above`` on where there is room."""
        half = len(text) * self.width / _LETTERS / 2
        # Words beyond its sides would have to be made room for: the picture became narrower.
        middle = max(half, min(self.width - half, (start + end) / 2))
        room = min(start, middle - half), max(end, middle + half)
        storey = above
        while not self._free(storey, room):
            storey += 1
        self._taken[storey].append(room)
        self.names.append(
            Name(
                text=text,
                start=start,
                end=end,
                middle=middle,
                storey=storey,
                colour=colour,
                spans=spans,
            )
        )

    def _free(self, storey: int, room: tuple[float, float]) -> bool:
        while storey >= len(self._taken):
            self._taken.append([])
        return all(end <= room[0] or room[1] <= start for start, end in self._taken[storey])
