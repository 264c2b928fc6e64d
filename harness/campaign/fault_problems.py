"""What is wrong with a campaign's faults: names, parameters, targets."""

import random
from collections.abc import Generator, Iterator, Mapping, Sequence

from pydantic import ValidationError

from harness.backends import CLIENT_NODE
from harness.campaign import failover
from harness.campaign.cells import expand
from harness.campaign.clusters import ClusterSpec
from harness.campaign.model import Campaign
from harness.campaign.schedule import FaultEntry
from infra.documents import Problem, problems_of
from infra.interface import Capability
from nemesis import FAULTS, expressions
from nemesis.interface import Fault, Members, Parameters, Unplannable
from nemesis.targets import TargetUnavailable, resolve_static


def unknown(kind: str, name: str, table: Sequence[str], field: str) -> Iterator[Problem]:
    """The problem that ``table`` has no ``name``, if so."""
    if name not in table:
        yield Problem(field=field, reason=f"unknown {kind} {name!r}; known: {', '.join(table)}")


def lacking_capabilities(
    campaign: Campaign, capabilities: frozenset[Capability]
) -> Iterator[Problem]:
    """Every fault that needs what the backend cannot do."""
    struck = [(f"faults[{index}].fault", entry) for index, entry in enumerate(campaign.faults)]
    if campaign.failover is not None:
        struck.append(("failover", campaign.failover.kill))
    for field, entry in struck:
        if missing := FAULTS[entry.fault].needs - capabilities:
            yield Problem(
                field=field,
                reason=f"{entry.fault} needs {', '.join(sorted(missing))}, which the backend "
                f"{campaign.cluster.backend} does not have on this machine",
            )


def fault_problems(campaign: Campaign) -> Iterator[Problem]:
    """Everything that is wrong with the faults of ``campaign``."""
    partitions = {cell.topic: cell.partitions for cell in expand(campaign.cells)}
    members = planned_members(campaign.cluster.smallest)
    for index, entry in enumerate(campaign.faults):
        yield from _entry_problems(entry, f"faults[{index}]", members, partitions)
    if (spec := campaign.failover) is not None:
        if failover.TOPIC in partitions:
            reason = f"a cell has the topic {failover.TOPIC!r}, which is the failover's own"
            yield Problem(field="failover", reason=reason)
        yield from failover.problems(spec, len(members.brokers))
        of_its_own = {**partitions, failover.TOPIC: spec.partitions[0]}
        yield from _entry_problems(spec.kill, "failover", members, of_its_own)


def _entry_problems(
    entry: FaultEntry, where: str, members: Members, partitions: Mapping[str, int]
) -> Iterator[Problem]:
    yield from unknown("fault", entry.fault, list(FAULTS), f"{where}.fault")
    fault = FAULTS.get(entry.fault)
    parameters = yield from _parameters(entry, fault, f"{where}.parameters")
    for reason in _target_problems(entry, fault, parameters, members, partitions):
        yield Problem(field=f"{where}.target", reason=reason)


def planned_members(cluster: ClusterSpec) -> Members:
    """The nodes that there will be."""
    return Members(
        brokers=tuple(f"broker-{number}" for number in range(1, cluster.brokers + 1)),
        zookeepers=tuple(f"zookeeper-{number}" for number in range(1, cluster.zookeepers + 1)),
        clients=(CLIENT_NODE,),
    )


def _parameters(
    entry: FaultEntry, fault: Fault | None, field: str
) -> Generator[Problem, None, Parameters | None]:
    """The fault's parameters, None where they are wrong."""
    if fault is None:
        return None
    try:
        return fault.parameters.model_validate(dict(entry.parameters))
    except ValidationError as invalid:
        for problem in problems_of(invalid):
            yield Problem(field=f"{field}.{problem.field}", reason=problem.reason)
    return None


def _target_problems(
    entry: FaultEntry,
    fault: Fault | None,
    parameters: Parameters | None,
    members: Members,
    partitions: Mapping[str, int],
) -> Iterator[str]:
    try:
        target = expressions.parse(entry.target)
    except ValueError as refusal:
        yield str(refusal)
        return
    if fault is None:
        return
    reasons = list(expressions.problems(target, fault.aim, members, partitions))
    yield from reasons
    if not reasons and parameters is not None and not (target.moving or target.asks_zookeeper):
        yield from _unplannable(fault, target, parameters, members)


def _unplannable(
    fault: Fault, target: expressions.Expression, parameters: Parameters, members: Members
) -> Iterator[str]:
    """What would be wrong when it strikes, for a target that is the same at any time."""
    try:
        fault.plan(members, resolve_static(target, members, 0), parameters, random.Random(0))
    except TargetUnavailable:
        yield f"{target.text} can never name anybody"
    except Unplannable as reason:
        yield str(reason)
