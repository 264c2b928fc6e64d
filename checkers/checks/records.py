"""The rules for the records of one partition: records that are lost, deleted too early, repeated,
out of order, unknown, or missing from the final log, and leader epochs that go back."""

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
    """Return acked records that are absent from the final log.

    Records are matched by name and not by offset, because after a truncation another record may be
    at the offset. The rule needs the whole log and returns nothing if the final read is incomplete.
    A record that was acked below the offset up to which records were deleted by an administrator's
    order, or that retention or compaction may rightly have removed, is not lost. So in a compacted
    log the last acked record of each key must be there.
    """
    lost_records = partition.lost
    if not len(lost_records):
        return NOTHING
    offsets = partition.acked_offset[lost_records]
    ends = _endings(partition, offsets)
    seen = None if partition.seen is None else partition.seen[lost_records]
    return rows(partition, "lost", records=lost_records, offsets=offsets, details=ends, seen=seen)


def offset_mismatch(partition: PartitionHistory) -> pa.Table:
    """Return records whose acks name an offset that is not theirs, one row each.

    - The record is in the log, but only at other offsets. For example, an acked copy was truncated
      and the copy of an earlier attempt stayed. An ack below the offset up to which records were
      deleted, by order or by retention, is left out: a record sent twice without idempotence was at
      38 and 117, and the first 100 offsets were deleted.
    - Another record was acked at the same offset. The row names the one of them that is not at that
      offset. If none is, or the log was not read that far, all of them but the one that was acked
      last are returned, because the offset belonged to them before.
    """
    moved = _moved(partition)
    others, owners = _shared(partition)
    # A record that is at another offset gets the first kind of row, whatever else was acked at its
    # offset.
    still = ~np.isin(others, moved)
    others, owners = others[still], owners[still]
    records = np.concatenate([moved, others])
    if not len(records):
        return NOTHING
    ascending = np.argsort(records)
    details = in_blocks(lambda some: _moved_words(partition, moved[some]), len(moved))
    if len(others):  # The moved records are already in ascending order.
        told = _shared_words(partition, others, owners)
        details = pa.concat_arrays([details, told]).take(pa.array(ascending))
    records = records[ascending]
    offsets = partition.acked_offset[records]
    return rows(partition, "offset-mismatch", records=records, offsets=offsets, details=details)


def _moved(partition: PartitionHistory) -> Array:
    """Return the records that are in the log, but not at the offset of their ack."""
    named = partition.named_acks
    kept = partition.acked_offset[named] >= partition.moved_from
    named = named[kept & (partition.first[named] != NONE)]
    # Of two copies, compaction keeps the later one.
    named = named[~partition.is_superseded(named, partition.acked_offset[named])]
    elsewhere = named[partition.first_offset(named) != partition.acked_offset[named]]
    moved: Array = elsewhere[partition.at_acked_offset[elsewhere] == NONE]
    return moved


def _moved_words(partition: PartitionHistory, moved: Array) -> pa.Array:
    acked, stands = partition.acked_offset[moved], partition.first_offset(moved)
    told = joined("acked at offset ", acked, ", but stands at ", stands, "; offset ", acked)
    return joined(told, " now holds ", standing_at(partition, acked))


def _shared(partition: PartitionHistory) -> tuple[Array, Array]:
    """Return, of the records that were acked at the same offset, those to which it does not belong,
    and for each of them the owner of the offset."""
    named = partition.named_acks
    named = named[_repeated(partition.acked_offset[named])]
    if not len(named):
        return named, named
    stands = partition.at_acked_offset[named] != NONE
    offsets = partition.acked_offset[named]
    # The owner is the last one in the order of an offset: the record that is there, or else the one
    # that was acked last.
    order = np.lexsort((partition.time[named], stands, offsets))
    named, offsets = named[order], offsets[order]
    last = np.append(np.flatnonzero(np.diff(offsets)), len(offsets) - 1)
    owner = named[last[np.searchsorted(last, np.arange(len(offsets)))]]
    others = named != owner
    return named[others], owner[others]


def _repeated(values: Array) -> Array:
    """Return which of the values occur more than once."""
    order = np.argsort(values, kind="stable")
    same = np.diff(values[order]) == 0
    found = np.zeros(len(values), dtype=bool)
    found[order[1:][same]] = found[order[:-1][same]] = True
    return found


def _shared_words(partition: PartitionHistory, others: Array, owners: Array) -> pa.Array:
    acked = partition.acked_offset[others]
    return joined("acked at offset ", acked, ", as was ", names(partition, owners))


