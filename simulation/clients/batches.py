"""Record batches as clients encode them."""

import asyncio
import datetime
import io
import struct
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c
from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from simulation.machines.node import BEGINNING_WALL_MS

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
