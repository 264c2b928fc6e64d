"""``python docs/seed004.py RESULTS``: the figures and pictures of ``docs/seed004.md``.

RESULTS is a directory that holds the results of the campaigns ``seed004-*``, one directory each,
whose names begin with the campaign's (``make seed004`` makes them). Several results of a campaign
are further rounds of it: where a finding is undecided, run its campaign again.
The text between markers on the page is written again, with ``docs/seed004-*.svg``. The text around
it is written by hand: read it again when the figures are new. Without results of a campaign its
sections stay as they are.

Every figure is of the steady state: the first :data:`SETTLE_S` seconds and the last one are left
out. A run with less than :data:`STEADY_S` seconds between is an error.
"""

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from pages import DIRECTORY, picture, place
from rounds import Ratio, conclusion, ratio

sys.path.insert(0, str(DIRECTORY.parent))

from ackproof.harness.report import timeline
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.figures import FAINT, GRID, INK, SERIES
from ackproof.harness.report.verdict import FILE, read_document
from ackproof.history import reader
from ackproof.history.names import SendType

PAGE = DIRECTORY / "seed004.md"
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
SETTLE_S = 5
STEADY_S = 20
STAGE_SETTLE_S = 8
"""From a kill or a restart until the cluster has taken it in: the session timeout (3 s), the
replica lag (4 s), and a second of whole numbers."""
PERCENTILES = (50, 90, 99, 99.9)
ERRORS = ("NETWORK_EXCEPTION", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
_RETRIED = re.compile(r"retrying \(\d+ attempts left\)\. Error: (\w+)")

Rates = Mapping[str, Sequence[float]]
"""Acks a second of each round, by setting, in the order of the settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A cell of a run, with the history of that run."""

    cell: CellDocument
    history: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The results of all runs of a campaign: directories and their documents."""

    documents: Mapping[Path, VerdictDocument]

    @property
    def rounds(self) -> Iterator[Round]:
        for directory, document in self.documents.items():
            for cell in document.cells:
                yield Round(cell=cell, history=directory / "runs" / str(cell.run) / "history")

    @property
    def cells(self) -> Sequence[CellDocument]:
        return [one.cell for one in self.rounds]

    def rates(self, name: str, **where: str) -> Rates:
        """Acks a second by a setting of the cells, of the cells that have the values ``where``."""
        found: dict[str, list[float]] = {}
        for one in self.rounds:
            if all(setting(one.cell, key.replace("_", ".")) == what for key, what in where.items()):
                found.setdefault(setting(one.cell, name), []).append(rate_of(one.history))
        return found


def setting(cell: CellDocument, name: str) -> str:
    return str((cell.model_extra or {})[name])


@cache
def rate_of(history: Path) -> float:
    """Return the steady acks a second of a run of one cell. Several sections ask for each run."""
    ((_, acked),) = timeline.read(history).acks.items()
    return steady_rate(acked)


def steady_rate(acked: Mapping[int, int]) -> float:
    """Return the acks a second of the steady state.

    Args:
        acked: The acks of each second (of the Unix epoch).

    Raises ValueError where the steady state is shorter than :data:`STEADY_S`.
    """
    steady = range(min(acked) + SETTLE_S + 1, max(acked))
    if len(steady) < STEADY_S:
        raise ValueError(f"a run was steady for {len(steady)} s, fewer than {STEADY_S} s")
    return fmean(acked.get(second, 0) for second in steady)


# --- findings ------------------------------------------------------------------------------------


Judge = Callable[[Rates], tuple[Sequence[Ratio], Sequence[str | None]]]
"""A function that compares settings, and returns ratios with a verdict for each."""


def more(rates: Rates) -> tuple[Sequence[Ratio], Sequence[str | None]]:
    """Return whether each setting has more than the next one."""
    ratios = ratios_of(rates, list(pairwise(rates)))
    return ratios, [one.verdict_of_more for one in ratios]


def same(rates: Rates) -> tuple[Sequence[Ratio], Sequence[str | None]]:
    """Return whether all settings have the same."""
    ratios = ratios_of(rates, list(combinations(rates, 2)))
    return ratios, [one.verdict_of_same for one in ratios]


def ratios_of(rates: Rates, pairs: Sequence[tuple[str, str]]) -> Sequence[Ratio]:
    return [ratio(f"{a}/{b}", rates[a], rates[b], together=len(pairs)) for a, b in pairs]


def compared(ratios: Sequence[Ratio], verdicts: Sequence[str | None]) -> str:
    """Return the ratios with their intervals and verdicts, as the content of a cell or line."""
    pairs = zip(ratios, verdicts, strict=True)
    return "; ".join(f"{one} {verdict or 'undecided'}" for one, verdict in pairs)


def measured(rates: Rates) -> str:
    """Return mean, smallest and largest round of each setting."""
    return "; ".join(
        f"{value}: {fmean(runs):,.0f} ({min(runs):,.0f}–{max(runs):,.0f})"  # noqa: RUF001
        for value, runs in rates.items()
    )


def table(
    groups: Mapping[str, Rates],
    name: str,
    findings: Mapping[str, tuple[str, Judge]],
    *,
    with_rates: bool = True,
) -> Iterator[str]:
    """Yield a row for each group: its rates, the finding that is judged, and the ratios.

    Args:
        groups: The rates by what is the same in a row.
        name: The setting that differs within a row.
        findings: The finding of each group, and what judges it.
        with_rates: Whether the rates are shown; False if another table has them.
    """
    heads = [f"{name}: acks a second (range of rounds)"] * with_rates
    heads = ["", *heads, "finding", "ratios (95 %)"]
    yield f"| {' | '.join(heads)} |".replace("|  |", "| |")
    yield f"| {' | '.join(['---'] * len(heads))} |"
    for group, rates in groups.items():
        finding, judge = findings[group]
        ratios, verdicts = judge(rates)
        rated = [measured(rates)] * with_rates
        cells = (group, *rated, f"{finding}: **{conclusion(verdicts)}**")
        yield f"| {' | '.join(cells)} | {compared(ratios, verdicts)} |"


# --- sections ------------------------------------------------------------------------------------


def by_replicas(results: Results) -> Iterator[str]:
    """Yield the cost of replicas with acks=all, and with acks=0 and 1."""
    groups = {
        f"acks={acks}": results.rates("replication.factor", acks=acks, min_insync_replicas="1")
        for acks in ("all", "1", "0")
    }
    nothing: tuple[str, Judge] = ("replicas cost nothing", same)
    findings: dict[str, tuple[str, Judge]] = {
        **dict.fromkeys(groups, nothing),
        "acks=all": ("more replicas lower the TPS", more),
    }
    yield from table(groups, "replication.factor", findings)
    yield _picture("seed004-replicas", lambda axes: _groups(axes, groups, "replication.factor"))


def by_acks(results: Results) -> Iterator[str]:
    """Yield the cost of acks, for each number of replicas."""
    groups = {
        f"{factor} replica{'s' * (factor != '1')}": results.rates(
            "acks", replication_factor=factor, min_insync_replicas="1"
        )
        for factor in ("1", "2", "4")
    }
    falls: tuple[str, Judge] = ("acks=0 > acks=1 > acks=all", more)
    yield from table(groups, "acks", dict.fromkeys(groups, falls), with_rates=False)
    yield _picture("seed004-acks", lambda axes: _groups(axes, groups, "acks"))


def by_min_isr(results: Results) -> Iterator[str]:
    """Yield the cost of min.insync.replicas with four replicas, for each acks."""
    groups = {
        f"acks={acks}": results.rates("min.insync.replicas", acks=acks, replication_factor="4")
        for acks in ("all", "1", "0")
    }
    nothing: tuple[str, Judge] = ("it costs nothing", same)
    yield from table(groups, "min.insync.replicas", dict.fromkeys(groups, nothing))
    yield _picture("seed004-min-isr", lambda axes: _groups(axes, groups, "min.insync.replicas"))


def by_partitions(results: Results) -> Iterator[str]:
    """Whether partitions bring more, and whether many of them bring a little less again."""
    rates = results.rates("partitions")
    yield f"Acks a second by partitions (range of rounds): {measured(rates)}."
    first, *others = rates
    ratios = ratios_of(rates, [(other, first) for other in others])
    verdicts = [one.verdict_of_more for one in ratios]
    # More partitions bring more if any number of them does, and do not only if none does.
    refuted = "refuted" if set(verdicts) == {"refuted"} else "undecided"
    rises = "confirmed" if "confirmed" in verdicts else refuted
    judged = compared(ratios, verdicts)
    yield f"More partitions than one raise the TPS: **{rises}**. Ratios (95 %): {judged}."
    best, last = max(rates, key=lambda name: fmean(rates[name])), others[-1]
    if best == last:
        yield f"Beyond a critical number the TPS falls: **not seen**, {last} partitions have most."
    else:
        pairs = list(combinations(rates, 2))
        falls = ratio(f"partitions {best}/{last}", rates[best], rates[last], together=len(pairs))
        verdict = falls.verdict_of_more or "undecided"
        yield f"Beyond a critical number the TPS falls: **{verdict}** ({falls})."
    yield _picture("seed004-partitions", lambda axes: _groups(axes, {"": rates}, "partitions"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A part of a run with one number of brokers down, without its first seconds
    (:data:`STAGE_SETTLE_S`)."""

    down: int
    rate: float
    seconds: int
    silent: int
    """Seconds without an ack."""


def stages_of(acked: Mapping[int, int], faults: Sequence[tuple[float, float]]) -> list[Stage]:
    """Return the stages of a run, in their order.

    Args:
        acked: The acks of each second (of the Unix epoch).
        faults: When each broker was killed, and when it was back; seconds of the Unix epoch.
    """
    edges = sorted({min(acked), max(acked), *(edge for fault in faults for edge in fault)})
    found = []
    for begin, end in pairwise(edges):
        whole = range(int(begin) + STAGE_SETTLE_S + 1, int(end))
        if whole:
            acks = [acked.get(second, 0) for second in whole]
            down = sum(killed <= begin < back for killed, back in faults)
            stage = Stage(down=down, rate=fmean(acks), seconds=len(whole), silent=acks.count(0))
            found.append(stage)
    return found


def broker_kills(results: Results) -> Iterator[str]:
    """Acks a second while so many brokers are down, and the four findings."""
    runs: list[list[Stage]] = []
    drawn: list[tuple[Mapping[int, int], list[tuple[float, float]]]] = []
    for one in results.rounds:
        line = timeline.read(one.history)
        ((_, acked),) = line.acks.items()
        faults = [(f.start / NS_PER_S, (f.end or f.start) / NS_PER_S) for f in line.faults]
        runs.append(stages_of(acked, faults))
        drawn.append((acked, faults))
    columns = list(zip(*runs, strict=True))
    yield "| brokers down | seconds | acks a second, each run | seconds without an ack |"
    yield "| ---: | ---: | ---: | ---: |"
    for column in columns:
        seconds = ", ".join(str(stage.seconds) for stage in column)
        each = ", ".join(f"{stage.rate:,.0f}" for stage in column)
        silent = ", ".join(str(stage.silent) for stage in column)
        yield f"| {column[0].down} | {seconds} | {each} | {silent} |"
    yield from _kill_findings(results, runs)
    yield from _errors(results)
    yield _picture("seed004-broker-kills", lambda axes: _over_time(axes, *drawn[0]))


def _kill_findings(results: Results, runs: Sequence[Sequence[Stage]]) -> Iterator[str]:
    def of(down: int) -> list[Stage]:
        return [stage for run in runs for stage in run if stage.down == down]

    def rates(down: int) -> list[float]:
        return [fmean(s.rate for s in run if s.down == down) for run in runs]

    def judged(holds: bool) -> str:
        return "confirmed" if holds else "refuted"

    goes_on = all(stage.rate > 0 and not stage.silent for stage in of(2))
    yield f"- With two brokers down the client goes on: **{judged(goes_on)}**."
    slower = ratio("none down to two down", rates(0), rates(2))
    yield f"- It has a lower TPS: **{slower.verdict_of_more or 'undecided'}** ({slower})."
    stops = all(stage.rate == 0 for stage in of(3))
    yield (
        f"- With three brokers down it cannot go on, and it does when two are back: "
        f"**{judged(stops and goes_on)}**."
    )
    cells = results.cells
    acked, lost = sum(cell.acked for cell in cells), _sum(cell.lost for cell in cells)
    twice = _sum(cell.duplicated for cell in cells)
    stored = "unknown" if twice is None else judged(twice > 0)
    yield f"- With retries, some records are stored twice: **{stored}** ({_number(twice)})."
    kept = "unknown" if lost is None else judged(lost == 0)
    yield (
        f"- Every record whose send returned successfully is stored: **{kept}** "
        f"({acked:,} acknowledged, {_number(lost)} lost)."
    )


def _errors(results: Results) -> Iterator[str]:
    """The four errors of the article, as the Java client's log has them."""
    counted: Counter[str] = Counter()
    for log in (
        path for one in results.rounds for path in one.history.parent.glob("logs/*/producer-*.log")
    ):
        counted.update(_RETRIED.findall(log.read_text(encoding="utf-8", errors="replace")))
    failed = sum(cell.failed + cell.indeterminate for cell in results.cells)
    yield "| error of the client | how often, in all runs |"
    yield "| --- | ---: |"
    yield f"| a send ends with an exception | {failed:,} |"
    for error in ERRORS:
        yield f"| {error}, retried | {counted[error]:,} |"


def latency(results: Results) -> Iterator[str]:
    """Percentiles until the ack and until the record reached a reader."""
    took: dict[tuple[str, str], list[np.ndarray]] = {}
    for one in results.rounds:
        for until, milliseconds in latencies_of(one.history).items():
            took.setdefault((setting(one.cell, "acks"), until), []).append(milliseconds)
    yield "| acks | until | 50 % | 90 % | 99 % | 99.9 % | longest, ms |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    lines: dict[str, list[float]] = {}
    for (acks, until), runs in took.items():
        each = np.array([[*np.percentile(run, PERCENTILES), run.max()] for run in runs])
        lines[f"acks={acks}, {until}"] = np.median(each, axis=0).tolist()
        cells = (f"{low:,.2f}–{high:,.2f}" for low, high in zip(*_ends(each), strict=True))  # noqa: RUF001
        yield f"| {acks} | {until} | {' | '.join(cells)} |"
    yield _picture("seed004-latency", lambda axes: _percentile_lines(axes, lines))


def _ends(each: np.ndarray) -> tuple[list[float], list[float]]:
    return each.min(axis=0).tolist(), each.max(axis=0).tolist()


def latencies_of(history: Path) -> Mapping[str, np.ndarray]:
    """Return the milliseconds from when each record was due until its ack (``ack``) and until it
    reached the reader for the first time (``reader``), in the steady state."""
    sends = reader.read(history, "sends", ["producer", "sequence", "type", "time", "due"])
    invoked = sends.filter(pc.equal(sends["type"], SendType.INVOKE.value))
    steady = pc.and_(
        pc.greater_equal(invoked["due"], pc.min(invoked["due"]).as_py() + SETTLE_S * NS_PER_S),
        pc.less(invoked["due"], pc.max(invoked["due"]).as_py() - NS_PER_S),
    )
    due = invoked.filter(steady).select(["producer", "sequence", "due"])
    acked = sends.filter(pc.equal(sends["type"], SendType.OK.value))
    polls = reader.read(history, "polls", ["producer", "sequence", "time"])
    first = polls.group_by(["producer", "sequence"]).aggregate([("time", "min")])
    return {
        "ack": _since(due, acked.select(["producer", "sequence", "time"])),
        "reader": _since(due, first.rename_columns({"time_min": "time"})),
    }


def _since(due: pa.Table, until: pa.Table) -> np.ndarray:
    both = due.join(until, ["producer", "sequence"], join_type="inner")
    return (both["time"].to_numpy() - both["due"].to_numpy()) / NS_PER_MS


SECTIONS: Mapping[str, tuple[str, Callable[[Results], Iterator[str]]]] = {
    "replicas": ("seed004-settings", by_replicas),
    "acks": ("seed004-settings", by_acks),
    "min-isr": ("seed004-settings", by_min_isr),
    "partitions": ("seed004-partitions", by_partitions),
    "broker-kills": ("seed004-broker-kills", broker_kills),
    "latency": ("seed004-latency", latency),
}
"""The section of each marker: its campaign, and what writes it."""


def _sum(values: Iterator[int | None]) -> int | None:
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)


