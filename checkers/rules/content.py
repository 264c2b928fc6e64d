"""What stands in the final log and should not, and what is missing between its ends."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE
from ackproof.checkers.partition.indexes import Fate, PartitionHistory
from ackproof.checkers.rules.rows import NOTHING, rows
from ackproof.checkers.rules.words import joined, names


def phantom(partition: PartitionHistory) -> pa.Table:
    """Records in the log that no client sent to this partition, undecodable payloads among them.

    One row an offset. Needs every send to be recorded, and says nothing where that is not known.
    What a client sent in the last moments before it was crashed is recorded nowhere, so that of
    such a producer nothing is a phantom that comes after the last that it recorded.
    """
    if not partition.sends_whole:
        return NOTHING
    alien = partition.log_record == NONE
    sent = (partition.fate != Fate.NEVER_SENT) | partition.untold
    positions = np.flatnonzero(alien | ~np.append(sent, True)[partition.log_record])
    if not len(positions):
        return NOTHING
    records = partition.log_record[positions]
    ours = records != NONE
    told = joined(names(partition, records[ours]), " was never sent to this partition")
    alien_words = pa.repeat("the payload is none of a client's, or damaged", len(records))
    details = pc.replace_with_mask(alien_words, pa.array(ours), told)
    offsets = partition.log_offset[positions]
    return rows(partition, "phantom", records=records, offsets=offsets, details=details)


def failed_but_present(partition: PartitionHistory) -> pa.Table:
    """Records that certainly failed, and yet stand in the log: one row a record."""
    failed = (partition.fate == Fate.FAILED) & ~partition.contradicted
    present = np.flatnonzero(failed & (partition.first != NONE))
    details = pa.repeat("failed for certain, and stands in the log", len(present))
    offsets = partition.first_offset(present)
    return rows(partition, "failed-but-present", records=present, offsets=offsets, details=details)


def offset_gap(partition: PartitionHistory) -> pa.Table:
    """Holes in the final log: one row a hole, at its first offset.

    Sound because a log without transactions and compaction has a record at every offset from its
    start to its end: of one with transactions, whose markers no consumer is shown, nothing is said.
    Topics with ``cleanup.policy=compact`` are not handled. Needs a complete read.
    """
    asked = partition.read.complete and not partition.transactional
    holes = list(_holes(partition)) if asked else []
    return rows(
        partition,
        "offset-gap",
        offsets=[first for first, _ in holes],
        details=[
            f"no record at offsets {first} to {last}"
            if last > first
            else f"no record at offset {first}"
            for first, last in holes
        ],
    )


def _holes(partition: PartitionHistory) -> Iterator[tuple[int, int]]:
    """First and last missing offset of each hole."""
    offsets = partition.log_offset
    start = partition.read.start if partition.read.start is not None else offsets[:1]
    end = partition.read.end if partition.read.end is not None else offsets[-1:] + 1
    edges = np.concatenate([np.atleast_1d(start) - 1, offsets, np.atleast_1d(end)])
    for left in np.flatnonzero(np.diff(edges) > 1):
        yield int(edges[left]) + 1, int(edges[left + 1]) - 1
