"""Requests of administrators about the cluster: elections, reassignments, registrations."""

import asyncio
import logging
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.controller.cluster import ReplicaAssignment, TopicAssignment
from ackproof.broker.server.coordinator import Outcomes
from ackproof.broker.server.requests.context import Context, by_topic
from ackproof.broker.types import BrokerId, TopicPartition
from ackproof.broker.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ackproof.broker.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ackproof.broker.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ackproof.broker.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

logger = logging.getLogger(__name__)


# --- ElectLeaders ---------------------------------------------------------------------------------
#
# ElectLeaders (api 43), versions 1 and 2.
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. Type 0 gives
# leaderships to preferred replicas that are in sync (KIP-183). Type 1 lets any online replica lead
# partitions without a leader, which loses records that only the ISR had (KIP-460). A request
# without partitions means all, and those that need no election are left out of the answer. The
# answer comes when the new leaders are written to ZooKeeper; metadata follows. Not modelled:
# ELECTION_NOT_NEEDED for partitions with an election in progress for another request.


PREFERRED = 0
UNCLEAN = 1


async def handle_elect_leaders(
    request: ElectLeadersRequest, context: Context
) -> ElectLeadersResponse:
    """Elect leaders, and answer when that is done, or with REQUEST_TIMED_OUT."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return _election_response(ErrorCode.invalid_request, {})
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            outcomes = await context.coordinator.elect_leaders(
                _partitions(request), unclean=request.election_type == UNCLEAN
            )
    except TimeoutError:
        return _election_response(ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _election_response(ErrorCode.not_controller, {})
    return _election_response(ErrorCode.none, outcomes)


def _partitions(request: ElectLeadersRequest) -> tuple[TopicPartition, ...] | None:
    if request.topic_partitions is None:
        return None
    return tuple(
        TopicPartition(entry.topic, number)
        for entry in request.topic_partitions
        for number in entry.partitions
    )


def _election_response(error: ErrorCode, outcomes: Outcomes) -> ElectLeadersResponse:
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


# --- AlterPartitionReassignments ------------------------------------------------------------------
#
# AlterPartitionReassignments (api 45), version 0 (KIP-455).
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. The answer
# comes when a reassignment has begun, long before it ends: see ListPartitionReassignments. Null
# replicas cancel one.


Targets = dict[TopicPartition, tuple[BrokerId, ...] | None]


async def handle_alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, context: Context
) -> AlterPartitionReassignmentsResponse:
    """Begin reassignments, and answer when that is done, or with REQUEST_TIMED_OUT."""
    try:
        async with asyncio.timeout(request.timeout_ms / 1000):
            outcomes = await context.coordinator.alter_reassignments(_targets(request))
    except TimeoutError:
        return _alteration_response(ErrorCode.request_timed_out, {})
    if outcomes is None:
        return _alteration_response(ErrorCode.not_controller, {})
    return _alteration_response(ErrorCode.none, outcomes)


def _targets(request: AlterPartitionReassignmentsRequest) -> Targets:
    return {
        TopicPartition(topic.name, partition.partition_index): None
        if partition.replicas is None
        else partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }


def _alteration_response(
    error: ErrorCode, outcomes: Outcomes
) -> AlterPartitionReassignmentsResponse:
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


# --- ListPartitionReassignments -------------------------------------------------------------------
#
# ListPartitionReassignments (api 46), version 0 (KIP-455).
#
# Behaviour: only the controller's broker serves it, and others answer NOT_CONTROLLER. The
# reassignments are read from the topics' znodes, where the controller keeps them. Partitions that
# are not being reassigned, or do not exist, are left out.


Moving = Mapping[str, Mapping[int, ReplicaAssignment]]


async def handle_list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, context: Context
) -> ListPartitionReassignmentsResponse:
    """Answer with the present content of ZooKeeper."""
    if not context.coordinator.active:
        return _reassignments_response(ErrorCode.not_controller, {})
    if request.topics is None:
        found = await context.topics.assignments(None)
        return _reassignments_response(ErrorCode.none, _moving(found))
    wanted = {topic.name: set(topic.partition_indexes) for topic in request.topics}
    moving = _moving(await context.topics.assignments(wanted))
    named = {
        topic: {number: move for number, move in moves.items() if number in wanted[topic]}
        for topic, moves in moving.items()
    }
    return _reassignments_response(ErrorCode.none, named)


def _moving(found: Mapping[str, TopicAssignment]) -> Moving:
    return {
        topic: {
            number: part
            for number, part in assignment.partitions.items()
            if part.adding or part.removing
        }
        for topic, assignment in found.items()
    }


def _reassignments_response(error: ErrorCode, moving: Moving) -> ListPartitionReassignmentsResponse:
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


# --- UnregisterBroker -----------------------------------------------------------------------------
#
# UnregisterBroker (api 64), version 0: ``kafka-cluster unregister --id N``.
#
# Behaviour: served only without a controller, by any broker. There a broker has a queue in
# ZooKeeper that outlives it (*Design V2*, the remove-brokers command). Refused with INVALID_REQUEST
# while the broker runs or has replicas, which Kafka's KRaft controllers allow.


async def handle_unregister_broker(
    request: UnregisterBrokerRequest, context: Context
) -> UnregisterBrokerResponse:
    """Answer when the broker is forgotten."""
    outcome = await context.coordinator.remove_broker(BrokerId(request.broker_id))
    if outcome.text is not None:  # the clients of Kafka 3 show only the code of it
        logger.warning("UnregisterBroker refused: %s", outcome.text)
    return UnregisterBrokerResponse(error_code=outcome.error, error_message=outcome.text)
