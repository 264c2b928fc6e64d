"""Producers: bursts of batches, each sent until it is acked or rejected or its time is over."""

import asyncio
import datetime
import io
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from crc32c import crc32c
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.schema.errors import ErrorCode
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from ackproof.broker.server.network.broker_connection import BrokerConnection, Disconnected
from ackproof.broker.types import TopicPartition
from ackproof.broker.wire.batch import RecordBatch, parse_batch
from ackproof.broker.wire.messages.init_producer_id import InitProducerIdRequest
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from simulation.clients.client import PAUSE_S, PORT, SimulatedClient, host_of
from simulation.machines.node import BEGINNING_WALL_MS
from simulation.model.clients import AnswersModel
from simulation.model.history import ClientHistory, SentBatch
from simulation.plans.actions import ProduceBatches

# --- batches --------------------------------------------------------------------------------------
#
# Record batches as clients encode them.

_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_FIRST_TIMESTAMP_AT: Final = 27
_NO_TIMESTAMP: Final = -1


def encode_batch(
    values: Sequence[bytes],
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    times_ms: Sequence[int] | None = None,
) -> bytes:
    """Encode a batch.

    Args:
        producer: The id, the epoch and the first sequence number of the producer.
        times_ms: The timestamp of each record, in milliseconds since 1970. None means now.
    """
    times = [_moment(each) for each in times_ms or [wall_ms()] * len(values)]
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=times[number],
            offset=i64(number),
            key=None,
            value=value,
            headers=(),
        )
        for number, value in enumerate(values)
    )
    with io.BytesIO() as buffer:
        write_batch(
            buffer,
            NewRecordBatch(
                producer_id=i64(producer[0]),
                producer_epoch=i16(producer[1]),
                base_sequence=i32(producer[2]),
                attributes=i16(attributes),
                records=records,
            ),
        )
        return buffer.getvalue()


def patch_batch(raw: bytes, at: int, form: str, *values: int) -> bytes:
    """Return the batch with other values at ``at``, packed by the format ``form``, and with a valid
    CRC."""
    whole = bytearray(raw)
    struct.pack_into(form, whole, at, *values)
    struct.pack_into(">I", whole, _CRC_AT, crc32c(bytes(whole[_CRC_FROM:])))
    return bytes(whole)


def without_timestamps(raw: bytes) -> bytes:
    """Return the batch as a client without timestamps sends it: the first and the greatest are -1.

    All records of ``raw`` must have the same timestamp.
    """
    return patch_batch(raw, _FIRST_TIMESTAMP_AT, ">qq", _NO_TIMESTAMP, _NO_TIMESTAMP)


def wall_ms() -> int:
    """Return the time of a correct wall clock, in milliseconds since 1970."""
    return BEGINNING_WALL_MS + int(asyncio.get_running_loop().time() * 1000)


def _moment(timestamp_ms: int) -> TZAwareMicros:
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    return TZAwareMicros.parse(moment)


# --- producers ------------------------------------------------------------------------------------

# --- batches in flight ----------------------------------------------------------------------------
#
# The batches of an idempotent producer that have a sequence number and no answer yet.

Flight = tuple[SentBatch, RecordBatch]


class Window:
    """The unanswered batches of one partition, the oldest first."""

    def __init__(self) -> None:
        self._flights: deque[tuple[int, Flight]] = deque()
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._flights)

    @property
    def flights(self) -> Sequence[Flight]:
        return [flight for _, flight in self._flights]

    def has_room(self, ahead: int) -> bool:
        """Return whether the next batch is less than ``ahead`` numbers after the oldest unanswered
        one.

        It is not enough to count the unanswered batches. Suppose batch 1 is unanswered and 2 to 5
        are acked. With 6 to 9 in the log, the broker would have forgotten batch 1 and would reject
        its retry.
        """
        return not self._flights or self._next - self._flights[0][0] < ahead

    def add(self, flight: Flight) -> None:
        """Add a batch under the next number."""
        self._flights.append((self._next, flight))
        self._next += 1

    def answered(self, errors: Sequence[ErrorCode | None]) -> None:
        """Take one answer for each batch in order, and remove the batches that were acked."""
        pairs = zip(self._flights, errors, strict=True)
        self._flights = deque(known for known, error in pairs if error is not ErrorCode.none)


DELIVERY_S: Final = 15.0
"""The time for which a producer tries to deliver a batch, in seconds."""

