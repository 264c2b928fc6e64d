"""The two pictures, as SVG to stand inside the page: the matrix and the timeline.

Text stays text, so that it can be read aloud, searched and copied, and takes the page's font.
"""

import io
import math
import textwrap
from collections.abc import Collection, Mapping, Sequence
from itertools import cycle
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from ackproof.checkers.verdict import Verdict
from ackproof.harness.report import bands
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
from ackproof.harness.report.timeline import NS_PER_S, Timeline

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

_WIDTH_IN = 10.5
_LETTER_IN, _LEGEND_LINE_IN, _LEGEND_ROW_IN = 0.083, 0.6, 0.21
"""Of a legend, at the size of the page's text: a letter, what stands beside the words, a row."""

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


def matrix(cells: Sequence[CellRow]) -> str:
    """Loss and duplication by acks (rows) and min.insync.replicas (columns), summed over what else
    differs and over runs."""
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
        return _svg(figure)


def _matrix_cell(axes: Axes, column: int, row: int, cells: Sequence[CellRow]) -> None:
    shown = worst(cells)
    verdict = shown.kind
    axes.add_patch(
        Rectangle(
            (column + 0.02, row + 0.03), 0.96, 0.94, facecolor=VERDICT_FILL[verdict], linewidth=0
        )
    )
    ink, middle = VERDICT_INK[verdict], column + 0.5
    lost, duplicated = (told(*total(cells, name)) for name in ("lost", "duplicated"))
    acked, _ = total(cells, "acked")
    lines = (
        (0.33, f"loss {lost}" if lost == UNKNOWN else f"{lost} lost", 14, "bold"),
        (0.56, f"{duplicated} duplicated of {acked:,} acked", 9, "normal"),
        (0.82, *_fitting(shown.words), "normal"),
    )
    if duplicated == UNKNOWN:
        lines = (lines[0], (0.56, f"of {acked:,} acked", 9, "normal"), lines[2])
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


def _fitting(words: str) -> tuple[str, float]:
    """Words as they fit into a cell of the matrix, and their size in points: with several verdicts
    that are expected they are long."""
    return (words, 10) if len(words) <= 30 else (textwrap.fill(words, 36), 8)


def _numeric(text: str) -> tuple[float, str]:
    return float(text) if text.isdecimal() else float("inf"), text


def _acks_rank(acks: str) -> int:
    return _ACKS_ORDER.index(acks) if acks in _ACKS_ORDER else len(_ACKS_ORDER)


def timeline(run: Timeline, cells: Sequence[CellRow]) -> str:
    """Acks per second of every cell, one panel an acks level; faults as bands over all of them,
    leader changes as marks along the foot."""
    span = run.span
    if span is None:
        return ""
    levels = sorted({setting(cell, ROWS) for cell in cells}, key=_acks_rank)
    named_faults = bands.names(run.faults, *span)
    storeys = max((one.storey + 1 for one in named_faults), default=0)
    looks = _looks(cells)
    entries = {str(look["label"]): look for look in looks.values()}
    beside = _beside(entries)
    rows = math.ceil(len(entries) / beside)
    height = 0.8 + 1.55 * len(levels) + storeys * bands.STOREY_PT / 72 + rows * _LEGEND_ROW_IN
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
        bands.draw(figure, grid, named_faults)
        handles = [Line2D([], [], **look) for look in entries.values()]
        figure.legend(handles=handles, loc="outside upper right", frameon=False, ncols=beside)
        grid[-1].set_xlabel("seconds since the first ack")
        return _svg(figure)


def _looks(cells: Sequence[CellRow]) -> Mapping[str, Mapping[str, Any]]:
    """The line of each cell: one look for all that differ in acks alone, which have panels of their
    own. Dashed where there are more than colours that can be told apart."""
    named = [name for name in columns(cells) if name != ROWS]
    labels = {c.cell: ", ".join(f"{name}={setting(c, name)}" for name in named) for c in cells}
    looks = cycle((colour, style) for style in ("-", "--", ":") for colour in SERIES)
    look_of = dict(zip(dict.fromkeys(labels.values()), looks, strict=False))
    return {
        cell: {"label": words, "color": look_of[words][0], "linestyle": look_of[words][1]}
        for cell, words in labels.items()
    }


def _beside(labels: Collection[str]) -> int:
    """How many entries of a legend stand beside each other, so that none is cut off."""
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
    for cell in cells:
        series = run.acks.get(cell.cell, {})
        # Where nothing was acked for long, the line needs its two ends alone: a year costs nothing.
        turns = {first, last, *series, *(second + 1 for second in series)}
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


def _leader_marks(axes: Axes, run: Timeline, span: tuple[int, int]) -> None:
    moments = [change.time / NS_PER_S - span[0] for change in run.leader_changes]
    axes.plot(moments, [0.5] * len(moments), "|", color=INK, markersize=11, markeredgewidth=1.2)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_ylabel("leader\nchanges", rotation=0, ha="right", va="center", fontsize=8.5)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(
        buffer,
        format="svg",
        transparent=True,
        metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")),
    )
    text = buffer.getvalue()
    return text[text.index("<svg") :]
