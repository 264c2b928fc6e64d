"""The runs of a campaign, and its manifest: pure functions of the resolved campaign.

They ask nothing of the machines on which the campaign will run. Everything is known, and written
down, before anything is started.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.checks.catalogue import CATALOGUE, concerned
from ackproof.harness.campaign.backends import client_nodes
from ackproof.harness.campaign.model import schedule
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand, only
from ackproof.harness.campaign.model.clusters import ClusterSpec, DisksSpec
from ackproof.harness.campaign.model.expectations import expected, planned_thresholds
from ackproof.harness.campaign.model.external import unchecked
from ackproof.harness.campaign.model.workload import clients_named
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.context import (
    CampaignTimings,
    group_recovery_ms,
    plan_context,
    planned_members,
    planned_share_group,
)
from ackproof.harness.campaign.plan.faults import ScheduledFault
from ackproof.harness.campaign.plan.needs import needs_of, plugins_of
from ackproof.history.cell import Value
from ackproof.history.manifest import (
    Manifest,
    PlannedCell,
    PlannedFailover,
    PlannedFault,
    PlannedGroup,
    PlannedRun,
    PlannedWriter,
)
from ackproof.history.names import MEASURES
from ackproof.infra.api.interface import Capability
from ackproof.infra.systems.product import MetadataQuorum, is_external
from ackproof.nemesis.process.clients import ClientCrashParameters
from ackproof.nemesis.targets.resolution import UNLIMITED, Count
from ackproof.workloads import WORKLOADS
from ackproof.workloads.interface import ClientRole
from ackproof.workloads.produce import group_id

# --- runs -----------------------------------------------------------------------------------------

HARNESS = "harness"
"""The writer of the harness's own tables, and the name of its node."""

