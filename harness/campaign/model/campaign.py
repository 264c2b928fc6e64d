"""The campaign file as a model: what to deploy, what to send, what to break, what must hold.

Every key is known and every value has one type: an unknown key or a string where a number belongs
is refused, never guessed at. In a file, Kafka's names stay Kafka's, dots and all. What needs more
than one field to judge is in :mod:`harness.campaign.validation`.
"""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field

from ackproof.config.documents import Worded
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
    """How much a `pass` rests on."""

    acked_min: Annotated[int, Field(ge=1)] = 1
    """A cell with fewer acknowledged records is `inconclusive`."""


class Limits(Section):
    """How long the steps of a run may take. A step over its limit is a finding that names it."""

    deploy: Duration = 90_000
    """Until all servers serve."""
    ready: Duration = 60_000
    """Until every partition is led and every ISR is full."""
    fault: Duration | None = None
    """To prove that a fault bit, and again that it is healed. Without it: 30 s or, where that is
    longer, what it takes a session to expire and 15 s."""
    recover: Duration = 60_000
    """After the last fault, until every partition is led and every ISR is full again. Consumer
    groups then have as long once more, and their members' `session.timeout.ms` and
    `max.poll.interval.ms` besides, to go on; who goes on is not waited for."""
    final_read: Duration = 60_000
    """To read everything back."""
    collect: Duration = 60_000
    """To fetch every replica's log and every server's output."""
    teardown: Duration = 30_000
    """To end everything."""


class Skipped(Section):
    """Something that the place refuses, and that was left out."""

    what: str
    """A fault and its target, a story, or the key of the file."""
    reason: str
    """Why it is refused."""


class Campaign(Section):
    """A campaign: what to deploy, what to send, what to break, what must hold."""

    name: Annotated[
        str,
        Worded(
            r"^[a-z0-9][a-z0-9._-]*$",
            "small letters, digits, dots, _ and -, a letter or digit first",
        ),
        Field(max_length=100),
    ]
    """What it is called; the directory of its results, too."""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Fixes what is left to chance, unless `--seed` gives another. Without it one is drawn, and
    written into the copy of the file that a run leaves behind."""
    runs: Annotated[int, Field(ge=1, le=RUNS_MAX)] = 1
    """How often it is run, with another seed each time; each of the clusters, if there are
    several."""
    cluster: ClusterSweep = ClusterSweep()
    """What to deploy, and where."""
    cells: Cells
    """The topics and clients that are told apart."""
    expect: Expectations = ()
    """What is [expected](#expectations) of cells, besides that what is promised is kept: a verdict
    of all cells, or verdicts and thresholds on what is measured. Where several say something of a
    cell, the last one counts, key by key."""
    workload: WorkloadSpec
    """What is sent."""
    evidence: EvidenceSpec = EvidenceSpec()
    """How much a `pass` rests on."""
    schedule: Schedule = Schedule()
    """When things break."""
    faults: tuple[Entry, ...]
    """What breaks. There is no default, so that nobody forgets it: a campaign that breaks nothing,
    a baseline, says so: `faults: []`."""
    failover: FailoverSpec | None = None
    """How long failovers take, measured after all that, if at all."""
    limits: Limits = Limits()
    """How long the steps of a run may take."""
    skipped: tuple[Skipped, ...] = ()
    """What `ackproof run --skip-refused` left out of the file, in the copy of it that a run leaves
    behind."""

    @property
    def baseline(self) -> bool:
        """Whether it breaks nothing."""
        return not self.faults

    def resolved(
        self,
        *,
        seed: int,
        backend: str | None = None,
        inventory: str | None = None,
        directory: Path | None = None,
    ) -> Self:
        """This campaign with the seed drawn, the command line's choices in place, and the image
        of its system that it is now. ``directory``: that of its file, where its commands are run.
        Raises ValueError where the image is none any more."""
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
        """With that in front of the names of all topics, in targets, too."""
        faults = tuple(_with_prefix(entry, prefix) for entry in self.faults)
        cells = self.cells.model_copy(update={"prefix": prefix})
        return self.model_copy(update={"cells": cells, "faults": faults})

    def to_yaml(self) -> str:
        """The campaign as a file that reads back as this very campaign."""
        return dump(self.model_dump(mode="json", by_alias=True, exclude_none=True))


def _with_prefix(entry: Entry, prefix: str) -> Entry:
    if isinstance(entry, FaultEntry):
        return entry.model_copy(update={"target": with_prefix(entry.target, prefix)})
    topic = entry.topic
    return entry if topic is None else entry.model_copy(update={"topic": prefix + topic})
