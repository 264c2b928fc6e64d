"""The part of a campaign file that says what breaks, and when."""

from typing import Annotated, Literal

from pydantic import Field

from harness.campaign.durations import Duration, DurationRange
from harness.campaign.section import Section


class Schedule(Section):
    """When things break.

    ``warmup``: traffic before the first fault. ``gap``: from one fault healed to the next.
    ``settle``: how long a fault waits, at most, for every partition to be led and every ISR to be
    full again before it strikes. ``tail``: traffic after the cluster has recovered. ``order``:
    ``shuffled`` by the seed or ``listed`` as in the file. ``rounds``: how often the list of faults
    is gone through.
    """

    warmup: Duration = 5_000
    gap: DurationRange = (5_000, 10_000)
    tail: Duration = 5_000
    settle: Duration = 15_000
    order: Literal["shuffled", "listed"] = "shuffled"
    rounds: Annotated[int, Field(ge=1)] = 1


class FaultEntry(Section):
    """One fault: which, against whom (resolved by role when its moment has come), held for how
    long. Without ``hold``: the least that gives it its full effect, up to half as much again."""

    fault: str
    target: str
    hold: DurationRange | None = None
