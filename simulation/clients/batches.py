"""Record batches as clients make them."""

import asyncio
import datetime
import io
from collections.abc import Sequence

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from simulation.machines.node import BEGINNING_WALL_MS


def encoded(
    values: Sequence[bytes],
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
) -> bytes:
    """A batch of now. ``producer``: id, epoch and first sequence number."""
    now_s = BEGINNING_WALL_MS / 1000 + asyncio.get_running_loop().time()
    moment = TZAwareMicros.parse(datetime.datetime.fromtimestamp(now_s, datetime.UTC))
    records = tuple(
        Record(
            attributes=i8(0),
            timestamp=moment,
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
