"""Requests of producers, Produce and InitProducerId, and the validation of batches."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.log.validator import RefusedBatch, admitted
from ackproof.broker.server.network.connections import CloseConnection, Later
from ackproof.broker.server.replication.partition import Partition, Produced, refused
from ackproof.broker.server.requests.context import Client, Context
from ackproof.broker.server.topic_names import is_internal
from ackproof.broker.server.zk.znodes import MalformedNode
from ackproof.broker.types import NO_OFFSET, ProducerId, TopicPartition
from ackproof.broker.wire.batch import (
    HEADER_BYTES,
    MAGIC,
    Compression,
    CorruptBatch,
    RecordBatch,
    parse_batches,
)
from ackproof.broker.wire.framing import BytesLike
from ackproof.broker.wire.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

logger = logging.getLogger(__name__)


MAGIC_AT = 16
"""The position of the magic in a batch, and in the messages of older formats."""

ZSTD_SINCE = 7
"""The first version of Produce with zstd (KIP-110)."""

RECORD_BYTES_MIN = 7
"""The smallest record: length, attributes, two deltas, key length, value length, count of headers,
a byte each."""


def validated(
    records: BytesLike | None, version: int, max_message_bytes: int
) -> tuple[RecordBatch, ...] | ErrorCode:
    """Return the one batch, or the error in it.

    Args:
        version: of the Produce request.
        max_message_bytes: ``max.message.bytes`` of the topic.
    """
    data = records or b""
    if len(data) > MAGIC_AT and data[MAGIC_AT] != MAGIC:
        return ErrorCode.invalid_record
    try:
        batches = parse_batches(data)
    except CorruptBatch:
        return ErrorCode.corrupt_message
    if len(batches) != 1:
        return ErrorCode.invalid_record
    error = _error_in(batches[0], version, max_message_bytes)
    return batches if error is ErrorCode.none else error


def _error_in(batch: RecordBatch, version: int, max_message_bytes: int) -> ErrorCode:
    if batch.size > max_message_bytes:
        return ErrorCode.message_too_large
    if batch.compression is Compression.ZSTD and version < ZSTD_SINCE:
        return ErrorCode.unsupported_compression_type
    if not _is_consistent(batch) or batch.base_offset != 0 or batch.is_control:
        return ErrorCode.invalid_record
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        return ErrorCode.invalid_record
    return ErrorCode.none


def _is_consistent(batch: RecordBatch) -> bool:
    """Return whether there are as many records as offsets, and room for them."""
    fits = batch.count * RECORD_BYTES_MIN <= batch.size - HEADER_BYTES
    return batch.is_dense and (fits or batch.compression is not Compression.NONE)


# --- Produce --------------------------------------------------------------------------------------
#
# Produce (api 0), versions 3 to 9.
#
# Behaviour: one record batch of magic 2 per partition. Its header and CRC are checked
# (:mod:`broker.server.requests.produce`), whether it suits the topic (:mod:`broker.log.validator`),
# and whether it follows its producer's last (:mod:`broker.log.producer_state`). It stays compressed
# as it is. acks=0 gets no response, and an error with acks=0 closes the connection, so that the
# client notices. acks=-1 waits in the replica until the ISR has the batch or ``timeout`` is over.
# Only brokers write to internal topics, and clients with the id of Kafka's own tools. Not modelled:
# transactions, quotas.
#
# v5 log_start_offset, v7 zstd, v8 error_message, v9 flexible.


ADMIN_CLIENT_ID: Final = "__admin_client"
"""The ``client.id`` of Kafka's own tools (``AdminUtils.ADMIN_CLIENT_ID``)."""

Outcome = Produced | asyncio.Future[Produced]


def handle_produce(
    request: ProduceRequest, context: Context, client: Client
) -> ProduceResponse | Later[ProduceResponse | None] | None:
    """Append, and answer at once, or later when acks=-1 has to wait."""
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
    # First, as in Kafka: a client that takes this broker for the leader must ask the leader, whose
    # settings may be newer. Otherwise it would give up a batch that this broker would not accept.
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
    """Return the response once every outcome is known."""
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


# --- InitProducerId -------------------------------------------------------------------------------
#
# InitProducerId (api 22), versions 0 to 4.
#
# Behaviour: a producer without transactional id gets a new producer id with epoch 0, whatever id it
# had before, as in Kafka. It waits while ZooKeeper cannot be reached and no id is left. If the
# allocated ids are unknown, because the znode is malformed, the answer is UNKNOWN_SERVER_ERROR.
#
# Not modelled: transactions; a transactional id is INVALID_REQUEST.
#
# v2 flexible, v3 the id and epoch that a producer has, v4 PRODUCER_FENCED.


NO_PRODUCER = ProducerId(-1)


async def handle_init_producer_id(
    request: InitProducerIdRequest, context: Context
) -> InitProducerIdResponse:
    """Answer when there is an id."""
    error, producer_id = await _new_id(request, context)
    return InitProducerIdResponse(
        error_code=error,
        producer_id=producer_id,
        producer_epoch=0 if error is ErrorCode.none else -1,
    )


async def _new_id(request: InitProducerIdRequest, context: Context) -> tuple[ErrorCode, ProducerId]:
    if request.transactional_id is not None:
        return ErrorCode.invalid_request, NO_PRODUCER
    try:
        return ErrorCode.none, await context.producer_ids.next()
    except MalformedNode as error:
        logger.error("no producer id: %s", error)
        return ErrorCode.unknown_server_error, NO_PRODUCER
