"""The reading and validation of a campaign file, before anything is started.

A refusal names the file and, for every problem found, the line, column, field and reason. The
problems of single items come first: types and keys (:mod:`harness.campaign.model`), names,
properties, parameters and targets. Contradictions between the valid sections follow, and
librdkafka's judgement of the clients' properties.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.config import documents
from ackproof.config.documents import Document, DocumentRefused, Problem, problems_of
from ackproof.config.suggestions import unknown
from ackproof.harness.campaign.backends import BACKENDS
from ackproof.harness.campaign.docs import schema
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
    log_directory_problems,
    own_system_problems,
    release_problems,
    security_problems,
    system_problems,
    tier_problems,
    upgrade_problems,
    voter_problems,
)
from ackproof.harness.campaign.problems.workload import (
    consumer_problems,
    idle_nodes,
    own_consumer_problems,
    own_transaction_problems,
    own_workload_problems,
    transaction_problems,
    workload_problems,
)
from ackproof.infra import systems
from ackproof.plugins import SWITCH

_NAMES: Sequence[tuple[str, str, str, Sequence[str]]] = (
    ("backend", "cluster", "backend", list(BACKENDS)),
)
"""The keys whose value is a name from a table: what it names, the section, the key and the
table."""
_HINTS = {
    "file": "`ackproof init FILE` writes one to start from",
    "faults": "a campaign without faults, a baseline, must say so: faults: []",
}
_ABSENT = ("is missing", "is empty")
"""The reasons after which a hint is added."""


class CampaignRefused(DocumentRefused):
    """An invalid campaign file. It carries the path of the file and every problem found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignFile:
    """A campaign, with the document that gives the position of each field."""

    document: Document
    campaign: Campaign

    def refuse(self, problems: Iterator[Problem]) -> None:
        """Raise CampaignRefused if there are any problems."""
        if found := list(problems):
            raise CampaignRefused(self.document.path, self.document.refused(found))


def load(path: Path) -> Campaign:
    """Return the campaign in the file ``path``, with each section validated by itself. Raises
    CampaignRefused.

    This is for files that were validated before: the copies in the results of runs.
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
    """Return the campaign in the file ``path``. Raises CampaignRefused with every problem.

    Args:
        path: The campaign file.
        meant: Whether the user has confirmed an unusually large campaign.
        system: The system under test, in place of the file's. The file is judged for it, because
            systems differ in their properties.
        metadata_quorum: The metadata quorum, in place of the file's.
    """
    chosen = {"system": system, "metadata.quorum": metadata_quorum}
    given = {name: one for name, one in chosen.items() if one is not None}
    return judged(_of_cluster(_read(path), given), meant=meant)


def judged(document: Document, *, meant: bool = False) -> CampaignFile:
    """Return the campaign of a file that was read, as :func:`check` does."""
    document = _of_cluster(document, {})
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
    """Yield the plug-in checkers that cannot be used. Every campaign uses all checkers, and one
    that is left out would look as if it had found nothing."""
    for one in CATALOGUE.registrations:
        if one.problem is not None:
            reason = (
                f"{one}; repair or uninstall the plug-in, or disable all plug-ins ({SWITCH}=off)"
            )
            yield Problem(field="checkers", reason=reason)


def _of_cluster(document: Document, given: Mapping[str, str]) -> Document:
    """Return the document with what is ``given`` for its cluster, and with the name of its system
    also where it has the two releases of an upgrade."""
    content = document.content
    if not isinstance(content, dict) or not isinstance(content.get("cluster", {}), dict):
        return document  # it is refused later
    cluster = {**mapping(content, "cluster"), **given}
    with suppress(ValueError):  # the model refuses it
        cluster |= {"system": systems.as_name(cluster["system"])} if "system" in cluster else {}
    return replace(document, content={**content, "cluster": cluster}) if cluster else document


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
        return  # totals that are too large are not even listed
    yield from system_problems(part)
    yield from security_problems(part)
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
        *log_directory_problems(part),
        *voter_problems(part),
        *tier_problems(part),
        *upgrade_problems(part),
    ]
    yield from faults
    # The duration is known only from a plan, and only valid faults have one.
    yield from () if faults else retention_problems(part)
    yield from sizes.too_much(replace(part, faults=None) if faults else part, meant=meant)


def _contradictions(part: Draft) -> Iterator[Problem]:
    """Yield a problem for broker properties that are valid one by one, and contradict each
    other."""
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
