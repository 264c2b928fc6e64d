"""The coordinators of consumer groups, as the campaign's brokers will have them.

Whoever leads a partition of their topic coordinates the groups whose ids are hashed to it: a fault
may be aimed at it as at a cell's.
"""

from collections.abc import Mapping

from harness.campaign.clusters import ClusterSpec
from harness.campaign.draft import Draft
from infra.systems import properties

OFFSETS_TOPIC = "__consumer_offsets"

_UNKNOWN = 2**31
"""Partitions, as nobody can tell how many: whichever is named may be one."""


def partitions(draft: Draft) -> Mapping[str, int]:
    """How many their topic has, by its name, as the topics of cells are told; empty where there is
    no group. A cluster that is wrong, or a workload, leaves it open."""
    if draft.workload is not None and not draft.workload.groups:
        return {}
    if draft.cluster is None:
        return {OFFSETS_TOPIC: _UNKNOWN}
    said = (_in_force(one, "offsets.topic.num.partitions") for one, _ in draft.cluster.points())
    return {OFFSETS_TOPIC: min(_UNKNOWN if number is None else number for number in said)}


def session_refused(cluster: ClusterSpec, session_timeout_ms: int) -> str | None:
    """Why a coordinator of ``cluster`` would take no member with this session timeout."""
    least = _in_force(cluster, "group.min.session.timeout.ms")
    most = _in_force(cluster, "group.max.session.timeout.ms")
    if least is None or most is None or least <= session_timeout_ms <= most:
        return None
    return (
        f"session.timeout.ms is {session_timeout_ms}, and brokers take {least} to {most} "
        "(group.min.session.timeout.ms, group.max.session.timeout.ms)"
    )


def _in_force(cluster: ClusterSpec, name: str) -> int | None:
    """A broker property of the cluster; None where nobody can tell what it is by default."""
    if name in cluster.properties:
        return int(cluster.properties[name])
    known = properties.known(cluster.system)
    return None if known is None else int(known.broker[name]["default"])
