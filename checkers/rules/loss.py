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
    gone = partition.lost
    offsets = partition.acked_offset[gone]
    ends = (_ending(partition, int(offset)) for offset in offsets)
    seen = None if partition.seen is None else partition.seen[gone]
    return rows(partition, "lost", records=gone, offsets=offsets, details=ends, seen=seen)


def offset_mismatch(partition: PartitionHistory) -> pa.Table:
    """Records whose acks name an offset that is not theirs: one row a record.

    - It stands in the log, but only at other offsets. E.g. one acked copy was truncated away and an
      earlier attempt's copy stayed.
    - Another record was acked at the same offset. It is the one of them that does not stand there;
      where none does, or the log was not read so far, all but the one that was acked last: it was
      theirs before.
    """
    details = _shared(partition) | _moved(partition)
    records = np.array(sorted(details), dtype=np.int64)
    offsets = partition.acked_offset[records]
    told = (details[int(record)] for record in records)
    return rows(partition, "offset-mismatch", records=records, offsets=offsets, details=told)


def _moved(partition: PartitionHistory) -> dict[int, str]:
    named = np.flatnonzero(
        (partition.fate == Fate.ACKED)
        & (partition.acked_offset != NONE)
        & (partition.first != NONE)
    )
    elsewhere = named[partition.first_offset(named) != partition.acked_offset[named]]
    moved = elsewhere[partition.at_acked_offset()[elsewhere] == NONE]
    return {
        int(record): f"acked at offset {acked}, stands at {stands}; "
        f"offset {acked} now holds {partition.standing_at(int(acked))}"
        for record, acked, stands in zip(
            moved, partition.acked_offset[moved], partition.first_offset(moved), strict=True
        )
    }


def _shared(partition: PartitionHistory) -> dict[int, str]:
    """Of the records that were acked at one offset, those whose it is not, and whose it is."""
    named = partition.named_acks
    stands = partition.at_acked_offset()[named] != NONE
    offsets = partition.acked_offset[named]
    # Whose it is comes last of its offset: who stands there, else who was acked last.
    order = np.lexsort((partition.time[named], stands, offsets))
    named, offsets = named[order], offsets[order]
    last = np.append(np.flatnonzero(np.diff(offsets)), len(offsets) - 1)
    owner = named[last[np.searchsorted(last, np.arange(len(offsets)))]] if len(named) else named
    others = named != owner
    return {
        int(record): f"acked at offset {offset}, as was {partition.name(whose)}"
        for record, offset, whose in zip(named[others], offsets[others], owner[others], strict=True)
    }


def _ending(partition: PartitionHistory, offset: int) -> str:
    start, end = partition.read.start, partition.read.end
    if offset == NONE:
        return "acked without an offset"
    if end is not None and offset >= end:
        return f"acked at offset {offset}; truncated: the log ends at {end}"
    if start is not None and offset < start:
        return f"acked at offset {offset}; the log starts at {start}"
    return f"acked at offset {offset}; rewritten: it now holds {partition.standing_at(offset)}"
