"""The differences between two campaigns' results: their circumstances, then the measures of each
cell, each with a test or the reason why there is none.

A test distributes the runs over both sides in other ways. The run is the unit for every measure,
because only runs are alike and independent. A fault affects all partitions of a cluster at once,
one slow send delays those after it, and the machine or the hour makes a whole run slower than
another. The required improbability of a difference depends on the number of tests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from ackproof.checkers.verdict import WORST_FIRST, Verdict
from ackproof.config import documents
from ackproof.harness.comparing import sides
from ackproof.harness.comparing.sides import Array, Key, PooledCell, Sends, Side
from ackproof.harness.directory import CAMPAIGN_FILE
from ackproof.harness.report import chance
from ackproof.harness.report.cell_document import CellDocument, UnavailabilityDocument
from ackproof.harness.report.document import VerdictDocument
from ackproof.harness.report.opportunities import Risk
from ackproof.harness.report.rows import UNKNOWN, number
from ackproof.history.messages import several

# --- measures -------------------------------------------------------------------------------------

PERCENTILES = (50, 95, 99)

Distance = Callable[[Array, Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The runs of both sides, one row each, for a test. ``distance`` is the distance of two sets of
    samples, each given as the sums of their runs' rows."""

    a: Array
    b: Array
    distance: Distance

    @property
    def counts(self) -> tuple[int, int]:
        """Return the number of runs of each side."""
        return len(self.a), len(self.b)

    def chance(self, doubt: float = chance.DOUBT) -> float:
        """Return the probability that the sides differ so much or more by chance. ``doubt`` is the
        probability below which that is noteworthy."""
        return chance.permuted(self.a, self.b, self.distance, doubt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measure of a cell.

    Attributes:
        a, b: Both sides in words.
        value_a, value_b: Both sides as numbers; None if unknown.
        runs: The rows to test; None without a test.
        why: The reason why there is none.
        change: The difference in words, which counts if it is more than chance.
        worse: Whether B is worse than A, which counts if it is more than chance.
    """

    name: str
    a: str
    b: str
    value_a: float | str | None
    value_b: float | str | None
    runs: Runs | None = None
    why: str = ""
    change: str = ""
    worse: bool = False


def measures(a: PooledCell, b: PooledCell) -> Iterator[Measure]:
    """Yield all measures of a cell that both sides have."""
    yield _verdict(a, b)
    yield _proportion("lost", "acked", a, b)
    yield _proportion("duplicated", "sent", a, b)
    yield from _latencies(a, b)
    yield _away("unavailable, longest", _longest_ms, max, _milliseconds, (a, b))
    yield _away("unavailable, share", _share_away, mean, _percent, (a, b))
    yield _throughput(a, b)


def _verdict(a: PooledCell, b: PooledCell) -> Measure:
    found = [side.verdict for side in (a, b)]
    change = ""
    if a.verdict is not b.verdict:
        worse = WORST_FIRST.index(b.verdict) < WORST_FIRST.index(a.verdict)
        # A guarantee that only one of them gives makes neither better nor worse.
        change = "changed" if Verdict.NOT_GUARANTEED in found else "worse" if worse else "better"
    return Measure(
        name="verdict",
        a=a.verdict.value,
        b=b.verdict.value,
        value_a=a.verdict.value,
        value_b=b.verdict.value,
        change=change,
        worse=change == "worse",
    )


def _proportion(what: str, of: str, a: PooledCell, b: PooledCell) -> Measure:
    """Return the counts of records, with the faults that could have cost them. The test is of the
    share in each run."""
    counts = [(side.total(_of(what)), side.total(_of(of))) for side in (a, b)]
    (value_a, of_a), (value_b, of_b) = counts
    unknown = [None in count for count in counts]
    shares = [[_share(run, what, of) for run in side.runs] for side in (a, b)]
    more = (value_b or 0) * (of_a or 1) > (value_a or 0) * (of_b or 1)
    return Measure(
        name=what,
        a=_counted(a, what, *counts[0]),
        b=_counted(b, what, *counts[1]),
        value_a=value_a,
        value_b=value_b,
        runs=None if any(unknown) else _of_runs(shares),
        why=_lacking("unknown", unknown),
        change="more" if more else "fewer",
        worse=more,
    )


def _lacking(what: str, lacking: Sequence[bool]) -> str:
    """Return the sides that lack something in words: ``unknown in B``; empty if none does."""
    sides = " and ".join(name for name, lacks in zip("AB", lacking, strict=True) if lacks)
    return f"{what} in {sides}" if sides else ""


def _of(name: str) -> Callable[[CellDocument], int | None]:
    def read(cell: CellDocument) -> int | None:
        count: int | None = getattr(cell, name)
        return count

    return read


def _share(run: CellDocument, what: str, of: str) -> float:
    return float(getattr(run, what) or 0) / max(getattr(run, of) or 0, 1)


def _counted(side: PooledCell, what: str, found: int | None, among: int | None) -> str:
    if found is None or among is None:
        return UNKNOWN
    # With few acked records, for example, 12 duplicates among 10 records are not 12 of 10.
    count = f"{found:,} of {among:,}" if found <= among else number(found)
    faults = side.faults() if what == "lost" else None
    if faults is None:
        return count
    struck, of = faults
    return (
        f"{count}; in {struck} of {of} faults: {chance.bound(struck, of, '% of faults')}"
        if of
        else f"{count}; no fault"
    )


def _of_runs(values: Sequence[Sequence[float]]) -> Runs:
    """Return a test with one number for each run: the difference of the means."""
    first, second = (np.array(side, dtype=np.float64)[:, np.newaxis] for side in values)
    return Runs(a=first, b=second, distance=_means(len(first), len(second)))


def _means(first: int, second: int) -> Distance:
    def distance(one: Array, other: Array) -> Array:
        difference: Array = one[:, 0] / first - other[:, 0] / second
        return difference

    return distance


def _latencies(a: PooledCell, b: PooledCell) -> Iterator[Measure]:
    known = bool(a.sends and b.sends)
    rows = [np.array([_rates(one) for one in side.sends]) for side in (a, b)]
    for percent in PERCENTILES:

        def distance(first: Array, second: Array, percent: int = percent) -> Array:
            return _bin_of(first, percent) - _bin_of(second, percent)

        runs = Runs(a=rows[0], b=rows[1], distance=distance) if known else None
        values = [_percentile(side, percent) for side in (a, b)]
        name = f"ack, {percent} % within"
        yield _number(name, values, _milliseconds, runs, lacking=_NO_ACKS)


def _rates(one: Sends) -> Array:
    """Return the distribution of the waits, as shares, so that a longer run does not count more."""
    rates: Array = one.waits / max(float(one.waits.sum()), 1.0)
    return rates


def _percentile(side: PooledCell, percent: int) -> float | None:
    if not side.sends:
        return None
    return float(np.percentile(np.concatenate([one.waited_ms for one in side.sends]), percent))


def _bin_of(counts: Array, percent: int) -> Array:
    """Return the bin of the percentile in each row."""
    running = counts.cumsum(axis=1)
    found: Array = (running < running[:, -1:] * percent / 100).sum(axis=1).astype(np.float64)
    return found


def _throughput(a: PooledCell, b: PooledCell) -> Measure:
    rates = [[len(one.waited_ms) / max(one.lasted_s, _MOMENT_S) for one in s.sends] for s in (a, b)]
    known = bool(a.sends and b.sends)
    values = [_acks_a_second(side) for side in (a, b)]
    runs = _of_runs(rates) if known else None
    return _number(
        "acks per second",
        values,
        lambda one: f"{one:,.1f}",
        runs,
        least_is_worst=True,
        lacking=_NO_ACKS,
    )


_NO_ACKS = "no recorded acks"
"""With acks=0, or if recorded runs were removed."""
_MOMENT_S = 1e-9


def _acks_a_second(side: PooledCell) -> float | None:
    lasted_s = sum(one.lasted_s for one in side.sends)
    return sum(len(one.waited_ms) for one in side.sends) / lasted_s if lasted_s else None


def _away(
    name: str,
    figure: Callable[[UnavailabilityDocument], float | None],
    combine: Callable[[Sequence[float]], float],
    words: Callable[[float], str],
    both: tuple[PooledCell, PooledCell],
) -> Measure:
    sides = [
        [None if cell.unavailable is None else figure(cell.unavailable) for cell in side.runs]
        for side in both
    ]
    known = [[one for one in side if one is not None] for side in sides]
    values = [
        float(combine(some)) if len(some) == len(all_) else None
        for some, all_ in zip(known, sides, strict=True)
    ]
    if None in values:
        return _number(name, values, words, None)
    ranks = chance.ranks([one for side in known for one in side]).tolist()
    return _number(name, values, words, _of_runs([ranks[: len(known[0])], ranks[len(known[0]) :]]))


def _longest_ms(of: UnavailabilityDocument) -> float:
    return of.longest_ms


def _share_away(of: UnavailabilityDocument) -> float | None:
    """Return the unavailable share of partition-seconds, or None for a result that lacks the
    total."""
    if not of.total_ms:
        return 0.0
    return of.total_ms / of.traffic_ms if of.traffic_ms else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _number(
    name: str,
    values: Sequence[float | None],
    words: Callable[[float], str],
    runs: Runs | None,
    *,
    least_is_worst: bool = False,
    lacking: str = "unknown",
) -> Measure:
    a, b = values
    return Measure(
        name=name,
        a=UNKNOWN if a is None else words(a),
        b=UNKNOWN if b is None else words(b),
        value_a=a,
        value_b=b,
        runs=runs,
        why="" if runs else _lacking(lacking, [one is None for one in values]),
        change="" if not a or b is None else f"{100 * (b - a) / a:+.0f} %",
        worse=a is not None and b is not None and (b < a if least_is_worst else b > a),
    )


def _milliseconds(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.3g} ms"


# --- differences ----------------------------------------------------------------------------------

SETTINGS_SHOWN_MAX = 12
"""The most differing settings that are named. For more, their number is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureLine:
    """A measure and its test.

    Attributes:
        chance: The probability that both sides differ so much or more by chance; None without a
            test.
        differs: Whether the difference is more than chance; None without a test.
        why: The tested units, or the reason why there is no test.
    """

    measure: Measure
    chance: float | None
    differs: bool | None
    why: str

    @property
    def worse(self) -> bool:
        """Return whether B is worse than A by more than chance."""
        return self.measure.worse and (self.measure.name == "verdict" or bool(self.differs))

    @property
    def result(self) -> str:
        """Return the result in words: the change, that there is none, or why it is unknown."""
        one = self.measure
        if one.name == "verdict":
            return one.change or "the same"
        if not self.differs and one.value_a is not None and one.value_a == one.value_b:
            return "the same"
        if self.chance is None:
            return self.why
        significance = f"p = {self.chance:.2g}" if self.chance >= 0.001 else "p < 0.001"
        return f"{one.change}, {significance}" if self.differs else f"within noise, {significance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDifference:
    """A cell that both sides have.

    Attributes:
        title: Its name for readers.
        runs: The number of runs of each side.
    """

    cluster: str
    cell: str
    title: str
    runs: tuple[int, int]
    lines: tuple[MeasureLine, ...]

    @property
    def title_and_name(self) -> str:
        """Return the name for readers, with the stable name if that is another."""
        name = sides.cell_name((self.cluster, self.cell))
        return name if self.title == name else f"{self.title} ({name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureLine:
    """The exposure of both sides at a kind of event, in words."""

    what: str
    a: str
    b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The differences between two campaigns' results.

    Attributes:
        exposure: The faults of both sides at each kind of event, and the bounds of the risk that
            they show, in words. There is no test.
        unlike: Other differences between the two campaigns, one sentence each. They may explain a
            change.
        only_a, only_b: Cells that only one of them has.
        tests: The number of tests.
        runs_needed: The number of runs a side with which any difference can be found.
    """

    a: Side
    b: Side
    exposure: tuple[ExposureLine, ...]
    unlike: tuple[str, ...]
    cells: tuple[CellDifference, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]
    tests: int
    runs_needed: int


def compare(a: Path, b: Path) -> Differences:
    """Return the differences between two results directories. Raises as
    :func:`harness.comparing.sides.read`, and DocumentRefused for an invalid campaign file."""
    first, second = sides.read(a), sides.read(b)
    shared = sides.partners(first, second)
    found = {
        key: tuple(measures(first.cells[key], second.cells[of_b])) for key, of_b in shared.items()
    }
    tested = iter(lines([one for key in shared for one in found[key]]))
    of_cells = {key: tuple(islice(tested, len(found[key]))) for key in shared}
    cells = [
        CellDifference(
            cluster=key[0],
            cell=key[1],
            title=first.titles[key],
            runs=(len(first.cells[key].runs), len(second.cells[shared[key]].runs)),
            lines=of,
        )
        for key, of in of_cells.items()
    ]
    return Differences(
        a=first,
        b=second,
        exposure=tuple(_exposure(first, second)),
        unlike=tuple(_unlike(first, second)),
        cells=tuple(cells),
        only_a=tuple(key for key in first.cells if key not in shared),
        only_b=tuple(key for key in second.cells if key not in shared.values()),
        tests=sum(1 for of in of_cells.values() for one in of if one.chance is not None),
        runs_needed=runs_needed(sum(1 for of in found.values() for one in of if one.runs)),
    )


def _exposure(a: Side, b: Side) -> Iterator[ExposureLine]:
    """Yield the lines of all kinds of events that a side had. A side without such an event has
    none; that of an older version is unknown."""
    told = [
        None if of is None else {risk.what: risk for risk in of.lines}
        for of in (a.exposure, b.exposure)
    ]
    for what in dict.fromkeys(what for risks in told for what in risks or ()):
        words = [UNKNOWN if risks is None else _risk(risks.get(what)) for risks in told]
        yield ExposureLine(what=what, a=words[0], b=words[1])


def _risk(risk: Risk | None) -> str:
    if risk is None:
        return "none"
    return f"{risk.lossy} of {risk.faults} faults, {risk.words}"


def lines(every: Sequence[Measure]) -> list[MeasureLine]:
    """Return the measures with their tests.

    There is no test if a side has so few runs that no difference whatever would be noteworthy
    beside all the other tests. Its result would always be that chance suffices.
    """
    testable = sum(1 for one in every if one.runs)
    threshold = chance.DOUBT / max(testable, 1)
    probabilities = [
        one.runs.chance(threshold)
        if one.runs and chance.attainable(*one.runs.counts) <= threshold
        else None
        for one in every
    ]
    noted = iter(chance.noteworthy([one for one in probabilities if one is not None]))
    return [
        MeasureLine(
            measure=one,
            chance=probability,
            differs=None if probability is None else next(noted),
            why=_why(one, probability, testable),
        )
        for one, probability in zip(every, probabilities, strict=True)
    ]


def failures(found: Differences, kind: str) -> Iterator[str]:
    """Yield the reasons why a comparison fails, one sentence each.

    Args:
        kind: ``broken``: B broke a guarantee. ``worse``: a cell of B is worse than in A by more
            than chance. ``inconclusive``: B is inconclusive, or lacks a cell that A has.
    """
    cells = found.b.document.cells
    if kind == "broken":
        for one in (one for one in cells if one.verdict is Verdict.FAIL):
            names = ", ".join(guarantee.name for guarantee in one.guarantees if guarantee.broken)
            yield f"{one.cell} broke {names or 'a guarantee'}"
    elif kind == "worse":
        for cell in found.cells:
            for line in (line for line in cell.lines if line.worse):
                measure = line.measure
                yield f"{cell.cell}: {measure.name} went from {measure.a} to {measure.b}"
    else:
        yield from (
            f"{one.cell} is inconclusive" for one in cells if one.verdict is Verdict.INCONCLUSIVE
        )
        yield from (f"{cell} of A is not in B" for _, cell in found.only_a)
        if any(run.infrastructure_failed for run in found.b.document.runs):
            yield "a run of B did not finish"
        if not found.cells:
            yield "the results have no cell in common"


def runs_needed(tests: int) -> int:
    """Return the number of runs a side with which one of so many tests can find any difference."""
    return chance.units_needed(max(tests, 1))


def _why(one: Measure, probability: float | None, tests: int) -> str:
    if probability is not None:
        return "between runs"
    if one.runs is None:
        return f"no test: {one.why}" if one.why else ""
    few = min(one.runs.counts)
    return (
        f"{several(few, 'run')} per side cannot show a difference: "
        f"{runs_needed(tests)} would be enough"
    )


def as_document(found: Differences) -> dict[str, Any]:
    """Return the differences for scripts. ``differs`` is null without a test."""
    return {
        "a": _side(found.a),
        "b": _side(found.b),
        "exposure": [asdict(one) for one in found.exposure],
        "unlike": list(found.unlike),
        "only_a": [_named(key) for key in found.only_a],
        "only_b": [_named(key) for key in found.only_b],
        "tests": found.tests,
        "runs_needed": found.runs_needed,
        "doubt": chance.DOUBT,
        "cells": [
            {
                **_named((one.cluster, one.cell)),
                "runs": list(one.runs),
                "measures": [_measure(line) for line in one.lines],
            }
            for one in found.cells
        ],
    }


def _measure(line: MeasureLine) -> dict[str, Any]:
    one = line.measure
    sides = {"name": one.name, "a": one.value_a, "b": one.value_b, "a_told": one.a, "b_told": one.b}
    return {
        **sides,
        "p": line.chance,
        "differs": line.differs,
        "result": line.result,
        "test": line.why,
    }


def _side(side: Side) -> dict[str, Any]:
    names = ("campaign", "seed", "began", "verdict", "system", "metadata_quorum", "backend")
    entries = {name: getattr(side.document, name) for name in names}
    return {"directory": str(side.directory), **entries, "runs": len(side.document.runs)}


def _named(key: Key) -> dict[str, str]:
    return {"cluster": key[0], "cell": key[1]}


def _unlike(a: Side, b: Side) -> Iterator[str]:
    one, other = a.document, b.document
    if one.campaign != other.campaign:
        yield f"different campaigns: {one.campaign} and {other.campaign}"
    if one.seed != other.seed:
        yield f"different seeds, {one.seed} and {other.seed}, and so different schedules of faults"
    settings = list(_settings(a.directory, b.directory))
    yield from settings[:SETTINGS_SHOWN_MAX]
    if len(settings) > SETTINGS_SHOWN_MAX:
        yield f"and {len(settings) - SETTINGS_SHOWN_MAX} further settings of the campaign files"
    for name, was in one.versions.model_dump().items():
        now = getattr(other.versions, name)
        if was != now:
            yield f"{name}: {was or 'unknown'} and {now or 'unknown'}"
    if one.plugins != other.plugins:
        yield f"plug-ins: {_plugins(one)} and {_plugins(other)}"
    if one.machine != other.machine:
        yield f"machine: {_machine(a)} and {_machine(b)}"


def _plugins(document: VerdictDocument) -> str:
    return ", ".join(f"{name} {version}" for name, version in document.plugins.items()) or "none"


def _machine(side: Side) -> str:
    machine = side.document.machine
    if machine is None:
        return "unknown"
    return f"{machine.cores} cores, {machine.memory_mb:,} MB, {machine.architecture}"


_UNSET = "not set"
"""Stands for a setting that a campaign file leaves at its default."""


def _settings(a: Path, b: Path) -> Iterator[str]:
    shown_above = ("name", "seed")
    one, other = (dict(_flat(_campaign(directory))) for directory in (a, b))
    for name in dict.fromkeys((*one, *other)):
        was, now = one.get(name, _UNSET), other.get(name, _UNSET)
        if was != now and name not in shown_above:
            yield f"{name}: {was} and {now}"


def _campaign(directory: Path) -> object:
    """Return the content of a campaign file, or None if there is none. It is read as any campaign
    file is, so that aliases of aliases are refused. Raises DocumentRefused."""
    file = directory / CAMPAIGN_FILE
    return documents.read(file).content if file.is_file() else None


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting with its path; the path of a fault has its place in the list. Empty lists
    and mappings and nulls are ignored, because copies by newer releases have more of them."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and any(isinstance(part, Mapping) for part in value):
        for place, part in enumerate(value, 1):
            yield from _flat(part, f"{name}[{place}]")
    elif name and value is not None and value != []:
        yield name, str(value)
