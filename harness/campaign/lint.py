"""Likely mistakes in a valid campaign. They are warnings, which keep no campaign from running.

``validate``, ``run`` and its dry run print them. A campaign that cannot run at all is refused
instead (:mod:`harness.campaign.problems`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from ackproof.checkers.thresholds import MEASURES, never_measured
from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSweep
from ackproof.harness.campaign.model.expectations import threshold_sources
from ackproof.harness.campaign.model.schedule import FaultEntry
from ackproof.harness.campaign.model.values import format_ms
from ackproof.harness.campaign.plan import scheduler
from ackproof.harness.campaign.plan.context import PlanContext
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.history.cell import Cell
from ackproof.infra.systems.product import is_external
from ackproof.nemesis import FAULTS
from ackproof.nemesis.admin.orders import ELECT_UNCLEAN
from ackproof.nemesis.clock import STEP_CLOCK, ClockStepParameters
from ackproof.nemesis.interface import Members
from ackproof.nemesis.targets import expressions
from ackproof.nemesis.targets.expressions import Expression, TargetRole
from ackproof.nemesis.targets.resolution import NO_SERVERS

# --- warnings -------------------------------------------------------------------------------------

_OF_FOLLOWERS = ("follower", "next-leader", "last-follower")
_ENDS_A_SESSION = ("pause", "isolate", "minority")
"""Faults that the cluster notices when a broker's session expires, or for followers when they lag.
A crash is an effect of its own, however soon the broker is back."""
_CUTS_LINKS = ("cut", "halves", "majorities-ring", "bridge")
"""Faults that the cluster notices when a session expires or a follower lags."""
_SESSIONS = ("broker.session.timeout.ms", "zookeeper.session.timeout.ms")
"""The session timeouts of KRaft and of ZooKeeper."""
_LAG = "replica.lag.time.max.ms"
_SHRINKS = "no ISR shrinks"
_TAKES_OVER = "no other broker takes over"


def warnings(campaign: Campaign) -> Iterator[Problem]:
    """Yield the likely mistakes in ``campaign``, which is valid, each once."""
    draft = Draft(**{name: getattr(campaign, name) for name in Draft.__dataclass_fields__})
    of_faults = (
        problem
        for context in draft.contexts
        for index, entry in enumerate(campaign.faults)
        if isinstance(entry, FaultEntry)
        for problem in _of_fault(entry, f"faults[{index}]", context, campaign)
    )
    yield from dict.fromkeys(
        [
            *_even_quorums(campaign.cluster),
            *_unreachable_evidence(campaign, draft),
            *_unmeasurable_thresholds(campaign),
            *_unshared_producers(campaign),
            *of_faults,
            *_lone_elections(campaign, draft),
        ]
    )


def _even_quorums(cluster: ClusterSweep) -> Iterator[Problem]:
    if is_external(cluster.system):
        return
    kind = "controllers" if cluster.smallest.kraft else "ZooKeeper servers"
    for number in (number for number in cluster.zookeepers if number % 2 == 0):
        yield Problem(
            field="cluster.zookeepers",
            reason=(
                f"{number} {kind} survive no more failures than {number - 1}, because a "
                f"majority of {number} is {number // 2 + 1}: use an odd number"
            ),
        )


def _unshared_producers(campaign: Campaign) -> Iterator[Problem]:
    """Yield a warning if no two cells of a run can share producers."""
    cells, spec = expand(campaign.cells), campaign.workload
    if not spec.producers_shared:
        return
    if campaign.cells.alone:
        reason = "has no effect: with cells.alone each cell has a run of its own"
        yield Problem(field="workload.producers.shared", reason=reason)
    elif not spec.shared_producers(cells):
        reason = "has no effect: no two cells have the same settings of producers, without sync"
        yield Problem(field="workload.producers.shared", reason=reason)


def _unreachable_evidence(campaign: Campaign, draft: Draft) -> Iterator[Problem]:
    """Yield a warning if every cell of a run would be inconclusive because it is sent too few
    records."""
    lasts_ms = min(scheduler.duration_ms(campaign, plan) for plan in draft.plans)
    most, least = campaign.workload.records_of(lasts_ms), campaign.evidence.acked_min
    if least > most:
        sent = f"{most:,.0f} records in the planned {lasts_ms / 1000:.0f} s of a run"
        yield Problem(
            field="evidence.acked.min",
            reason=(
                f"a cell receives about {sent}, and is inconclusive with fewer than "
                f"{least:,} acknowledged: ask for fewer, or raise workload.rate, "
                "workload.records or the schedule"
            ),
        )


def _lone_elections(campaign: Campaign, draft: Draft) -> Iterator[Problem]:
    """Yield a warning for each ordered unclean election while no other fault affects servers."""
    among_others = {
        one.target
        for plan in draft.plans
        for one in plan
        if any(
            other.affected != NO_SERVERS and other.start_ms <= one.start_ms < other.end_ms
            for other in plan
        )
    }
    for index, entry in enumerate(campaign.faults):
        if not isinstance(entry, FaultEntry) or entry.fault != ELECT_UNCLEAN.name:
            continue
        if entry.target not in among_others:
            yield Problem(
                field=f"faults[{index}].fault",
                reason=(
                    f"{ELECT_UNCLEAN.name} elects no leader while a replica of the ISR is alive "
                    "(ELECTION_NOT_NEEDED), and no other fault is active then: let one end the "
                    "whole ISR first, as the story administrator-elects-uncleanly does"
                ),
            )


def _of_fault(
    entry: FaultEntry, field: str, context: PlanContext, campaign: Campaign
) -> Iterator[Problem]:
    target = expressions.parse(entry.target)
    if (reason := _names_no_server(entry, target, context)) is not None:
        yield Problem(field=f"{field}.target", reason=reason)
    elif (reason := _too_short(entry, target, context, campaign)) is not None:
        yield Problem(field=f"{field}.hold", reason=reason)
    if (reason := _stalls_the_quorum(entry, target, context, campaign)) is not None:
        yield Problem(field=f"{field}.parameters.offset_ms", reason=reason)


def _names_no_server(entry: FaultEntry, target: Expression, context: PlanContext) -> str | None:
    """Return the reason why a target names no server in any run, so that the fault cannot be
    proven, or None if it may name one."""
    if not FAULTS[entry.fault].aim.affects_servers:
        return None
    for role in target.roles:
        if role.name in _OF_FOLLOWERS and _replicas(role, context) == 1:
            return f"there is no {role.name}, because {_of_topic(role)} has one replica"
    on_servers = not any(map(_is_client, target.roles))
    if (
        on_servers
        and target.to is None
        and context.affected_servers(entry.fault, entry.target) == NO_SERVERS
    ):
        return "it names no server, because the set is empty"
    return None


def _replicas(role: TargetRole, context: PlanContext) -> int:
    """Return the largest number of replicas that the partition of a role can have."""
    named = context.replicas.get(role.topic or "")
    return max(context.replicas.values()) if role.topic == expressions.ANY else named or 0


def _of_topic(role: TargetRole) -> str:
    return "every topic" if role.topic == expressions.ANY else str(role.topic)


def _too_short(
    entry: FaultEntry, target: Expression, context: PlanContext, campaign: Campaign
) -> str | None:
    """Return the reason why a fault ends before the cluster notices it. Return None if it may be
    noticed, or if the cluster's own timeouts are unknown."""
    timeouts = _timeouts(entry, target, context)
    if entry.hold is None or not timeouts:
        return None
    if is_external(campaign.cluster.system):
        # What the file does not declare has another value than the default, perhaps.
        declared = campaign.cluster.properties.keys()
        timeouts = {_declared(name, declared): ms for name, ms in timeouts.items()}
        if not timeouts.keys() <= declared:
            return None
    longest_ms = entry.hold[1]
    if longest_ms >= min(timeouts.values()):
        return None
    rather_ms = context.hold_ms_min(entry.fault)
    settings = " and ".join(f"{name} is {format_ms(ms)}" for name, ms in timeouts.items())
    missed = " and ".join(_SHRINKS if name == _LAG else _TAKES_OVER for name in timeouts)
    return (
        f"{format_ms(longest_ms)} is over before the cluster notices it ({settings}), so "
        f"{missed}: {format_ms(rather_ms)} has its full effect"
    )


