"""The orders of a coordinator for a broker's replicas: assume this role, stop.

They are named after the operations of Kafka's ReplicaManager, and both coordinators use them. A
controller's orders come over the wire and are translated by the handlers of its requests
(:mod:`broker.server.requests.control_requests`, ``stop_replica``). If a partition's leader
coordinates (*Design V2*), :mod:`broker.server.coordination` gives them itself. The replica manager
does not know which of the two they come from.
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
    """The origin of such an order, for the state-change log. It decides nothing."""

    change: str
    """The name of the order, for example ``LeaderAndIsr``."""
    by: Mapping[str, int]
    """The sender with its epoch, for example ``{"controller": 1, "controller_epoch": 7}``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BecomeLeaderOrFollower:
    """Lead this partition, or follow its leader.

    - ``topic_id``: the topic that the log must belong to (KIP-516), or None for any.
    - ``controller_epoch``: that of the controller that wrote the state.
    - ``leader``: -1 if there is none.
    - ``replicas``: all that are assigned, the preferred one first.
    - ``zk_version``: that of the znode with the ISR. The leader's ISR changes are conditional on
      it.
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
    """Whether a leader serves clients at once; see ``LeaderAndIsr`` of the replica's events."""
    as_printed: bool = False
    """Whether the fences that *Design V2* does not have are left out; see there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    """Stop following this partition. With ``delete`` the log is deleted too, and no client is
    served."""

    partition: TopicPartition
    leader_epoch: LeaderEpoch = NO_EPOCH
    """The epoch of the decision. It is rejected if a later one is known. A negative one counts in
    every epoch, as when the topic is deleted."""
    delete: bool
