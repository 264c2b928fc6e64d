"""Reading a campaign file, and refusing a wrong one before anything is started.

A refusal names the file and, for every problem found, the field and the reason. Types and keys are
judged first (:mod:`harness.campaign`); when those are right, what fields say about each other, and
what librdkafka says of the producers' properties.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

import workloads
from harness import producers
from harness.backends import BACKENDS
from harness.campaign import Campaign, FaultEntry
from harness.cells import expand
from harness.durations import format_ms
from harness.timings import CampaignTimings
from infra.documents import DocumentRefused, Problem, parse, problems_of
from infra.interface import Capability
from infra.ssh.backend import SshBackend
from infra.systems import SYSTEMS
from nemesis import FAULTS, targets
from workloads.interface import Cell
from workloads.spec import SpecificationError

_SET_FOR_EACH_BROKER = {"broker.id", "listeners", "log.dirs", "zookeeper.connect"}
_SWEPT_TOPIC_PROPERTIES = {"min.insync.replicas", "unclean.leader.election.enable"}


class CampaignRefused(DocumentRefused):
    """A campaign file that will not be run. Carries the file and every problem found."""


def load(path: Path) -> Campaign:
    """The campaign in the file ``path``; CampaignRefused when there is anything wrong with it."""
    try:
        return Campaign.model_validate_json(parse(path))
    except DocumentRefused as refused:
        raise CampaignRefused(path, refused.problems) from None
    except ValidationError as invalid:
        raise CampaignRefused(path, list(problems_of(invalid))) from None


def check(campaign: Campaign, path: Path) -> None:
    """Raise CampaignRefused with everything that is wrong between the fields of ``campaign``."""
    problems = [
        *_place_problems(campaign),
        *_cell_problems(campaign),
        *_fault_problems(campaign),
    ]
    if problems:
        raise CampaignRefused(path, problems)


def check_capabilities(campaign: Campaign, path: Path, capabilities: frozenset[Capability]) -> None:
    """Raise CampaignRefused for every fault that needs what the backend cannot do."""
    problems = [
        Problem(
            field=f"faults[{index}].fault",
            reason=f"{entry.fault} needs {', '.join(sorted(missing))}, which the backend "
            f"{campaign.cluster.backend} does not have on this machine",
        )
        for index, entry in enumerate(campaign.faults)
        if (missing := FAULTS[entry.fault].needs - capabilities)
    ]
    if problems:
        raise CampaignRefused(path, problems)


def _known(kind: str, name: str, table: Sequence[str], field: str) -> Iterator[Problem]:
    if name not in table:
        yield Problem(field=field, reason=f"unknown {kind} {name!r}; known: {', '.join(table)}")


def _place_problems(campaign: Campaign) -> Iterator[Problem]:
    yield from _known("backend", campaign.cluster.backend, list(BACKENDS), "cluster.backend")
    yield from _known("system", campaign.cluster.system, list(SYSTEMS), "cluster.system")
    yield from _known(
        "workload", campaign.workload.kind, list(workloads.WORKLOADS), "workload.kind"
    )
    if campaign.cluster.backend == SshBackend.name and campaign.cluster.inventory is None:
        reason = "the backend ssh needs the file with its hosts (--inventory)"
        yield Problem(field="cluster.inventory", reason=reason)
    for name in sorted(_SET_FOR_EACH_BROKER & campaign.cluster.properties.keys()):
        reason = "is set for each broker by the harness"
        yield Problem(field=f"cluster.properties.{name}", reason=reason)


def _cell_problems(campaign: Campaign) -> Iterator[Problem]:
    for name in sorted(_SWEPT_TOPIC_PROPERTIES & campaign.cells.topic.keys()):
        yield Problem(field=f"cells.topic.{name}", reason=f"belongs to cells.{name}")
    brokers = campaign.cluster.brokers
    for factor in sorted(set(campaign.cells.replication_factor)):
        if factor > brokers:
            reason = f"{factor} replicas need as many brokers; there are {brokers}"
            yield Problem(field="cells.replication.factor", reason=reason)
        for floor in sorted(set(campaign.cells.min_insync_replicas)):
            if floor > factor:
                reason = (
                    f"{floor} is above the replication factor {factor}: no acks=all can succeed"
                )
                yield Problem(field="cells.min.insync.replicas", reason=reason)
    yield from _producer_problems(expand(campaign.cells), campaign.workload.record_bytes)


def _producer_problems(cells: Sequence[Cell], record_bytes: int) -> Iterator[Problem]:
    refused: dict[str, list[str]] = {}
    for cell in cells:
        try:
            producers.try_out(cell, record_bytes)
        except SpecificationError as refusal:
            refused.setdefault(str(refusal), []).append(cell.name)
    for reason, names in refused.items():
        yield Problem(field="cells", reason=f"{reason} (in {', '.join(names)})")


def _fault_problems(campaign: Campaign) -> Iterator[Problem]:
    partitions = {cell.topic: cell.partitions for cell in expand(campaign.cells)}
    for index, entry in enumerate(campaign.faults):
        where = f"faults[{index}]"
        yield from _known("fault", entry.fault, list(FAULTS), f"{where}.fault")
        yield from _target_problems(entry, partitions, f"{where}.target")
        yield from _hold_problems(entry, campaign, f"{where}.hold")


def _target_problems(
    entry: FaultEntry, partitions: dict[str, int], field: str
) -> Iterator[Problem]:
    try:
        target = targets.parse(entry.target)
    except ValueError as unknown:
        yield Problem(field=field, reason=str(unknown))
        return
    if target.topic is None:
        return
    if target.topic not in partitions:
        reason = f"no cell has the topic {target.topic!r}; there are: {', '.join(partitions)}"
        yield Problem(field=field, reason=reason)
    elif (target.partition or 0) >= partitions[target.topic]:
        reason = f"{target.topic} has the partitions 0 to {partitions[target.topic] - 1}"
        yield Problem(field=field, reason=reason)


def _hold_problems(entry: FaultEntry, campaign: Campaign, field: str) -> Iterator[Problem]:
    if entry.hold is None or entry.fault not in FAULTS:
        return
    least_ms = FAULTS[entry.fault].hold_ms_min(CampaignTimings(campaign.cluster))
    if entry.hold[0] < least_ms:
        yield Problem(
            field=field,
            reason=f"{format_ms(entry.hold[0])} is shorter than the {format_ms(least_ms)} that "
            f"{entry.fault} needs for its full effect under this cluster's "
            "zookeeper.session.timeout.ms and replica.lag.time.max.ms",
        )
