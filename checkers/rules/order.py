"""Records that stand in the log more than once, or in another order than they were sent in."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.rules.rows import NOTHING, rows
from ackproof.checkers.rules.words import in_blocks, joined, names


def duplicated(partition: PartitionHistory) -> pa.Table:
    """Sent records that stand at two or more offsets: one row a record, at its first offset."""
    found = partition.copies
    if not found:
        return NOTHING
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
    behind, ahead = partition.out_of_order
    if not len(behind):
        return NOTHING
    above = partition.first_offset(ahead)
    details = in_blocks(
        lambda some: joined(
            "stands behind ", names(partition, ahead[some]), " at offset ", above[some]
        ),
        len(behind),
    )
    offsets = partition.first_offset(behind)
    return rows(partition, "reordered", records=behind, offsets=offsets, details=details)
