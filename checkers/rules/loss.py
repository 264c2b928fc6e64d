"""What was acknowledged and is not there, or not where it was said to be."""

import numpy as np
import pyarrow as pa

from checkers.indexes import NONE, Fate, PartitionHistory
from checkers.rules.rows import rows


def lost(partition: PartitionHistory) -> pa.Table:
    """Acked records that are absent from the final log.

    Matched by record, not by offset: after a truncation another record may stand there. Needs the
    whole log, and says nothing where the final read is incomplete.
    """
    acked = partition.fate == Fate.ACKED
    gone = np.flatnonzero(acked & (partition.first == NONE) & partition.read.complete)
    offsets = partition.acked_offset[gone]
    ends = (_ending(partition, int(offset)) for offset in offsets)
    seen = None if partition.seen is None else partition.seen[gone]
    return rows(partition, "lost", records=gone, offsets=offsets, details=ends, seen=seen)


def offset_mismatch(partition: PartitionHistory) -> pa.Table:
    """Records acked at one offset that stand in the log, but only at others.

    E.g. one acked copy was truncated away and an earlier attempt's copy stayed.
    """
    named = np.flatnonzero(
        (partition.fate == Fate.ACKED)
        & (partition.acked_offset != NONE)
        & (partition.first != NONE)
    )
    elsewhere = named[partition.first_offset(named) != partition.acked_offset[named]]
    moved = elsewhere[~partition.stands_where_acked()[elsewhere]]
    details = (
        f"acked at offset {acked}, stands at {stands}; "
        f"offset {acked} now holds {partition.standing_at(int(acked))}"
        for acked, stands in zip(
            partition.acked_offset[moved], partition.first_offset(moved), strict=True
        )
    )
    offsets = partition.acked_offset[moved]
    return rows(partition, "offset-mismatch", records=moved, offsets=offsets, details=details)


def _ending(partition: PartitionHistory, offset: int) -> str:
    start, end = partition.read.start, partition.read.end
    if offset == NONE:
        return "acked without an offset"
    if end is not None and offset >= end:
        return f"acked at offset {offset}; truncated: the log ends at {end}"
    if start is not None and offset < start:
        return f"acked at offset {offset}; the log starts at {start}"
    return f"acked at offset {offset}; rewritten: it now holds {partition.standing_at(offset)}"
