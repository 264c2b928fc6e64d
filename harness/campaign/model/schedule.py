"""The part of a campaign file that says which faults are injected, and when.

There are two timelines at once. A fault with a time of its own (``at``) begins then. The others
follow one another, in one lane or in several that run side by side.
"""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from ackproof.config.documents import Problem
from ackproof.config.suggestions import closest
from ackproof.harness.campaign.model.values import (
    AsWritten,
    Duration,
    DurationRange,
    Section,
    Several,
)
from ackproof.history.manifest import PlannedFailover
from ackproof.nemesis.interface import Members
from ackproof.nemesis.process.commands import COMMAND

# --- faults and stories ---------------------------------------------------------------------------

FAULTS_MAX = 5_000
"""The largest number of faults of one run. A schedule with more is a mistake, such as a gap of 0
for an hour."""

LANES_MAX = 10

MINORITY = "minority"
_AtMost = Annotated[int, Field(ge=0)] | Literal["minority"]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Seed = Annotated[int, Field(ge=0)]


class AtMost(Section):
    """Servers that may be affected at once. Targets count with the most servers that they can mean:
    `leader(t, 0)` one, `isr(t, any)` the replication factor, a link both ends. A fault that exceeds
    a limit alone is refused; others are delayed, or with `order: drawn` replaced."""

    brokers: _AtMost | None = None
    """Brokers; `minority` leaves a majority."""
    zookeepers: _AtMost | None = None
    """ZooKeeper servers or KRaft controllers."""


class Schedule(Section):
    """The times of the faults without an `at`, which follow one another."""

    warmup: Duration = 5_000
    """Traffic before the first fault of a lane."""
    gap: DurationRange = (5_000, 10_000)
    """Time from the heal of a fault to the next fault of the lane."""
    tail: Duration = 5_000
    """Traffic after the cluster has recovered."""
    settle: Duration = 15_000
    """The longest wait before each fault for a leader and a full ISR of every partition. `0s`: do
    not wait."""
    order: Literal["shuffled", "listed", "drawn"] = "shuffled"
    """`shuffled` by the seed in each round, as in the file, or `drawn` by weight."""
    rounds: Annotated[int, Field(ge=1)] = 1
    """Passes of each lane through the list of faults, or with `drawn` as many faults."""
    lasts: Duration | None = None
    """Instead of rounds: plan faults to begin within this time."""
    lanes: Annotated[int, Field(ge=1, le=LANES_MAX)] = 1
    """Sequences of faults that overlap."""
    at_most: AtMost = AtMost()
    """Servers that may be affected at once."""
    until: Literal["end", "first-broken-guarantee"] = "end"
    """`first-broken-guarantee`: no fault after a server ended by itself, and no run after one that
    violated a guarantee. Runs are checked when they are over."""


class FaultEntry(Section):
    """A fault with its target and duration."""

    fault: str
    """A name of the [catalogue of faults](#the-catalogue-of-faults)."""
    target: str
    """The [affected servers or links](#targets), resolved when the fault begins. Default for
    `command`: `all`."""
    parameters: Mapping[str, Any] = {}
    """The parameters of the [fault](#the-catalogue-of-faults)."""
    hold: DurationRange | None = None
    """The duration. Default: the least that gives full effect, or up to half as much again."""
    at: DurationRange | None = None
    """Time after the start of the workload. Default: by the schedule."""
    weight: _Weight | None = None
    """With `order: drawn`, its relative frequency; default 1."""
    seed: _Seed | None = None
    """A seed for `any` and `one` in the target. Default: the run's."""

    @model_validator(mode="before")
    @classmethod
    def _aimed(cls, written: object) -> object:
        """Give a command without a target the target `all`, because it may do anything to any
        broker."""
        if isinstance(written, dict) and written.get("fault") == COMMAND:
            return {"target": "all", **written}
        return written

    def from_directory(self, directory: Path) -> Self:
        """Return this entry with the working directory of its commands, if it has any, as an
        absolute path. A relative one counts from ``directory``."""
        if self.fault != COMMAND:
            return self
        there = directory / self.parameters.get("directory", "")
        parameters = {**self.parameters, "directory": str(there.absolute())}
        return self.model_copy(update={"parameters": parameters})


