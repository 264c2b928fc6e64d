"""Which session of its producer wrote a record, as the raw logs tell and consumers are not told.

Idempotence holds within one session, that is one producer id and epoch (KIP-98). A client may begin
another by itself (KIP-360), and sends again what it has no answer of: librdkafka 2.16 does whenever
a request is refused because one before it failed (confluentinc/librdkafka#4953).
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from checkers.replicas.segments import OtherFormat, RawLog

Session: TypeAlias = tuple[int, int]
"""Producer id and producer epoch; the id of a producer that is not idempotent is -1."""

UNTOLD: Mapping[int, Session] = MappingProxyType({})


def sessions(copies: Sequence[Path], offsets: Collection[int]) -> Mapping[int, Session]:
    """By offset, as far as the first of a partition's raw logs tells that has all of them;
    :data:`UNTOLD` where none has."""
    for directory in copies if offsets else ():
        try:
            found = _of(RawLog(directory), sorted(offsets))
        except (OtherFormat, OSError):
            continue
        if len(found) == len(set(offsets)):
            return found
    return UNTOLD


def _of(log: RawLog, offsets: Sequence[int]) -> Mapping[int, Session]:
    found: dict[int, Session] = {}
    wanted = iter(offsets)
    offset = next(wanted, None)
    for batch in log.batches(offsets[0], offsets[-1] + 1):
        while offset is not None and offset <= batch.last_offset:
            if offset >= batch.base_offset and batch.intact:
                found[offset] = (batch.producer_id, batch.producer_epoch)
            offset = next(wanted, None)
    return found
