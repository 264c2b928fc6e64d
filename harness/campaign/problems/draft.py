"""A campaign file that is only partly valid.

Contradictions between sections are judged only if all those sections are valid. Therefore no
mistake hides another, and no problem is reported that only follows from a reported one.
"""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from ackproof.harness.campaign.model.campaign import Campaign, EvidenceSpec, Limits
from ackproof.harness.campaign.model.cells import Sweep
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.expectations import Expectation
from ackproof.harness.campaign.model.schedule import Entry, FailoverSpec, Schedule
from ackproof.harness.campaign.model.workload import WorkloadSpec
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.context import PlanContext, plan_context
from ackproof.harness.campaign.plan.faults import ScheduledFault


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The sections of a campaign file; None for one that is missing or invalid.

    Plans are computed once and kept, because both the checks of the schedule and the sums of its
    sizes use them.
    """

    runs: int | None
    cluster: ClusterSweep | None
    cells: Sweep | None
    expect: tuple[Expectation, ...] | None
    workload: WorkloadSpec | None
    schedule: Schedule | None
    faults: tuple[Entry, ...] | None
    failover: FailoverSpec | None
    limits: Limits | None
    evidence: EvidenceSpec | None

    @property
    def as_campaign(self) -> Campaign:
        """Return the sections that make up a plan as a campaign, with None for each invalid one."""
        return Campaign.model_construct(
            cluster=self.cluster, cells=self.cells, schedule=self.schedule, faults=self.faults
        )

    @cached_property
    def contexts(self) -> tuple[PlanContext, ...]:
        """Return the plan context of a run of each cluster, or nothing if a section that it needs
        is invalid."""
        if None in (self.cluster, self.cells, self.schedule, self.faults):
            return ()
        campaign = self.as_campaign
        return tuple(plan_context(campaign, cluster) for cluster, _ in campaign.cluster.points())

    @cached_property
    def plans(self) -> tuple[Sequence[ScheduledFault], ...]:
        """Return the plan of a run of each cluster, or nothing if a section that it needs is
        invalid. The plans use one seed; with other seeds they differ by a few seconds."""
        campaign = self.as_campaign
        plans: dict[object, Sequence[ScheduledFault]] = {}
        for context in self.contexts:
            if (key := _differs_by(context)) not in plans:
                plans[key] = scheduler.plan(campaign, 0, context)
        return tuple(plans[_differs_by(context)] for context in self.contexts)


def _differs_by(context: PlanContext) -> tuple[object, ...]:
    """Return the properties of a cluster on which a plan depends."""
    timings = context.timings
    return (
        context.members.servers,
        timings.zookeeper_session_timeout_ms,
        timings.replica_lag_time_max_ms,
    )


def draft(content: Mapping[str, object], wrong: Container[str]) -> Draft:
    """Return the valid sections of a file, without those that have other problems (``wrong``)."""
    return Draft(
        **{
            name: None if name in wrong else _section(name, content)
            for name in Draft.__dataclass_fields__
        }
    )


def _section(name: str, content: Mapping[str, object]) -> Any:
    if name not in content:
        field = Campaign.model_fields[name]
        return None if field.is_required() else field.get_default(call_default_factory=True)
    try:
        return _adapter(name).validate_json(json.dumps(content[name]), strict=True)
    except ValidationError:
        return None


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    field = Campaign.model_fields[name]
    kind: Any = field.annotation
    for constraint in field.metadata:
        kind = Annotated[kind, constraint]
    return TypeAdapter(kind)
