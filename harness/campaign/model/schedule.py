"""The part of a campaign file that says what breaks, and when.

Two timelines at once: faults with a time of their own (``at``) strike then; the others come one
after the other, in one lane or in several that go on side by side.
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
"""Of one run: a schedule with more is a slip of the pen, like a gap of 0 for an hour."""

LANES_MAX = 10

MINORITY = "minority"
_AtMost = Annotated[int, Field(ge=0)] | Literal["minority"]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Seed = Annotated[int, Field(ge=0)]


class AtMost(Section):
    """How many servers may suffer at once: a number, or `minority`, as many as leave a majority.

    What counts is what targets can stand for at the most: `leader(t, 0)` is one broker,
    `isr(t, any)` as many as the topic has replicas, a link both its ends. Two faults that happen to
    find the same broker count twice.

    A fault, or a story, that cannot be alone within these limits is refused with the file. In a
    lane one that does not fit with what is planned to be on at that time is planned for when it
    does; where the order is `drawn`, another is drawn instead if there is one that fits. What comes
    later than planned, because another took longer to heal, waits again.
    """

    brokers: _AtMost | None = None
    """Brokers that may suffer at once. Without it, any number."""
    zookeepers: _AtMost | None = None
    """ZooKeeper servers that may suffer at once, or with KRaft controllers. Without it, any
    number."""


class Schedule(Section):
    """When things break: the faults without a time of their own, one after the other."""

    warmup: Duration = 5_000
    """Traffic before the first fault of a lane."""
    gap: DurationRange = (5_000, 10_000)
    """Rest, from one fault healed to the next of the same lane."""
    tail: Duration = 5_000
    """Traffic after the cluster has recovered."""
    settle: Duration = 15_000
    """How long a fault without a time of its own waits, at most, for every partition to be led and
    every ISR to be full again before it strikes. The run and its report name each fault for which
    that time was too short. With `0s` it does not wait: with a gap of `0s` besides, it strikes
    right after the one before."""
    order: Literal["shuffled", "listed", "drawn"] = "shuffled"
    """`shuffled` by the seed, in another order each round, or `listed` as in the file; or each
    fault `drawn` anew, by its weight."""
    rounds: Annotated[int, Field(ge=1)] = 1
    """How often each lane goes through the list of faults; where they are drawn, how many times as
    many as there are in the list."""
    lasts: Duration | None = None
    """Instead of rounds: as many faults as are planned to begin within this time. The last one may
    last longer, and each may come later than planned."""
    lanes: Annotated[int, Field(ge=1, le=LANES_MAX)] = 1
    """How many such sequences go on side by side, each by itself, so that their faults overlap."""
    at_most: AtMost = AtMost()
    """How many servers may suffer at once, whatever the lanes."""
    until: Literal["end", "first-broken-guarantee"] = "end"
    """With `first-broken-guarantee` no further fault strikes once a server has ended by itself,
    which is seen as it happens, and no further run begins once one broke a guarantee: every run is
    checked when it is over, what was lost cannot be known before."""


class FaultEntry(Section):
    """One fault: which, against whom, for how long."""

    fault: str
    """Its name: see [Faults](#the-catalogue-of-faults)."""
    target: str
    """Against whom, said by role, which is resolved when its moment has come: see
    [Targets](#targets). `command` may leave it out: then it is `all`."""
    parameters: Mapping[str, Any] = {}
    """Its own settings: see [Faults](#the-catalogue-of-faults)."""
    hold: DurationRange | None = None
    """For how long it is held. Without it: the least that gives it its full effect, up to half as
    much again."""
    at: DurationRange | None = None
    """When it strikes, once, since the workload began, whatever else is on. Without it the fault is
    one of those that come one after the other."""
    weight: _Weight | None = None
    """With the order `drawn`: how often it is drawn, in comparison; 1 if not given."""
    seed: _Seed | None = None
    """For what its target leaves open (`any`, `one`, ...). Without it, the run's."""

    @model_validator(mode="before")
    @classmethod
    def _aimed(cls, written: object) -> object:
        """A command that names no target may do anything to any broker."""
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
    """A sequence of faults that has a name; one entry, and as many faults as it has steps."""

    story: str
    """Its name: see [Stories](#the-catalogue-of-stories)."""
    topic: str | None = None
    """On which topic it plays, where it is about a partition."""
    partition: Annotated[int, Field(ge=0)] | Literal["any"] = "any"
    """On which partition of it; `any`: drawn by the seed, once for the whole story."""
    at: DurationRange | None = None
    """When it begins, once, since the workload began, whatever else is on. Without it the story is
    one of those that come one after the other."""
    weight: _Weight | None = None
    """With the order `drawn`: how often it is drawn, in comparison; 1 if not given."""
    seed: _Seed | None = None
    """For what it leaves open: the partition, targets, turns, times. Without it, the run's."""


_KINDS = {"fault": "<FaultEntry>", "story": "<StoryEntry>"}


def _kind(written: object) -> str:
    """Which of the two an entry is, also where the key that says so is misspelt."""
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
"""A pydantic field type: an entry of ``faults``. The tags are no keys of the file, and are left out
where a problem names its field."""


# --- failover -------------------------------------------------------------------------------------
#
# Measured when the final read is over, so that nothing of it touches what the cells are judged by.

TOPIC = "failover"
"""Grows from one number of partitions to the next."""

_Partitions = Annotated[int, Field(ge=1, le=10_000)]


class FailoverSpec(Section):
    """A broker is killed with kill -9, once for each number of ``partitions``, which a topic of
    its own has then; and it is looked how long each partition that it led takes to be led by
    another. Measured when the final read is over."""

    partitions: Annotated[tuple[_Partitions, ...], Field(min_length=1), Several, AsWritten]
    """The numbers of partitions, each larger than the one before."""
    replication_factor: Annotated[int, Field(ge=2)] = 3
    """Replicas of each."""
    target: str = "one(all - controller)"
    """Who is killed, resolved when all partitions are whole; one broker."""
    limit: Duration = 120_000
    """How long it may take to make the partitions; again, until they are whole; and until the last
    of them is led again."""

    @property
    def kill(self) -> FaultEntry:
        """The fault that it is, to be judged like those of the schedule."""
        return FaultEntry(fault="kill", target=self.target)


def planned(spec: FailoverSpec | None, seed: int) -> tuple[PlannedFailover, ...]:
    """What will be measured in a run with ``seed``: a pure function of the two."""
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
    """What is wrong with it in a cluster of ``members``, where these are known, but for what is
    wrong with its target as any fault's."""
    keepers = ["zookeeper", "zk-leader", "quorum"]
    if members is not None and members.kraft:
        keepers.append("controller")
    combined = members is not None and members.combined
    if not combined and any(word in spec.target for word in keepers):
        reason = "a broker is killed, and the servers that keep the metadata are none"
        yield Problem(field="failover.target", reason=reason)
    if list(spec.partitions) != sorted(set(spec.partitions)):
        reason = "one topic grows: every number is larger than the one before"
        yield Problem(field="failover.partitions", reason=reason)
    brokers = spec.replication_factor if members is None else len(members.brokers)
    if spec.replication_factor > brokers:
        reason = f"{spec.replication_factor} replicas need as many brokers; there are {brokers}"
        yield Problem(field="failover.replication.factor", reason=reason)