def _number(value: int | None) -> str:
    return "an unknown number" if value is None else f"{value:,}"


# --- pictures ------------------------------------------------------------------------------------


def _picture(name: str, draw: Callable[[Axes], None]) -> str:
    with picture(name, (7, 3), INK) as figure:
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=GRID)
        axes.set_axisbelow(True)
        draw(axes)
    return f"![{name}]({name}.svg)"


def _groups(axes: Axes, groups: Mapping[str, Rates], label: str) -> None:
    """A bar to the mean of each setting, and a dot for each round."""
    names = list(max(groups.values(), key=len))
    width = 0.7 / len(groups)
    for number, (group, rates) in enumerate(groups.items()):
        shift = (number - (len(groups) - 1) / 2) * width
        places = [names.index(name) + shift for name in rates]
        means = [fmean(runs) for runs in rates.values()]
        axes.bar(places, means, width=width * 0.9, color=SERIES[number], label=group or None)
        for where, runs in zip(places, rates.values(), strict=True):
            axes.plot([where] * len(runs), runs, ".", color=INK)
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


def _percentile_lines(axes: Axes, lines: Mapping[str, Sequence[float]]) -> None:
    names = (*(f"{share:g} %" for share in PERCENTILES), "longest")
    colours: dict[str, str] = {}
    for name, found in lines.items():
        acks, _, until = name.partition(", ")
        colour = colours.setdefault(acks, SERIES[len(colours)])
        style = "-" if until == "ack" else "--"
        axes.plot(names, found, style, marker=".", color=colour, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("ms since it was due", color=FAINT)
    axes.legend(frameon=False, fontsize=8)


# --- the page ------------------------------------------------------------------------------------


def results_of(directory: Path, campaign: str) -> Results | None:
    """Return all results of a campaign, in the order in which it was run; None without any."""
    there = sorted(directory.glob(f"{campaign}-*/{FILE}"), key=lambda path: path.stat().st_mtime)
    documents = {path.parent: read_document(path) for path in there}
    return Results(documents=documents) if documents else None


def _where(results: Results) -> Iterator[str]:
    """Yield the seeds of the runs, by campaign, system, machine and verdict."""
    seeds: dict[tuple[str | None, str, str], list[str]] = {}
    for document in results.documents.values():
        machine = document.machine
        on = "" if machine is None else f" on {machine.cores} cores"
        run = (document.campaign, f"{document.system}{on}", document.verdict.value)
        seeds.setdefault(run, []).append(str(document.seed))
    for (campaign, where, verdict), runs in seeds.items():
        yield f"`{campaign}`, seed {', '.join(runs)}, {where}: {verdict}."


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    page = PAGE.read_text(encoding="utf-8")
    for name, (campaign, section) in SECTIONS.items():
        results = results_of(Path(sys.argv[1]), campaign)
        if results is not None:
            lines = [*section(results), *_where(results)]
            page = place(page, Path(__file__).name, name, lines)
            print(name)  # noqa: T201
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
