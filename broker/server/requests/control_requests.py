"""Requests between a controller and its brokers."""

from kio.schema.errors import ErrorCode

from ackproof.broker.server.controller.control_fence import origin
from ackproof.broker.server.replication.roles import BecomeLeaderOrFollower, StopReplica
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from ackproof.broker.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from ackproof.broker.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

# --- LeaderAndIsr ---------------------------------------------------------------------------------
#
# LeaderAndIsr (api 4), version 5, from the controller.
#
# Behaviour: rejected from a stale controller and for a previous registration of this broker.
# Otherwise each partition becomes leader or follower, see
# :class:`broker.server.replication.replica_manager`. Illegal topic names are rejected with
# INVALID_TOPIC_EXCEPTION, because a name becomes a directory's. A partition whose log is a former
# topic's of the same name is rejected with INCONSISTENT_TOPIC_ID (KIP-516). If the disk refuses the
# log of a new one, the answer is KAFKA_STORAGE_ERROR, and the broker halts. Kafka's does so when
# its only log directory has failed (``LogDirFailureHandler``). Replicas that a full request does
# not name stay, as in Kafka with ZooKeeper.


async def handle_leader_and_isr(
    request: LeaderAndIsrRequest, context: Context, connection: int
) -> LeaderAndIsrResponse:
    """Answer when every partition has taken its role."""
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
    """Return the request's order for each partition."""
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


# --- StopReplica ----------------------------------------------------------------------------------
#
# StopReplica (api 5), version 3, from the controller.
#
# Behaviour: rejected from a stale controller and for a previous registration of this broker.
# Otherwise the replicas stop fetching and serving, and their logs are deleted if
# ``delete_partition`` says so. If the disk refuses, the answer is KAFKA_STORAGE_ERROR, and the
# broker halts. Kafka's does so when its only log directory has failed (``LogDirFailureHandler``).


async def handle_stop_replica(
    request: StopReplicaRequest, context: Context, connection: int
) -> StopReplicaResponse:
    """Answer when the replicas are stopped."""
    error = context.fence.admit(request, connection)
    if error is not ErrorCode.none:
        return StopReplicaResponse(error_code=error, partition_errors=())
    orders = stops(request)
    try:
        async with context.replicas.turn:
            errors = await context.replicas.stop_replicas(orders, origin("StopReplica", request))
    except OSError:
        errors = dict.fromkeys((stop.partition for stop in orders), ErrorCode.kafka_storage_error)
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
    """Return the request's order for each partition."""
    return [
        StopReplica(
            partition=TopicPartition(topic.topic_name, state.partition_index),
            leader_epoch=state.leader_epoch,
            delete=state.delete_partition,
        )
        for topic in request.topic_states
        for state in topic.partition_states
    ]


# --- UpdateMetadata -------------------------------------------------------------------------------
#
# UpdateMetadata (api 6), version 7, from the controller.
#
# Behaviour: rejected from a stale controller, on a connection that it has given up, and for a
# previous registration of this broker. Otherwise Metadata requests are answered from it. Groups
# forget their offsets in deleted partitions.


def handle_update_metadata(
    request: UpdateMetadataRequest, context: Context, connection: int
) -> UpdateMetadataResponse:
    """Answer at once."""
    error = context.fence.admit(request, connection)
    if error is ErrorCode.none:
        context.groups.partitions_deleted(context.metadata.update(request))
    return UpdateMetadataResponse(error_code=error)


# --- ControlledShutdown ---------------------------------------------------------------------------
#
# ControlledShutdown (api 7), version 3, from a broker that is about to stop.
#
# Behaviour: the controller moves the broker's leaderships to other replicas and answers with the
# partitions that remain. Other brokers answer NOT_CONTROLLER.


async def handle_controlled_shutdown(
    request: ControlledShutdownRequest, context: Context
) -> ControlledShutdownResponse:
    """Answer when the new leaders are chosen."""
    if not context.coordinator.active:
        return ControlledShutdownResponse(
            error_code=ErrorCode.not_controller, remaining_partitions=()
        )
    return await context.coordinator.controlled_shutdown(request)
