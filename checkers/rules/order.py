"""Records that stand in the log more than once, or in another order than they were sent in."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from checkers.indexes import NONE, Array, Fate, PartitionHistory
from checkers.rules.rows import rows


def copies(partition: PartitionHistory) -> Mapping[int, Sequence[int]]:
    """The offsets of sent records that stand at two or more, by record number."""
    ours = partition.log_record[partition.log_record != NONE]
    often = np.bincount(ours, minlength=len(partition.fate))
    repeated = (often > 1) & (partition.fate != Fate.NEVER_SENT)
    positions = np.flatnonzero(np.append(repeated, False)[partition.log_record])
    offsets_by_record: dict[int, list[int]] = {}
    for position in positions:
        offsets = offsets_by_record.setdefault(int(partition.log_record[position]), [])
        offsets.append(int(partition.log_offset[position]))
    return offsets_by_record


def duplicated(partition: PartitionHistory) -> pa.Table:
    """Sent records that stand at two or more offsets: one row a record, at its first offset."""
    found = copies(partition)
    return rows(
        partition,
        "duplicated",
        records=np.array(list(found), dtype=np.int64),
        offsets=[offsets[0] for offsets in found.values()],
        details=[
            f"stands at offsets {', '.join(map(str, offsets))}"
            + (", each written in another session of its producer" * renewed(partition, offsets))
            for offsets in found.values()
        ],
    )


def renewed(partition: PartitionHistory, offsets: Sequence[int]) -> bool:
    """Whether each of the copies of a record was written in another session of its producer, so
    that no log could tell that it had it (KIP-98). False where that is not known."""
    told = [partition.written[at].session for at in offsets if at in partition.written]
    return len(set(told)) == len(offsets)


def reordered(partition: PartitionHistory) -> pa.Table:
    """Records that stand behind one that their producer sent later. First copies count."""
    behind, ahead = out_of_order(partition)
    details = (
        f"stands behind {partition.name(record)} at offset {offset}"
        for record, offset in zip(ahead, partition.first_offset(ahead), strict=True)
    )
    offsets = partition.first_offset(behind)
    return rows(partition, "reordered", records=behind, offsets=offsets, details=details)


def out_of_order(partition: PartitionHistory) -> tuple[Array, Array]:
    """Numbers of the reordered records in log order, and for each of the latest-sent one of its
    producer that stands before it."""
    first = partition.first[(partition.first != NONE) & (partition.fate != Fate.NEVER_SENT)]
    records = partition.log_record[np.sort(first)]
    behind, ahead = overtaken(partition, records, partition.sequence)
    in_log_order = np.argsort(partition.first[behind])
    return behind[in_log_order], ahead[in_log_order]


def overtaken(partition: PartitionHistory, records: Array, rank: Array) -> tuple[Array, Array]:
    """Of records in some order: producer by producer, those that rank lower than one of the same
    producer before them, and for each the one before it that ranks highest. ``rank``: by record
    number."""
    stream = partition.cell_of[records] << 32 | (partition.producer[records] & 0xFFFFFFFF)
    by_stream = np.argsort(stream, kind="stable")
    ends = np.flatnonzero(np.diff(stream[by_stream])) + 1
    pairs = [_of_one(group, rank[group]) for group in np.split(records[by_stream], ends)]
    return np.concatenate([pair[0] for pair in pairs]), np.concatenate([pair[1] for pair in pairs])


def _of_one(records: Array, rank: Array) -> tuple[Array, Array]:
    highest = np.maximum.accumulate(rank) if len(rank) else rank
    positions = np.arange(len(records))
    highest_at = np.maximum.accumulate(np.where(rank == highest, positions, 0))
    lower = rank < highest
    return records[lower], records[highest_at[lower]]
