"""ListPartitionReassignments (api 46), version 0 (KIP-455).

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. What is being
reassigned is read from the topics' znodes, where the controller keeps it. Partitions that are not
being reassigned, or do not exist, are left out.
"""

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.server.requests.context import Context
from ackproof.broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

Moving = Mapping[str, Mapping[int, ReplicaAssignment]]


async def handle(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Answers with what ZooKeeper says now."""
    if not context.coordinator.active:
        return _respond(ErrorCode.not_controller, {})
    if request.topics is None:
        found = await context.topics.assignments(None)
        return _respond(ErrorCode.none, _moving(found))
    wanted = {topic.name: set(topic.partition_indexes) for topic in request.topics}
    moving = _moving(await context.topics.assignments(wanted))
    named = {
        topic: {number: move for number, move in moves.items() if number in wanted[topic]}
        for topic, moves in moving.items()
    }
    return _respond(ErrorCode.none, named)


def _moving(found: Mapping[str, TopicAssignment]) -> Moving:
    return {
        topic: {
            number: part
            for number, part in assignment.partitions.items()
            if part.adding or part.removing
        }
        for topic, assignment in found.items()
    }


def _respond(error: ErrorCode, moving: Moving) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_code=error,
        error_message=None,
        topics=tuple(
            OngoingTopicReassignment(
                name=topic,
                partitions=tuple(
                    OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=move.replicas,
                        adding_replicas=move.adding,
                        removing_replicas=move.removing,
                    )
                    for number, move in moves.items()
                ),
            )
            for topic, moves in moving.items()
            if moves
        ),
    )
