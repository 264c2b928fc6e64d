"""Clients over the real wire code: one host each, with connections, metadata and retries.

Nothing of what a client believes is taken for true: it records what it asked for and what it was
told (:class:`History`), and :mod:`simulation.verdict` judges that against what was promised.
"""

import asyncio
import datetime
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.schema.errors import ErrorCode
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from broker.server.network.broker_connection import BrokerConnection, Disconnected
from broker.types import TopicPartition
from broker.wire.batch import RecordBatch, parse_batch
from broker.wire.message import Request, Response
from broker.wire.messages.init_producer_id import InitProducerIdRequest
from broker.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from broker.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from simulation.actions import Order, Produce
from simulation.coverage import CLIENT, Coverage
from simulation.process import BEGINNING_WALL_MS

R = TypeVar("R", bound=Response)

PORT: Final = 9092
CALL_S: Final = 4.0
PAUSE_S: Final = 0.1
DELIVERY_S: Final = 15.0
"""How long a producer tries to deliver a batch."""

ACKS_ALL: Final = -1
NO_PRODUCER: Final = (-1, -1)
LOST_PRODUCER: Final = frozenset(
    {
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    }
)
"""After these an idempotent producer begins anew."""


@dataclass(slots=True)
class Sent:
    """A batch that a producer sent, once or several times."""

    tp: TopicPartition
    topic_id: object
    """Of the topic that was meant."""
    acks: int
    crc: int
    count: int
    idempotent: bool
    sent_at: float
    offset: int | None = None
    """Where it was acked; None: it was not, or without a word of where (acks=0)."""


@dataclass(slots=True)
class Commit:
    """An offset that a member of a group committed."""

    group: str
    tp: TopicPartition
    topic_id: object
    offset: int
    sent_at: float
    answer: ErrorCode | None = None
    """None: nobody answered."""


@dataclass(slots=True)
class History:
    """What clients did and heard."""

    sent: list[Sent] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    done: list[Order] = field(default_factory=list)
    """Orders of which an administrator was told that they are carried out."""
    extended: Counter[str] = field(default_factory=Counter)
    """How many partitions topics were to have, as an administrator was told they do."""
    coverage: Coverage = field(default_factory=Coverage)

    def count(self, what: str) -> None:
        self.coverage[CLIENT, what] += 1


def host_of(broker: int) -> str:
    """Where a broker is reached."""
    return f"broker-{broker}"


