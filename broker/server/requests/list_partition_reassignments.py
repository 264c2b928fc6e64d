"""ListPartitionReassignments (api 46), version 0 (KIP-455).

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. What is being
reassigned is read from the topics' znodes, where the controller keeps it. Partitions that are not
being reassigned, or do not exist, are left out.
"""

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest

from broker.controller.cluster import ReplicaAssignment, TopicAssignment
from broker.server.requests.answer import NO_THROTTLE, Answer
from broker.server.requests.context import Context

Moving = Mapping[str, Mapping[int, ReplicaAssignment]]


async def handle(request: ListPartitionReassignmentsRequest, context: Context) -> Any:
    """Answers with what ZooKeeper says now."""
    if not context.coordinator.active:
        return _respond(request, ErrorCode.not_controller, {})
    if request.topics is None:
        found = await context.topics.assignments(None)
        return _respond(request, ErrorCode.none, _moving(found))
    wanted = {str(topic.name): set(topic.partition_indexes) for topic in request.topics}
    moving = _moving(await context.topics.assignments(wanted))
    named = {
        topic: {number: move for number, move in moves.items() if number in wanted[topic]}
        for topic, moves in moving.items()
    }
    return _respond(request, ErrorCode.none, named)


def _moving(found: Mapping[str, TopicAssignment]) -> Moving:
    return {
        topic: {
            number: part
            for number, part in assignment.partitions.items()
            if part.adding or part.removing
        }
        for topic, assignment in found.items()
    }


def _respond(request: ListPartitionReassignmentsRequest, error: ErrorCode, moving: Moving) -> Any:
    answer = Answer.to(request)
    return answer(
        "ListPartitionReassignmentsResponse",
        throttle_time=NO_THROTTLE,
        error_code=error,
        error_message=None,
        topics=tuple(
            answer(
                "OngoingTopicReassignment",
                name=topic,
                partitions=tuple(
                    answer(
                        "OngoingPartitionReassignment",
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
