"""Record batches for tests, written by kio's record writers and not by the code under test."""

import datetime
import io
from collections.abc import Sequence

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from ackproof.broker.wire.batch import HEADER_BYTES, RecordBatch, parse_batch
from simulation.clients.producers import patch_batch

NOW_MS = 1_700_000_000_000


def at(ms: int) -> TZAwareMicros:
    return TZAwareMicros.parse(datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC))


def encoded(
    values: Sequence[bytes],
    *,
    timestamps: Sequence[int] = (),
    base_offset: int = 0,
    leader_epoch: int = -1,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    keyed: bool = True,
) -> bytes:
    """One uncompressed batch. Timestamps in ms (multiples of 125, which floats hold exactly).

    ``producer``: its id, its epoch, and the sequence number of the first record.
    ``keyed``: every second record has its place in the batch as its key.
    """
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=at(timestamps[number] if timestamps else NOW_MS),
            offset=i64(base_offset + number),
            key=b"k%d" % number if keyed and number % 2 else None,
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
                partition_leader_epoch=i32(leader_epoch),
                base_sequence=i32(producer[2]),
                records=records,
                attributes=i16(attributes),
            ),
        )
        return buffer.getvalue()


def batch(
    values: Sequence[bytes] = (b"v",),
    *,
    timestamps: Sequence[int] = (),
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> RecordBatch:
    return parse_batch(
        encoded(
            values,
            timestamps=timestamps,
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer=producer,
        )
    )


def with_payload(raw: bytes, payload: bytes, attributes: int) -> bytes:
    """``raw`` with other record bytes and attributes, its length and CRC made right again."""
    whole = raw[:HEADER_BYTES] + payload
    return patch_batch(patch_batch(whole, 8, ">i", len(whole) - 12), 21, ">h", attributes)
