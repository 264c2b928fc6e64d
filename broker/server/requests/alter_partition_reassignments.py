"""AlterPartitionReassignments (api 45), version 0 (KIP-455).

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. The answer comes when
a reassignment has begun, long before it ends: see ListPartitionReassignments. Null replicas take
one back.
"""

import asyncio
from typing import Any

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
)
from kio.schema.errors import ErrorCode

from broker.server.coordinator import Outcomes
from broker.server.requests.answer import NO_THROTTLE, Answer, by_topic
from broker.server.requests.context import Context
from broker.types import BrokerId, TopicPartition

Targets = dict[TopicPartition, tuple[BrokerId, ...] | None]


async def handle(request: AlterPartitionReassignmentsRequest, context: Context) -> Any:
    """Answers when the reassignments have begun, or with REQUEST_TIMED_OUT."""
    try:
        async with asyncio.timeout(request.timeout.total_seconds()):
            outcomes = await context.coordinator.alter_reassignments(_targets(request))
    except TimeoutError:
        return _respond(request, ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _respond(request, ErrorCode.not_controller, {})
    return _respond(request, ErrorCode.none, outcomes)


def _targets(request: AlterPartitionReassignmentsRequest) -> Targets:
    return {
        TopicPartition(topic.name, int(partition.partition_index)): None
        if partition.replicas is None
        else tuple(BrokerId(broker) for broker in partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
    }


def _respond(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, outcomes: Outcomes
) -> Any:
    answer = Answer.to(request)
    return answer(
        "AlterPartitionReassignmentsResponse",
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=None,
        responses=tuple(
            answer(
                "ReassignableTopicResponse",
                name=topic,
                partitions=tuple(
                    answer(
                        "ReassignablePartitionResponse",
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
