"""The rules on the records of one partition: what is lost, repeated, out of order, nobody's, or
missing from the final log, and leader epochs that go back."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.rows import (
    NOTHING,
    chosen,
    in_blocks,
    joined,
    names,
    rows,
    standing_at,
)
from ackproof.checkers.index.partition_history import Fate, PartitionHistory


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


# --- order ----------------------------------------------------------------------------------------
#
# Records that stand in the log more than once, or in another order than they were sent in.


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


# --- content --------------------------------------------------------------------------------------
#
# What stands in the final log and should not, and what is missing between its ends.


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


# --- epochs ---------------------------------------------------------------------------------------
#
# Leader epochs that go back, and epochs with several leaders.


def epoch_regressed(partition: PartitionHistory) -> pa.Table:
    """Where a leader epoch went back. Three witnesses, each by itself:

    - ZooKeeper's state of the partition, as it was observed: one row a time, without an offset.
    - A broker's own log, which took a role in an earlier epoch than before: likewise.
    - The final log: who leads appends behind all that is there, in the highest epoch that there has
      been, so that epochs never go back from one offset to a later one. One row a place, at the
      later offset. They do where a replica was cut at another place than its log parted from the
      leader's.

    Not seen: what went back and came again between two readings of ZooKeeper.
    """
    told = _told(partition, "epoch-regressed")
    epochs, offsets = partition.log_epoch, partition.log_offset
    known = np.flatnonzero(epochs != NONE)
    back = np.flatnonzero(np.diff(epochs[known]) < 0)
    before, after = known[back], known[back + 1]
    details = (
        f"appended in epoch {epochs[later]}, behind offset {offsets[earlier]} of epoch "
        f"{epochs[earlier]}"
        for earlier, later in zip(before, after, strict=True)
    )
    records = partition.log_record[after]
    of_log = rows(
        partition, "epoch-regressed", records=records, offsets=offsets[after], details=details
    )
    return pa.concat_tables([told, of_log])


def two_leaders(partition: PartitionHistory) -> pa.Table:
    """Leader epochs in which two brokers led, by ZooKeeper or by their own word: one row an epoch.

    No clock is in it. Not seen: a leader that ZooKeeper did not show and whose log was not
    collected; and where leaders coordinate themselves, whoever ZooKeeper alone would tell of.
    """
    return _told(partition, "two-leaders")


def _told(partition: PartitionHistory, anomaly: str) -> pa.Table:
    told = [one for one in partition.timeline.told if one.anomaly == anomaly]
    return rows(
        partition,
        anomaly,
        offsets=[NONE] * len(told),
        times=[one.time for one in told],
        details=[one.detail for one in told],
    )
