"""The part of a campaign file that says what breaks, and when.

Two timelines at once: faults with a time of their own (``at``) strike then; the others come one
after the other, in one lane or in several that go on side by side.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from harness.campaign.durations import Duration, DurationRange
from harness.campaign.section import Section

FAULTS_MAX = 1_000
"""Of one run: a schedule with more is a slip of the pen, like a gap of 0 for an hour."""

LANES_MAX = 10

MINORITY = "minority"
_AtMost = Annotated[int, Field(ge=0)] | Literal["minority"]


class AtMost(Section):
    """How many servers may suffer at once; a number, or ``minority``: as many as leave a majority.

    What counts is what targets can stand for at the most: ``leader(t, 0)`` is one broker,
    ``isr(t, any)`` as many as the topic has replicas, a link both its ends. Two faults that
    happen to find the same broker count twice.

    A fault, or a story, that cannot be alone within these limits is refused with the file. In a
    lane one that does not fit with what is planned to be on at that time is planned for when it
    does; where the order is ``drawn``, another is drawn instead if there is one that fits. What
    comes later than planned, because another took longer to heal, waits again.
    """

    brokers: _AtMost | None = Field(
        default=None, description="brokers that may suffer at once; without it, any number"
    )
    zookeepers: _AtMost | None = Field(
        default=None, description="ZooKeeper servers that may suffer at once; without it, any"
    )


class Schedule(Section):
    """When things break: the faults without a time of their own, one after the other."""

    warmup: Duration = Field(default=5_000, description="traffic before the first fault of a lane")
    gap: DurationRange = Field(
        default=(5_000, 10_000),
        description="rest time, from one fault healed to the next one of the same lane",
    )
    tail: Duration = Field(
        default=5_000, description="traffic after the cluster has recovered from the last fault"
    )
    settle: Duration = Field(
        default=15_000,
        description="how long a fault without a time of its own waits, at most, for every "
        "partition to be led and every ISR to be full again before it strikes; with 0 it does not "
        "wait: with a gap of 0 besides, it strikes right after the one before",
    )
    order: Literal["shuffled", "listed", "drawn"] = Field(
        default="shuffled",
        description="the list of faults, gone through as it stands (listed) or in another order "
        "each round (shuffled); or each fault drawn anew, by its weight (drawn)",
    )
    rounds: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="how often each lane goes through the list of faults; where they are drawn, "
        "how many times as many as there are in the list",
    )
    lasts: Duration | None = Field(
        default=None,
        description="instead of rounds: as many faults as are planned to begin within this time "
        "(the last one may last longer, and each may come later than planned)",
    )
    lanes: Annotated[int, Field(ge=1, le=LANES_MAX)] = Field(
        default=1,
        description="how many such sequences go on side by side, each by itself, so that their "
        "faults overlap",
    )
    at_most: AtMost = Field(
        default=AtMost(), description="how many servers may suffer at once, whatever the lanes"
    )
    until: Literal["end", "first-broken-guarantee"] = Field(
        default="end",
        description="first-broken-guarantee: no further fault strikes once a server has ended by "
        "itself (which is seen as it happens), and no further run begins once one broke a "
        "guarantee (every run is checked when it is over: what was lost cannot be known before)",
    )


_At = Annotated[
    DurationRange | None,
    Field(
        description="when it strikes, once, since the workload began, whatever else is on; "
        "without it, it is one of those that come one after the other"
    ),
]
_Weight = Annotated[
    Annotated[float, Field(gt=0, allow_inf_nan=False)] | None,
    Field(description="with order drawn: how often it is drawn in comparison; 1 if not given"),
]
_Seed = Annotated[
    Annotated[int, Field(ge=0)] | None,
    Field(description="for what its target leaves open (any, one, ...); without it, the run's"),
]


class FaultEntry(Section):
    """One fault: which, against whom, for how long."""

    fault: str = Field(description="its name, of those that `ackproof faults` lists")
    target: str = Field(description="whom it befalls, by role, resolved when its moment has come")
    parameters: Mapping[str, Any] = Field(
        default_factory=dict, description="the fault's own settings"
    )
    hold: DurationRange | None = Field(
        default=None,
        description="how long it is held; without it, the least that gives it its full effect, up "
        "to half as much again",
    )
    at: _At = None
    weight: _Weight = None
    seed: _Seed = None


class StoryEntry(Section):
    """A sequence of faults by name, of those that `ackproof faults` lists; one entry, and as many
    faults as the story has steps."""

    story: str = Field(description="its name")
    topic: str | None = Field(
        default=None, description="on which topic it plays, where it is about a partition"
    )
    partition: Annotated[int, Field(ge=0)] | Literal["any"] = Field(
        default="any",
        description="on which partition of it; any: drawn by the seed, once for the whole story",
    )
    at: _At = None
    weight: _Weight = None
    seed: _Seed = None


def _kind(written: object) -> str:
    if isinstance(written, StoryEntry):
        return "<story>"
    return "<story>" if isinstance(written, Mapping) and "story" in written else "<fault>"


Entry = Annotated[
    Annotated[FaultEntry, Tag("<fault>")] | Annotated[StoryEntry, Tag("<story>")],
    Discriminator(_kind),
]
"""A pydantic field type: an entry of ``faults``. The tags are no keys of the file, and are left out
where a problem names its field."""
