"""``python docs/side_by_side.py RESULTS``: the figures and pictures of ``docs/side-by-side.md``.

RESULTS is a directory of matrices, one directory each, named after its campaign (``make
side-by-side`` makes them). The text between markers is generated, with
``docs/side-by-side-*.svg``. The text around it is written by hand, and must be read again when the
figures are new. A campaign without a matrix keeps its text.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator
from pages import DIRECTORY, picture, place

sys.path.insert(0, str(DIRECTORY.parent))

from ackproof.harness.report.figures import FAINT, GRID, INK, SERIES
from ackproof.harness.side_by_side.document import MatrixDocument, SystemDocument, read

PAGE = DIRECTORY / "side-by-side.md"
CAMPAIGNS = ("quick", "power-failure", "zookeeper", "admin")
NO_FAULT = "no fault"
MARKS = "osD^"
LEAST_MS = 100
"""Where an outage stands that is none: the scale has no 0, and none is counted below 200 ms."""


def section(name: str, matrix: MatrixDocument) -> Iterator[str]:
    """Yield the lines about one campaign."""
    judged = _judged(matrix)
    yield f"| seed {matrix.seed} | {' | '.join(system.system for system in judged)} |"
    yield f"| --- |{' --- |' * len(judged)}"
    yield f"| campaign | {' | '.join(map(_outcome, judged))} |"
    for cell in _cells(matrix):
        yield f"| {cell} | {' | '.join(_entry(cell, system) for system in judged)} |"
    for system in matrix.systems:
        if system not in judged:
            yield _unjudged(system)
    away = after_faults(matrix)
    if away:
        yield _picture(name, matrix, away)


def after_faults(matrix: MatrixDocument) -> Mapping[str, Mapping[str, int]]:
    """The longest outage of any cell within the reach of each fault, in ms, by system. What is
    within the reach of several counts for each."""
    found: dict[str, dict[str, int]] = {}
    for system in _judged(matrix):
        for fault in system.faults:
            if fault.injected:
                found.setdefault(fault.name, {})[system.system] = 0
        for cell in system.cells:
            for outage in cell.unavailable.by_fault if cell.unavailable else ():
                for fault in (outage.fault or NO_FAULT).split(","):
                    of = found.setdefault(fault, {})
                    of[system.system] = max(of.get(system.system, 0), outage.longest_ms)
    return dict(sorted(found.items(), key=lambda of: of[0] == NO_FAULT))


def _judged(matrix: MatrixDocument) -> list[SystemDocument]:
    return [system for system in matrix.systems if system.verdict is not None]


def _cells(matrix: MatrixDocument) -> Sequence[str]:
    return list(dict.fromkeys(cell.cell for system in matrix.systems for cell in system.cells))


def _unjudged(system: SystemDocument) -> str:
    """Return why there is no verdict on a system."""
    if system.refused:
        return f"{system.system}: refused; {len(system.refused)} faults are none for it"
    return f"{system.system}: no verdict; {system.trouble}"


def _outcome(system: SystemDocument) -> str:
    """Return the outcome of the campaign on a system: verdict, proven faults and duration."""
    proven = sum(fault.proven is True for fault in system.faults)
    duration = "" if system.duration_s is None else f", {system.duration_s:.0f} s"
    verdict = "" if system.verdict is None else system.verdict.value
    return f"**{verdict}**, {proven}/{len(system.faults)} faults{duration}"


def _entry(cell: str, system: SystemDocument) -> str:
    """Return the outcome of a cell on a system: verdict, records, longest outage and latency."""
    found = next((found for found in system.cells if found.cell == cell), None)
    if found is None:
        return "none"
    away = found.unavailable
    figures = (
        f"{_number(found.lost)}/{found.acked:,}",
        *([] if found.duplicated == 0 else [f"+{_number(found.duplicated)}"]),
        _seconds(None if away is None else away.longest_ms),
        _seconds(None if found.ack_latency is None else found.ack_latency.p99_ms),
    )
    return f"{found.verdict.value}: {', '.join(figures)}"


def _number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _seconds(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "?"
    return f"{milliseconds / 1_000:.1f}" if milliseconds >= 1_000 else f"{milliseconds:.3g} ms"


# --- the picture ---------------------------------------------------------------------------------


def _picture(name: str, matrix: MatrixDocument, away: Mapping[str, Mapping[str, int]]) -> str:
    """A line for each fault, a mark for each system: how far to the right, so long an outage."""
    file = f"side-by-side-{name}"
    with picture(file, (7.5, 1.3 + 0.24 * len(away)), INK) as figure:
        axes = figure.subplots()
        _frame(axes, list(away))
        for number, system in enumerate(_judged(matrix)):
            _marks(axes, number, system.system, away)
        figure.legend(loc="outside upper center", frameon=False, ncols=len(matrix.systems))
    return f"![outages by fault]({file}.svg)"


def _frame(axes: Axes, faults: Sequence[str]) -> None:
    axes.set_xscale("log")
    axes.set_xlim(LEAST_MS * 0.8, 600_000)
    axes.set_xticks(
        (LEAST_MS, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000),
        ("none", "1", "3", "10", "30", "100", "300"),
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("longest outage of any cell, seconds", color=FAINT)
    axes.set_yticks(range(len(faults)), faults)
    axes.invert_yaxis()
    axes.grid(axis="both", color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)


def _marks(axes: Axes, number: int, system: str, away: Mapping[str, Mapping[str, int]]) -> None:
    """Each system a little below the one before, so that equal ones are all to be seen."""
    there = [
        (line + (number - 1) * 0.2, of[system])
        for line, of in enumerate(away.values())
        if system in of
    ]
    axes.plot(
        [max(found, LEAST_MS) for _, found in there],
        [line for line, _ in there],
        linestyle="",
        marker=MARKS[number],
        markersize=5,
        color=SERIES[number],
        label=system,
    )


# --- the page ------------------------------------------------------------------------------------


def main() -> int:
    """0 when the page is made, 2 for wrong arguments."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    page = PAGE.read_text(encoding="utf-8")
    for name in CAMPAIGNS:
        matrix = read(Path(sys.argv[1]) / name)
        if matrix is not None and _judged(matrix):
            page = place(page, Path(__file__).name, name, section(name, matrix))
            print(name)  # noqa: T201
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
