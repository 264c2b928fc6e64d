"""Problems of a campaign's faults: names, parameters and targets."""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pydantic import ValidationError

from ackproof.config.documents import Problem, problems_of
from ackproof.config.suggestions import meant_of, unknown
from ackproof.harness.campaign.model import schedule
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import Sweep, expand
from ackproof.harness.campaign.model.schedule import FAULTS_MAX, Entry, FaultEntry, StoryEntry
from ackproof.harness.campaign.plan.context import PlanContext, planned_members
from ackproof.harness.campaign.plan.faults import parameters_of
from ackproof.harness.campaign.plan.stories import (
    Story,
    catalogue,
    most_at_once,
    target_of,
    unrolled,
)
from ackproof.harness.campaign.problems import coordinators
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.harness.campaign.problems.properties import mapping
from ackproof.history.cell import Cell
from ackproof.infra.api.interface import ClusterView
from ackproof.nemesis import FAULTS
from ackproof.nemesis.admin.orders import ALTER_MIN_ISR, MIN_ISR, MinIsrAltered
from ackproof.nemesis.admin.topics import ADD_PARTITIONS, ADVANCE_LOG_START, DELETE_TOPIC
from ackproof.nemesis.interface import Aim, Fault, Members, Parameters, Unplannable, headline
from ackproof.nemesis.process.clients import CLIENTS, CRASH_CLIENT, PAUSE_CLIENT
from ackproof.nemesis.targets import expressions
from ackproof.nemesis.targets.resolution import (
    Count,
    TargetUnavailable,
    planned_view,
    resolve_planned,
)
from ackproof.workloads.interface import ClientRole, Load

# --- faults ---------------------------------------------------------------------------------------

_OF_CLIENTS = {"kill": CRASH_CLIENT.name, "pause": PAUSE_CLIENT.name}
"""Faults on servers, with the faults that do the same to clients."""


def own_fault_problems(content: Mapping[str, object]) -> Iterator[Problem]:
    """Yield the problems of each fault by itself: unknown names, wrong parameters, and targets that
    cannot be parsed.

    Faults are read as they are written, so that they are judged even if other parts of the file are
    invalid.
    """
    entries = content.get("faults")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and "story" not in entry:
            yield from _own_problems(entry, f"faults[{index}]")
    yield from _unparsable(mapping(content, "failover").get("target"), "failover.target")


def fault_problems(draft: Draft) -> Iterator[Problem]:
    """Yield the contradictions between valid faults, the cluster and the cells."""
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
        if topics is not None and schedule.TOPIC in topics:
            reason = f"a cell has the topic {schedule.TOPIC!r}, which the failover reserves"
            yield Problem(field="failover", reason=reason)
        yield from schedule.problems(spec, members)
        grown = None if topics is None else {**topics, schedule.TOPIC: spec.partitions[0]}
        yield from _entry_problems(spec.kill, "failover", members, grown)


def _on_nobody(draft: Draft) -> Iterator[Problem]:
    """Yield a problem for each fault on consumers in a campaign without consumers."""
    if draft.workload is None or draft.workload.has_consumers:
        return
    for index, entry in enumerate(draft.faults or ()):
        of_consumers = (
            isinstance(entry, FaultEntry)
            and entry.fault in CLIENTS
            and entry.parameters.get("role") == ClientRole.CONSUMER
        )
        if of_consumers:
            reason = "no cell has consumers: add workload.readers or workload.groups"
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
    """Return the topics that a target may name, with their numbers of partitions. Faults that
    change partitions and topics must not name the coordinators' topics."""
    if cells is None:
        return None
    affects_servers = FAULTS[entry.fault].aim.affects_servers
    return {**_partitions(cells), **(offsets if affects_servers else {})}


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
    """Return whether the validity of a fault's plan can be judged in advance. It can if the target
    is always the same, or if it does not matter which broker or partition it becomes."""
    if target.asks_zookeeper:
        return False
    alike = fault.aim is Aim.BROKERS or not fault.aim.affects_servers
    placed = all(role.topic is None or role.topic in (cells or {}) for role in target.roles)
    return not target.moving or (alike and placed and cells is not None)


def _placement(
    target: expressions.Expression, cells: Mapping[str, Cell], members: Members
) -> Mapping[str, tuple[set[int], int]]:
    """Return the partitions of each topic to place in the planned view, and its replication factor.

    They are the partitions that the target names, and as many as there are brokers. All other
    partitions are placed like one of these, so that a topic of millions costs nothing.
    """
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
    """Yield the problems that the fault would have at its injection."""
    try:
        resolved = resolve_planned(target, members, view, 0, fault.aim)
        fault.plan(members, resolved, parameters, random.Random(0))
    except TargetUnavailable:
        yield f"{target.text} can never match a server"
    except Unplannable as reason:
        yield str(reason)


# --- orders on topics that are written to ---------------------------------------------------------


