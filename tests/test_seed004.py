"""The page of the reliability benchmarks rests on steady states and on intervals that hold."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))

import seed004
from rounds import Ratio, conclusion, ratio

ROUNDS = 6


def test_ratio_interval_is_the_paired_t_interval() -> None:
    # Logarithms of the ratios: 0.1, 0.2, 0.3; their mean 0.2, standard error 0.1/sqrt(3), t 4.3027.
    first = [math.exp(0.1), 2 * math.exp(0.2), 3 * math.exp(0.3)]
    found = ratio("a to b", first, [1, 2, 3])
    within = 4.302653 * 0.1 / math.sqrt(3)
    assert found.mean == pytest.approx(math.exp(0.2))
    assert (found.low, found.high) == pytest.approx(
        (math.exp(0.2 - within), math.exp(0.2 + within))
    )


def test_ratio_of_one_round_is_refused() -> None:
    with pytest.raises(ValueError, match="one round cannot tell"):
        ratio("a to b", [1], [2])


def test_equal_settings_are_rarely_found_different() -> None:
    """Rounds that are slower as a whole must not count as a difference of settings."""
    random = np.random.default_rng(4)
    trials, wrong = 2_000, 0
    for _ in range(trials):
        of_round = random.lognormal(7, 0.5, ROUNDS)
        first, second = of_round * random.lognormal(0, 0.1, (2, ROUNDS))
        found = ratio("a to b", first.tolist(), second.tolist())
        wrong += found.low > 1 or found.high < 1
    assert wrong / trials < 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_intervals_of_a_finding_hold_together() -> None:
    alone = ratio("a to b", [1.0, 1.1, 1.3], [1, 1, 1])
    together = ratio("a to b", [1.0, 1.1, 1.3], [1, 1, 1], together=3)
    assert together.low < alone.low < alone.high < together.high


@pytest.mark.parametrize(
    ("low", "high", "more", "same"),
    [
        (1.2, 1.4, "confirmed", "refuted"),
        (1.02, 1.05, "confirmed", "confirmed"),
        (0.95, 1.05, "refuted", "confirmed"),
        (0.5, 0.8, "refuted", "refuted"),
        (0.8, 1.3, None, None),
    ],
)
def test_interval_decides_whether_a_finding_holds(
    low: float, high: float, more: str | None, same: str | None
) -> None:
    found = Ratio(name="a to b", mean=(low + high) / 2, low=low, high=high)
    assert (found.verdict_of_more, found.verdict_of_same) == (more, same)


def test_conclusion_needs_every_comparison() -> None:
    assert conclusion(["confirmed", "confirmed"]) == "confirmed"
    assert conclusion(["confirmed", None]) == "undecided"
    assert conclusion(["confirmed", None, "refuted"]) == "refuted"


def test_table_has_rates_finding_and_ratios_of_each_group_in_a_row() -> None:
    rates = {"1": [200.0, 220, 210], "2": [100.0, 111, 104]}
    rows = list(
        seed004.table({"acks=all": rates}, "replicas", {"acks=all": ("fewer", seed004.more)})
    )
    (compared,) = seed004.more(rates)[0]
    row = f"1: 210 (200–220); 2: 105 (100–111) | fewer: **confirmed** | {compared} confirmed"  # noqa: RUF001
    assert rows[2:] == [f"| acks=all | {row} |"]


def test_steady_rate_leaves_out_the_first_seconds_and_the_last_one() -> None:
    steady = dict.fromkeys(range(6, 30), 100)
    assert seed004.steady_rate({0: 9, 3: 5_000, **steady, 30: 1}) == 100
    del steady[10]
    assert seed004.steady_rate({0: 9, **steady, 30: 1}) == pytest.approx(100 * 23 / 24)


def test_steady_rate_of_a_short_run_is_refused() -> None:
    with pytest.raises(ValueError, match="steady for 19 s, fewer than 20 s"):
        seed004.steady_rate(dict.fromkeys(range(26), 100))


def test_stages_count_brokers_that_are_down_without_the_time_of_the_change() -> None:
    acked = dict.fromkeys(range(91), 10) | dict.fromkeys(range(39, 60), 0)
    stages = seed004.stages_of(acked, [(30, 60)])
    assert [(stage.down, stage.rate, stage.silent) for stage in stages] == [
        (0, 10, 0),
        (1, 0, 21),
        (0, 10, 0),
    ]
