"""What a campaign asks of its backend: the faults that strike, and the disks of its cluster."""

from collections.abc import Iterator

from harness.campaign.model import Campaign
from harness.campaign.schedule import StoryEntry
from harness.campaign.stories import catalogue
from infra.interface import Capability
from nemesis import FAULTS


def struck(campaign: Campaign) -> Iterator[tuple[str, str]]:
    """The field that asks for it, and every fault by name."""
    for index, entry in enumerate(campaign.faults):
        if isinstance(entry, StoryEntry):
            names = dict.fromkeys(step.fault for step in catalogue()[entry.story].steps)
            yield from ((f"faults[{index}].story", name) for name in names)
        else:
            yield f"faults[{index}].fault", entry.fault
    if campaign.failover is not None:
        yield "failover", campaign.failover.kill.fault


def needs_of(campaign: Campaign) -> frozenset[Capability]:
    """What its faults and its cluster need of the backend."""
    disks = [Capability.LOSE_UNSYNCED_WRITES] if campaign.cluster.disks is not None else []
    return frozenset(disks).union(*(FAULTS[name].needs for _, name in struck(campaign)))
