"""``python docs/seed004.py RESULTS``: the figures and pictures of ``docs/seed004.md``.

RESULTS is a directory that holds the results of the campaigns ``seed004-*``, one directory each,
whose names begin with the campaign's (``make seed004`` makes them); of several the last one counts.
What stands on the page between markers is made anew, with ``docs/seed004-*.svg``; what is said in
words around it is written by hand, and to be read again when the figures are new. A campaign
without results keeps what stands there.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from pages import DIRECTORY, picture, place

sys.path.insert(0, str(DIRECTORY.parent))

from harness.report import timeline
from harness.report.cell_document import CellDocument, Latency
from harness.report.document import VerdictDocument
from harness.report.figures import FAINT, GRID, INK, SERIES
from harness.report.verdict import FILE, read_document
from history import manifest

PAGE = DIRECTORY / "seed004.md"
NS_PER_S = 1_000_000_000
ALIKE = 0.1
"""Two settings whose medians are so near each other are alike, whatever their runs."""
APART = 1.05
"""Every run of the one has so many times as much as every run of the other: with two runs of each,
a hair's breadth is chance."""
FAR = 2.5
"""Likewise with one run of each: runs of the same were seen to differ by up to a factor of two."""

Series = Mapping[str, Sequence[float]]
"""What each run measured, by setting, in the order of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a campaign left."""

    directory: Path
    document: VerdictDocument

    def series(self, name: str, **where: str) -> Series:
        """Acks a second of each run, by a setting of its cell, of the cells that have ``where``;
        those of which they are not known are left out."""
        found: dict[str, list[float]] = {}
        for cell in self.document.cells:
            mine = all(setting(cell, one.replace("_", ".")) == what for one, what in where.items())
            if mine and cell.acks_per_second is not None:
                found.setdefault(setting(cell, name), []).append(cell.acks_per_second)
        return found

    def rows(self, *names: str) -> Iterator[str]:
        """A table: each cell by these settings, its runs and how long its acks took."""
        cells: dict[tuple[str, ...], list[CellDocument]] = {}
        for cell in self.document.cells:
            cells.setdefault(tuple(setting(cell, name) for name in names), []).append(cell)
        yield f"| {' | '.join(names)} | acks a second, each run | half of all acks within |"
        yield f"| {' | '.join('---' for _ in names)} | ---: | ---: |"
        for values, runs in cells.items():
            each = ", ".join(_rounded(one.acks_per_second, "{:,.0f}") for one in runs)
            took = (one.ack_latency.p50_ms if one.ack_latency else None for one in runs)
            half = ", ".join(_rounded(one, "{:.3g} ms") for one in took)
            yield f"| {' | '.join(values)} | {each} | {half} |"


def setting(cell: CellDocument, name: str) -> str:
    return str((cell.model_extra or {})[name])


# --- findings ------------------------------------------------------------------------------------


def falls(series: Series) -> str:
    """Whether each setting has less than the one before it: every run of it than every run."""
    runs = list(series.values())
    times = FAR if _alone(series) else APART
    if all(min(a) > times * max(b) for a, b in pairwise(runs)):
        return "**Confirmed**, at each step."
    if min(runs[0]) > times * max(runs[-1]):
        return "**Confirmed** from the first to the last, not at each step."
    if times * max(runs[0]) < min(runs[-1]):
        return "**Refuted**: the last has more than the first."
    return "**Not known**: the runs do not lie far enough apart."


def alike(series: Series) -> str:
    """Whether all settings have the same."""
    if _alone(series):
        return ALONE
    medians = [median(runs) for runs in series.values()]
    apart = max(medians) / min(medians) - 1
    spread = max(max(runs) / min(runs) - 1 for runs in series.values())
    told = f"medians differ by {apart:.0%}, two runs of the same by up to {spread:.0%}"
    if apart <= ALIKE:
        return f"**Confirmed**: {told}."
    # By two runs of each, what is within their own spread may be chance, either way.
    return f"**Refuted**: {told}." if apart > 2 * spread else f"**Not known**: {told}."


