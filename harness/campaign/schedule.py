"""The part of a campaign file that says what breaks, and when."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from harness.campaign.durations import Duration, DurationRange
from harness.campaign.section import Section


class Schedule(Section):
    """When things break: the faults without a time of their own, one after the other."""

    warmup: Duration = 5_000
    """Traffic before the first fault."""
    gap: DurationRange = (5_000, 10_000)
    """From one fault healed to the next."""
    tail: Duration = 5_000
    """Traffic after the cluster has recovered."""
    settle: Duration = 15_000
    """How long a fault waits, at most, for every partition to be led and every ISR to be full again
    before it strikes; with `0s` it does not wait."""
    order: Literal["shuffled", "listed"] = "shuffled"
    """`shuffled` by the seed, or `listed` as in the file."""
    rounds: Annotated[int, Field(ge=1)] = 1
    """How often the list of faults is gone through."""


class FaultEntry(Section):
    """One fault: which, against whom, for how long."""

    fault: str
    """Its name: see [Faults](#the-catalogue-of-faults)."""
    target: str
    """Against whom, said by role, which is resolved when its moment has come: see
    [Targets](#targets)."""
    parameters: Mapping[str, Any] = {}
    """Its own settings: see [Faults](#the-catalogue-of-faults)."""
    hold: DurationRange | None = None
    """For how long it is held. Without it: the least that gives it its full effect, up to half as
    much again."""
    at: DurationRange | None = None
    """When it strikes, once, since the workload began, whatever else is on. Without it the fault is
    one of those that come one after the other."""
