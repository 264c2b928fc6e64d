"""The part of a campaign file that says what breaks, and when."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.campaign.durations import Duration, DurationRange
from harness.campaign.section import Section


class Schedule(Section):
    """When things break: the faults without a time of their own, one after the other.

    ``warmup``: traffic before the first fault. ``gap``: from one fault healed to the next.
    ``settle``: how long a fault waits, at most, for every partition to be led and every ISR to be
    full again before it strikes; with 0 it does not wait. ``tail``: traffic after the cluster has
    recovered. ``order``: ``shuffled`` by the seed or ``listed`` as in the file. ``rounds``: how
    often the list of faults is gone through.
    """

    warmup: Duration = 5_000
    gap: DurationRange = (5_000, 10_000)
    tail: Duration = 5_000
    settle: Duration = 15_000
    order: Literal["shuffled", "listed"] = "shuffled"
    rounds: Annotated[int, Field(ge=1)] = 1


class FaultEntry(Section):
    """One fault: which, with which parameters of its own, against whom (resolved by role when its
    moment has come), held for how long. Without ``hold``: the least that gives it its full effect,
    up to half as much again.

    ``at``: when it strikes, once, since the workload began, whatever else is on. Without it the
    fault is one of those that come one after the other.
    """

    fault: str
    target: str
    parameters: Mapping[str, Any] = Field(default_factory=dict)
    hold: DurationRange | None = None
    at: DurationRange | None = None
