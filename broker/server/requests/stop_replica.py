"""StopReplica (api 5), version 3, from the controller.

Behaviour: refused from a stale controller and for a previous registration of this broker; else
the replicas stop fetching and serving, and their logs go where ``delete_partition`` says so. A disk
that refuses costs KAFKA_STORAGE_ERROR, and the broker halts, as Kafka's does when its only log
directory has failed (``LogDirFailureHandler``).
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import origin
from ackproof.broker.server.replication.roles import StopReplica
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)


async def handle(
    request: StopReplicaRequest, context: Context, connection: int
) -> StopReplicaResponse:
    """Answers when the replicas are stopped."""
    error = context.fence.admit(request, connection)
    if error is not ErrorCode.none:
        return StopReplicaResponse(error_code=error, partition_errors=())
    told = stops(request)
    try:
        async with context.replicas.turn:
            errors = await context.replicas.stop_replicas(told, origin("StopReplica", request))
    except OSError:
        errors = dict.fromkeys((stop.partition for stop in told), ErrorCode.kafka_storage_error)
    return StopReplicaResponse(
        error_code=ErrorCode.none,
        partition_errors=tuple(
            StopReplicaPartitionError(
                topic_name=tp.topic, partition_index=tp.partition, error_code=code
            )
            for tp, code in errors.items()
        ),
    )


def stops(request: StopReplicaRequest) -> list[StopReplica]:
    """What the request says of each partition."""
    return [
        StopReplica(
            partition=TopicPartition(topic.topic_name, state.partition_index),
            leader_epoch=state.leader_epoch,
            delete=state.delete_partition,
        )
        for topic in request.topic_states
        for state in topic.partition_states
    ]