def _stalls_the_quorum(
    entry: FaultEntry, target: Expression, context: PlanContext, campaign: Campaign
) -> str | None:
    """Return the reason why a KRaft quorum may not recover from a stepped clock in time.

    The timers of Kafka's controllers follow the time of day and never go back (``Timer.update`` in
    ``org.apache.kafka.common.utils``). Set back by ten minutes, such a timer stands still for as
    long. If the leader is lost by then, no other one is elected.
    """
    members = context.members
    if entry.fault != STEP_CLOCK.name or not members.kraft:
        return None
    if not members.combined and not any(_keeps_metadata(role, members) for role in target.roles):
        return None
    offset_ms = abs(ClockStepParameters.model_validate(entry.parameters).offset_ms)
    recover_ms = campaign.limits.recover
    if offset_ms < recover_ms:
        return None
    return (
        f"{format_ms(offset_ms)}: a controller whose clock is set back may elect no leader for as "
        f"long, and limits.recover is {format_ms(recover_ms)}: set clocks by less, or raise the "
        "limit"
    )


def _declared(name: str, declared: Collection[str]) -> str:
    """Return the name by which a file declares a timeout: either of two for sessions."""
    return next((one for one in _SESSIONS if name in _SESSIONS and one in declared), name)


def _timeouts(entry: FaultEntry, target: Expression, context: PlanContext) -> Mapping[str, int]:
    """Return the timeouts of which one must pass before the cluster notices a fault, by name. There
    are none if it notices at once, or never."""
    members = context.members
    session = _SESSIONS[0 if members.kraft else 1]
    session_ms = {session: context.timings.zookeeper_session_timeout_ms}
    lag_ms = {_LAG: context.timings.replica_lag_time_max_ms}
    sides = [_named(part) for part in (target.nodes, target.to) if part is not None]
    if any(all(map(_is_client, side)) for side in sides):
        return {}
    keepers = any(_keeps_metadata(role, members) for side in sides for role in side)
    if entry.fault in _ENDS_A_SESSION:
        if all(_keeps_metadata(role, members) for side in sides for role in side):
            return {}
        if entry.parameters.get("service") == "broker":
            return lag_ms
        followers = all(role.name in _OF_FOLLOWERS for side in sides for role in side)
        return {**session_ms, **lag_ms} if followers else session_ms
    if entry.fault == "cut" and not keepers and not members.combined:
        return lag_ms
    return {**session_ms, **lag_ms} if entry.fault in _CUTS_LINKS else {}


