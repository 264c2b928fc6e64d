"""AlterPartitionReassignments (api 45), version 0 (KIP-455).

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. The answer comes when
a reassignment has begun, long before it ends: see ListPartitionReassignments. Null replicas take
one back.
"""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.requests.by_topic import by_topic
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

Targets = dict[TopicPartition, tuple[BrokerId, ...] | None]


async def handle(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Answers when the reassignments have begun, or with REQUEST_TIMED_OUT."""
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            outcomes = await context.coordinator.alter_reassignments(_targets(request))
    except TimeoutError:
        return _respond(ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _respond(ErrorCode.not_controller, {})
    return _respond(ErrorCode.none, outcomes)


def _targets(request: AlterPartitionReassignmentsRequest) -> Targets:
    return {
        TopicPartition(topic.name, partition.partition_index): None
        if partition.replicas is None
        else partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }


def _respond(error: ErrorCode, outcomes: Outcomes) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic,
                partitions=tuple(
                    ReassignablePartitionResponse(
                        partition_index=number,
                        error_code=outcome.error,
                        error_message=outcome.text,
                    )
                    for number, outcome in begun
                ),
            )
            for topic, begun in by_topic(outcomes).items()
        ),
    )
