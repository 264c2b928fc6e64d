"""What is wrong with a campaign's faults: names, targets, how long they are held."""

from collections.abc import Iterator, Sequence

from harness.campaign.cells import expand
from harness.campaign.durations import format_ms
from harness.campaign.model import Campaign
from harness.campaign.schedule import FaultEntry
from harness.campaign.timings import CampaignTimings
from infra.documents import Problem
from infra.interface import Capability
from nemesis import FAULTS, targets


def unknown(kind: str, name: str, table: Sequence[str], field: str) -> Iterator[Problem]:
    """The problem that ``table`` has no ``name``, if so."""
    if name not in table:
        yield Problem(field=field, reason=f"unknown {kind} {name!r}; known: {', '.join(table)}")


def lacking_capabilities(
    campaign: Campaign, capabilities: frozenset[Capability]
) -> Iterator[Problem]:
    """Every fault that needs what the backend cannot do."""
    for index, entry in enumerate(campaign.faults):
        if missing := FAULTS[entry.fault].needs - capabilities:
            yield Problem(
                field=f"faults[{index}].fault",
                reason=f"{entry.fault} needs {', '.join(sorted(missing))}, which the backend "
                f"{campaign.cluster.backend} does not have on this machine",
            )


def fault_problems(campaign: Campaign) -> Iterator[Problem]:
    """Everything that is wrong with the faults of ``campaign``."""
    partitions = {cell.topic: cell.partitions for cell in expand(campaign.cells)}
    for index, entry in enumerate(campaign.faults):
        where = f"faults[{index}]"
        yield from unknown("fault", entry.fault, list(FAULTS), f"{where}.fault")
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
    fault = FAULTS[entry.fault]
    least_ms = max(
        fault.hold_ms_min(CampaignTimings(cluster)) for cluster, _ in campaign.cluster.points()
    )
    if entry.hold[0] < least_ms:
        yield Problem(
            field=field,
            reason=f"{format_ms(entry.hold[0])} is shorter than the {format_ms(least_ms)} that "
            f"{entry.fault} needs for its full effect under this cluster's "
            "zookeeper.session.timeout.ms and replica.lag.time.max.ms",
        )
