"""Bounds and tests say what they say elsewhere, and never less."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.harness.report import chance


def binomial(found: int, of: int, proportion: float) -> float:
    """Return the probability of at most ``found`` of ``of``."""
    return sum(comb(of, n) * proportion**n * (1 - proportion) ** (of - n) for n in range(found + 1))


@pytest.mark.parametrize(
    ("found", "of", "told"),
    [
        (0, 18, "at most 16 % (95 % confidence)"),
        (0, 1, "at most 95 % (95 % confidence)"),
        # R: binom.test(1, 10, conf.level = 0.9): 0.005116 0.394163
        (1, 10, "0.51 to 40 % (95 % confidence at each end)"),
        (10, 10, "74 to 100 % (95 % confidence at each end)"),  # 0.7411 1
    ],
)
def test_bound_covers_each_number_of_trials(found: int, of: int, told: str) -> None:
    assert chance.bound(found, of) == told


def test_trials_are_as_many_as_the_bound_asks_for() -> None:
    assert chance.trials(0.01) == 299
    assert chance.bounds(0, 299, 0.1)[1] <= 0.01 < chance.bounds(0, 298, 0.1)[1]


@given(st.integers(1, 60).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_counts_beyond_the_bounds_have_the_requested_probability(
    case: tuple[int, int],
) -> None:
    found, of = case
    low, high = chance.bounds(found, of)
    assert 0 <= low <= found / of <= high <= 1
    if found < of:
        assert binomial(found, of, high) == pytest.approx(0.025, abs=1e-6)
    if found:
        assert 1 - binomial(found - 1, of, low) == pytest.approx(0.025, abs=1e-6)


def test_none_of_many_is_the_rule_of_three() -> None:
    assert chance.bounds(0, 10_000, 0.1)[1] == pytest.approx(3 / 10_000, rel=0.01)
    assert (1 - chance.bounds(0, 50, 0.1)[1]) ** 50 == pytest.approx(0.05)


def means(first: chance.Array, second: chance.Array) -> chance.Array:
    return np.asarray(first[:, 0] - second[:, 0])


@given(st.lists(st.integers(0, 50), min_size=4, max_size=12))
def test_a_sample_does_not_differ_from_itself(values: list[int]) -> None:
    one = np.array(values, dtype=np.float64)[:, np.newaxis]
    assert chance.permuted(one, one, means) == 1


def test_permutation_of_few_units_goes_through_every_way() -> None:
    low, high = np.zeros((10, 1)), np.ones((10, 1))
    # Of three and three, two of the twenty ways to share them out are so extreme.
    assert chance.permuted(low[:3], high[:3], means) == pytest.approx(2 / 20)
    assert chance.permuted(low, high, means) == pytest.approx(1 / chance.EXACT_MAX, rel=0.01)


def test_units_needed_are_the_fewest_that_can_show_a_difference() -> None:
    assert chance.units_needed(1) == 4
    assert chance.attainable(4, 4) == pytest.approx(2 / 70)
    assert chance.units_needed(9) == 6
    for tests in (1, 9, 54):
        needed = chance.units_needed(tests)
        assert chance.attainable(needed, needed) <= chance.DOUBT / tests
        assert chance.attainable(needed - 1, needed - 1) > chance.DOUBT / tests


def test_ranks_of_equals_are_shared() -> None:
    assert list(chance.ranks([5, 1, 5, 9])) == [2.5, 1, 2.5, 4]


def test_many_tests_ask_for_more() -> None:
    assert chance.noteworthy([0.04]) == [True]
    assert chance.noteworthy([0.04, 0.5, 0.9]) == [False] * 3
    assert chance.noteworthy([0.04, 0.001, 0.02]) == [True, True, True]
    assert chance.noteworthy([0.04, 0.001, 0.03]) == [False, True, False]
    assert chance.noteworthy([]) == []
