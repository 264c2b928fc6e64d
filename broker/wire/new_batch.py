"""Batches that the broker itself writes, for its internal topics."""

import datetime
import io
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kio.records.schema import NewRecordBatch, Record
from kio.records.writers import write_batch
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from ackproof.broker.wire.batch import HEADER_BYTES, RecordBatch, parse_batch

RECORDS_MAX: Final = 500
"""In one batch: kio takes its time for each."""

RECORD_BYTES_MAX: Final = 32
"""What a record takes at most beside its key and value: lengths, deltas, attributes, headers."""


class KeyValue(NamedTuple):
    """A record to be; a null value is a tombstone."""

    key: bytes
    value: bytes | None


def new_batch(records: Sequence[KeyValue], timestamp_ms: int) -> RecordBatch:
    """One uncompressed batch of at least one record, from no producer.

    Args:
        timestamp_ms: of every record, in ms since 1970; kio rounds it to within a millisecond.
    """
    moment = datetime.datetime.fromtimestamp(timestamp_ms / 1000, datetime.UTC)
    timestamp = TZAwareMicros.parse(moment)
    with io.BytesIO() as buffer:
        write_batch(
            buffer,
            NewRecordBatch(
                producer_id=i64(-1),
                producer_epoch=i16(-1),
                base_sequence=i32(-1),
                attributes=i16(0),
                records=tuple(
                    Record(
                        attributes=i8(0),
                        timestamp=timestamp,
                        offset=i64(number),
                        key=key,
                        value=value,
                        headers=(),
                    )
                    for number, (key, value) in enumerate(records)
                ),
            ),
        )
        return parse_batch(buffer.getvalue(), verify_crc=False)


def split(records: Sequence[KeyValue], max_bytes: int) -> Iterator[Sequence[KeyValue]]:
    """The records in order, in parts whose batches have no more than ``max_bytes`` each; a record
    that alone is larger is a part of its own."""
    part: list[KeyValue] = []
    size = HEADER_BYTES
    for record in records:
        more = len(record.key) + len(record.value or b"") + RECORD_BYTES_MAX
        if part and (size + more > max_bytes or len(part) == RECORDS_MAX):
            yield part
            part, size = [], HEADER_BYTES
        part.append(record)
        size += more
    if part:
        yield part
