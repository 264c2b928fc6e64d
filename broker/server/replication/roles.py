"""What a coordinator tells a broker of its replicas: assume this role, stop.

Named as what Kafka's ReplicaManager does, and said by both coordinators. A controller's come over
the wire and are translated by the handlers of its requests
(:mod:`broker.server.requests.control_requests`, ``stop_replica``); where a partition's leader
coordinates (seed 001), :mod:`broker.server.coordination` says them itself. The replica manager does
not know which of the two it listens to.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.broker.types import (
    NO_CONTROLLER_EPOCH,
    NO_EPOCH,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where such a request comes from, for the state-change log: it decides nothing."""

    change: str
    """What to call it, e.g. ``LeaderAndIsr``."""
    by: Mapping[str, int]
    """Who says so and in which epoch, e.g. ``{"controller": 1, "controller_epoch": 7}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomeLeaderOrFollower:
    """Lead this partition, or follow its leader.

    ``topic_id``: whose the log has to be (KIP-516); None: anybody's. ``controller_epoch``: of the
    controller that wrote the state. ``leader`` -1: nobody leads. ``replicas``: all that are
    assigned, the preferred one first. ``zk_version``: of the znode that holds the ISR, which the
    leader's ISR changes are conditional on.
    """

    partition: TopicPartition
    topic_id: uuid.UUID | None = None
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    zk_version: ZkVersion
    serves: bool = True
    """Of a leader: clients are served at once, see ``LeaderAndIsr`` of the replica's events."""
    as_printed: bool = False
    """Without the fences that seed 001 does not have, ibid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """Follow this partition no more; with ``delete`` the log goes too, and nobody is served."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch = NO_EPOCH
    """In which this was decided: refused where a later one is known. Negative: it counts in every
    epoch, as when the topic is deleted."""
    delete: bool
