"""The choice of the replica from which a consumer reads (KIP-392), made by the leader.

A leader sends a consumer to another replica only if ``replica.selector.class`` says so. Kafka's
``RackAwareReplicaSelector`` names a replica in the consumer's own rack (``client.rack``) when the
leader is in another one. Among several, it prefers the one with the most records, then the one that
caught up last, then the largest id. A replica that is not in the ISR, or lacks the requested
offset, is never named (KAFKA-14372); see
:meth:`broker.replication.replica.Replica.followers_to_read_from`.

Not handled: custom selectors, which in Kafka are classes on the class path.
"""

from collections.abc import Mapping
from typing import Final, Literal

from ackproof.broker.replication.leader import RemoteReplica
from ackproof.broker.types import BrokerId

ReplicaSelector = Literal[
    "org.apache.kafka.common.replica.LeaderSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
]
"""Kafka's own selectors. With the first, every consumer reads from the leader, as without any
selector."""
RACK_AWARE: Final[ReplicaSelector] = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def preferred_read_replica(
    rack: str,
    leader: BrokerId,
    followers: Mapping[BrokerId, RemoteReplica],
    racks: Mapping[BrokerId, str | None],
) -> BrokerId | None:
    """Return the follower from which a consumer in ``rack`` should read, or None for the leader.

    Args:
        rack: the consumer's rack, empty if it has none.
        followers: the followers that it may be sent to, as the leader knows them.
        racks: the racks of the brokers that are known to be alive.
    """
    if not rack or racks.get(leader) == rack:
        return None
    near = [follower for follower in followers if racks.get(follower) == rack]

    def progress(follower: BrokerId) -> tuple[int, int, int]:
        remote = followers[follower]
        return remote.log_end_offset, remote.last_caught_up_time, follower

    return max(near, key=progress, default=None)
