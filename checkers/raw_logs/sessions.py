"""Which session of its producer wrote a record, as the raw logs tell and consumers are not told.

Idempotence holds within one session, that is one producer id and epoch (KIP-98). A client may begin
another by itself (KIP-360), and sends again what it has no answer of: librdkafka 2.16 does whenever
a request is refused because one before it failed (confluentinc/librdkafka#4953).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from ackproof.checkers.raw_logs.segments import Batch, OtherFormat, RawLog
from ackproof.history.storage import AnyPath

_UNKNOWN = -1
_SEQUENCES = 2**31
"""From 0 on again behind the highest int32, as Kafka's *DefaultRecordBatch* counts."""

Session: TypeAlias = tuple[int, int]
"""Producer id and producer epoch."""


class Written(NamedTuple):
    """What a batch says of one of its records: in which session it was written, and which number it
    has there. All of a producer that is not idempotent are -1."""

    producer_id: int
    producer_epoch: int
    sequence: int

    @property
    def session(self) -> Session:
        """In which session."""
        return self.producer_id, self.producer_epoch


UNTOLD: Mapping[int, Written] = MappingProxyType({})


def written(copies: Sequence[AnyPath], epochs: Mapping[int, int]) -> Mapping[int, Written]:
    """By offset, as far as the first of a partition's raw logs tells that has all of them;
    :data:`UNTOLD` where none has. ``epochs``: by offset, the leader epoch of what is asked for
    there, -1 where nobody knows: a batch of another epoch is another one."""
    for directory in copies if epochs else ():
        try:
            found = _of(RawLog(directory), epochs)
        except (OtherFormat, OSError):
            continue
        if len(found) == len(epochs):
            return found
    return UNTOLD


def _of(log: RawLog, epochs: Mapping[int, int]) -> Mapping[int, Written]:
    found: dict[int, Written] = {}
    offsets = sorted(epochs)
    wanted = iter(offsets)
    offset = next(wanted, None)
    for batch in log.batches(offsets[0], offsets[-1] + 1):
        while offset is not None and offset <= batch.last_offset:
            same = epochs[offset] in (_UNKNOWN, batch.leader_epoch)
            if offset >= batch.base_offset and same and batch.intact:
                found[offset] = _written(batch, offset)
            offset = next(wanted, None)
    return found


def _written(batch: Batch, offset: int) -> Written:
    sequence = _UNKNOWN
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + offset - batch.base_offset) % _SEQUENCES
    return Written(batch.producer_id, batch.producer_epoch, sequence)
