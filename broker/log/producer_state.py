"""The idempotent producers of a log, remembered so that it accepts each batch once and in order
(KIP-98). They are kept through truncation, retention and restarts."""

import logging
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from crc32c import crc32c
from kio.schema.errors import ErrorCode

from ackproof.broker.log.disk import Directory, Steps, carry_out
from ackproof.broker.log.validator import RefusedBatch
from ackproof.broker.types import Offset, ProducerId, value
from ackproof.broker.wire.batch import RecordBatch

logger = logging.getLogger(__name__)


# --- state ----------------------------------------------------------------------------------------
#
# What a log remembers of idempotent producers, so that it accepts each batch once and in order.
#
# A producer numbers its records per partition from 0 on (KIP-98). A batch is accepted when its
# first number follows the last one accepted. One of the last five batches may be sent again because
# its answer was lost. It is recognised by its numbers and answered with the offsets it has. Five is
# the number of requests that a client may have in flight
# (``max.in.flight.requests.per.connection``). A new epoch of the same producer starts again at 0
# and fences the earlier epochs.
#
# As in Kafka 3.x, an unknown producer may begin with any number. Its records may have been removed
# by retention, or it was silent for ``producer.id.expiration.ms``. UNKNOWN_PRODUCER_ID and
# DUPLICATE_SEQUENCE_NUMBER, which older brokers answered, are therefore never answered (KIP-360). A
# repetition older than five batches is OUT_OF_ORDER_SEQUENCE_NUMBER.
#
# This part is logic alone: the batches of the log come in through ``note``, in the order of the
# log, on leaders and followers alike. How it survives a restart: :mod:`broker.log.producer_state`.
# Transactions are not handled, and their markers are ignored.


BATCHES_REMEMBERED = 5
SEQUENCES = 2**31
"""The number of sequence numbers: after the last one comes 0 again."""


@value(kw_only=True)
class Appended:
    """A batch in the log. ``timestamp`` is its greatest one, in ms."""

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
    """A producer's latest epoch and its last batches, oldest first. There is at least one."""

    epoch: int
    batches: tuple[Appended, ...]

    @property
    def last(self) -> Appended:
        """Its last batch."""
        return self.batches[-1]

    def find(self, batch: RecordBatch) -> Appended | None:
        """Return the remembered batch that ``batch`` repeats, if there is one."""
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
        """Return None if a client's batch must be appended, or its place in the log if it is there
        already.

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
        """Note that ``batch`` has been appended, by a leader or a follower."""
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
        """Add further batches of a producer, and forget those of another epoch."""
        known = self._producers.get(producer)
        before = known.batches if known is not None and known.epoch == epoch else ()
        kept = (*before, *batches)[-BATCHES_REMEMBERED:]
        self._producers[producer] = Producer(epoch, kept)

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers whose last batch is as old as ``producer.id.expiration.ms``."""
        self._producers = {
            producer: known
            for producer, known in self._producers.items()
            if now_ms - known.last.timestamp < expiration_ms
        }


def last_sequence(batch: RecordBatch) -> int:
    """Return the sequence number of the batch's last record."""
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


# --- snapshots ------------------------------------------------------------------------------------
#
# ``<offset>.snapshot``: the producers of a log as they were just below ``offset``, on disk.
#
# Kafka's format (``ProducerStateManager``), big-endian::
#
#     0  int16   version                  1
#     2  uint32  CRC-32C of everything from byte 6 on
#     6  int32   count of entries, each of 42 bytes:
#                int64 producer id, int16 epoch, int32 last sequence, int64 last offset,
#                int32 offset delta, int64 timestamp, int32 coordinator epoch (-1),
#                int64 first offset of the current transaction (-1)
#
# Kafka writes one entry per producer, its last batch, and so no longer recognises the four before
# it once it has started from a snapshot. Here a producer has up to five entries, oldest first;
# Kafka, which keeps the last entry it meets of each producer, reads that as well.


SNAPSHOT_SUFFIX = ".snapshot"

_VERSION = 1
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_NO_TRANSACTION = (-1, -1)


class CorruptSnapshot(Exception):
    """A file that is not a valid snapshot."""


def encode(state: ProducerState) -> bytes:
    """Return the content of a snapshot file."""
    entries = [
        _ENTRY.pack(
            producer,
            known.epoch,
            sent.last_sequence,
            sent.last_offset,
            sent.last_offset - sent.base_offset,
            sent.timestamp,
            *_NO_TRANSACTION,
        )
        for producer, known in state.producers.items()
        for sent in known.batches
    ]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEADER.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> ProducerState:
    """Return the producers in a snapshot file, except those that only ever had transaction markers.

    Raises:
        CorruptSnapshot: wrong version, CRC or length.
    """
    try:
        version, crc = _HEADER.unpack_from(data)
        (count,) = _COUNT.unpack_from(data, _HEADER.size)
    except struct.error as error:
        raise CorruptSnapshot(f"{len(data)} bytes are too few") from error
    body = memoryview(data)[_HEADER.size :]
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}, expected {_VERSION}")
    if crc32c(body) != crc:
        raise CorruptSnapshot(f"CRC-32C is not {crc:#010x}")
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{len(data)} bytes do not hold {count} entries")
    state = ProducerState()
    for producer, epoch, sent in _entries(body[_COUNT.size :]):
        state.restore(producer, epoch, [sent])
    return state


