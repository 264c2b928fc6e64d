"""Batches that no client of Kafka sends, and that a leader must refuse, whatever its CRC says.

Taken, they would be there for good: a reader that knows of transactions waits for their end, one
that counts offsets by what a header says misses others' records.
"""

import struct
from collections.abc import Iterator
from typing import Final

from kio.schema.errors import ErrorCode

from ackproof.broker.server.replication import partition as server
from simulation.clients.batches import encoded, patched

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
_MAGIC_AT, _DELTA_AT, _COUNT_AT = 16, 23, 57
_MANY: Final = 1_000_000


def batches(leading: server.Partition) -> Iterator[tuple[str, bytes, ErrorCode]]:
    """What it is, and how it is refused; others by what the topic's settings say."""
    good = encoded([b"v"])
    invalid = ErrorCode.invalid_record
    yield "a batch of a transaction", _of(TRANSACTIONAL), ErrorCode.invalid_txn_state
    yield "a control batch", _of(CONTROL), invalid
    yield "a batch with the broker's time", _of(LOG_APPEND_TIME), ErrorCode.invalid_timestamp
    yield "a batch of format 1", good[:_MAGIC_AT] + b"\1" + good[_MAGIC_AT + 1 :], invalid
    yield "a batch at offset 5", struct.pack(">q", 5) + good[8:], invalid
    yield "a batch with a gap", patched(good, _DELTA_AT, ">i", 5), invalid
    many = patched(patched(good, _COUNT_AT, ">i", _MANY), _DELTA_AT, ">i", _MANY - 1)
    yield "a batch with more records than it has room for", many, invalid
    yield "a producer's batch without a number", encoded([b"v"], (7, 0, -1)), invalid
    limit = leading.log.config.segment_bytes
    if limit < leading.config.max_message_bytes:
        large = encoded([bytes(limit)])
        yield "a batch that is larger than a segment", large, ErrorCode.record_list_too_large


def _of(attributes: int) -> bytes:
    return encoded([b"v"], attributes=attributes)
