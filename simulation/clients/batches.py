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
    times_ms: Sequence[int] | None = None,
) -> bytes:
    """A batch. ``producer``: id, epoch and first sequence number. ``times_ms``: of each record,
    since 1970; None: now."""
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


def wall_ms() -> int:
    """Of a clock that is right."""
    return BEGINNING_WALL_MS + int(asyncio.get_running_loop().time() * 1000)


def _moment(timestamp_ms: int) -> TZAwareMicros:
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    return TZAwareMicros.parse(moment)
