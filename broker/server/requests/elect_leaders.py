"""ElectLeaders (api 43), versions 1 and 2.

Behaviour: only the controller's broker serves it, others say NOT_CONTROLLER. Type 0 gives
leaderships to preferred replicas that are in sync (KIP-183); type 1 lets any online replica lead
partitions that nobody leads, which loses what only the ISR had (KIP-460). Without partitions: all,
of which those that need no election are left out. The answer comes when the new leaders are
written to ZooKeeper; metadata follows.
Not modelled: ELECTION_NOT_NEEDED for partitions whose election another request has under way.
"""

import asyncio

from kio.schema.errors import ErrorCode

from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.requests.by_topic import by_topic
from ackproof.broker.server.requests.context import Context
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED = 0
UNCLEAN = 1


async def handle(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Answers when leaders are elected, or with REQUEST_TIMED_OUT."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return _respond(ErrorCode.invalid_request, {})
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            outcomes = await context.coordinator.elect_leaders(
                _partitions(request), unclean=request.election_type == UNCLEAN
            )
    except TimeoutError:
        return _respond(ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _respond(ErrorCode.not_controller, {})
    return _respond(ErrorCode.none, outcomes)


def _partitions(request: ElectLeadersRequest) -> tuple[TopicPartition, ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple(
        TopicPartition(entry.topic, number)
        for entry in request.topic_partitions
        for number in entry.partitions
    )


def _respond(error: ErrorCode, outcomes: Outcomes) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=number,
                        error_code=outcome.error,
                        error_message=outcome.text,
                    )
                    for number, outcome in found
                ),
            )
            for topic, found in by_topic(outcomes).items()
        ),
    )