def rises_and_falls(series: Series) -> str:
    """Whether more of a setting brings more, up to a point behind which it brings a little less."""
    if _alone(series):
        return ALONE
    medians = {name: median(runs) for name, runs in series.items()}
    names = list(medians)
    best = max(names, key=lambda name: medians[name])
    gained, last = medians[best] / medians[names[0]] - 1, medians[names[-1]] / medians[best] - 1
    if best == names[0] and min(series[best]) > APART * max(series[names[-1]]):
        return f"**Refuted** here: the most is had by {best}, and {names[-1]} has {-last:.0%} less."
    if gained <= ALIKE:
        return f"**Not seen**: the best, {best}, has {gained:.0%} more than {names[0]}."
    told = f"{best} has {gained:.0%} more than {names[0]}"
    if best == names[-1]:
        return f"**Confirmed** as far as it rises: {told}. It does not fall again here."
    return f"**Confirmed**: {told}, {names[-1]} has {-last:.0%} less than {best}."


ALONE = "**Not known**: nobody can tell by one run of each how far two would differ."


def _alone(series: Series) -> bool:
    return min(map(len, series.values())) < 2


# --- what is made --------------------------------------------------------------------------------


def by_setting(name: str, finding: Callable[[Series], str]) -> Callable[[Results], Iterator[str]]:
    """A table and a picture of the acks a second by one setting, and the finding."""

    def made(results: Results) -> Iterator[str]:
        series = results.series(name)
        yield from results.rows(name)
        yield finding(series)
        slug = results.document.campaign or ""
        yield _picture(slug, lambda axes: _bars(axes, series, name))

    return made


def acks(results: Results) -> Iterator[str]:
    """The same by acks, for each number of replicas."""
    factors = sorted({setting(c, "replication.factor") for c in results.document.cells})
    several = {factor: results.series("acks", replication_factor=factor) for factor in factors}
    yield from results.rows("acks", "replication.factor")
    for factor, series in several.items():
        replicas = "one replica" if factor == "1" else f"{factor} replicas"
        yield f"With {replicas}, 0 > 1 > all: {falls(series)}"
    for level in ("0", "1"):
        of = {factor: series[level] for factor, series in several.items()}
        yield f"With acks={level}, replicas cost nothing: {alike(of)}"
    slug = results.document.campaign or ""
    yield _picture(slug, lambda axes: _groups(axes, several, "acks", "replicas"))


def broker_kills(results: Results) -> Iterator[str]:
    """Acks a second while so many brokers are down, and what became of the records."""
    (cell,) = results.document.cells
    line = timeline.read(results.directory / "runs/1/history", _planned(results))
    ((_, acked),) = line.acks.items()
    faults = [(one.start / NS_PER_S, (one.end or one.start) / NS_PER_S) for one in line.faults]
    spans = _by_down(faults, min(acked), max(acked))
    yield "| brokers down | seconds | acks a second |"
    yield "| ---: | ---: | ---: |"
    for down, begin, end in spans:
        whole = range(int(begin) + 1, int(end))
        many = sum(acked.get(second, 0) for second in whole)
        rate = f"{many / len(whole):,.0f}" if whole else "-"
        yield f"| {down} | {len(whole)} | {rate} |"
    yield (
        f"Of {cell.acked:,} acknowledged records {_number(cell.lost)} are lost, "
        f"{_number(cell.duplicated)} stand in the log twice; {cell.failed:,} sends failed, of "
        f"{cell.indeterminate:,} nobody knows. Verdict: {cell.verdict.value}."
    )
    slug = results.document.campaign or ""
    yield _picture(slug, lambda axes: _over_time(axes, acked, faults))


def latency(results: Results) -> Iterator[str]:
    """Percentiles until the ack and until a reader was shown the record."""
    yield "| acks | until | 50 % | 90 % | 99 % | 99.9 % | longest |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    lines: dict[str, Latency] = {}
    for cell in results.document.cells:
        for what, found in (("ack", cell.ack_latency), ("shown", cell.shown_latency)):
            if found is not None:
                lines[f"acks={setting(cell, 'acks')}, {what}"] = found
                told = " | ".join(f"{value:,.2f} ms" for value in _percentiles(found))
                yield f"| {setting(cell, 'acks')} | {what} | {told} |"
    slug = results.document.campaign or ""
    yield _picture(slug, lambda axes: _percentile_lines(axes, lines))


SECTIONS: Mapping[str, Callable[[Results], Iterator[str]]] = {
    "seed004-replicas": by_setting("replication.factor", falls),
    "seed004-acks": acks,
    "seed004-min-isr": by_setting("min.insync.replicas", alike),
    "seed004-partitions": by_setting("partitions", rises_and_falls),
    "seed004-broker-kills": broker_kills,
    "seed004-latency": latency,
}


