"""What is wrong with a campaign's faults: names, parameters, targets."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from harness.backends import CLIENT_NODE
from harness.campaign import failover
from harness.campaign.cells import Sweep, expand
from harness.campaign.clusters import ClusterSpec
from harness.campaign.draft import Draft
from harness.campaign.model import Campaign
from harness.campaign.property_problems import mapping
from harness.campaign.schedule import FaultEntry
from infra.documents import Problem, problems_of
from infra.interface import Capability
from infra.ssh.backend import SshBackend
from infra.wording import unknown
from nemesis import FAULTS, expressions
from nemesis.interface import Fault, Members, Parameters, Unplannable
from nemesis.targets import TargetUnavailable, resolve_static


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


def without_hosts(campaign: Campaign) -> Iterator[Problem]:
    """That the backend needs hosts, and nobody named any."""
    if campaign.cluster.backend == SshBackend.name and campaign.cluster.inventory is None:
        reason = "the backend ssh needs the file with its hosts (--inventory)"
        yield Problem(field="cluster.inventory", reason=reason)


def own_fault_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong with faults by themselves: names, parameters, and what is no target at all.
    Read as they are written, so that they are judged whatever else is wrong with the file."""
    entries = content.get("faults")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            yield from _own_problems(entry, f"faults[{index}]")
    yield from _unparsable(mapping(content, "failover").get("target"), "failover.target")


def fault_problems(draft: Draft) -> Iterator[Problem]:
    """What is wrong between faults that are right by themselves, and the cluster and the cells."""
    topics = None if draft.cells is None else _partitions(draft.cells)
    members = None if draft.cluster is None else planned_members(draft.cluster.smallest)
    for index, entry in enumerate(draft.faults or ()):
        yield from _entry_problems(entry, f"faults[{index}]", members, topics)
    if (spec := draft.failover) is not None:
        if topics is not None and failover.TOPIC in topics:
            reason = f"a cell has the topic {failover.TOPIC!r}, which is the failover's own"
            yield Problem(field="failover", reason=reason)
        yield from failover.problems(spec, None if members is None else len(members.brokers))
        grown = None if topics is None else {**topics, failover.TOPIC: spec.partitions[0]}
        yield from _entry_problems(spec.kill, "failover", members, grown)


def planned_members(cluster: ClusterSpec) -> Members:
    """The nodes that there will be."""
    return Members(
        brokers=tuple(f"broker-{number}" for number in range(1, cluster.brokers + 1)),
        zookeepers=tuple(f"zookeeper-{number}" for number in range(1, cluster.zookeepers + 1)),
        clients=(CLIENT_NODE,),
    )


def _partitions(cells: Sweep) -> Mapping[str, int]:
    return {cell.topic: cell.partitions for cell in expand(cells)}


def _own_problems(entry: Mapping[str, object], where: str) -> Iterator[Problem]:
    name, parameters = entry.get("fault"), entry.get("parameters", {})
    fault = FAULTS.get(name) if isinstance(name, str) else None
    if isinstance(name, str) and fault is None:
        yield Problem(field=f"{where}.fault", reason=unknown("fault", name, FAULTS))
    if fault is not None and isinstance(parameters, dict):
        try:
            fault.parameters.model_validate(parameters)
        except ValidationError as invalid:
            for one in problems_of(invalid, fault.parameters.model_json_schema()):
                yield replace(one, field=f"{where}.parameters.{one.field}")
    yield from _unparsable(entry.get("target"), f"{where}.target")


def _unparsable(target: object, field: str) -> Iterator[Problem]:
    try:
        if isinstance(target, str):
            expressions.parse(target)
    except ValueError as refusal:
        yield Problem(field=field, reason=str(refusal))


def _entry_problems(
    entry: FaultEntry, where: str, members: Members | None, topics: Mapping[str, int] | None
) -> Iterator[Problem]:
    fault, target = FAULTS[entry.fault], expressions.parse(entry.target)
    reasons = list(expressions.problems(target, fault.aim, members, topics))
    if not (reasons or members is None or target.moving or target.asks_zookeeper):
        parameters = fault.parameters.model_validate(dict(entry.parameters))
        reasons += _unplannable(fault, target, parameters, members)
    for reason in reasons:
        yield Problem(field=f"{where}.target", reason=reason)


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
