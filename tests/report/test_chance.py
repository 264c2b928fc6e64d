"""Bounds and tests say what they say elsewhere, and never less."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report import chance


def binomial(found: int, of: int, proportion: float) -> float:
    """How likely at most ``found`` of ``of`` are found."""
    return sum(comb(of, n) * proportion**n * (1 - proportion) ** (of - n) for n in range(found + 1))


@pytest.mark.parametrize(
    ("found", "of", "told"),
    [
        (0, 28_000, "0 of 28,000, below 0.011 % at 95 %"),
        (0, 10, "0 of 10, below 26 % at 95 %"),
        (0, 0, "0 of 0"),
        (1, 10, "1 of 10 (0.25 to 45 %)"),  # R: binom.test(1, 10): 0.002529 0.445016
        (10, 10, "10 of 10 (69 to 100 %)"),  # binom.test(10, 10): 0.6915 1
        (3, 28_000, "3 of 28,000 (0.0022 to 0.032 %)"),
    ],
)
def test_a_share_has_its_bounds(found: int, of: int, told: str) -> None:
    assert chance.share(found, of) == told


@given(st.integers(1, 60).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_beyond_the_bounds_what_was_found_is_as_unlikely_as_was_asked(
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
    assert chance.below(10_000) == pytest.approx(3 / 10_000, rel=0.01)
    assert (1 - chance.below(50)) ** 50 == pytest.approx(0.05)


def test_fisher_is_right_about_the_tea() -> None:
    assert chance.fisher(3, 4, 1, 4) == pytest.approx(0.4857, abs=1e-4)
    assert chance.fisher(8, 10, 1, 9) == pytest.approx(0.0055, abs=1e-4)
    assert chance.fisher(0, 9, 0, 9) == 1
    assert chance.fisher(0, 0, 3, 9) == 1


def means(first: chance.Array, second: chance.Array) -> chance.Array:
    return np.asarray(first[:, 0] - second[:, 0])


@given(st.lists(st.integers(0, 50), min_size=4, max_size=12))
def test_a_sample_does_not_differ_from_itself(values: list[int]) -> None:
    one = np.array(values, dtype=np.float64)[:, np.newaxis]
    assert chance.permuted(one, one, means) == 1


def test_what_is_plainly_apart_is_unlikely_by_chance_and_as_often_as_it_is_drawn() -> None:
    low, high = np.zeros((10, 1)), np.ones((10, 1))
    assert chance.permuted(low, high, means) == pytest.approx(1 / 2000, abs=1 / 1000)
    # Of three and three, two of the twenty ways to share them out are so extreme.
    few = chance.permuted(low[:3], high[:3], means)
    assert few == pytest.approx(0.1, abs=0.03)


def test_ranks_of_equals_are_shared() -> None:
    assert list(chance.ranks([5, 1, 5, 9])) == [2.5, 1, 2.5, 4]


def test_many_tests_ask_for_more() -> None:
    assert chance.noteworthy([0.04]) == [True]
    assert chance.noteworthy([0.04, 0.5, 0.9]) == [False] * 3
    assert chance.noteworthy([0.04, 0.001, 0.02]) == [True, True, True]
    assert chance.noteworthy([0.04, 0.001, 0.03]) == [False, True, False]
    assert chance.noteworthy([]) == []
