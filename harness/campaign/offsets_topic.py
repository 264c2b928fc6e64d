"""The topic of the groups' coordinators: a fault may be aimed at who leads or follows it, as at a
cell's."""

from collections.abc import Mapping

from harness.campaign.draft import Draft
from infra.systems import properties

OFFSETS_TOPIC = "__consumer_offsets"
"""Whoever leads the partition of a group's id coordinates the group."""

_PROPERTY = "offsets.topic.num.partitions"
_UNKNOWN = 2**31
"""Partitions, as nobody can tell how many: whichever is named may be one."""


def partitions(draft: Draft) -> Mapping[str, int]:
    """How many it has, by its name, as the topics of cells are told; empty where no group uses it.
    A cluster that is wrong, or a workload, leaves it open."""
    if draft.workload is not None and not draft.workload.groups:
        return {}
    if draft.cluster is None or (known := properties.known(draft.cluster.system)) is None:
        return {OFFSETS_TOPIC: _UNKNOWN}
    unsaid = known.broker[_PROPERTY]["default"]
    said = [spec.properties.get(_PROPERTY, unsaid) for spec, _ in draft.cluster.points()]
    return {OFFSETS_TOPIC: min(map(int, said))}