def live_topic_problems(draft: Draft, cells: Mapping[str, Cell]) -> Iterator[Problem]:
    """Yield the problems of valid faults that change topics in use. ``cells`` are by topic."""
    for index, entry in enumerate(draft.faults or ()):
        if not isinstance(entry, FaultEntry):
            continue
        field = f"faults[{index}]"
        if entry.fault == DELETE_TOPIC.name:
            yield from _deletion(entry, field)
        elif entry.fault == ALTER_MIN_ISR.name:
            yield from _unchanged(entry, _meant(entry.target, cells), f"{field}.parameters")
        elif entry.fault in (ADD_PARTITIONS.name, ADVANCE_LOG_START.name):
            of = _meant(entry.target, cells)
            for reason in dict.fromkeys(_reasons(entry.fault, of, draft)):
                yield Problem(field=f"{field}.target", reason=reason)


def _deletion(entry: FaultEntry, field: str) -> Iterator[Problem]:
    roles = expressions.parse(entry.target).roles
    if any(role.name == "topic" for role in roles):
        yield Problem(
            field=f"{field}.target",
            reason=(
                "a topic that receives records is never deleted: created again, it would "
                "begin at the same offsets in the same epochs, so that lost and deleted "
                "records could not be distinguished; delete-topic creates topics of its "
                "own, on its target brokers"
            ),
        )


def _unchanged(entry: FaultEntry, cells: Iterable[Cell], field: str) -> Iterator[Problem]:
    """Yield a problem for a value that a topic already has, also for a topic that is drawn, because
    it may be drawn."""
    parameters = parameters_of(entry.fault, entry.parameters)
    assert isinstance(parameters, MinIsrAltered)
    value = parameters.min_insync_replicas
    same = [cell.topic for cell in cells if cell.min_insync_replicas == value]
    if same:
        yield Problem(
            field=f"{field}.min_insync_replicas",
            reason=(
                f"{MIN_ISR} of {', '.join(same)} is {value} already, so nothing would "
                "change: choose another value, or other topics"
            ),
        )


def _meant(target: str, cells: Mapping[str, Cell]) -> list[Cell]:
    """Return the cells whose topics the target may name: all cells for `any`."""
    named = {
        role.topic
        for topic in cells
        for role in expressions.parse(expressions.on_topic(target, topic)).roles
    }
    return [cell for topic, cell in cells.items() if topic in named]


def _reasons(fault: str, cells: Iterable[Cell], draft: Draft) -> Iterator[str]:
    for cell in cells:
        load = None if draft.workload is None else draft.workload.load_of(cell)
        if fault == ADVANCE_LOG_START.name and cell.acks == "0":
            yield (
                f"{cell.topic}: with acks=0 clients receive no offsets, so lost and deleted "
                "records could not be distinguished"
            )
        if load is not None:
            yield from (f"{cell.topic}: {reason}" for reason in _of_readers(fault, load))


def _of_readers(fault: str, load: Load) -> Iterator[str]:
    if fault == ADVANCE_LOG_START.name and (load.readers or load.groups or load.share_groups):
        yield (
            "it has consumers, and skipped records could not be distinguished from records "
            "that were deleted before they were read"
        )
    if fault == ADD_PARTITIONS.name and (load.groups or load.share_groups):
        yield (
            "it has consumer groups, whose members would receive partitions that the "
            "manifest does not have"
        )


# --- names of other tools -------------------------------------------------------------------------

_CUTS = ("isolate", "halves", "cut")
_CLOCKS = ("step-clock", "fast-clock", "strobe-clock")
_MEANT: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("partition", "network-partition", "netsplit", "split", "split-brain"), _CUTS),
    **dict.fromkeys(("crash", "crash-broker", "sigkill"), ("kill",)),
    **dict.fromkeys(("stop", "shutdown", "sigterm"), ("terminate", "pause")),
    **dict.fromkeys(("node-drain", "evict", "cordon"), ("drain",)),
    **dict.fromkeys(("roll", "rolling-update", "rolling-restart"), ("operator-roll", "restart")),
    **dict.fromkeys(("node-down", "node-crash", "host-failure"), ("node-failure", "kill")),
    **dict.fromkeys(("freeze", "hang", "suspend", "sigstop"), ("pause",)),
    **dict.fromkeys(("delay", "latency", "slow-network"), ("slow",)),
    **dict.fromkeys(("loss", "drop", "packet-loss"), ("lossy",)),
    **dict.fromkeys(("bandwidth", "throttle"), ("narrow",)),
    **dict.fromkeys(("clock", "clock-skew", "skew"), _CLOCKS),
    **dict.fromkeys(("power-loss", "power-off", "power-cut"), ("power-failure",)),
    **dict.fromkeys(("corrupt", "corruption"), ("bit-flip", "corrupt-index")),
    **dict.fromkeys(("cpu", "memory", "stress"), ("starve-cpu", "starve-memory")),
}
"""Names of Jepsen's nemeses, of Chaos Mesh's kinds and actions, of signals and of everyday speech,
with the faults that they may mean."""


