"""Where copies of lost records remain: in the raw logs that were collected of all replicas.

A record is looked for at the offset at which it was acked, in every replica's log, in sync or not.
A batch of the same leader epoch as what the final log holds at that offset is the same batch, and
is not opened. What is not seen: a copy at another offset, one behind the end of the final log of a
replica that was copied before, and one that had been cut before the logs were collected."""

from collections.abc import Mapping, Sequence

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.index.raw_logs import Batch, OtherFormat, RawLog, Undecodable, contents
from ackproof.history.payload import Identity
from ackproof.history.storage import AnyPath

Copies = Mapping[int, Sequence[int]]
"""By offset, the brokers whose logs hold the record that was acked there, if any does."""

LOOKED_FOR_MAX = 20_000
"""Lost records of a partition that are looked for; opening batches takes a task's time."""


def copies(
    logs: Sequence[tuple[int, AnyPath]], wanted: Mapping[int, Identity], stands: Mapping[int, int]
) -> Copies | None:
    """Which brokers' logs hold which records: by offset, those of which a copy was found. None
    where nothing could be looked at.

    Args:
        logs: Broker and directory.
        wanted: Whose record it is that was acked at an offset.
        stands: The epoch of what the final log holds at an offset.
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
    batch: Batch, offsets: Array, wanted: Mapping[int, Identity], stands: Mapping[int, int]
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
