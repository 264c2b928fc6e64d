"""LeaderAndIsr (api 4), version 5, from the controller.

Behaviour: refused from a stale controller and for a previous registration of this broker; else
each partition becomes leader or follower, see :class:`broker.server.replication.replica_manager`.
Topics that nothing can be called are refused with INVALID_TOPIC_EXCEPTION: a name becomes a
directory's. A partition whose log is a former topic's of the same name is refused with
INCONSISTENT_TOPIC_ID (KIP-516). A disk that refuses the log of a new one costs
KAFKA_STORAGE_ERROR, and the broker halts, as Kafka's does when its only log directory has failed
(``LogDirFailureHandler``). Replicas that a full request does not name stay, as in Kafka with
ZooKeeper.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import origin
from ackproof.broker.server.replication.roles import BecomeLeaderOrFollower
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)


async def handle(
    request: LeaderAndIsrRequest, context: Context, connection: int
) -> LeaderAndIsrResponse:
    """Answers when every partition has taken its role."""
    error = context.fence.admit(request, connection)
    if error is not ErrorCode.none:
        return LeaderAndIsrResponse(error_code=error, topics=())
    async with context.replicas.turn:
        errors = await context.replicas.become_leader_or_follower(
            roles(request), origin("LeaderAndIsr", request)
        )
    return LeaderAndIsrResponse(
        error_code=ErrorCode.none,
        topics=tuple(
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=tuple(
                    LeaderAndIsrPartitionError(
                        partition_index=state.partition_index,
                        error_code=errors[TopicPartition(topic.topic_name, state.partition_index)],
                    )
                    for state in topic.partition_states
                ),
            )
            for topic in request.topic_states
        ),
    )


def roles(request: LeaderAndIsrRequest) -> list[BecomeLeaderOrFollower]:
    """What the request says of each partition."""
    return [
        BecomeLeaderOrFollower(
            partition=TopicPartition(topic.topic_name, state.partition_index),
            topic_id=topic.topic_id,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            replicas=state.replicas,
            zk_version=state.zk_version,
        )
        for topic in request.topic_states
        for state in topic.partition_states
    ]