def _endings(partition: PartitionHistory, offsets: Array) -> pa.Array:
    """Return what happened to each record; the first case that applies."""
    start, end = partition.read.start, partition.read.end
    details = joined("rewritten: it now holds ", standing_at(partition, offsets))
    if start is not None and (offsets < start).any():
        details = chosen(offsets < start, f"the log starts at {start}", details)
    if end is not None and (offsets >= end).any():
        details = chosen(offsets >= end, f"truncated: the log ends at {end}", details)
    details = joined("acked at offset ", offsets, "; ", details)
    nameless = offsets == NONE
    return chosen(nameless, "acked without an offset", details) if nameless.any() else details


def deleted_too_early(partition: PartitionHistory) -> pa.Table:
    """Return deletions by retention that came too early, one row for each time at which the start
    of the log was seen to have passed acked records that had to stay.

    Such a record was younger than ``retention.ms`` when it was first seen to be gone, and fewer
    bytes than ``retention.bytes`` followed it. The row is at the lowest of them. Each of them is
    also ``lost``. What only may have come too early is undetermined and has no row.
    """
    found, retention = partition.deletions, partition.retention
    if found is None or retention is None or not found.early.any():
        return NOTHING
    early, times = partition.expired[found.early], found.removed_by[found.early]
    _, firsts, counts = np.unique(times, return_index=True, return_counts=True)
    offsets = partition.acked_offset[early]
    details = []
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        last = offsets[times == times[first]].max()
        age = (times[first] - partition.asked[early[first]]) / 1e9
        kept = (found.kept_until[found.early][first] - partition.asked[early[first]]) / 1e9
        limits = {
            f"retention.ms={retention.policy.ms} and its age was at most {age:.1f} s, "
            f"after {kept:.1f} s it was still there": retention.policy.ms is not None,
            f"retention.bytes={retention.policy.size} and at most "
            f"{found.bytes_behind[found.early][first]:,} bytes followed it": (
                retention.policy.size is not None
            ),
        }
        told = ", ".join(words for words, is_set in limits.items() if is_set)
        details.append(f"{count} acked records up to offset {last} deleted; of the first, {told}")
    return rows(
        partition,
        "deleted-too-early",
        records=early[firsts],
        offsets=offsets[firsts],
        details=details,
        times=times[firsts],
    )


# --- order ----------------------------------------------------------------------------------------
#
# Records that are in the log more than once, or in another order than that of their sends.


def duplicated(partition: PartitionHistory) -> pa.Table:
    """Return sent records that are at two or more offsets, one row each, at the first offset."""
    found = partition.copies
    if not found:
        return NOTHING
    return rows(
        partition,
        "duplicated",
        records=np.array(list(found), dtype=np.int64),
        offsets=[offsets[0] for offsets in found.values()],
        details=[
            f"in the log at offsets {', '.join(map(str, offsets))}"
            + (", each written in another session of its producer" * renewed(partition, offsets))
            for offsets in found.values()
        ],
    )


def renewed(partition: PartitionHistory, offsets: Sequence[int]) -> bool:
    """Return whether each copy of a record was written in another session of its producer, so that
    no log could recognise it as a duplicate (KIP-98). Return False if that is unknown."""
    told = [partition.written[at].session for at in offsets if at in partition.written]
    return len(set(told)) == len(offsets)


def reordered(partition: PartitionHistory) -> pa.Table:
    """Return records that follow in the log a record that their producer sent later. First copies
    count."""
    behind, ahead = partition.out_of_order
    if not len(behind):
        return NOTHING
    above = partition.first_offset(ahead)
    details = in_blocks(
        lambda some: joined(
            "in the log behind ", names(partition, ahead[some]), " at offset ", above[some]
        ),
        len(behind),
    )
    offsets = partition.first_offset(behind)
    return rows(partition, "reordered", records=behind, offsets=offsets, details=details)


# --- content --------------------------------------------------------------------------------------
#
# Records that should not be in the final log, and offsets that are missing from it.


