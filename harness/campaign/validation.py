"""Reading a campaign file, and refusing a wrong one before anything is started.

A refusal names the file and, for every problem found, the field and the reason. Types and keys are
judged first (:mod:`harness.campaign.model`); when those are right, what fields say about each
other, and what librdkafka says of the producers' properties.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

import workloads
from harness.backends import BACKENDS
from harness.campaign import producers
from harness.campaign.cells import expand
from harness.campaign.fault_problems import fault_problems, lacking_capabilities, unknown
from harness.campaign.model import Campaign
from infra.documents import DocumentRefused, Problem, parse, problems_of
from infra.interface import Capability
from infra.ssh.backend import SshBackend
from infra.systems import SYSTEMS
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
        *fault_problems(campaign),
    ]
    if problems:
        raise CampaignRefused(path, problems)


def check_capabilities(campaign: Campaign, path: Path, capabilities: frozenset[Capability]) -> None:
    """Raise CampaignRefused for every fault that needs what the backend cannot do."""
    problems = list(lacking_capabilities(campaign, capabilities))
    if problems:
        raise CampaignRefused(path, problems)


def _place_problems(campaign: Campaign) -> Iterator[Problem]:
    yield from unknown("backend", campaign.cluster.backend, list(BACKENDS), "cluster.backend")
    yield from unknown("system", campaign.cluster.system, list(SYSTEMS), "cluster.system")
    yield from unknown(
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
