"""The search for the smallest campaign, with a judge that is simulated: what is planted is kept,
what is not goes."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.harness.shrinking.search import (
    FIRST_RUNS_MAX,
    FailureNotReproduced,
    Reduction,
    RunCounts,
    Search,
    repeats,
)

Faults = tuple[int, ...]


def _fewer(_: Faults, parts: Sequence[object]) -> Faults:
    return tuple(part for part in parts if isinstance(part, int))


FEWER: Reduction[Faults] = Reduction(name="faults", parts=lambda faults: faults, with_parts=_fewer)


class Judged:
    """Fails with odds ``p`` where all of ``cause`` is in it."""

    def __init__(self, cause: frozenset[int], p: float, seed: int) -> None:
        self.cause = cause
        self.p = p
        self.rng = random.Random(seed)
        self.asked: list[Faults] = []

    def __call__(self, faults: Faults) -> bool:
        self.asked.append(faults)
        return self.cause <= set(faults) and self.rng.random() < self.p


def searching(judge: Judged, **more: object) -> Search[Faults]:
    return Search(fails=judge, ways=[FEWER], report=lambda *_: None, **more)  # type: ignore[arg-type]


@st.composite
def causes(draw: st.DrawFn) -> tuple[Faults, frozenset[int]]:
    faults = tuple(range(draw(st.integers(1, 12))))
    return faults, frozenset(draw(st.sets(st.sampled_from(faults), max_size=4)))


@given(planted=causes(), seed=st.integers(0, 2**32))
def test_constant_cause_is_found_exactly(planted: tuple[Faults, frozenset[int]], seed: int) -> None:
    faults, cause = planted
    judge = Judged(cause, 1.0, seed)
    assert set(searching(judge).shrink(faults)) == cause
    assert len(judge.asked) <= 12 * (len(faults) + 2) ** 2


@given(planted=causes(), p=st.floats(0.25, 1.0), seed=st.integers(0, 2**32))
def test_planted_cause_is_never_lost(
    planted: tuple[Faults, frozenset[int]], p: float, seed: int
) -> None:
    """However unlucky: what is found did fail."""
    faults, cause = planted
    search = searching(Judged(cause, p, seed))
    try:
        found = search.shrink(faults)
    except FailureNotReproduced:
        assert search.tallies[faults] == RunCounts(0, FIRST_RUNS_MAX)
        return
    assert cause <= set(found) <= set(faults)
    assert search.tallies[found].failed >= 1


@pytest.mark.parametrize("p", [1 / 3, 1 / 2, 0.9])
def test_search_finds_an_intermittent_cause_nearly_always(p: float) -> None:
    """Test that nearly all of 200 searches find the cause and nothing else. With a doubt of one
    half, a search believes the first few runs that hold, and far fewer succeed."""
    cause = frozenset({2, 5})
    exact = {
        doubt: sum(
            set(searching(Judged(cause, p, seed), doubt=doubt).shrink(tuple(range(8)))) == cause
            for seed in range(200)
        )
        for doubt in (0.02, 0.5)
    }
    assert exact[0.02] >= 170, exact
    assert exact[0.5] < exact[0.02]


def test_search_with_the_same_answers_makes_the_same_runs() -> None:
    """So a search that was ended is taken up by answering from a journal."""
    whole = Judged(frozenset({1, 4, 6}), 0.5, 3)
    found = searching(whole).shrink(tuple(range(9)))
    again = Judged(frozenset({1, 4, 6}), 0.5, 3)
    assert searching(again).shrink(tuple(range(9))) == found
    assert again.asked == whole.asked


def test_interrupted_search_keeps_the_best_candidate() -> None:
    class Ended(Exception):
        pass

    judge = Judged(frozenset({3}), 1.0, 0)

    def fails(faults: Faults) -> bool:
        if len(judge.asked) == 9:
            raise Ended
        return judge(faults)

    search = searching(judge)
    search.fails = fails
    with pytest.raises(Ended):
        search.shrink(tuple(range(8)))
    assert search.best is not None
    assert 3 in search.best
    assert len(search.best) < 8


def test_failure_that_does_not_recur_is_given_up() -> None:
    judge = Judged(frozenset({99}), 1.0, 0)
    with pytest.raises(FailureNotReproduced, match=f"{FIRST_RUNS_MAX} runs"):
        searching(judge).shrink((1, 2))
    assert len(judge.asked) == FIRST_RUNS_MAX


def test_failure_rate_of_the_smallest_campaign_is_reported() -> None:
    search = searching(Judged(frozenset({1}), 0.5, 1))
    assert search.shrink((0, 1, 2)) == (1,)
    before = search.tallies[(1,)]
    after = search.confirm(10)
    assert after.runs == before.runs + 10
    assert after.failed > before.failed


def test_things_become_less_one_at_a_time_again_and_again() -> None:
    """Halved while it fails, after the faults; and the faults once more, for what is shorter needs
    fewer."""

    def less(lengths: Faults) -> list[Faults]:
        halved = [
            (*lengths[:n], length // 2, *lengths[n + 1 :]) for n, length in enumerate(lengths)
        ]
        return [one for one in halved if one != lengths]

    ways = [FEWER, Reduction(name="lengths", less=less)]
    fails = lambda lengths: sum(lengths) >= 7 and (len(lengths) >= 2 or max(lengths) < 60)  # noqa: E731
    search: Search[Faults] = Search(fails=fails, ways=ways, report=lambda *_: None)
    (found,) = search.shrink((64, 64, 64))
    assert 7 <= found < 16


class TestOdds:
    def test_as_many_as_the_doubt_asks_for(self) -> None:
        assert repeats(1 / 3, 0.05, 99) == 8
        assert repeats(3 / 4, 0.05, 99) == 3
        assert repeats(0.999, 0.05, 99) == 1
        assert repeats(0.01, 0.05, 30) == 30

    @given(odds=st.floats(0.01, 0.99), doubt=st.floats(0.001, 0.5))
    def test_no_fewer_and_no_more(self, odds: float, doubt: float) -> None:
        found = repeats(odds, doubt, 10**6)
        assert (1 - odds) ** found <= doubt * (1 + 1e-9)
        assert found == 1 or (1 - odds) ** (found - 1) > doubt * (1 - 1e-9)

    @given(runs=st.integers(0, 50), failed=st.integers(0, 50))
    def test_odds_are_never_certain(self, runs: int, failed: int) -> None:
        odds = RunCounts(min(runs, failed), runs).odds
        assert 0 < odds < 1
        assert math.isfinite(repeats(odds, 0.05, 30))
