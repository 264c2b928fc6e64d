"""The two pictures, as SVG to stand inside the page: the matrix and the timeline.

Text stays text, so that it can be read aloud, searched and copied, and takes the page's font.
"""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from checkers.verdict import CellResult, Verdict
from harness.report.timeline import NS_PER_S, FaultSpan, Timeline

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
FAULT_FILLS = ("#e15b4f", "#7c5cd6", "#1f9aa8", "#c79a1b", "#5f6b7a")

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


def matrix(cells: Sequence[CellResult]) -> str:
    """Loss and duplication by acks (rows) and min.insync.replicas (columns), summed over runs."""
    rows = sorted({cell.settings.acks for cell in cells}, key=_acks_rank)
    columns = sorted({cell.settings.min_insync_replicas for cell in cells})
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "matrix"}):
        figure = Figure(figsize=(0.8 + 2.3 * len(columns), 0.75 + 1.15 * len(rows)))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(-0.36, len(columns))
        axes.set_ylim(len(rows), -0.62)
        axes.axis("off")
        axes.text(
            len(columns) / 2, -0.46, "min.insync.replicas", ha="center", color=FAINT, fontsize=11
        )
        for column, isr in enumerate(columns):
            axes.text(column + 0.5, -0.14, str(isr), ha="center", weight="bold", fontsize=13)
        for row, acks in enumerate(rows):
            axes.text(-0.08, row + 0.43, "acks", ha="right", color=FAINT, fontsize=10)
            axes.text(-0.08, row + 0.65, acks, ha="right", weight="bold", fontsize=13)
            for column, isr in enumerate(columns):
                here = [
                    c
                    for c in cells
                    if (c.settings.acks, c.settings.min_insync_replicas) == (acks, isr)
                ]
                if here:
                    _matrix_cell(axes, column, row, here)
        return _svg(figure)


def _matrix_cell(axes: Axes, column: int, row: int, cells: Sequence[CellResult]) -> None:
    verdict = _worst(cells)
    axes.add_patch(
        Rectangle(
            (column + 0.02, row + 0.03), 0.96, 0.94, facecolor=VERDICT_FILL[verdict], linewidth=0
        )
    )
    ink, middle = VERDICT_INK[verdict], column + 0.5
    lost, duplicated = (sum(getattr(c, name) for c in cells) for name in ("lost", "duplicated"))
    axes.text(
        middle, row + 0.33, f"{lost:,} lost", ha="center", weight="bold", fontsize=14, color=ink
    )
    axes.text(
        middle,
        row + 0.56,
        f"{duplicated:,} duplicated of {sum(c.acked for c in cells):,} acked",
        ha="center",
        fontsize=9,
        color=ink,
    )
    axes.text(middle, row + 0.82, verdict.value, ha="center", fontsize=10, color=ink)


def _worst(cells: Sequence[CellResult]) -> Verdict:
    order = (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.NOT_GUARANTEED, Verdict.PASS)
    return min((cell.verdict for cell in cells), key=order.index)


def _acks_rank(acks: str) -> int:
    return _ACKS_ORDER.index(acks) if acks in _ACKS_ORDER else len(_ACKS_ORDER)


def timeline(run: Timeline, cells: Sequence[CellResult]) -> str:
    """Acks per second of every cell, one panel an acks level; faults as bands over all of them,
    leader changes as marks along the foot."""
    span = run.span
    if span is None:
        return ""
    levels = sorted({cell.settings.acks for cell in cells}, key=_acks_rank)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": "timeline"}):
        figure = Figure(figsize=(10.5, 1.1 + 1.55 * len(levels)), layout="constrained")
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
            _panel(axes, run, [cell for cell in cells if cell.settings.acks == acks], span)
        _leader_marks(grid[-1], run, span)
        for index, fault in enumerate(run.faults):
            _band(grid, fault, span, FAULT_FILLS[index % len(FAULT_FILLS)])
        handles, labels = grid[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper right", frameon=False, ncols=len(labels))
        grid[-1].set_xlabel("seconds since the first ack")
        return _svg(figure)


def _panel(axes: Axes, run: Timeline, cells: Sequence[CellResult], span: tuple[int, int]) -> None:
    first, last = span
    for cell, colour in zip(cells, SERIES, strict=False):
        series = run.acks.get(cell.cell, {})
        seconds = range(first, last + 1)
        axes.step(
            [second - first for second in seconds],
            [series.get(second, 0) for second in seconds],
            where="post",
            color=colour,
            linewidth=1.4,
            label=f"min.insync.replicas={cell.settings.min_insync_replicas}",
        )
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"acks={cells[0].settings.acks}", color=INK, weight="bold")
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


def _band(grid: Sequence[Axes], fault: FaultSpan, span: tuple[int, int], colour: str) -> None:
    start = fault.start / NS_PER_S - span[0]
    end = (fault.end / NS_PER_S if fault.end else span[1]) - span[0]
    for axes in grid:
        axes.axvspan(start, end, color=colour, alpha=0.16, linewidth=0)
    grid[0].annotate(
        fault.label,
        ((start + end) / 2, 1.03),
        xycoords=("data", "axes fraction"),
        ha="center",
        fontsize=9,
        weight="bold",
        color=colour,
    )


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
