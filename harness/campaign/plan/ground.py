"""What a plan is made for: the cluster of a run, its topics, its timings, before it is deployed."""

from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.harness.backends import client_nodes
from ackproof.harness.campaign.model import external
from ackproof.harness.campaign.model.campaign import Campaign
from ackproof.harness.campaign.model.cells import expand
from ackproof.harness.campaign.model.clusters import ClusterSpec
from ackproof.harness.campaign.model.schedule import MINORITY
from ackproof.harness.campaign.plan.timings import CampaignTimings
from ackproof.infra.api.interface import Timings
from ackproof.nemesis import FAULTS
from ackproof.nemesis.interface import Members
from ackproof.nemesis.targets import bounds, expressions
from ackproof.nemesis.targets.bounds import NOBODY, UNLIMITED, Count


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The ground that a plan is for.

    Attributes:
        partitions: How many each topic has.
        replicas: How many each partition of a topic has.
        room: How many servers may suffer at once.
    """

    members: Members
    partitions: Mapping[str, int]
    replicas: Mapping[str, int]
    timings: Timings
    room: Count

    def hold_ms_min(self, fault: str) -> int:
        """The least hold with which a fault has its full effect."""
        return FAULTS[fault].hold_ms_min(self.timings)

    def hold_range(self, fault: str) -> tuple[int, int]:
        """How long a fault is held where nobody says."""
        return hold_range(fault, self.timings)

    def befallen(self, fault: str, target: str) -> Count:
        """How many servers suffer at the most from a fault with this target."""
        if not FAULTS[fault].aim.befalls_servers:
            return NOBODY
        return bounds.most(expressions.parse(target), self.members, self.replicas)


def hold_range(fault: str, timings: Timings) -> tuple[int, int]:
    """How long a fault is held where nobody says: the least that gives it its full effect, up to
    half as much again; milliseconds."""
    least_ms = FAULTS[fault].hold_ms_min(timings)
    return least_ms, least_ms + least_ms // 2


def planned_members(cluster: ClusterSpec) -> Members:
    """The nodes that there will be."""
    if cluster.external is not None:
        brokers = external.names(cluster.external, cluster.brokers)
        return Members(brokers=brokers, zookeepers=(), clients=client_nodes(cluster))
    return Members(
        brokers=cluster.broker_names,
        zookeepers=cluster.keepers,
        clients=client_nodes(cluster),
    )


def ground_of(campaign: Campaign, cluster: ClusterSpec) -> Ground:
    """The ground of a run of ``campaign`` on ``cluster``."""
    cells = expand(campaign.cells)
    members = planned_members(cluster)
    at_most = campaign.schedule.at_most
    return Ground(
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
    # A sum of bounds may be more than there are servers: two faults may find the same one.
    return limit if isinstance(limit, int) else unlimited