class StoryEntry(Section):
    """A named sequence of faults, one for each of its steps."""

    story: str
    """A name of the [catalogue of stories](#the-catalogue-of-stories)."""
    topic: str | None = None
    """The topic, if the story is about a partition."""
    partition: Annotated[int, Field(ge=0)] | Literal["any"] = "any"
    """Its partition; `any` is drawn once a story."""
    rack: str | None = None
    """The rack, for stories about one. Default: drawn."""
    at: DurationRange | None = None
    """When the story begins."""
    weight: _Weight | None = None
    """With `order: drawn`, its relative frequency; default 1."""
    seed: _Seed | None = None
    """A seed for its targets."""


_KINDS = {"fault": "<FaultEntry>", "story": "<StoryEntry>"}


def _kind(written: object) -> str:
    """Return the tag of an entry's type, also if the key that decides it is misspelt."""
    if isinstance(written, StoryEntry):
        return _KINDS["story"]
    keys = list(map(str, written)) if isinstance(written, Mapping) else []
    said = [name for name in ("story", "fault") if name in keys]
    meant = [name for key in keys if (name := closest(key, _KINDS)) is not None]
    return _KINDS[[*said, *meant, "fault"][0]]


Entry = Annotated[
    Annotated[FaultEntry, Tag(_KINDS["fault"])] | Annotated[StoryEntry, Tag(_KINDS["story"])],
    Discriminator(_kind),
]
"""A pydantic field type: an entry of ``faults``. The tags are not keys of the file, and are left
out of the field that a problem names."""


# --- failover -------------------------------------------------------------------------------------
#
# Failover is measured after the final read, so that it affects nothing by which the cells are
# judged.

TOPIC = "failover"
"""The topic whose partitions are measured. It grows from one number of partitions to the next."""

_Partitions = Annotated[int, Field(ge=1, le=10_000)]


class FailoverSpec(Section):
    """A measurement after the final read: for each number of ``partitions`` of a topic, the time
    from a kill -9 of a broker until each partition has another leader."""

    partitions: Annotated[tuple[_Partitions, ...], Field(min_length=1), Several, AsWritten]
    """Numbers of partitions in rising order."""
    replication_factor: Annotated[int, Field(ge=2)] = 3
    """Replicas of each partition."""
    target: str = "one(all - controller)"
    """The broker to kill, resolved when all partitions have a full ISR."""
    limit: Duration = 120_000
    """Time limit of each step: create the partitions, fill the ISRs, elect the last leader."""

    @property
    def kill(self) -> FaultEntry:
        """Return the fault of the measurement, which is validated like those of the schedule."""
        return FaultEntry(fault="kill", target=self.target)


def planned(spec: FailoverSpec | None, seed: int) -> tuple[PlannedFailover, ...]:
    """Return the planned measurements of a run with ``seed``. They are a pure function of the two
    arguments."""
    if spec is None:
        return ()
    return tuple(
        PlannedFailover(
            partitions=number,
            target=spec.target,
            seed=random.Random(f"{seed}/failover-{number}").getrandbits(53),
        )
        for number in spec.partitions
    )


def problems(spec: FailoverSpec, members: Members | None) -> Iterator[Problem]:
    """Yield the problems of a failover measurement in a cluster of ``members``, which may be
    unknown (None). Problems of its target as a fault are not among them."""
    keepers = ["zookeeper", "zk-leader", "quorum"]
    if members is not None and members.kraft:
        keepers.append("controller")
    combined = members is not None and members.combined
    if not combined and any(word in spec.target for word in keepers):
        reason = "the fault kills a broker, and the servers that keep the metadata are not brokers"
        yield Problem(field="failover.target", reason=reason)
    if list(spec.partitions) != sorted(set(spec.partitions)):
        reason = "one topic grows: each number must be larger than the one before"
        yield Problem(field="failover.partitions", reason=reason)
    brokers = spec.replication_factor if members is None else len(members.brokers)
    if spec.replication_factor > brokers:
        reason = f"{spec.replication_factor} replicas need as many brokers, but there are {brokers}"
        yield Problem(field="failover.replication.factor", reason=reason)