def _named(part: expressions.Set) -> Sequence[TargetRole]:
    """Return the roles and names of a set, without those that choose among others."""
    return [role for role in expressions.roles_of(part) if role.of is None]


def _is_client(role: TargetRole) -> bool:
    return role.name == "clients" or role.name.startswith("client-")


def _keeps_metadata(role: TargetRole, members: Members) -> bool:
    names: Sequence[str] = ("zookeeper", expressions.ZK_LEADER, expressions.QUORUM)
    leads = role.name == expressions.QUORUM_LEADER or (role.name == "controller" and members.kraft)
    return leads or role.name in (*names, *members.zookeepers)


# --- thresholds that cannot be measured -----------------------------------------------------------

_OUTAGES = "unavailable."
"""The beginning of the names of the measures of outages."""
_ADD_READERS = "give these cells tail readers (workload.readers)"
_LEAVE_OUT = "leave these cells out by `where`, or give them other acks"


def _unmeasurable_thresholds(campaign: Campaign) -> Iterator[Problem]:
    """Yield a warning for each threshold that would stay undecided, and for each threshold on
    outages in a campaign without faults. The cells are named if not all are concerned."""
    cells = expand(campaign.cells)
    concerned: dict[tuple[str, tuple[str, str]], dict[str, None]] = {}
    for cell in cells:
        for _, swept in campaign.cluster.points():
            settings = {**swept, **cell.settings}
            for measure, index in threshold_sources(campaign.expect, settings).items():
                if reason := _reason(measure, cell, campaign):
                    key = (f"expect[{index}].{measure}", reason)
                    concerned.setdefault(key, {})[cell.name] = None
    for (field, (what, why)), names in concerned.items():
        where = "" if len(names) == len(cells) else f" in {', '.join(names)}"
        yield Problem(field=field, reason=f"{what}{where}, {why}")


def _reason(measure: str, cell: Cell, campaign: Campaign) -> tuple[str, str] | None:
    """Return the defect of a threshold on a measure of a cell, and its cause with a remedy; None if
    it has none."""
    readers = campaign.workload.load_of(cell).readers
    reason = never_measured(MEASURES[measure], cell.acks, tail_readers=readers > 0)
    if reason:
        remedy = _ADD_READERS if MEASURES[measure].shown else _LEAVE_OUT
        return "cannot be measured", f"because {reason}: {remedy}"
    if measure.startswith(_OUTAGES) and not campaign.faults:
        return "is not tested", "because the campaign has no fault: add one under faults"
    return None
