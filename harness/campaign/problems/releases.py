"""What a campaign asks of Apache Kafka that its release has not yet: orders, producer ids."""

from collections.abc import Iterator, Mapping

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.schedule import StoryEntry
from ackproof.harness.campaign.plan.needs import faults_of
from ackproof.harness.campaign.problems.draft import Draft
from ackproof.infra.systems import parse

_Since = tuple[tuple[int, ...], str]

_REASSIGN: _Since = ((2, 4), "KIP-455")
_ELECT: _Since = ((2, 4), "KIP-460")
_FAULTS: Mapping[str, _Since] = {
    "reassign": _REASSIGN,
    "add-broker": _REASSIGN,
    "remove-broker": _REASSIGN,
    "elect-preferred": _ELECT,
    "elect-unclean": _ELECT,
    "alter-min-isr": ((2, 3), "KIP-339"),
    "add-partitions": ((1, 0), "KIP-195"),
    "grow-topic": ((1, 0), "KIP-195"),
    "advance-log-start": ((0, 11), "KIP-107"),
    "delete-records": ((0, 11), "KIP-107"),
}
"""Since when brokers take the request by which the order is given, and who says so."""
_PRODUCER_IDS: _Since = ((0, 11), "KIP-98")


def release_problems(draft: Draft) -> Iterator[Problem]:
    """All of it, of sections that are right by themselves."""
    if draft.cluster is None:
        return
    release = parse(draft.cluster.system)
    for index, entry in enumerate(draft.faults or ()):
        key = "story" if isinstance(entry, StoryEntry) else "fault"
        for fault in faults_of(entry):
            since = _FAULTS.get(fault)
            if since is not None and release.is_before(since[0]):
                reason = _reason(f"{fault} gives an order", since, draft.cluster.system)
                yield Problem(field=f"faults[{index}].{key}", reason=reason)
    cells = expand(draft.cells) if draft.cells is not None else ()
    if release.is_before(_PRODUCER_IDS[0]) and any(cell.enable_idempotence for cell in cells):
        reason = _reason("it needs producer ids", _PRODUCER_IDS, draft.cluster.system)
        yield Problem(field="cells.enable.idempotence", reason=reason)


def _reason(what: str, since: _Since, system: str) -> str:
    numbers, source = since
    version = ".".join(map(str, numbers))
    return f"{what} that Apache Kafka knows since {version} ({source}), and {system} does not"