def _entries(body: memoryview) -> Iterator[tuple[ProducerId, int, Appended]]:
    for producer, epoch, sequence, offset, delta, timestamp, *_ in _ENTRY.iter_unpack(body):
        if offset >= 0:
            sent = Appended(
                base_sequence=(sequence - delta) % SEQUENCES,
                last_sequence=sequence,
                base_offset=Offset(offset - delta),
                last_offset=Offset(offset),
                timestamp=timestamp,
            )
            yield ProducerId(producer), epoch, sent


class Snapshots:
    """The snapshot files in a partition's directory."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._under_way: set[int] = set()

    @property
    def offsets(self) -> tuple[int, ...]:
        """The offsets of all snapshots, ascending."""
        return tuple(sorted(map(int, self._directory.stems(SNAPSHOT_SUFFIX))))

    def write_steps(self, offset: int, content: bytes) -> Steps:
        """Write ``<offset>.snapshot``, durably, unless it becomes unwanted meanwhile."""
        self._under_way.add(offset)
        try:
            yield from self._directory.replace_steps(_name(offset), content)
        finally:
            self._under_way.discard(offset)

    def read(self, offset: int) -> ProducerState:
        """Return the content of ``<offset>.snapshot``. Raise CorruptSnapshot if it is damaged."""
        return decode(self._directory.read(_name(offset)))

    def remove(self, unwanted: Callable[[int], bool]) -> None:
        """Remove, durably, the snapshots whose offset is ``unwanted``."""
        for offset in filter(unwanted, tuple(self._under_way)):
            self._directory.abandon(_name(offset))
        unneeded = [offset for offset in self.offsets if unwanted(offset)]
        for offset in unneeded:
            self._directory.remove(_name(offset))
        if unneeded:
            self._directory.sync()


def _name(offset: int) -> str:
    return f"{offset:020d}{SNAPSHOT_SUFFIX}"


# --- producers of a log ---------------------------------------------------------------------------
#
# The idempotent producers of a log, kept through truncation, retention and restarts.
#
# The memory (:class:`~broker.log.producer_state.ProducerState`) could be restored from the log
# alone, with two exceptions. A start would read all of the log, and retention removes producers'
# last batches. The state is therefore written to a snapshot whenever a segment begins and when the
# log is closed. It is restored from the latest snapshot that is not above the log's end, and the
# batches after it. A snapshot that cannot be read is skipped: the previous one, or the log, has the
# same information.


BatchesFrom = Callable[[int], Iterable[RecordBatch]]
"""The batches of a log from the one that holds an offset on."""


class LogProducers:
    """The producer state of one log. ``state`` is replaced when the log loses its end."""

    def __init__(self, directory: Directory) -> None:
        """Create an empty state, until ``load``."""
        self.state = ProducerState()
        self._directory = directory
        self._snapshots = Snapshots(directory)

    def load(self, bases: Collection[int], end: int, batches_from: BatchesFrom) -> None:
        """Restore the producers of a log that ends at ``end``.

        Args:
            bases: the base offsets of the segments. Only their snapshots and the latest are kept.
        """
        # Suppose there is a snapshot of 20, and the log is truncated to 10 and grows past 20 again.
        # The snapshot would answer a retry of a producer with offsets that now hold other records.
        self._snapshots.remove(lambda offset: offset > end)
        found = self._latest()
        self._snapshots.remove(lambda offset: offset not in bases and offset != found)
        for batch in batches_from(min(bases) if found is None else found):
            self.state.note(batch)

    def snapshot(self, end: int) -> None:
        """Write the state to disk. Everything below ``end`` must be durable and noted."""
        carry_out(self.snapshot_steps(end, self.encoded()))

    def encoded(self) -> bytes:
        """Return the current state, encoded for ``snapshot_steps``."""
        return encode(self.state)

    def snapshot_steps(self, end: int, content: bytes) -> Steps:
        """Write the state at ``end`` to disk. Everything below ``end`` must be durable."""
        if not self.has_snapshot(end):
            yield from self._snapshots.write_steps(end, content)

    def has_snapshot(self, offset: int) -> bool:
        """Return whether the state at ``offset`` is on disk."""
        return offset in self._snapshots.offsets

    def forget_segments(self, bases: Collection[int]) -> None:
        """Remove the snapshots of segments that are gone. The producers stay."""
        self._snapshots.remove(lambda offset: offset in bases)

    def clear(self) -> None:
        """Forget all producers, on disk as well."""
        self.state = ProducerState()
        self._snapshots.remove(lambda _: True)

    def _latest(self) -> int | None:
        """Take over the latest snapshot, and return its offset, or None when there is none."""
        self.state = ProducerState()
        for offset in reversed(self._snapshots.offsets):
            try:
                self.state = self._snapshots.read(offset)
            except CorruptSnapshot as error:
                logger.warning("%s/%020d.snapshot: %s", self._directory.path, offset, error)
                self._snapshots.remove(lambda bad, offset=offset: bad == offset)  # type: ignore[misc]
            else:
                return offset
        return None
