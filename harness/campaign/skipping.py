"""A campaign without what its place refuses. Nothing is left out silently: what was stands in the
campaign's copy, in the manifest, and beside every verdict."""

from collections.abc import Iterator

from ackproof.config.documents import Problem
from ackproof.harness.campaign.model.campaign import Campaign, Skipped
from ackproof.harness.campaign.model.schedule import Entry, StoryEntry
from ackproof.harness.campaign.plan.needs import DISKS, faults_of, refusal
from ackproof.infra.api.interface import Capability
from ackproof.nemesis import FAULTS


def without_refused(campaign: Campaign, able: frozenset[Capability]) -> Campaign:
    """``campaign`` without the faults, and the disks, that its backend refuses, which is ``able``
    to do so much. A story of which one step is refused goes as a whole: half a story is another
    one."""
    backend, spec = campaign.cluster.backend, campaign.cluster
    skipped: list[Skipped] = []
    faults = []
    for entry in campaign.faults:
        if reasons := list(_reasons(entry, able, backend)):
            skipped.append(Skipped(what=_named(entry), reason="; ".join(reasons)))
        else:
            faults.append(entry)
    if spec.disks is not None and (reason := refusal("", DISKS, able, backend)):
        skipped.append(Skipped(what="cluster.disks", reason=reason))
        spec = spec.model_copy(update={"disks": None})
    update = {"faults": tuple(faults), "cluster": spec, "skipped": tuple(skipped)}
    return campaign.model_copy(update=update)


def nothing_left(campaign: Campaign, kept: Campaign) -> Iterator[Problem]:
    """That all its faults were refused: what is left is no campaign with faults, and nobody asked
    for a baseline."""
    if campaign.faults and not kept.faults:
        reason = f"the backend {campaign.cluster.backend} refuses every one of them"
        yield Problem(field="faults", reason=reason)


def _reasons(entry: Entry, able: frozenset[Capability], backend: str) -> Iterator[str]:
    for fault in faults_of(entry):
        if reason := refusal(fault, FAULTS[fault].needs, able, backend):
            yield reason


def _named(entry: Entry) -> str:
    if isinstance(entry, StoryEntry):
        return f"story {entry.story}"
    return f"{entry.fault} of {entry.target}"
