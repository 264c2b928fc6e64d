"""Reading a campaign file, and refusing a wrong one before anything is started.

A refusal names the file and, for every problem found, line, column, field and reason. First comes
what is wrong with each thing by itself: types and keys (:mod:`harness.campaign.model`), names,
properties, parameters, targets. Then what those that are right say about each other, and what
librdkafka says of the clients' properties.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.config import documents
from ackproof.config.documents import Document, DocumentRefused, Problem, problems_of
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.backends import BACKENDS
from ackproof.harness.campaign.docs.schema import schema
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.clusters import COMPARED
from ackproof.harness.campaign.problems import sizes
from ackproof.harness.campaign.problems.cells import cell_problems, own_client_problems
from ackproof.harness.campaign.problems.coordinators import coordinator_problems
from ackproof.harness.campaign.problems.draft import Draft, draft
from ackproof.harness.campaign.problems.external import external_problems, own_external_problems
from ackproof.harness.campaign.problems.faults import fault_problems, own_fault_problems
from ackproof.harness.campaign.problems.properties import (
    mapping,
    property_problems,
    retention_problems,
    secret_problems,
    size_problems,
    without,
)
from ackproof.harness.campaign.problems.systems import (
    keeper_problems,
    own_system_problems,
    release_problems,
    system_problems,
)
from ackproof.harness.campaign.problems.transactions import (
    own_transaction_problems,
    transaction_problems,
)
from ackproof.harness.campaign.problems.workload import (
    consumer_problems,
    idle_nodes,
    own_consumer_problems,
    own_workload_problems,
    workload_problems,
)
from ackproof.infra import systems
from ackproof.plugins import SWITCH

_NAMES: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("backend", "cluster", "backend", list(BACKENDS)),
)
"""What is called by a name of a table: section and key."""
_HINTS = {
    "file": "`ackproof init FILE` writes one to start from",
    "faults": "a campaign that breaks nothing, a baseline, says so: faults: []",
}
_ABSENT = ("is missing", "is empty")
"""What to say besides where a key, or everything, is missing."""


class CampaignRefused(DocumentRefused):
    """A campaign file that will not be run. Carries the file and every problem found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFile:
    """A campaign, and where everything of it stands."""

    document: Document
    campaign: Campaign

    def refuse(self, problems: Iterator[Problem]) -> None:
        """Raise CampaignRefused if there are any."""
        if found := list(problems):
            raise CampaignRefused(self.document.path, self.document.refused(found))


def load(path: Path) -> Campaign:
    """The campaign in the file ``path``, each section right by itself. Raises CampaignRefused.

    For files that were checked: the copies that runs leave behind.
    """
    document = _read(path)
    campaign, problems = _model(document)
    if campaign is None or document.problems:
        raise CampaignRefused(path, document.refused(problems))
    return campaign


def check(
    path: Path,
    *,
    meant: bool = False,
    system: str | None = None,
    metadata_quorum: str | None = None,
) -> CampaignFile:
    """The campaign in the file ``path``. Raises CampaignRefused with everything that is wrong with
    it; ``meant``: that it is unusually large is not. ``system``: put to the test instead of the
    file's, and judged with it: what one has as a property is none of the other; likewise
    ``metadata_quorum``, who keeps its metadata."""
    chosen = {"system": system, "metadata.quorum": metadata_quorum}
    given = {name: one for name, one in chosen.items() if one is not None}
    return judged(_of_cluster(_read(path), given), meant=meant)


def judged(document: Document, *, meant: bool = False) -> CampaignFile:
    """As :func:`check`, of a file that was read."""
    campaign, problems = _model(document)
    if isinstance(document.content, dict):
        secrets = list(secret_problems(document.content))
        problems = [*secrets, *without([*problems, *_by_itself(document.content)], secrets)]
        wrong = {_section(problem) for problem in (*document.problems, *problems)}
        problems += _between(draft(document.content, wrong), meant)
    problems += _unusable_checkers()
    if campaign is None or problems or document.problems:
        raise CampaignRefused(document.path, document.refused(problems))
    return CampaignFile(document=document, campaign=campaign)


def _unusable_checkers() -> Iterator[Problem]:
    """Yield the checkers of plug-ins that cannot be used. Every campaign uses all checkers, and one
    that is left out would look as if it had found nothing."""
    for one in CATALOGUE.registrations:
        if one.problem is not None:
            reason = f"{one}; mend or uninstall the plug-in, or leave all out ({SWITCH}=off)"
            yield Problem(field="checkers", reason=reason)


def _of_cluster(document: Document, given: Mapping[str, str]) -> Document:
    content = document.content
    if not isinstance(content, dict) or not isinstance(content.get("cluster", {}), dict):
        return document  # which is refused
    if not given:
        return document
    cluster = {**mapping(content, "cluster"), **given}
    return replace(document, content={**content, "cluster": cluster})


def _read(path: Path) -> Document:
    try:
        return documents.read(path)
    except DocumentRefused as refused:
        raise CampaignRefused(path, [_hinted(one) for one in refused.problems]) from None


def _model(document: Document) -> tuple[Campaign | None, list[Problem]]:
    try:
        return Campaign.model_validate_json(document.as_json), []
    except ValidationError as invalid:
        return None, [_hinted(one) for one in problems_of(invalid, schema())]


def _section(problem: Problem) -> str:
    return re.split(r"[.\[]", problem.field, maxsplit=1)[0]


def _by_itself(content: Mapping[str, object]) -> Iterator[Problem]:
    for what, section, key, known in _NAMES:
        name = mapping(content, section).get(key)
        if isinstance(name, str) and name not in known:
            yield Problem(field=f"{section}.{key}", reason=unknown(what, name, known))
    yield from own_workload_problems(content)
    yield from own_system_problems(content)
    yield from own_external_problems(content)
    yield from own_client_problems(content)
    yield from property_problems(content)
    yield from own_consumer_problems(content)
    yield from own_transaction_problems(content)
    yield from own_fault_problems(content)


def _between(part: Draft, meant: bool) -> Iterator[Problem]:
    yield from sizes.too_many(part, meant=meant)
    if any(sizes.too_many(part, meant=True)):
        return  # what is too large is not even listed
    yield from system_problems(part)
    yield from _contradictions(part)
    yield from size_problems(part)
    yield from cell_problems(part)
    yield from workload_problems(part)
    yield from consumer_problems(part)
    yield from coordinator_problems(part)
    yield from idle_nodes(part)
    yield from transaction_problems(part)
    faults = [
        *fault_problems(part),
        *external_problems(part),
        *keeper_problems(part),
        *release_problems(part),
    ]
    yield from faults
    # How long it takes is told by a plan, which there is of faults that are right.
    yield from () if faults else retention_problems(part)
    yield from sizes.too_much(replace(part, faults=None) if faults else part, meant=meant)


def _contradictions(part: Draft) -> Iterator[Problem]:
    """Broker properties that are right one by one, and do not go together."""
    if part.cluster is None:
        return
    known = systems.known(part.cluster.system, part.cluster.metadata_quorum)
    if known is None:
        return
    for cluster, swept in part.cluster.points():
        own = f"compare.{swept[COMPARED]}" if COMPARED in swept else ""
        for name, reason in known.contradictions(cluster.properties):
            place = "properties" if name in part.cluster.properties else own
            yield Problem(field=f"cluster.{place}.{name}", reason=reason)


def _hinted(problem: Problem) -> Problem:
    hint = _HINTS.get(problem.field) if problem.reason in _ABSENT else None
    return replace(problem, reason=f"{problem.reason}; {hint}") if hint else problem
