"""Reading a campaign file, and refusing a wrong one before anything is started.

A refusal names the file and, for every problem found, the field and the reason. Types and keys are
judged first (:mod:`harness.campaign.model`); when those are right, what fields say about each
other, and what librdkafka says of the producers' properties.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

import workloads
from harness.backends import BACKENDS
from harness.campaign.cell_problems import cell_problems, deleting, size_problems
from harness.campaign.fault_problems import fault_problems, lacking_capabilities, unknown
from harness.campaign.model import Campaign
from history.cell import Value
from infra.documents import DocumentRefused, Problem, parse, problems_of
from infra.interface import Capability
from infra.ssh.backend import SshBackend
from infra.systems import SYSTEMS

_SET_FOR_EACH_BROKER = {"broker.id", "listeners", "log.dirs", "zookeeper.connect"}
_HINTS = {"faults": "a campaign that breaks nothing, a baseline, says so: faults: []"}
"""What to say besides where a key is missing."""


class CampaignRefused(DocumentRefused):
    """A campaign file that will not be run. Carries the file and every problem found."""


def load(path: Path) -> Campaign:
    """The campaign in the file ``path``; CampaignRefused when there is anything wrong with it."""
    try:
        return Campaign.model_validate_json(parse(path))
    except DocumentRefused as refused:
        raise CampaignRefused(path, refused.problems) from None
    except ValidationError as invalid:
        raise CampaignRefused(path, [_hinted(one) for one in problems_of(invalid)]) from None


def check(campaign: Campaign, path: Path) -> None:
    """Raise CampaignRefused with everything that is wrong between the fields of ``campaign``."""
    # Their products are looked at first: what is too large is not even listed.
    problems = list(size_problems(campaign)) or [
        *_place_problems(campaign),
        *cell_problems(campaign),
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
    yield from _property_problems(campaign.cluster.properties, "cluster.properties")
    for name, own in campaign.cluster.compare.items():
        where = f"cluster.compare.{name}"
        yield from _property_problems({key: (value,) for key, value in own.items()}, where)
        for key in sorted(own.keys() & campaign.cluster.properties.keys()):
            reason = "stands in cluster.properties, too: say it once for all, or of each"
            yield Problem(field=f"{where}.{key}", reason=reason)


def _property_problems(properties: Mapping[str, Sequence[Value]], field: str) -> Iterator[Problem]:
    for name in sorted(_SET_FOR_EACH_BROKER & properties.keys()):
        reason = "is set for each broker by the harness"
        yield Problem(field=f"{field}.{name}", reason=reason)
    yield from deleting(properties, field)


def _hinted(problem: Problem) -> Problem:
    hint = _HINTS.get(problem.field) if problem.reason == "Field required" else None
    return replace(problem, reason=f"{problem.reason}; {hint}") if hint else problem
