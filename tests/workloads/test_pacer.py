"""The open loop keeps its rate, and catches up within bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.pacer import Pacer


@given(st.floats(0.1, 10_000), st.lists(st.floats(0, 0.5), max_size=50))
def test_what_is_taken_is_the_rate_times_the_time(rate: float, steps: list[float]) -> None:
    pacer, now, taken = Pacer(rate, 0.0), 0.0, 0
    for step in steps:
        now += step
        taken += pacer.take(now)
    if rate * 0.5 + 1 <= max(1.0, rate):
        assert taken == pytest.approx(rate * now, abs=1.001)
    assert taken <= rate * now + 0.001


def test_after_a_stall_a_second_of_it_is_caught_up() -> None:
    pacer = Pacer(100.0, 0.0)
    assert pacer.take(60.0) == 100
    assert pacer.take(60.0) == 0
    assert pacer.take(60.5) == 50


def test_a_slow_rate_still_sends() -> None:
    pacer = Pacer(0.125, 0.0)
    assert [pacer.take(float(now)) for now in range(17)].count(1) == 2


def test_the_wait_is_until_the_next_token() -> None:
    pacer = Pacer(4.0, 0.0)
    assert pacer.take(0.125) == 0
    assert pacer.seconds_to_next() == pytest.approx(0.125)
