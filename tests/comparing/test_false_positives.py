"""Histories that do not differ but by chance are said to differ no more often than is claimed."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from ackproof.checkers.verdict import Verdict
from ackproof.harness.comparing.differences import lines, measures
from ackproof.harness.comparing.sides import BINS, PooledCell, Sends, Side
from ackproof.harness.report import chance
from ackproof.harness.report.cell_document import CellDocument
from ackproof.harness.report.document import VerdictDocument

HISTORIES = 30
ACKED = 1000
FAULTS = 3

Losses = Callable[[np.random.Generator], Sequence[int]]
"""What the cells of one run lost."""
Waits = Callable[[np.random.Generator], np.ndarray]


def tolerated(histories: int) -> float:
    """Return the highest share of false positives that is exceeded once in a thousand times."""
    return chance.DOUBT + 3.1 * (chance.DOUBT * (1 - chance.DOUBT) / histories) ** 0.5


def bites(partitions: int, cells: int = 1) -> Losses:
    """Each fault bites with probability 1/2, and takes all partitions of all cells at once."""

    def lost(rng: np.random.Generator) -> Sequence[int]:
        bitten = rng.random(FAULTS) < 0.5
        share = rng.uniform(0.1, 0.3, (cells, FAULTS, partitions)) / partitions
        counts = ACKED * (share * bitten[:, np.newaxis]).sum(axis=(1, 2))
        return [int(count) for count in counts]

    return lost


def steady(rng: np.random.Generator) -> np.ndarray:
    return rng.lognormal(1, 0.3, ACKED)


def autocorrelated(rng: np.random.Generator) -> np.ndarray:
    """Each wait resembles the one before it."""
    noise = rng.normal(0, 0.1, ACKED)
    weights = 0.95 ** np.arange(200)
    return np.exp(1 + np.convolve(noise, weights)[:ACKED])


def a_level_per_run(rng: np.random.Generator) -> np.ndarray:
    return steady(rng) * rng.normal(1, 0.05)


def side(runs: int, lost: Losses, waits: Waits, rng: np.random.Generator) -> list[PooledCell]:
    """One side: each of its cells, in all of its runs."""
    by_run = [lost(rng) for _ in range(runs)]
    document = VerdictDocument(verdict=Verdict.PASS, cells=())
    made = Side(directory=Path(), document=document)
    read: dict[int, dict[str, Sends]] = {}
    for run in range(runs):
        waited = waits(rng)
        counted = np.bincount(np.digitize(waited, BINS), minlength=len(BINS) + 1)
        told = Sends(waited_ms=waited, waits=counted.astype(float), lasted_s=60.0)
        read[run] = {str(cell): told for cell in range(len(by_run[0]))}
    made.__dict__["sends"] = read  # as it is read from a history
    return [
        PooledCell(
            side=made,
            runs=[document_of(run, cell, by_run[run][cell]) for run in range(runs)],
        )
        for cell in range(len(by_run[0]))
    ]


def document_of(run: int, cell: int, lost: int) -> CellDocument:
    return CellDocument(
        run=run,
        cell=str(cell),
        topic="t",
        verdict=Verdict.PASS,
        guarantees=(),
        sent=ACKED,
        acked=ACKED,
        failed=0,
        indeterminate=0,
        lost=lost,
        duplicated=0,
        reordered=0,
    )


@pytest.mark.parametrize(
    ("runs", "lost", "waits"),
    [
        (1, bites(12), autocorrelated),
        (1, bites(3), a_level_per_run),
        pytest.param(6, bites(3), a_level_per_run, marks=pytest.mark.long),
    ],
    ids=["run-autocorrelated", "run-level-per-run", "6-runs-level-per-run"],
)
def test_comparison_is_wrong_no_more_often_than_it_claims(
    runs: int, lost: Losses, waits: Waits
) -> None:
    rng = np.random.default_rng(41)
    wrong = 0
    for _ in range(HISTORIES):
        pairs = zip(side(runs, lost, waits, rng), side(runs, lost, waits, rng), strict=True)
        found = lines([one for pair in pairs for one in measures(*pair)])
        wrong += any(line.differs for line in found)
    assert wrong / HISTORIES <= tolerated(HISTORIES)


@pytest.mark.parametrize("partitions", [3, 12])
def test_losses_alone_differ_by_chance_no_more_often_than_is_claimed(partitions: int) -> None:
    """Test one comparison with four runs a side, the fewest that can tell; by partition, 21 to 68 %
    would differ."""
    rng = np.random.default_rng(2)
    lost, histories = bites(partitions), 300
    wrong = 0
    for _ in range(histories):
        pair = [side(4, lost, steady_once, rng)[0] for _ in range(2)]
        (one,) = [one for one in measures(*pair) if one.name == "lost"]
        assert one.runs is not None
        wrong += one.runs.chance() <= chance.DOUBT
    assert 0.005 < wrong / histories <= tolerated(histories)


def steady_once(_: np.random.Generator) -> np.ndarray:
    return np.ones(4)


def test_difference_that_is_there_is_seen() -> None:
    rng = np.random.default_rng(3)
    a = side(6, bites(3), steady, rng)[0]
    b = side(6, lambda rng: [500 + 10 * one for one in bites(3)(rng)[:1]], steady, rng)[0]
    told = {line.measure.name: line for line in lines(list(measures(a, b)))}
    assert told["lost"].differs
    assert not told["ack, 50 % within"].differs
