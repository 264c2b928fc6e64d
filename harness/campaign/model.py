"""The campaign file as a model: what to deploy, what to send, what to break, what must hold.

Every key is known and every value has one type: an unknown key or a string where a number belongs
is refused, never guessed at. In a file, Kafka's names stay Kafka's, dots and all. What needs more
than one field to judge is in :mod:`harness.campaign.validation`.
"""

from typing import Annotated, Self

import yaml
from pydantic import Field

from harness.campaign.cells import Cells
from harness.campaign.clusters import ClusterSweep
from harness.campaign.durations import Duration
from harness.campaign.expectations import Expectations
from harness.campaign.failover import FailoverSpec
from harness.campaign.schedule import Entry, Schedule
from harness.campaign.section import Section


class WorkloadSpec(Section):
    """What the clients of every cell do. ``rate``: records a second and cell; ``record.bytes``:
    size of a value."""

    kind: str = "produce"
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    record_bytes: Annotated[int, Field(ge=1)] = 100


class EvidenceSpec(Section):
    """How much a ``pass`` rests on: fewer acked records in a cell make it inconclusive."""

    acked_min: Annotated[int, Field(ge=1)] = 1


class Limits(Section):
    """How long the steps may take. A step over its limit is a finding that names the step."""

    deploy: Duration = 90_000
    ready: Duration = 60_000
    fault: Duration | None = None
    """To prove that a fault bit, and again that it is healed. Without it, what the cluster's
    timeouts ask for (:func:`harness.campaign.timings.fault_limit_ms`)."""
    recover: Duration = 60_000
    final_read: Duration = 60_000
    collect: Duration = 60_000
    teardown: Duration = 30_000


class Campaign(Section):
    """A campaign file.

    ``seed`` is written into the resolved copy that a run leaves behind; in a file it fixes the
    seed unless the command line gives another. ``runs``: of every cluster. ``faults`` has no
    default, so that nobody forgets it: a campaign that breaks nothing says so, ``faults: []``.
    ``failover``: measured after that, if at all.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    seed: Annotated[int, Field(ge=0)] | None = None
    runs: Annotated[int, Field(ge=1)] = 1
    cluster: ClusterSweep = ClusterSweep()
    cells: Cells
    expect: Expectations = ()
    workload: WorkloadSpec
    evidence: EvidenceSpec = EvidenceSpec()
    schedule: Schedule = Schedule()
    faults: tuple[Entry, ...]
    failover: FailoverSpec | None = None
    limits: Limits = Limits()

    @property
    def baseline(self) -> bool:
        """Whether it breaks nothing."""
        return not self.faults

    def resolved(
        self,
        *,
        seed: int,
        backend: str | None = None,
        system: str | None = None,
        inventory: str | None = None,
    ) -> Self:
        """This campaign with the seed drawn and the command line's choices in place."""
        chosen = {"backend": backend, "system": system, "inventory": inventory}
        cluster = self.cluster.model_copy(update={k: v for k, v in chosen.items() if v})
        return self.model_copy(update={"seed": seed, "cluster": cluster})

    def to_yaml(self) -> str:
        """The campaign as a file that reads back as this very campaign."""
        data = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return yaml.safe_dump(data, sort_keys=False, width=100)