def unknown_fault(name: str) -> str:
    """Return the message that there is no fault of this name, with the faults that may be meant."""
    faults = _MEANT.get(name.lower().replace("_", "-"), ())
    if not faults:
        return unknown("fault", name, FAULTS)
    meant = "; or ".join(f"{fault}: {headline(FAULTS[fault].summary)}" for fault in faults)
    return f"unknown fault {name!r}; it may mean {meant}"


# --- schedules ------------------------------------------------------------------------------------


def schedule_problems(draft: Draft) -> Iterator[Problem]:
    """Yield every problem of the schedule of ``draft``, as far as the valid sections show them."""
    if draft.schedule is None or draft.faults is None:
        return
    campaign = draft.as_campaign
    yield from _contradictions(campaign)
    crowded = [problem for context in draft.contexts for problem in _too_many(campaign, context)]
    yield from {problem.field: problem for problem in crowded}.values()
    if not crowded and any(len(plan) > FAULTS_MAX for plan in draft.plans):
        reason = f"gives more than {FAULTS_MAX:,} faults per run"
        yield Problem(field="schedule", reason=reason)


def _contradictions(campaign: Campaign) -> Iterator[Problem]:
    schedule = campaign.schedule
    if schedule.lasts is not None and schedule.rounds > 1:
        reason = "replaces rounds: give a duration or a number of rounds"
        yield Problem(field="schedule.lasts", reason=reason)
    for index, entry in enumerate(campaign.faults):
        if entry.weight is not None and (schedule.order != "drawn" or entry.at is not None):
            why = "it has its own time" if entry.at is not None else "the order is not random"
            reason = f"applies to schedule.order: drawn, but {why}"
            yield Problem(field=f"faults[{index}].weight", reason=reason)


def _too_many(campaign: Campaign, context: PlanContext) -> Iterator[Problem]:
    for index, entry in enumerate(campaign.faults):
        affected, where = _affected(entry, context)
        for kind, found, room in _kinds(affected, context.room):
            if found > room:
                reason = f"affects up to {found} {kind} at once; schedule.at.most allows {room}"
                yield Problem(field=f"faults[{index}].{where}", reason=reason)


def _affected(entry: Entry, context: PlanContext) -> tuple[Count, str]:
    if isinstance(entry, StoryEntry):
        return most_at_once(entry, context), "story"
    return context.affected_servers(entry.fault, entry.target), "target"


def _kinds(found: Count, room: Count) -> Iterator[tuple[str, int, int]]:
    yield "brokers", found.brokers, room.brokers
    yield "zookeepers", found.zookeepers, room.zookeepers


# --- stories --------------------------------------------------------------------------------------


def story_problems(
    entry: StoryEntry, where: str, cells: Mapping[str, Cell] | None
) -> Iterator[Problem]:
    """Yield a problem for an unknown story, or one that cannot play on its topic. ``cells`` are by
    topic, or None if they are unknown."""
    story = catalogue().get(entry.story)
    if story is None:
        reason = unknown("story", entry.story, catalogue())
        yield Problem(field=f"{where}.story", reason=reason)
        return
    for field, reason in _topic_problems(entry, story, cells):
        yield Problem(field=f"{where}.{field}", reason=reason)


def steps_as_faults(
    entry: StoryEntry, where: str, members: Members
) -> Iterator[tuple[str, FaultEntry]]:
    """Yield the steps of a valid story as faults that can be judged like any other, each with its
    field."""
    partition = None if entry.topic is None else (entry.topic, _number(entry))
    for step in unrolled(catalogue()[entry.story], members, seed=0):
        target = target_of(step, partition, entry.rack)
        fault = FaultEntry(fault=step.fault, target=target, parameters=step.parameters)
        yield f"{where}.story.{step.step}", fault


def _topic_problems(
    entry: StoryEntry, story: Story, cells: Mapping[str, Cell] | None
) -> Iterator[tuple[str, str]]:
    """Yield the problems of a story's topic, partition and rack, each after its field."""
    if entry.rack is not None and not story.needs_rack:
        yield "rack", f"{entry.story} is not about a rack"
    if entry.topic is None:
        if story.needs_topic:
            yield "topic", f"{entry.story} runs on a partition: give a topic"
        return
    if not story.needs_topic:
        yield "topic", f"{entry.story} does not run on a partition"
    elif cells is None:
        return
    elif (cell := cells.get(entry.topic)) is None:
        yield "topic", f"no cell has the topic {entry.topic!r}; {meant_of(entry.topic, cells)}"
    elif cell.replication_factor < story.replicas:
        needed = f"{entry.story} needs {story.replicas} replicas"
        yield "topic", f"{needed}, but {entry.topic} has {cell.replication_factor}"
    elif _number(entry) >= cell.partitions:
        yield "partition", f"{entry.topic} has the partitions 0 to {cell.partitions - 1}"


def _number(entry: StoryEntry) -> int:
    return entry.partition if entry.partition != "any" else 0