HARNESS_TABLES = (
    *("faults", "cluster", "phases", "servers", "scheduling", "clients"),
    *("recovery", "clocks", "collected", "log_starts"),
    *sorted(MEASURES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run before it begins.

    Attributes:
        number: A number from 1.
        swept: The swept settings of the cluster, with this run's values.
        faults: The faults, in the order of their planned starts.
        failovers: The measurements after the final read.
        clients: The client libraries and programs of its cells and groups.
        room: The number of servers that may be affected at once.
    """

    number: int
    seed: int
    cluster: ClusterSpec
    swept: Mapping[str, Value]
    cells: Sequence[PlannedCell]
    faults: Sequence[ScheduledFault]
    failovers: Sequence[PlannedFailover] = ()
    clients: Sequence[str] = ()
    room: Count = UNLIMITED


def runs_of(campaign: Campaign) -> tuple[RunPlan, ...]:
    """Return every run of ``campaign``, whose seed must be drawn.

    There are as many rounds as the campaign says. Each has a run of every cluster, and of every
    cell if cells are ``alone``. The runs of one round share their seed, so that they differ only in
    the swept settings.
    """
    assert campaign.seed is not None
    rounds = [
        (part, scheduler.run_seed(campaign.seed, number), cluster, swept)
        for number in range(1, campaign.runs + 1)
        for cluster, swept in campaign.cluster.points()
        for part in _parts(campaign)
    ]
    return tuple(_run(*planned, number=n) for n, planned in enumerate(rounds, start=1))


def _parts(campaign: Campaign) -> Sequence[Campaign]:
    """Return the parts of a campaign that each get a cluster: the whole campaign, or each cell
    alone."""
    cells = campaign.cells
    if not cells.alone:
        return (campaign,)
    return [campaign.model_copy(update={"cells": only(cells, cell)}) for cell in expand(cells)]


def manifest_of(campaign: Campaign, runs: Sequence[RunPlan]) -> Manifest:
    """Return the manifest of ``runs``, which is written before the first one begins."""
    assert campaign.seed is not None
    return Manifest(
        campaign=campaign.name,
        system=campaign.cluster.system,
        metadata_quorum=campaign.cluster.smallest.quorum,
        seed=campaign.seed,
        baseline=campaign.baseline,
        runs=tuple(_planned(campaign, run) for run in runs),
    )


def _run(
    campaign: Campaign,
    seed: int,
    cluster: ClusterSpec,
    swept: Mapping[str, Value],
    *,
    number: int,
) -> RunPlan:
    needs = needs_of(campaign)
    if Capability.LOSE_UNSYNCED_WRITES in needs and cluster.disks is None:
        cluster = cluster.model_copy(update={"disks": DisksSpec()})
    if Capability.FAKE_CLOCKS in needs:
        cluster = cluster.model_copy(update={"clocks": True})
    context = plan_context(campaign, cluster)
    faults = scheduler.plan(campaign, seed, context)
    lines = 1 + replacements(faults).get(ClientRole.CONSUMER, 0)
    return RunPlan(
        number=number,
        seed=seed,
        cluster=cluster,
        swept=swept,
        clients=tuple(clients_named(campaign.cells, campaign.workload)),
        cells=[
            PlannedCell(
                cell=cell,
                groups=tuple(
                    PlannedGroup(
                        name=group_id(cell, group),
                        delivery=group.delivery,
                        client=group.client,
                        recovery_ms=max(
                            group_recovery_ms(campaign.limits.recover, one, cluster.properties)
                            for one in (group.config, group.config_of(group.members))
                        ),
                    )
                    for group in campaign.workload.load_of(cell).groups
                ),
                share_groups=tuple(
                    planned_share_group(
                        group_id(cell, group), group.members * lines, cluster.properties
                    )
                    for group in campaign.workload.load_of(cell).share_groups
                ),
                transactional=campaign.workload.is_transactional,
                acked_min=campaign.evidence.acked_min,
                removed_min=campaign.evidence.removed_min,
                record_bytes=campaign.workload.record_bytes[1],
                record_bytes_min=campaign.workload.record_bytes[0],
                tombstones=campaign.workload.tombstones > 0,
                expect=expected(campaign.expect, {**swept, **cell.settings}),
                thresholds=planned_thresholds(campaign.expect, {**swept, **cell.settings}),
            )
            for cell in expand(campaign.cells)
        ],
        faults=faults,
        room=context.room,
        failovers=schedule.planned(campaign.failover, seed),
    )


def _planned(campaign: Campaign, run: RunPlan) -> PlannedRun:
    timings = CampaignTimings(run.cluster)
    members = planned_members(run.cluster)
    planned = PlannedRun(
        number=run.number,
        seed=run.seed,
        cluster=run.swept,
        zookeeper=run.cluster.quorum is MetadataQuorum.ZOOKEEPER,
        combined=tuple(one for one in members.zookeepers if one in members.brokers),
        session_timeout_ms=timings.zookeeper_session_timeout_ms,
        replica_lag_ms=timings.replica_lag_time_max_ms,
        recovery_ms=campaign.limits.recover,
        cells=tuple(run.cells),
        faults=tuple(_fault(fault) for fault in run.faults),
        failovers=tuple(run.failovers),
        replicas=run.cluster.external is None or run.cluster.external.agent,
        external=is_external(run.cluster.system),
        unchecked={} if run.cluster.external is None else unchecked(run.cluster.external),
        skipped=tuple(f"{one.what}: {one.reason}" for one in campaign.skipped),
        plugins=plugins_of(campaign),
        writers=tuple(_writers(campaign, run)),
    )
    return _with_checkers(planned)


def _with_checkers(planned: PlannedRun) -> PlannedRun:
    """Return the run with the plug-in checkers that concern its cells. A later check without one of
    them must report it."""
    cells, plugins = [], dict(planned.plugins)
    for cell in planned.cells:
        found = {name: CATALOGUE.plugin(name) for name in concerned(planned, cell)}
        plugins |= {one.name: one.version for one in found.values() if one is not None}
        named = {name: str(plugin) for name, plugin in found.items() if plugin is not None}
        cells.append(cell.model_copy(update={"checkers": named}))
    return planned.model_copy(update={"cells": tuple(cells), "plugins": plugins})


def _fault(planned: ScheduledFault) -> PlannedFault:
    return PlannedFault(
        fault_id=planned.fault_id,
        fault=planned.fault,
        target=planned.target,
        parameters=planned.parameters.model_dump(),
        start_ms=planned.start_ms,
        hold_ms=planned.end_ms - planned.start_ms,
        story=None if planned.part is None else planned.part.label,
        partition=None if planned.part is None else planned.part.partition,
    )


def _writers(campaign: Campaign, run: RunPlan) -> Sequence[PlannedWriter]:
    spec = campaign.workload
    cells = [planned.cell for planned in run.cells]
    loads = spec.loads_of(cells)
    clients = WORKLOADS[spec.kind].writers(
        [(cell, loads[cell.name]) for cell in cells],
        client_nodes(run.cluster),
        replacements(run.faults),
    )
    ours = (PlannedWriter(table=table, writer=HARNESS, node=HARNESS) for table in HARNESS_TABLES)
    return [*clients, *ours]


# --- replacement clients --------------------------------------------------------------------------


def replacements(faults: Iterable[ScheduledFault]) -> Mapping[ClientRole, int]:
    """Return the largest number of replacement clients, by role. The client that a fault crashes is
    drawn when the fault is injected, so it may be any client of the role."""
    found: Counter[ClientRole] = Counter()
    for fault in faults:
        if (
            isinstance(parameters := fault.parameters, ClientCrashParameters)
            and parameters.comes_back
        ):
            found.update(role for role in ClientRole if parameters.role in ("any", role))
    return found
