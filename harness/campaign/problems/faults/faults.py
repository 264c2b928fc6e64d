"""What is wrong with a campaign's faults: names, parameters, targets."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import ValidationError

from ackproof.config.documents import Problem, problems_of
from ackproof.harness.campaign.model import failover
from ackproof.harness.campaign.model.cells import Sweep, expand
from ackproof.harness.campaign.model.schedule import Entry, FaultEntry
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.plan.ground import planned_members
from ackproof.harness.campaign.problems import coordinators
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.faults.live_topics import live_topic_problems
from ackproof.harness.campaign.problems.faults.other_names import unknown_fault
from ackproof.harness.campaign.problems.faults.schedule import schedule_problems
from ackproof.harness.campaign.problems.faults.stories import steps_as_faults, story_problems
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.history.cell import Cell
from ackproof.infra.api.interface import ClusterView
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Aim, Fault, Members, Parameters, Unplannable
from ackproof.nemesis.process.clients import CLIENTS, CRASH_CLIENT, PAUSE_CLIENT
from ackproof.nemesis.targets import expressions
from ackproof.nemesis.targets.placement import planned_view
from ackproof.nemesis.targets.resolution import TargetUnavailable, resolve_planned
from ackproof.workloads.interface import Role

_OF_CLIENTS = {"kill": CRASH_CLIENT.name, "pause": PAUSE_CLIENT.name}
"""Faults on servers, and what does the same to clients."""


def own_fault_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong with faults by themselves: names, parameters, and what is no target at all.
    Read as they are written, so that they are judged whatever else is wrong with the file."""
    entries = content.get("faults")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and "story" not in entry:
            yield from _own_problems(entry, f"faults[{index}]")
    yield from _unparsable(mapping(content, "failover").get("target"), "failover.target")


def fault_problems(draft: Draft) -> Iterator[Problem]:
    """What is wrong between faults that are right by themselves, and the cluster and the cells."""
    cells = None if draft.cells is None else _by_topic(draft.cells)
    topics = None if cells is None else _partitions(cells)
    offsets = coordinators.partitions(draft)
    members = None if draft.cluster is None else planned_members(draft.cluster.smallest)
    found = [
        problem
        for index, entry in enumerate(draft.faults or ())
        for problem in _fault_or_story(entry, f"faults[{index}]", members, cells, offsets)
    ]
    found += _on_nobody(draft)
    found += live_topic_problems(draft, cells or {})
    yield from found or schedule_problems(draft)
    if (spec := draft.failover) is not None:
        if topics is not None and failover.TOPIC in topics:
            reason = f"a cell has the topic {failover.TOPIC!r}, which is the failover's own"
            yield Problem(field="failover", reason=reason)
        yield from failover.problems(spec, members)
        grown = None if topics is None else {**topics, failover.TOPIC: spec.partitions[0]}
        yield from _entry_problems(spec.kill, "failover", members, grown)


def _on_nobody(draft: Draft) -> Iterator[Problem]:
    """Consumers are to crash, or to be paused, and there are none."""
    if draft.workload is None or draft.workload.readers or draft.workload.groups:
        return
    for index, entry in enumerate(draft.faults or ()):
        of_consumers = (
            isinstance(entry, FaultEntry)
            and entry.fault in CLIENTS
            and entry.parameters.get("role") == Role.CONSUMER
        )
        if of_consumers:
            reason = "no cell has consumers: give workload.readers or workload.groups"
            yield Problem(field=f"faults[{index}].parameters.role", reason=reason)


def _by_topic(cells: Sweep) -> Mapping[str, Cell]:
    return {cell.topic: cell for cell in expand(cells)}


def _partitions(cells: Mapping[str, Cell]) -> Mapping[str, int]:
    return {topic: cell.partitions for topic, cell in cells.items()}


def _own_problems(entry: Mapping[str, object], where: str) -> Iterator[Problem]:
    name, parameters = entry.get("fault"), entry.get("parameters", {})
    fault = FAULTS.get(name) if isinstance(name, str) else None
    if isinstance(name, str) and fault is None:
        reason = FAULTS.refusal(name) or unknown_fault(name)
        yield Problem(field=f"{where}.fault", reason=reason)
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


