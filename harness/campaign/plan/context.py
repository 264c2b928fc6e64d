"""The context of a plan: the cluster of a run, its topics and its timings, before they exist."""

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.harness.campaign.backends import client_nodes
from ackproof.harness.campaign.model import external
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.model.schedule import MINORITY
from ackproof.history.cell import Value
from ackproof.history.manifest import PlannedShareGroup
from ackproof.infra import systems
from ackproof.infra.api.interface import Timings
from ackproof.infra.systems.kafka.kraft.properties import (
    OF_ZOOKEEPER,
    SESSION,
    SESSION_DEFAULT_MS,
    session_as_here,
)
from ackproof.infra.systems.product import MetadataQuorum, is_external
from ackproof.infra.systems.properties import timing_ms
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Members
from ackproof.nemesis.proofs import expiry_ms
from ackproof.nemesis.targets import expressions, resolution
from ackproof.nemesis.targets.resolution import NO_SERVERS, UNLIMITED, Count
from ackproof.workloads.configuration import rejoin_s
from ackproof.workloads.spec import member_of

# --- timings --------------------------------------------------------------------------------------

_FAULT_MS_MIN = 30_000
_IN_PODS_MS_MIN = 120_000
"""A pod comes back later: it gets a node and its volumes before its broker starts."""
_AFTER_THE_SESSION_MS = 15_000
"""The time for a controller to notice an expired session and elect leaders, and for a broker to
start."""


def fault_limit_ms(campaign: Campaign, timings: Timings) -> int:
    """Return the time limit for the proof that a fault took effect, in milliseconds.

    If the campaign sets none, the limit is longer than a session takes to expire. Otherwise no kill
    could be proven.
    """
    if campaign.limits.fault is not None:
        return campaign.limits.fault
    spec = campaign.cluster.external
    in_pods = spec is not None and spec.kubernetes is not None
    least_ms = _IN_PODS_MS_MIN if in_pods else _FAULT_MS_MIN
    return max(least_ms, expiry_ms(timings) + _AFTER_THE_SESSION_MS)


@dataclass(frozen=True, slots=True)
class CampaignTimings:
    """:class:`infra.api.interface.Timings` of a cluster that is not deployed yet.

    They are the settings of the campaign, and otherwise the defaults of the system and its
    generation.
    """

    cluster: ClusterSpec

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        if is_external(self.cluster.system) and SESSION in self.cluster.properties:
            return int(self.cluster.properties[SESSION])
        if not self.cluster.kraft:
            return self._milliseconds(OF_ZOOKEEPER)
        session = int(session_as_here(self._set).get(SESSION, SESSION_DEFAULT_MS))
        if self.cluster.quorum is MetadataQuorum.MIGRATION:
            return max(session, self._milliseconds(OF_ZOOKEEPER))
        return session

    @property
    def replica_lag_time_max_ms(self) -> int:
        return self._milliseconds("replica.lag.time.max.ms")

    def _milliseconds(self, name: str) -> int:
        known = systems.known(self.cluster.system, self.cluster.metadata_quorum)
        return timing_ms(name, self._set, known)

    @property
    def _set(self) -> Mapping[str, Value]:
        return {**systems.parse(self.cluster.system).defaults, **self.cluster.properties}


DELIVERIES = "group.share.delivery.count.limit"
_LOCK = "group.share.record.lock.duration.ms"
_SHARE_DEFAULTS: Mapping[str, int] = {DELIVERIES: 5, _LOCK: 30_000}
"""Kafka's defaults (``ShareGroupConfig``)."""


def planned_share_group(name: str, members: int, brokers: Mapping[str, Value]) -> PlannedShareGroup:
    """Return a share group as it is planned, at brokers with these properties. Replacements are
    among its members."""
    given = {one: int(brokers.get(one, default)) for one, default in _SHARE_DEFAULTS.items()}
    return PlannedShareGroup(
        name=name,
        deliveries=given[DELIVERIES],
        lock_ms=given[_LOCK],
        members=tuple(member_of(name, number) for number in range(members)),
    )


def group_recovery_ms(
    recover_ms: int, config: Mapping[str, object], brokers: Mapping[str, object]
) -> int:
    """Return the time in which a group must continue after the cluster has recovered, in
    milliseconds.

    It is the time that the cluster itself may take (``recover_ms``), and the time that the group
    protocol allows members with these properties, at brokers with those.
    """
    return recover_ms + round(rejoin_s(config, brokers) * 1000)


# --- the cluster and its topics -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """The context for which a plan is made.

    Attributes:
        partitions: The number of partitions of each topic.
        replicas: The number of replicas of each partition of a topic.
        room: The number of servers that may be affected at once.
    """

    members: Members
    partitions: Mapping[str, int]
    replicas: Mapping[str, int]
    timings: Timings
    room: Count

    def hold_ms_min(self, fault: str) -> int:
        """Return the shortest duration with which a fault has its full effect, in milliseconds."""
        return FAULTS[fault].hold_ms_min(self.timings)

    def hold_range(self, fault: str) -> tuple[int, int]:
        """Return the range of a fault's duration that applies without a ``hold``, in
        milliseconds."""
        return hold_range(fault, self.timings)

    def affected_servers(self, fault: str, target: str) -> Count:
        """Return the largest number of servers that a fault with this target affects."""
        if not FAULTS[fault].aim.affects_servers:
            return NO_SERVERS
        return resolution.most(expressions.parse(target), self.members, self.replicas)


def hold_range(fault: str, timings: Timings) -> tuple[int, int]:
    """Return the range of a fault's duration that applies without a ``hold``, in milliseconds: from
    the least that gives full effect to half as much again."""
    least_ms = FAULTS[fault].hold_ms_min(timings)
    return least_ms, least_ms + least_ms // 2


def planned_members(cluster: ClusterSpec) -> Members:
    """Return the nodes that the cluster will have."""
    if cluster.external is not None:
        brokers = external.names(cluster.external, cluster.brokers)
        return Members(
            brokers=brokers,
            zookeepers=tuple(external.keepers(cluster.external, cluster.brokers)),
            clients=client_nodes(cluster),
            racks=cluster.rack_of,
            controller_ids=external.controllers_apart(cluster.external, cluster.brokers),
        )
    return Members(
        brokers=cluster.broker_names,
        zookeepers=cluster.keepers,
        clients=client_nodes(cluster),
        racks=cluster.rack_of,
        keepers_with_disks=cluster.keepers_with_disks,
    )


def plan_context(campaign: Campaign, cluster: ClusterSpec) -> PlanContext:
    """Return the context of a run of ``campaign`` on ``cluster``."""
    cells = expand(campaign.cells)
    members = planned_members(cluster)
    at_most = campaign.schedule.at_most
    return PlanContext(
        members=members,
        partitions={cell.topic: cell.partitions for cell in cells},
        replicas={cell.topic: cell.replication_factor for cell in cells},
        timings=CampaignTimings(cluster),
        room=Count(
            _at_most(at_most.brokers, len(members.brokers), UNLIMITED.brokers),
            _at_most(at_most.zookeepers, len(members.zookeepers), UNLIMITED.zookeepers),
        ),
    )


def _at_most(limit: int | str | None, servers: int, unlimited: int) -> int:
    if limit == MINORITY:
        return (servers - 1) // 2
    # The sum of bounds may exceed the number of servers, because two faults may affect the same
    # one.
    return limit if isinstance(limit, int) else unlimited