def _planned(results: Results) -> Sequence[manifest.PlannedFault]:
    return manifest.read(results.directory).runs[0].faults


def _by_down(
    faults: Sequence[tuple[float, float]], first: float, last: float
) -> list[tuple[int, float, float]]:
    """How many brokers are down, from when until when, in seconds."""
    edges = sorted({first, last, *(edge for fault in faults for edge in fault)})
    return [
        (sum(start <= begin < end for start, end in faults), begin, end)
        for begin, end in pairwise(edges)
        if end - begin >= 2
    ]


def _percentiles(found: Latency) -> tuple[float, ...]:
    return (found.p50_ms, found.p90_ms, found.p99_ms, found.p999_ms, found.longest_ms)


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else f"{value:,}"


def _rounded(value: float | None, pattern: str) -> str:
    return "unknown" if value is None else pattern.format(value)


# --- pictures ------------------------------------------------------------------------------------


def _picture(name: str, draw: Callable[[Axes], None]) -> str:
    with picture(name, (7, 3), INK) as figure:
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
        draw(axes)
    return f"![{name}]({name}.svg)"


def _bars(axes: Axes, series: Series, label: str) -> None:
    _groups(axes, {"": series}, label, "")


def _groups(axes: Axes, groups: Mapping[str, Series], label: str, group: str) -> None:
    """A bar to the median of each setting, and a dot for each run."""
    names = list(next(iter(groups.values())))
    width = 0.7 / len(groups)
    for number, (name, series) in enumerate(groups.items()):
        places = [place + (number - (len(groups) - 1) / 2) * width for place in range(len(names))]
        told = f"{group} {name}".strip() or None
        axes.bar(
            places,
            [median(series[one]) for one in names],
            width=width * 0.9,
            color=SERIES[number],
            label=told,
        )
        for where, one in zip(places, names, strict=True):
            axes.plot([where] * len(series[one]), series[one], ".", color=INK)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel(label, color=FAINT)
    axes.set_ylabel("acks a second", color=FAINT)
    if len(groups) > 1:
        axes.legend(frameon=False)


def _over_time(axes: Axes, acked: Mapping[int, int], faults: Sequence[tuple[float, float]]) -> None:
    first = min(acked)
    seconds = range(first, max(acked) + 1)
    axes.plot([s - first for s in seconds], [acked.get(s, 0) for s in seconds], color=SERIES[0])
    for start, end in faults:
        axes.axvspan(start - first, end - first, color=SERIES[1], alpha=0.15, lw=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds; shaded: a broker is down, darker: several", color=FAINT)
    axes.set_ylabel("acks a second", color=FAINT)


def _percentile_lines(axes: Axes, lines: Mapping[str, Latency]) -> None:
    names = ("50 %", "90 %", "99 %", "99.9 %", "longest")
    colours: dict[str, str] = {}
    for name, found in lines.items():
        acks, _, what = name.partition(", ")
        colour = colours.setdefault(acks, SERIES[len(colours)])
        style = "-" if what == "ack" else "--"
        axes.plot(names, _percentiles(found), style, marker=".", color=colour, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("ms since it was due", color=FAINT)
    axes.legend(frameon=False, fontsize=8)


# --- the page ------------------------------------------------------------------------------------


def found(directory: Path) -> Iterator[tuple[str, Results]]:
    """The last results of each campaign."""
    for name in SECTIONS:
        there = sorted(directory.glob(f"{name}*/{FILE}"), key=lambda path: path.stat().st_mtime)
        if there:
            document = read_document(there[-1])
            yield name, Results(directory=there[-1].parent, document=document)


def _where(document: VerdictDocument) -> str:
    machine = document.machine
    on = "" if machine is None else f" on {machine.cores} cores"
    made = f"`{document.campaign}`, seed {document.seed}, {document.system}{on}"
    return f"{made}: {document.verdict.value}."


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    page = PAGE.read_text(encoding="utf-8")
    for name, results in found(Path(sys.argv[1])):
        lines = [*SECTIONS[name](results), _where(results.document)]
        page = place(page, Path(__file__).name, name, lines)
        print(name)  # noqa: T201
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
