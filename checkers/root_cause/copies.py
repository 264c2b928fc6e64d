"""Remaining copies of lost records in the raw logs that were collected of all replicas.

A record is searched at the offset at which it was acked, in the log of every replica, in sync or
not. A batch of the same leader epoch as the final log's record at that offset is the same batch,
and is not decoded. Three kinds of copies are not found: one at another offset, one beyond the end
of the final log on a replica that was copied earlier, and one that was truncated before the logs
were collected.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.index.raw_logs import OtherFormat, RawBatch, RawLog, Undecodable, contents
from ackproof.history.payload import Identity
from ackproof.history.storage import AnyPath

Copies = Mapping[int, Sequence[int]]
"""For each offset, the brokers whose logs hold the record that was acked there, if any."""

LOOKED_FOR_MAX = 20_000
"""The greatest number of lost records of a partition that are searched, because decoding batches
takes time."""


def copies(
    logs: Sequence[tuple[int, AnyPath]], wanted: Mapping[int, Identity], stands: Mapping[int, int]
) -> Copies | None:
    """Return the brokers whose logs hold the wanted records, by offset, for records with a copy.
    Return None if no log could be examined.

    Args:
        logs: The broker and the directory of each log.
        wanted: The record that was acked at each offset.
        stands: The epoch of the final log's record at each offset.
    """
    if not logs or not wanted or len(wanted) > LOOKED_FOR_MAX:
        return None
    offsets = np.array(sorted(wanted), dtype=np.int64)
    found: dict[int, list[int]] = {}
    for broker, directory in logs:
        try:
            for batch in RawLog(directory).batches(int(offsets[0]), int(offsets[-1]) + 1):
                for offset in _held(batch, offsets, wanted, stands):
                    found.setdefault(offset, []).append(broker)
        except (OtherFormat, OSError):
            return None
    return found


def _held(
    batch: RawBatch, offsets: Array, wanted: Mapping[int, Identity], stands: Mapping[int, int]
) -> list[int]:
    first, last = np.searchsorted(offsets, [batch.base_offset, batch.last_offset + 1])
    places = [
        offset
        for offset in offsets[first:last].tolist()
        if stands.get(offset, NONE) != batch.leader_epoch
    ]
    if not places:
        return []
    try:
        held = contents(batch)
    except Undecodable:
        return []
    return [at for at in places if at in held and held[at].identity == wanted[at]]