ACKS_ALL: Final = -1
NO_PRODUCER: Final = (-1, -1)
LOST_PRODUCER: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)
"""The errors after which an idempotent producer requests a new id."""


class SimulatedProducer(SimulatedClient):
    """A producer that sends each batch until it is acked or rejected, or ``DELIVERY_S`` have
    passed.

    Args:
        topic_ids: A function that returns the id of the topic that has a name now, as far as the
            world knows.
        answers: The model that learns of each producer id.
        clock_offset_ms: How far its clock is ahead of the others. None means that it sends no
            timestamps, unless it is idempotent. A producer that was last heard of at time -1 is
            forgotten, as by Kafka, at the next check of ``producer.id.expiration.ms``.
    """

    def __init__(
        self,
        name: str,
        brokers: Sequence[int],
        history: ClientHistory,
        topic_ids: Any,
        *,
        idempotent: bool,
        answers: AnswersModel,
        clock_offset_ms: int | None = 0,
    ) -> None:
        super().__init__(name, brokers, history)
        self._clock_offset_ms = clock_offset_ms
        self._topic_ids = topic_ids
        self._idempotent = idempotent
        self._answers = answers
        self._values = 0
        self._producer = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}
        self._locks: dict[TopicPartition, asyncio.Lock] = {}

    async def produce(self, work: ProduceBatches) -> None:
        """Send one burst."""
        tp = TopicPartition(work.topic, work.partition)
        lock = self._locks.setdefault(tp, asyncio.Lock())
        if self._idempotent and work.in_flight > 1:
            async with lock:
                await self._pipeline(tp, work)
            return
        for number in range(work.batches):
            if number:
                await asyncio.sleep(work.pause_ms / 1000)
            if self._idempotent:  # sequence numbers go up from batch to batch
                async with lock:
                    await self._send_in_sequence(tp, work.records)
            else:
                await self._send(self._flight(tp, work.acks, work.records, (*NO_PRODUCER, -1)))

    # --- idempotent ---------------------------------------------------------------------------

    async def _send_in_sequence(self, tp: TopicPartition, count: int) -> None:
        if self._producer == NO_PRODUCER and not await self._request_producer_id():
            return
        producer, sequence = self._producer, self._sequences.get(tp, 0)
        sent, batch = self._flight(tp, ACKS_ALL, count, (*producer, sequence))
        error = await self._send((sent, batch))
        if error is ErrorCode.none:
            if self._producer == producer:
                self._sequences[tp] = sequence + count
        elif self._producer == producer:  # the outcome of the batch is unknown
            self._producer = NO_PRODUCER

    async def _pipeline(self, tp: TopicPartition, work: ProduceBatches) -> None:
        """Send several batches at once, as clients do.

        A batch keeps its sequence number, and unanswered batches are sent again in order
        (librdkafka's *idempotent producer*, Java's ``RecordAccumulator``).
        """
        left = work.batches
        while left:
            if self._producer == NO_PRODUCER and not await self._request_producer_id():
                return
            left -= await self._pipeline_as(self._producer, tp, work, left)

    async def _pipeline_as(
        self, producer: tuple[int, int], tp: TopicPartition, work: ProduceBatches, batches: int
    ) -> int:
        """Send until all batches are acked or the producer's id is lost, and return the number
        sent.

        The very first batch is sent alone. A log that does not know a producer accepts any first
        sequence number (KIP-360), and would accept the second batch before the first.
        """
        window, sent, sequence = Window(), 0, self._sequences.get(tp, 0)
        while window or sent < batches:
            ahead = work.in_flight if tp in self._sequences else 1
            while sent < batches and window.has_room(ahead):
                window.add(self._flight(tp, ACKS_ALL, work.records, (*producer, sequence)))
                sent, sequence = sent + 1, sequence + work.records
            errors = await self._try_all(tp, window)
            if self._producer != producer:  # the id was lost by a batch of another partition
                return sent
            if self._is_lost(window, errors):
                self._producer = NO_PRODUCER
                return sent
            window.answered(errors)
            if window:
                self.forget(tp)
            else:
                self._sequences[tp] = sequence
            await asyncio.sleep(max(work.pause_ms / 1000, PAUSE_S if window else 0.0))
        return sent

    async def _try_all(self, tp: TopicPartition, window: Window) -> list[ErrorCode | None]:
        """Send each batch once, in order. The task that looks up the leader first sends first."""
        if await self.leader(tp) is None:
            return [ErrorCode.leader_not_available for _ in window.flights]
        return await asyncio.gather(*(self._try(*flight) for flight in window.flights))

    def _is_lost(self, window: Window, errors: Sequence[ErrorCode | None]) -> bool:
        """Return whether the producer's id is lost.

        It is lost if the oldest batch was rejected for its sequence number. Later batches may be
        rejected only because an earlier one is missing. It is also lost if the time of the oldest
        batch is over, because its outcome is unknown.
        """
        oldest, _ = window.flights[0]
        if errors[0] in LOST_PRODUCER:
            return True
        left = errors[0] is not ErrorCode.none
        return left and _now() >= oldest.sent_at + DELIVERY_S

    async def _request_producer_id(self) -> bool:
        try:
            response = await self.ask_any(new_producer_id())
        except Disconnected:
            return False
        if response.error_code is not ErrorCode.none:
            return False
        self._answers.id_given(response.producer_id)
        self._producer = (response.producer_id, response.producer_epoch)
        self._sequences.clear()
        return True

    # --- batches ------------------------------------------------------------------------------

    def _flight(
        self, tp: TopicPartition, acks: int, count: int, producer: tuple[int, int, int]
    ) -> Flight:
        batch = self._batch(count, producer)
        sent = SentBatch(
            tp=tp,
            topic_id=self._topic_ids(tp.topic),
            acks=acks,
            crc=batch.crc,
            count=count,
            sent_at=_now(),
            timestamp=batch.max_timestamp,
            producer=producer[0],
            sequence=producer[2],
        )
        self.history.sent.append(sent)
        return sent, batch

    async def _send(self, flight: Flight) -> ErrorCode | None:
        """Send until an answer is final, and return the last answer, or None if there was none."""
        sent, batch = flight
        error: ErrorCode | None = None
        while _now() < sent.sent_at + DELIVERY_S:
            error = await self._try(sent, batch)
            if error is ErrorCode.none or error in LOST_PRODUCER:
                return error
            self.forget(sent.tp)
            await asyncio.sleep(PAUSE_S)
        return error

    async def _try(self, sent: SentBatch, batch: RecordBatch) -> ErrorCode | None:
        """Send once, and return the answer, or None if there was none."""
        error = await self._ask_leader(sent, batch)
        self.history.count(f"produce, acks={sent.acks}: {_name(error)}")
        return error

    async def _ask_leader(self, sent: SentBatch, batch: RecordBatch) -> ErrorCode | None:
        leader = await self.leader(sent.tp)
        if leader is None:
            return ErrorCode.leader_not_available
        data = PartitionProduceData(index=sent.tp.partition, records=bytes(batch.raw))
        request = ProduceRequest(
            version=8,
            acks=sent.acks,
            timeout_ms=2_000,
            topic_data=(TopicProduceData(name=sent.tp.topic, partition_data=(data,)),),
        )
        if sent.acks == 0:
            return await self._send_unacknowledged(leader, request)
        try:
            response = await self.ask(leader, request)
        except Disconnected:
            return None
        answer = response.responses[0].partition_responses[0]
        error: ErrorCode = answer.error_code
        if error is ErrorCode.none:
            sent.offset = answer.base_offset
        return error

    async def _send_unacknowledged(self, leader: int, request: ProduceRequest) -> ErrorCode | None:
        """Send with acks=0 on a connection of its own.

        There will be no response. On a shared connection, the response to the next request would be
        taken for it.
        """
        connection = BrokerConnection(host_of(leader), PORT, self.name)
        try:
            await connection.call(request, PAUSE_S)
        except Disconnected:
            pass
        finally:
            await connection.close()
        return ErrorCode.none

    def _batch(self, count: int, producer: tuple[int, int, int]) -> RecordBatch:
        values = range(self._values + 1, self._values + 1 + count)
        self._values += count
        records = [f"{self.name}/{v}".encode() for v in values]
        if self._clock_offset_ms is None and not self._idempotent:
            return parse_batch(without_timestamps(encode_batch(records, producer)))
        times_ms = [wall_ms() + (self._clock_offset_ms or 0)] * count
        return parse_batch(encode_batch(records, producer, times_ms=times_ms))


def new_producer_id() -> InitProducerIdRequest:
    """Return the request of an idempotent producer without transactions for an id."""
    return InitProducerIdRequest(version=1, transactional_id=None, transaction_timeout_ms=1_000)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _name(error: ErrorCode | None) -> str:
    if error is None:
        return "no answer"
    return "acked" if error is ErrorCode.none else error.name
