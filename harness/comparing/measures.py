"""A cell on both sides, measure by measure, each with what a test says of it or why there is none.

A test says how likely two sides differ so much by chance; whether that is unlikely enough depends
on how many tests were made at once, and is for :mod:`harness.comparing.differences` to say.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from checkers.verdict import Verdict
from harness.comparing.sends import BLOCK_S, Array
from harness.comparing.sides import WORST_FIRST, Pooled
from harness.report import chance
from harness.report.cell_document import CellDocument
from harness.report.rows import UNKNOWN, number

UNITS_MIN = 4
"""With fewer runs or blocks a side, no difference whatever would be unlikely: of three and three,
one in ten ways to share them out is the most extreme."""

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is compared of a cell.

    Attributes:
        a, b: Both sides in words.
        value_a, value_b: Likewise as numbers; None for what is unknown.
        chance: How likely they differ so much or more by chance; None without a test.
        why: What the test is about, or why there is none.
        change: What differs, in words, if that is no chance.
    """

    name: str
    a: str
    b: str
    value_a: float | str | None
    value_b: float | str | None
    chance: float | None = None
    why: str = ""
    change: str = ""


def measures(a: Pooled, b: Pooled) -> Iterator[Measure]:
    """All there are of a cell."""
    yield _verdict(a, b)
    yield _proportion("lost", "acked", a, b)
    yield _proportion("duplicated", "sent", a, b)
    yield from _latencies(a, b)
    yield _away("unavailable, longest", "longest_ms", max, a, b)
    yield _away("unavailable, a run", "total_ms", mean, a, b)
    yield _throughput(a, b)


def _verdict(a: Pooled, b: Pooled) -> Measure:
    found = [side.verdict for side in (a, b)]
    change = ""
    if a.verdict is not b.verdict:
        worse = WORST_FIRST.index(b.verdict) < WORST_FIRST.index(a.verdict)
        # What was promised in the one and not in the other is neither better nor worse.
        change = "changed" if Verdict.NOT_GUARANTEED in found else "worse" if worse else "better"
    return Measure(
        name="verdict",
        a=a.verdict.value,
        b=b.verdict.value,
        value_a=a.verdict.value,
        value_b=b.verdict.value,
        change=change,
    )


def _proportion(what: str, of: str, a: Pooled, b: Pooled) -> Measure:
    """Records as they were counted; tested are the places in which any were."""
    counts = [
        (side.total(lambda cell: getattr(cell, what)), side.total(_of(of))) for side in (a, b)
    ]
    told = [_share(found, among) for found, among in counts]
    places = [side.places(what) for side in (a, b)]
    (value_a, of_a), (value_b, of_b) = counts
    known = [place for place in places if place is not None]
    probability = None
    why = "not known of both"
    if None not in (value_a, value_b):
        why = "no manifest, or no anomalies.parquet"
        if len(known) == len(places):
            (in_a, all_a), (in_b, all_b) = known
            probability = chance.fisher(in_a, all_a, in_b, all_b)
            why = f"{what} in {in_a} of {all_a} and in {in_b} of {all_b} partitions and faults"
    return Measure(
        name=what,
        a=told[0],
        b=told[1],
        value_a=value_a,
        value_b=value_b,
        chance=probability,
        why=why,
        change="more" if (value_b or 0) * (of_a or 1) > (value_a or 0) * (of_b or 1) else "fewer",
    )


def _of(name: str) -> Callable[[CellDocument], int | None]:
    def read(cell: CellDocument) -> int | None:
        count: int | None = getattr(cell, name)
        return count

    return read


def _share(found: int | None, among: int | None) -> str:
    if found is None or among is None:
        return UNKNOWN
    # Of no acked record, 12 sent that stand twice among 10 are not 12 of 10.
    return chance.share(found, among) if found <= among else number(found)


def _latencies(a: Pooled, b: Pooled) -> Iterator[Measure]:
    for percent in PERCENTILES:
        name = f"ack, {percent} % within"
        values = [_percentile(side, percent) for side in (a, b)]

        def distance(first: Array, second: Array, percent: int = percent) -> Array:
            return _bin_of(first, percent) - _bin_of(second, percent)

        probability, why = _tested(a, b, distance)
        yield _number(name, values, _milliseconds, probability, why)


