"""Calls of a client library that may not come back."""

from threading import Event

import pytest

from ackproof.workloads.process import within


def test_a_call_that_comes_back_is_as_if_it_were_made_here() -> None:
    made: list[str] = []
    within(60.0, lambda: made.append("here"))
    assert made == ["here"]

    def refuse() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        within(60.0, refuse)


def test_a_call_that_does_not_come_back_is_left_behind() -> None:
    released = Event()
    with pytest.raises(TimeoutError):
        within(0.01, released.wait)
    released.set()