def _fault_or_story(
    entry: Entry,
    where: str,
    members: Members | None,
    cells: Mapping[str, Cell] | None,
    offsets: Mapping[str, int],
) -> Iterator[Problem]:
    if isinstance(entry, FaultEntry):
        topics = _aimed_at(entry, cells, offsets)
        yield from _entry_problems(entry, where, members, topics, cells)
        return
    found = list(story_problems(entry, where, cells))
    yield from found
    if members is not None and not found:
        for field, fault in steps_as_faults(entry, where, members):
            topics = _aimed_at(fault, cells, offsets)
            yield from _entry_problems(fault, field, members, topics, cells)


def _aimed_at(
    entry: FaultEntry, cells: Mapping[str, Cell] | None, offsets: Mapping[str, int]
) -> Mapping[str, int] | None:
    """The topics that a target may name. What a fault does to partitions and topics by orders is
    not for the coordinators' topic."""
    if cells is None:
        return None
    befalls_servers = FAULTS[entry.fault].aim.befalls_servers
    return {**_partitions(cells), **(offsets if befalls_servers else {})}


def _entry_problems(
    entry: FaultEntry,
    where: str,
    members: Members | None,
    topics: Mapping[str, int] | None,
    cells: Mapping[str, Cell] | None = None,
) -> Iterator[Problem]:
    targets = {expressions.on_topic(entry.target, topic) for topic in cells or ()}
    found = (
        reason
        for target in sorted(targets or {entry.target})
        for reason in _target_problems(entry, target, members, topics, cells)
    )
    for reason in dict.fromkeys(found):
        yield Problem(field=f"{where}.target", reason=reason)


def _target_problems(
    entry: FaultEntry,
    text: str,
    members: Members | None,
    topics: Mapping[str, int] | None,
    cells: Mapping[str, Cell] | None,
) -> Iterator[str]:
    fault, target = FAULTS[entry.fault], expressions.parse(text)
    reasons = list(expressions.problems(target, fault.aim, members, topics))
    instead = _OF_CLIENTS.get(entry.fault)
    on_clients = any(role.name.startswith("client") for role in target.roles)
    hint = f"; {instead} is for clients" if instead and on_clients else ""
    yield from (f"{reason}{hint}" for reason in reasons)
    if not reasons and members is not None and _foreseen(fault, target, cells):
        parameters = parameters_of(entry.fault, entry.parameters)
        view = planned_view(members, _placement(target, cells or {}, members))
        yield from _unplannable(fault, target, parameters, members, view)


def _foreseen(
    fault: Fault, target: expressions.Expression, cells: Mapping[str, Cell] | None
) -> bool:
    """Whether its plan is known to be possible or not: the target is the same at any time, or it
    does not matter which broker or partition it will be."""
    if target.asks_zookeeper:
        return False
    alike = fault.aim is Aim.BROKERS or not fault.aim.befalls_servers
    placed = all(role.topic is None or role.topic in (cells or {}) for role in target.roles)
    return not target.moving or (alike and placed and cells is not None)


def _placement(
    target: expressions.Expression, cells: Mapping[str, Cell], members: Members
) -> Mapping[str, tuple[set[int], int]]:
    """Of each topic the partitions that the target names, and as many as there are brokers: all
    others are placed as one of these, were there millions."""
    return {
        topic: (
            {
                *range(min(cell.partitions, len(members.brokers))),
                *(
                    r.partition
                    for r in target.roles
                    if r.topic == topic and r.partition is not None
                ),
            },
            cell.replication_factor,
        )
        for topic, cell in cells.items()
    }


def _unplannable(
    fault: Fault,
    target: expressions.Expression,
    parameters: Parameters,
    members: Members,
    view: ClusterView,
) -> Iterator[str]:
    """What would be wrong when it strikes."""
    try:
        resolved = resolve_planned(target, members, view, 0, fault.aim)
        fault.plan(members, resolved, parameters, random.Random(0))
    except TargetUnavailable:
        yield f"{target.text} can never name anybody"
    except Unplannable as reason:
        yield str(reason)