def phantom(partition: PartitionHistory) -> pa.Table:
    """Return records in the log that no client sent to this partition, including undecodable
    payloads. Those that were sent to other topics are left to :func:`wrong_topic`.

    There is one row for each offset. The rule needs every send to be recorded and returns nothing
    if that is unknown. The sends of a client in its last moments before a crash are not recorded.
    Records of such a producer after its last recorded one are therefore never phantoms.
    """
    if not partition.sends_whole:
        return NOTHING
    alien = partition.log_record == NONE
    sent = (partition.fate != Fate.NEVER_SENT) | partition.untold | _of_others(partition)
    positions = np.flatnonzero(alien | ~np.append(sent, True)[partition.log_record])
    if not len(positions):
        return NOTHING
    records = partition.log_record[positions]
    ours = records != NONE
    told = joined(names(partition, records[ours]), " was never sent to this partition")
    alien_words = pa.repeat("the payload was not sent by any client, or is damaged", len(records))
    details = pc.replace_with_mask(alien_words, pa.array(ours), told)
    offsets = partition.log_offset[positions]
    return rows(partition, "phantom", records=records, offsets=offsets, details=details)


def wrong_topic(partition: PartitionHistory) -> pa.Table:
    """Return records in the log whose payloads name another cell, one row for each offset. They
    were sent to its topic (KAFKA-19012)."""
    ours = partition.log_record != NONE
    strange = np.append(_of_others(partition), False)[partition.log_record]
    positions = np.flatnonzero(ours & strange)
    records = partition.log_record[positions]
    details = joined(names(partition, records), " was sent to the topic of that cell")
    offsets = partition.log_offset[positions]
    return rows(partition, "wrong-topic", records=records, offsets=offsets, details=details)


def _of_others(partition: PartitionHistory) -> Array:
    """Return whether the payload of each record names another cell, by record number."""
    of_others = np.array([name != partition.cell for name in partition.cell_names], bool)
    found: Array = of_others[partition.cell_of]
    return found


def failed_but_present(partition: PartitionHistory) -> pa.Table:
    """Return records that certainly failed and yet are in the log, one row each."""
    failed = (partition.fate == Fate.FAILED) & ~partition.contradicted
    present = np.flatnonzero(failed & (partition.first != NONE))
    details = pa.repeat("certainly failed, but is in the log", len(present))
    offsets = partition.first_offset(present)
    return rows(partition, "failed-but-present", records=present, offsets=offsets, details=details)


def offset_gap(partition: PartitionHistory) -> pa.Table:
    """Return gaps in the final log, one row each, at the first missing offset.

    A log without transactions and compaction has a record at every offset from its start to its
    end. A log with transactions is left out, because consumers do not receive its markers, and so
    is a compacted one. The rule needs a complete read.
    """
    asked = partition.read.complete and not partition.transactional and partition.keys is None
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
    """Yield the first and last missing offset of each gap."""
    offsets = partition.log_offset
    start = partition.read.start if partition.read.start is not None else offsets[:1]
    end = partition.read.end if partition.read.end is not None else offsets[-1:] + 1
    edges = np.concatenate([np.atleast_1d(start) - 1, offsets, np.atleast_1d(end)])
    for left in np.flatnonzero(np.diff(edges) > 1):
        yield int(edges[left]) + 1, int(edges[left + 1]) - 1


# --- epochs ---------------------------------------------------------------------------------------
#
# Leader epochs that go back, and leader epochs with several leaders.


def epoch_regressed(partition: PartitionHistory) -> pa.Table:
    """Return the places where a leader epoch went back. There are three independent sources:

    - The observed state of the partition in ZooKeeper: one row each, without an offset.
    - A broker's own log, in which the broker took a role in an earlier epoch than before: one row
      each, without an offset.
    - The final log: a leader appends after all existing records, in the highest epoch so far, so
      that epochs never go back from one offset to a later one. There is one row for each place, at
      the later offset. Epochs go back if a replica was truncated at another offset than the one at
      which its log diverged from the leader's.

    A change that was undone between two readings of ZooKeeper is not detected.
    """
    observed_rows = _observed_rows(partition, "epoch-regressed")
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
    return pa.concat_tables([observed_rows, of_log])


def two_leaders(partition: PartitionHistory) -> pa.Table:
    """Return leader epochs in which two brokers led, by ZooKeeper or by their own logs, one row
    each.

    The rule uses no clock. It does not detect a leader that ZooKeeper did not show and whose log
    was not collected. If leaders coordinate themselves, it does not detect a leader that only
    ZooKeeper would show.
    """
    return _observed_rows(partition, "two-leaders")


def _observed_rows(partition: PartitionHistory, anomaly: str) -> pa.Table:
    observed = [one for one in partition.timeline.told if one.anomaly == anomaly]
    return rows(
        partition,
        anomaly,
        offsets=[NONE] * len(observed),
        times=[one.time for one in observed],
        details=[one.detail for one in observed],
    )
