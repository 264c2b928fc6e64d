"""The section ``failover`` of a campaign file: how long it takes until partitions are led again.

Measured when the final read is over, so that nothing of it touches what the cells are judged by.
"""

import random
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.schedule import FaultEntry
from ackproof.harness.campaign.model.section import Section
from ackproof.harness.campaign.model.values.durations import Duration
from ackproof.harness.campaign.model.values.sweep import AsWritten, Several
from ackproof.history.manifest import PlannedFailover
from ackproof.nemesis.interface import Members

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
