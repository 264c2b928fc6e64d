"""What was acknowledged and is not there, or not where it was said to be."""

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.rules.rows import NOTHING, rows
from ackproof.checkers.rules.words import chosen, in_blocks, joined, names, standing_at


def lost(partition: PartitionHistory) -> pa.Table:
    """Acked records that are absent from the final log.

    Matched by record, not by offset: after a truncation another record may stand there. Needs the
    whole log, and says nothing where the final read is incomplete. What was acked at an offset
    below which records were deleted by order is not lost.
    """
    gone = partition.lost
    if not len(gone):
        return NOTHING
    offsets = partition.acked_offset[gone]
    ends = _endings(partition, offsets)
    seen = None if partition.seen is None else partition.seen[gone]
    return rows(partition, "lost", records=gone, offsets=offsets, details=ends, seen=seen)


def offset_mismatch(partition: PartitionHistory) -> pa.Table:
    """Records whose acks name an offset that is not theirs: one row a record.

    - It stands in the log, but only at other offsets. E.g. one acked copy was truncated away and an
      earlier attempt's copy stayed. Not if it was acked below where records were deleted by order:
      sent twice without idempotence, it stood at 38 and at 117, and the first 100 were deleted.
    - Another record was acked at the same offset. It is the one of them that does not stand there;
      where none does, or the log was not read so far, all but the one that was acked last: it was
      theirs before.
    """
    moved = _moved(partition)
    others, owners = _shared(partition)
    # What stands elsewhere is told so, whoever else was acked there.
    still = ~np.isin(others, moved)
    others, owners = others[still], owners[still]
    records = np.concatenate([moved, others])
    if not len(records):
        return NOTHING
    ascending = np.argsort(records)
    details = in_blocks(lambda some: _moved_words(partition, moved[some]), len(moved))
    if len(others):  # the moved ones are ascending by themselves
        told = _shared_words(partition, others, owners)
        details = pa.concat_arrays([details, told]).take(pa.array(ascending))
    records = records[ascending]
    offsets = partition.acked_offset[records]
    return rows(partition, "offset-mismatch", records=records, offsets=offsets, details=details)


def _moved(partition: PartitionHistory) -> Array:
    """Those that stand in the log, but not at the offset of their ack."""
    named = partition.named_acks
    kept = partition.acked_offset[named] >= partition.deleted_before
    named = named[kept & (partition.first[named] != NONE)]
    elsewhere = named[partition.first_offset(named) != partition.acked_offset[named]]
    moved: Array = elsewhere[partition.at_acked_offset[elsewhere] == NONE]
    return moved


def _moved_words(partition: PartitionHistory, moved: Array) -> pa.Array:
    acked, stands = partition.acked_offset[moved], partition.first_offset(moved)
    told = joined("acked at offset ", acked, ", stands at ", stands, "; offset ", acked)
    return joined(told, " now holds ", standing_at(partition, acked))


def _shared(partition: PartitionHistory) -> tuple[Array, Array]:
    """Of the records that were acked at one offset, those whose it is not, and whose it is."""
    named = partition.named_acks
    named = named[_repeated(partition.acked_offset[named])]
    if not len(named):
        return named, named
    stands = partition.at_acked_offset[named] != NONE
    offsets = partition.acked_offset[named]
    # Whose it is comes last of its offset: who stands there, else who was acked last.
    order = np.lexsort((partition.time[named], stands, offsets))
    named, offsets = named[order], offsets[order]
    last = np.append(np.flatnonzero(np.diff(offsets)), len(offsets) - 1)
    owner = named[last[np.searchsorted(last, np.arange(len(offsets)))]]
    others = named != owner
    return named[others], owner[others]


def _repeated(values: Array) -> Array:
    """Which of them occur more than once."""
    order = np.argsort(values, kind="stable")
    same = np.diff(values[order]) == 0
    found = np.zeros(len(values), dtype=bool)
    found[order[1:][same]] = found[order[:-1][same]] = True
    return found


def _shared_words(partition: PartitionHistory, others: Array, owners: Array) -> pa.Array:
    acked = partition.acked_offset[others]
    return joined("acked at offset ", acked, ", as was ", names(partition, owners))


def _endings(partition: PartitionHistory, offsets: Array) -> pa.Array:
    """What became of each: the first that applies."""
    start, end = partition.read.start, partition.read.end
    told = joined("rewritten: it now holds ", standing_at(partition, offsets))
    if start is not None and (offsets < start).any():
        told = chosen(offsets < start, f"the log starts at {start}", told)
    if end is not None and (offsets >= end).any():
        told = chosen(offsets >= end, f"truncated: the log ends at {end}", told)
    told = joined("acked at offset ", offsets, "; ", told)
    nameless = offsets == NONE
    return chosen(nameless, "acked without an offset", told) if nameless.any() else told
