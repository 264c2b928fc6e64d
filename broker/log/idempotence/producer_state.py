"""What a log remembers of idempotent producers, so that it takes each batch once and in order.

A producer numbers its records per partition from 0 on (KIP-98). A batch is taken when its first
number follows the last one taken; one of the last five batches, sent again because its answer got
lost, is recognised by its numbers and answered with the offsets it has. Five is what a client may
have under way at once (``max.in.flight.requests.per.connection``). A new epoch of the same
producer starts again at 0 and shuts out the epochs before it.

As in Kafka 3.x, a producer that is not known may begin with any number: its records may have gone
with retention, or it was silent for ``producer.id.expiration.ms``. UNKNOWN_PRODUCER_ID and
DUPLICATE_SEQUENCE_NUMBER, which older brokers answered, are therefore never answered (KIP-360); a
repetition older than five batches is OUT_OF_ORDER_SEQUENCE_NUMBER.

This is logic alone: what is in the log comes in through ``note``, in the order of the log, on
leaders and followers alike. How it survives a restart: :mod:`broker.log.idempotence.producers`.
Transactions are not handled; their markers are passed over.
"""

from collections.abc import Iterable, Mapping

from kio.schema.errors import ErrorCode

from ackproof.broker.log.refused import RefusedBatch
from ackproof.broker.types import Offset, ProducerId, value
from ackproof.broker.wire.batch import RecordBatch

BATCHES_REMEMBERED = 5
SEQUENCES = 2**31
"""After the last sequence number comes 0 again."""


@value(kw_only=True)
class Appended:
    """A batch in the log; ``timestamp`` is its greatest one, in ms."""

    base_sequence: int
    last_sequence: int
    base_offset: Offset
    last_offset: Offset
    timestamp: int

    @property
    def next_offset(self) -> Offset:
        """The offset after its last record."""
        return Offset(self.last_offset + 1)


@value()
class Producer:
    """A producer's latest epoch and the last batches of it, oldest first; there is at least one."""

    epoch: int
    batches: tuple[Appended, ...]

    @property
    def last(self) -> Appended:
        """Its last batch."""
        return self.batches[-1]

    def find(self, batch: RecordBatch) -> Appended | None:
        """The remembered batch of which ``batch`` is a repetition, if there is one."""
        numbers = (batch.base_sequence, last_sequence(batch))
        for known in self.batches:
            if (known.base_sequence, known.last_sequence) == numbers:
                return known
        return None


class ProducerState:
    """The producers of one partition."""

    def __init__(self, producers: Mapping[ProducerId, Producer] | None = None) -> None:
        self._producers = dict(producers or {})

    @property
    def producers(self) -> Mapping[ProducerId, Producer]:
        """Every producer that is remembered."""
        return self._producers

    def check(self, batch: RecordBatch) -> Appended | None:
        """Whether a client's batch is to be appended: None, or where it was before.

        Raises:
            RefusedBatch: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER.
        """
        known = self._producers.get(ProducerId(batch.producer_id))
        if known is None:
            return None
        if batch.producer_epoch < known.epoch:
            raise RefusedBatch(
                ErrorCode.invalid_producer_epoch,
                f"producer {batch.producer_id} has epoch {known.epoch}, "
                f"this batch is of epoch {batch.producer_epoch}",
            )
        if batch.producer_epoch > known.epoch:
            _expect(0, batch)
            return None
        repeated = known.find(batch)
        if repeated is None:
            _expect(_after(known.last.last_sequence), batch)
        return repeated

    def note(self, batch: RecordBatch) -> None:
        """``batch`` has been appended, whoever decided so."""
        if batch.producer_id < 0 or batch.is_control:
            return
        appended = Appended(
            base_sequence=batch.base_sequence,
            last_sequence=last_sequence(batch),
            base_offset=Offset(batch.base_offset),
            last_offset=Offset(batch.last_offset),
            timestamp=batch.max_timestamp,
        )
        self.restore(ProducerId(batch.producer_id), batch.producer_epoch, [appended])

    def restore(self, producer: ProducerId, epoch: int, batches: Iterable[Appended]) -> None:
        """Adds a producer's further batches; those of another epoch are forgotten."""
        known = self._producers.get(producer)
        before = known.batches if known is not None and known.epoch == epoch else ()
        kept = (*before, *batches)[-BATCHES_REMEMBERED:]
        self._producers[producer] = Producer(epoch, kept)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forgets those whose last batch is as old as ``producer.id.expiration.ms``."""
        self._producers = {
            producer: known
            for producer, known in self._producers.items()
            if now_ms - known.last.timestamp < expiration_ms
        }


def last_sequence(batch: RecordBatch) -> int:
    """The sequence number of the batch's last record."""
    return (batch.base_sequence + batch.last_offset_delta) % SEQUENCES


def _after(sequence: int) -> int:
    return (sequence + 1) % SEQUENCES


def _expect(sequence: int, batch: RecordBatch) -> None:
    if batch.base_sequence != sequence:
        raise RefusedBatch(
            ErrorCode.out_of_order_sequence_number,
            f"producer {batch.producer_id}, epoch {batch.producer_epoch}: "
            f"sequence {batch.base_sequence}, expected {sequence}",
        )
