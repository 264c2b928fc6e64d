"""The two pictures of the page as inline SVG: the matrix and the timeline.

Text stays text, so that it can be read aloud, searched and copied, and takes the page's font.
"""

import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import offset_copy

from ackproof.checkers.verdict import Verdict
from ackproof.harness.report.rows import (
    COLUMNS,
    ROWS,
    UNKNOWN,
    CellRow,
    columns,
    setting,
    told,
    total,
    worst,
)
from ackproof.harness.report.timeline import NS_PER_S, FaultSpan, Timeline

# --- bands of faults ------------------------------------------------------------------------------
#
# A story has one colour. Its steps have their own names, below a line with the name of the story.

COLOURS = ("#e15b4f", "#7c5cd6", "#1f9aa8", "#c79a1b", "#5f6b7a")
STOREY_PT = 12.0
"""The height of a line of names, in points."""

_FONT_PT = 9
_FOOT_PT = 4.0
_LETTERS = 105
"""The number of a name's letters that fill the width of the picture, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """The name over the band of a fault or, with ``spans``, over the bands of a story.

    ``start`` and ``end`` of the band, and ``middle`` of the text, are in seconds since the first
    ack. ``storey`` is the line of names, from 0.
    """

    text: str
    start: float
    end: float
    middle: float
    storey: int
    colour: str
    spans: bool = False


def names(faults: Sequence[FaultSpan], first: int, last: int) -> tuple[Name, ...]:
    """Return the names of faults over a picture from second ``first`` to ``last`` of the Unix
    epoch. Names of overlapping or narrow bands are placed above each other."""
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
    """Draw the bands over all axes of ``grid``, which is in ``figure``, and the names above the
    first."""
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
    """Yield each fault by itself, or the steps of a story with its name, in the order of their
    beginnings. The partition of a story is in the list below the picture, which has the space for
    it."""
    groups: dict[object, list[FaultSpan]] = {}
    for fault in sorted(faults, key=lambda fault: fault.start):
        key = fault.fault_id if fault.part is None else fault.part.title
        groups.setdefault(key, []).append(fault)
    for group in groups.values():
        part = group[0].part
        yield None if part is None else part.story, group


def _seconds(fault: FaultSpan, first: int, last: int) -> tuple[float, float]:
    """Return the start and end of a fault on the picture. A fault without a proven heal lasts to
    the end."""
    start = fault.start / NS_PER_S - first
    end = (last if fault.end is None else fault.end / NS_PER_S) - first
    return start, max(start, end)


@dataclass(slots=True)
class _House:
    """The placed names, line by line. ``width`` is the width of the picture in seconds."""

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
        """Place a name on the lowest line from ``above`` on that has space."""
        half = len(text) * self.width / _LETTERS / 2
        # Text beyond the sides would make the picture narrower.
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


# --- figures --------------------------------------------------------------------------------------

INK = "#1d2733"
FAINT = "#66727f"
GRID = "#e3e7eb"
VERDICT_FILL = {
    Verdict.PASS: "#d5eddb",
    Verdict.FAIL: "#f7c6c2",
    Verdict.NOT_GUARANTEED: "#fbe8c0",
    Verdict.INCONCLUSIVE: "#e4e4ea",
}
VERDICT_INK = {
    Verdict.PASS: "#14532d",
    Verdict.FAIL: "#7f1d1d",
    Verdict.NOT_GUARANTEED: "#6b4405",
    Verdict.INCONCLUSIVE: "#3f3f52",
}
SERIES = ("#2563a8", "#c2570c", "#4d7c2f", "#8b3a8f")
_VARIABLES = {
    INK: "ink",
    FAINT: "faint",
    GRID: "line",
    **{colour: verdict.value for verdict, colour in VERDICT_FILL.items()},
    **{colour: f"{verdict.value}-ink" for verdict, colour in VERDICT_INK.items()},
    **{colour: f"series-{number}" for number, colour in enumerate(SERIES)},
    **{colour: f"fault-{number}" for number, colour in enumerate(COLOURS)},
}
"""The variable of ``look.css`` for each colour: a page has others in dark mode."""

_WIDTH_IN = 10.5
_LETTER_IN, _LEGEND_LINE_IN, _LEGEND_ROW_IN = 0.083, 0.6, 0.21
"""The sizes of a legend in inches, at the text size of the page: a letter, the part beside the
text, and a row."""

_POINTS_MAX = 600
"""The most points of a line. In a longer run, a point is the mean of several seconds."""

_ACKS_ORDER = ("0", "1", "all")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}


def matrix(cells: Sequence[CellRow], name: str = "matrix") -> str:
    """Return a picture of loss and duplication by acks (rows) and min.insync.replicas (columns),
    summed over all other settings and over runs. ``name`` begins its ids, and is unique on a
    page."""
    lines = sorted({setting(cell, ROWS) for cell in cells}, key=_acks_rank)
    floors = sorted({setting(cell, COLUMNS) for cell in cells}, key=_numeric)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "matrix"}):
        figure = Figure(figsize=(0.8 + 2.3 * len(floors), 0.75 + 1.15 * len(lines)))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(-0.36, len(floors))
        axes.set_ylim(len(lines), -0.62)
        axes.axis("off")
        axes.text(len(floors) / 2, -0.46, COLUMNS, ha="center", color=FAINT, fontsize=11)
        for column, floor in enumerate(floors):
            axes.text(column + 0.5, -0.14, floor, ha="center", weight="bold", fontsize=13)
        for row, acks in enumerate(lines):
            axes.text(-0.08, row + 0.43, ROWS, ha="right", color=FAINT, fontsize=10)
            axes.text(-0.08, row + 0.65, acks, ha="right", weight="bold", fontsize=13)
            for column, floor in enumerate(floors):
                place = acks, floor
                here = [c for c in cells if (setting(c, ROWS), setting(c, COLUMNS)) == place]
                if here:
                    _matrix_cell(axes, column, row, here)
        return _svg(figure, name)


def _matrix_cell(axes: Axes, column: int, row: int, cells: Sequence[CellRow]) -> None:
    shown = worst(cells)
    verdict = shown.kind
    axes.add_patch(
        Rectangle(
            (column + 0.02, row + 0.03), 0.96, 0.94, facecolor=VERDICT_FILL[verdict], linewidth=0
        )
    )
    ink, middle = VERDICT_INK[verdict], column + 0.5
    broken = dict.fromkeys(g.name for cell in cells for g in cell.guarantees if g.is_broken)
    lost, duplicated = (told(*total(cells, name)) for name in ("lost", "duplicated"))
    acked, _ = total(cells, "acked")
    lines = (
        (
            0.27 if broken else 0.33,
            f"loss {lost}" if lost == UNKNOWN else f"{lost} lost",
            14,
            "bold",
        ),
        (
            0.48 if broken else 0.56,
            f"of {acked:,} acked"
            if duplicated == UNKNOWN
            else f"{duplicated} duplicated of {acked:,} acked",
            9,
            "normal",
        ),
        *(
            [(0.67, *_fitting(f"broken: {', '.join(broken)}", _NAMED_PT, 33), "normal")]
            if broken
            else []
        ),
        (0.87 if broken else 0.82, *_fitting(shown.words), "normal"),
    )
    for down, text, size, weight in lines:
        axes.text(
            middle,
            row + down,
            text,
            ha="center",
            va="center",
            weight=weight,
            fontsize=size,
            color=ink,
        )


_NAMED_PT = 8


def _fitting(words: str, size: float = 10, letters: int = 36) -> tuple[str, float]:
    """Return a text that fits into a cell of the matrix, and its size in points. A text with
    several expected verdicts or broken guarantees is long; its end is left out if it must be."""
    if len(words) <= 30:
        return words, size
    return "\n".join(textwrap.wrap(words, letters, max_lines=2, placeholder=" ...")), min(size, 8)


def _numeric(text: str) -> tuple[float, str]:
    return float(text) if text.isdecimal() else float("inf"), text


def _acks_rank(acks: str) -> int:
    return _ACKS_ORDER.index(acks) if acks in _ACKS_ORDER else len(_ACKS_ORDER)


def timeline(run: Timeline, cells: Sequence[CellRow], name: str = "timeline") -> str:
    """Return a picture of the acks per second of every cell, with one panel for each acks level.
    Faults are bands over all panels, and leader changes are marks at the bottom. ``name`` begins
    its ids, and is unique on a page."""
    span = run.span
    if span is None:
        return ""
    levels = sorted({setting(cell, ROWS) for cell in cells}, key=_acks_rank)
    named_faults = names(run.faults, *span)
    storeys = max((one.storey + 1 for one in named_faults), default=0)
    looks = _looks(cells)
    entries = {str(look["label"]): look for look in looks.values()}
    beside = _beside(entries)
    rows = math.ceil(len(entries) / beside)
    height = 0.8 + 1.55 * len(levels) + storeys * STOREY_PT / 72 + rows * _LEGEND_ROW_IN
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "timeline"}):
        figure = Figure(figsize=(_WIDTH_IN, height), layout="constrained")
        grid = list(
            figure.subplots(
                len(levels) + 1,
                1,
                sharex=True,
                height_ratios=[1.0] * len(levels) + [0.22],
                squeeze=False,
            )[:, 0]
        )
        for axes, acks in zip(grid, levels, strict=False):
            here = [cell for cell in cells if setting(cell, ROWS) == acks]
            _panel(axes, run, here, looks, span)
        _leader_marks(grid[-1], run, span)
        draw(figure, grid, named_faults)
        handles = [Line2D([], [], **look) for look in entries.values()]
        figure.legend(handles=handles, loc="outside upper right", frameon=False, ncols=beside)
        grid[-1].set_xlabel("seconds since the first ack")
        return _svg(figure, name)


def _looks(cells: Sequence[CellRow]) -> Mapping[str, Mapping[str, Any]]:
    """Return the line style of each cell. Cells that differ only in acks share a style, because
    they have panels of their own. Lines are dashed if there are more than the distinguishable
    colours."""
    named = [name for name in columns(cells) if name != ROWS]
    labels = {c.cell: ", ".join(f"{name}={setting(c, name)}" for name in named) for c in cells}
    looks = cycle((colour, style) for style in ("-", "--", ":") for colour in SERIES)
    look_of = dict(zip(dict.fromkeys(labels.values()), looks, strict=False))
    return {
        cell: {"label": words, "color": look_of[words][0], "linestyle": look_of[words][1]}
        for cell, words in labels.items()
    }


def _beside(labels: Collection[str]) -> int:
    """Return the number of legend entries in a row that fit without being cut off."""
    widest_in = _LEGEND_LINE_IN + _LETTER_IN * max(map(len, labels), default=0)
    return max(1, min(4, len(labels), int(_WIDTH_IN / widest_in)))


def _panel(
    axes: Axes,
    run: Timeline,
    cells: Sequence[CellRow],
    looks: Mapping[str, Mapping[str, Any]],
    span: tuple[int, int],
) -> None:
    first, last = span
    width = math.ceil((last - first + 1) / _POINTS_MAX)
    for cell in cells:
        series = _means(run.acks.get(cell.cell, {}), first, width)
        # A long time without acks needs only the two ends of its line, so that a year costs
        # nothing.
        turns = {first, last, *series, *(second + width for second in series)}
        seconds = sorted(second for second in turns if first <= second <= last)
        axes.step(
            [second - first for second in seconds],
            [series.get(second, 0) for second in seconds],
            where="post",
            linewidth=1.4,
            **looks[cell.cell],
        )
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"{ROWS}={setting(cells[0], ROWS)}", color=INK, weight="bold")
    axes.grid(axis="y", color=GRID, linewidth=0.8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def _means(acks: Mapping[int, int], first: int, width: int) -> Mapping[int, float]:
    """Return the mean acks per second of each ``width`` seconds, by their first second."""
    sums: Counter[int] = Counter()
    for second, count in acks.items():
        sums[second - (second - first) % width] += count
    return {second: count / width for second, count in sums.items()}


def _leader_marks(axes: Axes, run: Timeline, span: tuple[int, int]) -> None:
    moments = [change.time / NS_PER_S - span[0] for change in run.leader_changes]
    axes.plot(moments, [0.5] * len(moments), "|", color=INK, markersize=11, markeredgewidth=1.2)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_ylabel("leader\nchanges", rotation=0, ha="right", va="center", fontsize=8.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


_ID = re.compile(r'(\bid="|url\(#|href="#)')
_COLOUR = re.compile("|".join(_VARIABLES))


def _svg(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element in the colours of its page. Its ids begin with ``name``,
    because matplotlib gives the same ids to every figure."""
    buffer = io.StringIO()
    figure.savefig(
        buffer,
        format="svg",
        transparent=True,
        metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
    )
    text = buffer.getvalue()
    text = _ID.sub(rf"\g<1>{name}-", text[text.index("<svg") :])
    return _COLOUR.sub(lambda one: f"var(--{_VARIABLES[one[0]]}, {one[0]})", text)