class Client:
    """Asks brokers. ``name`` is its ``client.id``."""

    def __init__(self, name: str, brokers: Sequence[int], history: History) -> None:
        self.name = name
        self.history = history
        self._brokers = tuple(brokers)
        self._connections: dict[int, BrokerConnection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._next = 0

    async def ask(self, broker: int, request: Request[R], timeout_s: float = CALL_S) -> R:
        """The response; raises Disconnected."""
        connection = self._connections.get(broker)
        if connection is None:
            connection = BrokerConnection(host_of(broker), PORT, self.name)
            self._connections[broker] = connection
        return await connection.call(request, timeout_s)

    async def ask_any(self, request: Request[R]) -> R:
        """One broker after the other; raises Disconnected when none answers."""
        for _ in self._brokers[1:]:
            try:
                return await self.ask(self._any(), request)
            except Disconnected:
                pass
        return await self.ask(self._any(), request)

    def _any(self) -> int:
        self._next = (self._next + 1) % len(self._brokers)
        return self._brokers[self._next]

    async def leader(self, tp: TopicPartition) -> int | None:
        """By the metadata that it has, or gets."""
        known = self._leaders.get(tp)
        if known is not None:
            return known
        request = MetadataRequest(
            version=7,
            topics=(MetadataRequestTopic(name=tp.topic),),
            allow_auto_topic_creation=False,
        )
        try:
            response = await self.ask_any(request)
        except Disconnected:
            return None
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.leader_id in self._brokers:
                    found = TopicPartition(topic.name, partition.partition_index)
                    self._leaders[found] = partition.leader_id
        return self._leaders.get(tp)

    def forget(self, tp: TopicPartition) -> None:
        """Somebody else may lead it."""
        self._leaders.pop(tp, None)

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()


class Producer(Client):
    """Sends batches, each until it is acked, refused, or ``DELIVERY_S`` are over.

    ``topic_ids`` names the topic that has a name now, as far as the world knows.
    """

    def __init__(
        self,
        name: str,
        brokers: Sequence[int],
        history: History,
        topic_ids: Any,
        *,
        idempotent: bool,
    ) -> None:
        super().__init__(name, brokers, history)
        self._topic_ids = topic_ids
        self._idempotent = idempotent
        self._values = 0
        self._producer = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}
        self._turns: dict[TopicPartition, asyncio.Lock] = {}

    async def produce(self, work: Produce) -> None:
        """One burst."""
        tp = TopicPartition(work.topic, work.partition)
        for number in range(work.batches):
            if number:
                await asyncio.sleep(work.pause_ms / 1000)
            if self._idempotent:  # sequence numbers go up, one batch after the other
                async with self._turns.setdefault(tp, asyncio.Lock()):
                    await self._send_in_sequence(tp, work.records)
            else:
                await self._send(tp, work.acks, work.records, (*NO_PRODUCER, -1))

    async def _send_in_sequence(self, tp: TopicPartition, count: int) -> None:
        if self._producer == NO_PRODUCER and not await self._begin_anew():
            return
        producer, sequence = self._producer, self._sequences.get(tp, 0)
        error = await self._send(tp, ACKS_ALL, count, (*producer, sequence))
        if error is ErrorCode.none:
            if self._producer == producer:
                self._sequences[tp] = sequence + count
        elif self._producer == producer:  # what became of it nobody knows
            self._producer = NO_PRODUCER

    async def _begin_anew(self) -> bool:
        request = InitProducerIdRequest(
            version=1, transactional_id=None, transaction_timeout_ms=1000
        )
        try:
            response = await self.ask_any(request)
        except Disconnected:
            return False
        if response.error_code is not ErrorCode.none:
            return False
        self._producer = (response.producer_id, response.producer_epoch)
        self._sequences.clear()
        return True

    async def _send(
        self, tp: TopicPartition, acks: int, count: int, producer: tuple[int, int, int]
    ) -> ErrorCode | None:
        """The last answer; None when there was none."""
        batch = self._batch(count, producer)
        sent = Sent(
            tp=tp,
            topic_id=self._topic_ids(tp.topic),
            acks=acks,
            crc=batch.crc,
            count=count,
            idempotent=producer[0] >= 0,
            sent_at=asyncio.get_running_loop().time(),
        )
        self.history.sent.append(sent)
        error: ErrorCode | None = None
        while asyncio.get_running_loop().time() < sent.sent_at + DELIVERY_S:
            error = await self._try(sent, batch)
            self.history.count(f"produce, acks={acks}: {_name(error)}")
            if error is ErrorCode.none or error in LOST_PRODUCER:
                return error
            self.forget(tp)
            await asyncio.sleep(PAUSE_S)
        return error

    async def _try(self, sent: Sent, batch: RecordBatch) -> ErrorCode | None:
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
            return await self._shoot(leader, request)
        try:
            response = await self.ask(leader, request)
        except Disconnected:
            return None
        answer = response.responses[0].partition_responses[0]
        error: ErrorCode = answer.error_code
        if error is ErrorCode.none:
            sent.offset = answer.base_offset
        return error

    async def _shoot(self, leader: int, request: ProduceRequest) -> ErrorCode | None:
        """acks=0: no response will come, and the connection takes no other request, whose
        response would be taken for it."""
        connection = BrokerConnection(host_of(leader), PORT, self.name)
        try:
            await connection.call(request, PAUSE_S)
        except Disconnected:
            pass
        finally:
            await connection.close()
        return ErrorCode.none

    def _batch(self, count: int, producer: tuple[int, int, int]) -> RecordBatch:
        now_s = BEGINNING_WALL_MS / 1000 + asyncio.get_running_loop().time()
        moment = datetime.datetime.fromtimestamp(now_s, datetime.UTC)
        records = []
        for number in range(count):
            self._values += 1
            records.append(
                Record(
                    attributes=i8(0),
                    timestamp=TZAwareMicros.parse(moment),
                    offset=i64(number),
                    key=None,
                    value=f"{self.name}/{self._values}".encode(),
                    headers=(),
                )
            )
        with io.BytesIO() as buffer:
            write_batch(
                buffer,
                NewRecordBatch(
                    producer_id=i64(producer[0]),
                    producer_epoch=i16(producer[1]),
                    base_sequence=i32(producer[2]),
                    attributes=i16(0),
                    records=tuple(records),
                ),
            )
            return parse_batch(buffer.getvalue())


def _name(error: ErrorCode | None) -> str:
    if error is None:
        return "no answer"
    return "acked" if error is ErrorCode.none else error.name
