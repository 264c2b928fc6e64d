"""Produce (api 0), versions 3 to 9.

Behaviour: one record batch of magic 2 per partition; its header and CRC are checked
(:mod:`broker.server.requests.client_batch`), whether it suits the topic
(:mod:`broker.log.validator`), and follows its producer's last
(:mod:`broker.log.idempotence.producer_state`). It stays compressed as it is. acks=0 gets no
response, and an error with acks=0 closes the connection, so that the client notices. acks=-1 waits
in the replica until the ISR has the batch or ``timeout`` is over. Internal topics are written to by
brokers alone, and by clients that are called as Kafka's own tools are.
Not modelled: transactions, quotas.

v5 log_start_offset, v7 zstd, v8 error_message, v9 flexible.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.log.refused import RefusedBatch
from ackproof.broker.log.validator import admitted
from ackproof.broker.server.network.connections import CloseConnection, Later
from ackproof.broker.server.replication.partition import Partition, Produced, refused
from ackproof.broker.server.requests.client import Client
from ackproof.broker.server.requests.client_batch import validated
from ackproof.broker.server.requests.context import Context
from ackproof.broker.server.topic_names import is_internal
from ackproof.broker.types import NO_OFFSET, TopicPartition
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ADMIN_CLIENT_ID: Final = "__admin_client"
"""``client.id`` of Kafka's own tools (``AdminUtils.ADMIN_CLIENT_ID``)."""

Outcome = Produced | asyncio.Future[Produced]


def handle(
    request: ProduceRequest, context: Context, client: Client
) -> ProduceResponse | Later[ProduceResponse | None] | None:
    """Appends; answers at once, or later when acks=-1 has to wait."""
    outcomes = [
        _produce(TopicPartition(topic.name, partition.index), partition, request, context, client)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]
    waiting = [outcome for outcome in outcomes if isinstance(outcome, asyncio.Future)]
    if not waiting:
        return _respond(request, outcomes, context)
    result = waiting[0] if len(waiting) == 1 else asyncio.gather(*waiting)
    return Later(result, lambda _result: _respond(request, outcomes, context))


def _produce(
    tp: TopicPartition,
    data: PartitionProduceData,
    request: ProduceRequest,
    context: Context,
    client: Client,
) -> Outcome:
    partition = context.replicas.hosted(tp)
    if not isinstance(partition, Partition):
        return refused(partition)
    if is_internal(tp.topic) and client.id != ADMIN_CLIENT_ID:
        error = ErrorCode.invalid_topic_exception
        return refused(error, f"{tp.topic} is not for clients to write to.")
    outcome = _append(partition, data, request, context)
    partition.meters.produced(outcome.error if isinstance(outcome, Produced) else ErrorCode.none)
    return outcome


def _append(
    partition: Partition, data: PartitionProduceData, request: ProduceRequest, context: Context
) -> Outcome:
    if request.acks not in (-1, 0, 1):
        return refused(ErrorCode.invalid_required_acks)
    # First, as in Kafka: who took us for the leader asks the leader, whose settings may be newer,
    # instead of giving up a batch that this broker would not take.
    if partition.replica.refusal(acks=1) is not ErrorCode.none:
        return refused(ErrorCode.not_leader_or_follower)
    batches = validated(data.records, request.version, partition.config.max_message_bytes)
    if isinstance(batches, ErrorCode):
        return refused(batches)
    try:
        batch = admitted(batches[0], partition.log.config, context.clock.wall_ms())
    except RefusedBatch as error:
        return refused(error.error, str(error))
    future = partition.produce(batch, request.acks, request.timeout_ms)
    return future.result() if future.done() else future


def _respond(
    request: ProduceRequest, outcomes: Sequence[Outcome], context: Context
) -> ProduceResponse | None:
    """Once every outcome is there."""
    produced = [o if isinstance(o, Produced) else o.result() for o in outcomes]
    if request.acks == 0:
        _hang_up_on_errors(produced)
        return None
    remaining = iter(produced)
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                partition_responses=tuple(
                    _partition_response(topic.name, data.index, next(remaining), context)
                    for data in topic.partition_data
                ),
            )
            for topic in request.topic_data
        ),
    )


def _hang_up_on_errors(outcomes: Sequence[Produced]) -> None:
    errors = {outcome.error for outcome in outcomes} - {ErrorCode.none}
    if errors:
        names = ", ".join(sorted(error.name for error in errors))
        raise CloseConnection(f"produce request with acks=0 failed: {names}")


def _partition_response(
    topic: str, index: int, outcome: Produced, context: Context
) -> PartitionProduceResponse:
    partition = context.replicas.hosted(TopicPartition(topic, index))
    return PartitionProduceResponse(
        index=index,
        error_code=outcome.error,
        base_offset=outcome.base_offset,
        log_append_time_ms=outcome.log_append_time,
        log_start_offset=partition.log.log_start_offset
        if isinstance(partition, Partition)
        else NO_OFFSET,
        error_message=outcome.message,
    )