def _percentile(side: Pooled, percent: int) -> float | None:
    if not side.sends:
        return None
    return float(np.percentile(np.concatenate([one.waited_ms for one in side.sends]), percent))


def _bin_of(counts: Array, percent: int) -> Array:
    """The bin in which the percentile is, of each row."""
    running = counts.cumsum(axis=1)
    found: Array = (running < running[:, -1:] * percent / 100).sum(axis=1).astype(np.float64)
    return found


def _throughput(a: Pooled, b: Pooled) -> Measure:
    values = [_acks_a_second(side) for side in (a, b)]
    units = _units(a, b)
    shares = [len(one) for one in units[0]] if units[0] else [1, 1]

    def distance(first: Array, second: Array) -> Array:
        difference: Array = first.sum(axis=1) / shares[0] - second.sum(axis=1) / shares[1]
        return difference

    probability, why = _tested(a, b, distance)
    return _number("acks a second", values, lambda one: f"{one:,.1f}", probability, why)


def _acks_a_second(side: Pooled) -> float | None:
    lasted_s = sum(one.lasted_s for one in side.sends)
    return sum(len(one.waited_ms) for one in side.sends) / lasted_s if lasted_s else None


def _tested(
    a: Pooled, b: Pooled, distance: Callable[[Array, Array], Array]
) -> tuple[float | None, str]:
    units, why = _units(a, b)
    return (chance.permuted(*units, distance), why) if units else (None, why)


def _units(a: Pooled, b: Pooled) -> tuple[tuple[Array, Array] | None, str]:
    """What is shared out anew: runs where there are enough of them, else blocks of time. None
    where there is too little, and why."""
    if not (a.sends and b.sends):
        return None, "not known of both"
    if min(len(a.sends), len(b.sends)) >= UNITS_MIN:
        # A rate, so that a run which lasted longer counts as one.
        runs = [
            [one.blocks.mean(axis=0) for one in side.sends if len(one.blocks)] for side in (a, b)
        ]
        if min(map(len, runs)) >= UNITS_MIN:
            return (np.array(runs[0]), np.array(runs[1])), "between runs"
    blocks = [np.concatenate([one.blocks for one in side.sends]) for side in (a, b)]
    if min(map(len, blocks)) < UNITS_MIN:
        return None, f"less than {UNITS_MIN * BLOCK_S} s of sends"
    return (blocks[0], blocks[1]), f"within runs, by {BLOCK_S} s"


def _away(
    name: str,
    what: str,
    combine: Callable[[Sequence[int]], float],
    a: Pooled,
    b: Pooled,
) -> Measure:
    sides = [[_told(cell, what) for cell in side.runs] for side in (a, b)]
    known = [[one for one in side if one is not None] for side in sides]
    if any(len(some) < len(all_) for some, all_ in zip(known, sides, strict=True)):
        return _number(name, [None, None], _milliseconds, None, "not known of both")
    values = [float(combine(side)) for side in known]
    if min(map(len, known)) < UNITS_MIN:
        why = f"{UNITS_MIN} runs a side would be needed"
        return _number(name, values, _milliseconds, None, why)
    ranks = chance.ranks([one for side in known for one in side])[:, np.newaxis]
    units = ranks[: len(known[0])], ranks[len(known[0]) :]

    def distance(first: Array, second: Array) -> Array:
        difference: Array = first[:, 0] / len(units[0]) - second[:, 0] / len(units[1])
        return difference

    return _number(name, values, _milliseconds, chance.permuted(*units, distance), "between runs")


def _told(cell: CellDocument, what: str) -> int | None:
    return None if cell.unavailable is None else int(getattr(cell.unavailable, what))


def _number(
    name: str,
    values: Sequence[float | None],
    words: Callable[[float], str],
    probability: float | None,
    why: str,
) -> Measure:
    a, b = values
    return Measure(
        name=name,
        a=UNKNOWN if a is None else words(a),
        b=UNKNOWN if b is None else words(b),
        value_a=a,
        value_b=b,
        chance=probability,
        why=why,
        change="" if not a or b is None else f"{100 * (b - a) / a:+.0f} %",
    )


def _milliseconds(value: float) -> str:
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.3g} ms"
