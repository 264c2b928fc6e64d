"""The campaign file as a model: the cluster, the workload, the faults and the expected outcome.

Every key is known and every value has one type. An unknown key, or a string in place of a number,
is refused and never guessed at. Kafka's names keep their dots in a file. Rules that involve more
than one field are in :mod:`harness.campaign.validation`.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from ackproof.config.documents import PatternDescription
from ackproof.config.yaml_document import dump
from ackproof.harness.campaign.model.cells import Cells
from ackproof.harness.campaign.model.clusters import RUNS_MAX, ClusterSweep
from ackproof.harness.campaign.model.expectations import Expectations
from ackproof.harness.campaign.model.schedule import Entry, FailoverSpec, FaultEntry, Schedule
from ackproof.harness.campaign.model.values import Duration, Section
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.infra.systems import pinned
from ackproof.infra.systems.product import is_external
from ackproof.nemesis.interface import OWN_TOPICS
from ackproof.nemesis.targets.expressions import with_prefix


class EvidenceSpec(Section):
    """The evidence that a `pass` requires."""

    acked_min: Annotated[int, Field(ge=1)] = 1
    """Acked records without which a cell is `inconclusive`."""
    removed_min: Annotated[int, Field(ge=0)] = 0
    """Acked records that compaction or retention must have removed in each cell with either.
    Otherwise the cell is `inconclusive`."""


class Limits(Section):
    """The time limits of a run's steps. A step over its limit is a finding."""

    deploy: Duration = 90_000
    """Until all servers serve."""
    ready: Duration = 60_000
    """Until every partition has a leader and a full ISR."""
    fault: Duration | None = None
    """To prove that a fault took effect, and again that it is healed. Default: 30 s, in external
    pods 2 minutes, or the session timeout and 15 s if longer."""
    recover: Duration = 60_000
    """The same after the last fault. Stuck consumer groups get that time again, and their members'
    `session.timeout.ms` and `max.poll.interval.ms`."""
    final_read: Duration = 60_000
    """To read all partitions."""
    collect: Duration = 60_000
    """To fetch all replicas' logs and all servers' output."""
    teardown: Duration = 30_000
    """To stop everything."""


class Skipped(Section):
    """A part of the campaign that the backend refused."""

    what: str
    """A fault and its target, a story, or a key of the file."""
    reason: str
    """The reason for the refusal."""


class Campaign(Section):
    """A campaign: the cluster, the workload, the faults and the expected outcome."""

    name: Annotated[
        str,
        PatternDescription(
            r"^[a-z0-9][a-z0-9._-]*$",
            "small letters, digits, dots, _ and -, a letter or digit first",
        ),
        Field(max_length=100),
    ]
    """The name of the campaign and of the directory of its results."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """The seed of all random choices, unless `--seed` gives another. Default: drawn, and written
    into the results' copy of the file."""
    runs: Annotated[int, Field(ge=1, le=RUNS_MAX)] = 1
    """Runs of each cluster, each with its own seed."""
    cluster: ClusterSweep = ClusterSweep()
    """The cluster to deploy."""
    cells: Cells
    """The topics and clients to compare."""
    expect: Expectations = ()
    """[Expectations](#expectations): a verdict, or verdicts and thresholds."""
    workload: WorkloadSpec
    """The clients and the records that they send."""
    evidence: EvidenceSpec = EvidenceSpec()
    """The evidence that a `pass` requires."""
    schedule: Schedule = Schedule()
    """The times of the faults."""
    faults: tuple[Entry, ...]
    """The faults to inject. A baseline without faults must say `faults: []`."""
    failover: FailoverSpec | None = None
    """A measurement of failover times after the final read."""
    limits: Limits = Limits()
    """The time limits of the steps."""
    skipped: tuple[Skipped, ...] = ()
    """The parts that `--skip-refused` left out; written into the results' copy of the file."""

    @property
    def baseline(self) -> bool:
        """Return whether the campaign injects no faults."""
        return not self.faults

    def resolved(
        self,
        *,
        seed: int,
        backend: str | None = None,
        inventory: str | None = None,
        directory: Path | None = None,
    ) -> Self:
        """Return this campaign with the seed, the choices of the command line, and the image that
        its system refers to at present.

        ``directory`` is the directory of the campaign file, in which the commands of its faults are
        run. Raises ValueError if the image no longer exists.
        """
        chosen = {"backend": backend, "inventory": inventory, "system": pinned(self.cluster.system)}
        cluster = self.cluster.model_copy(update={k: v for k, v in chosen.items() if v})
        there = directory or Path()
        faults = tuple(
            entry.from_directory(there) if isinstance(entry, FaultEntry) else entry
            for entry in self.faults
        )
        resolved = self.model_copy(update={"seed": seed, "cluster": cluster, "faults": faults})
        if not is_external(cluster.system) or self.cells.prefix:
            return resolved
        return resolved._with_prefix(f"{OWN_TOPICS}{seed:08x}-")

    def _with_prefix(self, prefix: str) -> Self:
        """Return this campaign with a prefix before the names of all topics, also in targets."""
        faults = tuple(_with_prefix(entry, prefix) for entry in self.faults)
        cells = self.cells.model_copy(update={"prefix": prefix})
        return self.model_copy(update={"cells": cells, "faults": faults})

    def to_yaml(self) -> str:
        """Return the campaign as the text of a file that reads back as this campaign."""
        return dump(self.model_dump(mode="json", by_alias=True, exclude_none=True))


def _with_prefix(entry: Entry, prefix: str) -> Entry:
    if isinstance(entry, FaultEntry):
        return entry.model_copy(update={"target": with_prefix(entry.target, prefix)})
    topic = entry.topic
    return entry if topic is None else entry.model_copy(update={"topic": prefix + topic})
