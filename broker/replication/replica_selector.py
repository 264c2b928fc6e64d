"""From which replica a consumer is to read (KIP-392): what the leader answers it.

A leader sends a consumer nowhere else unless ``replica.selector.class`` says so. Kafka's
``RackAwareReplicaSelector`` names a replica of the consumer's own rack (``client.rack``), where the
leader stands in another: of several whoever has most, then whoever caught up last, then the largest
id. Who is no member of the ISR, or lacks what the consumer asks for, is not named (KAFKA-14372):
see :meth:`broker.replication.replica.Replica.followers_to_read_from`.

Not handled: selectors of one's own, which in Kafka are classes on the class path.
"""

from collections.abc import Mapping
from typing import Final, Literal

from ackproof.broker.replication.leader import RemoteReplica
from ackproof.broker.types import BrokerId

ReplicaSelector = Literal[
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
]
"""Kafka's own; with the first everybody reads from the leader, as without any."""
RACK_AWARE: Final[ReplicaSelector] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_read_replica(
    rack: str,
    leader: BrokerId,
    followers: Mapping[BrokerId, RemoteReplica],
    racks: Mapping[BrokerId, str | None],
) -> BrokerId | None:
    """The follower that a consumer in ``rack`` is to read from; None: the leader.

    Args:
        rack: the consumer's, empty where it has none.
        followers: those that it may be sent to, in the leader's eyes.
        racks: of the brokers that are known to be alive.
    """
    if not rack or racks.get(leader) == rack:
        return None
    near = [follower for follower in followers if racks.get(follower) == rack]

    def how_far(follower: BrokerId) -> tuple[int, int, int]:
        remote = followers[follower]
        return remote.log_end_offset, remote.last_caught_up_time, follower

    return max(near, key=how_far, default=None)
