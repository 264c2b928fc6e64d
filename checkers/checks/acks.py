"""What acks say of each other, and of the cluster as it was observed, whatever the log holds.

Only acks=all speaks of the cluster: whoever acks at an offset then knows a high watermark beyond
it, and an ISR of min.insync.replicas. An ack was given between its send and its own time, and
nobody knows when: it is an offence only where all of that time is."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.rows import NOTHING, joined, names, rows
from ackproof.checkers.context.timeline import Timeline
from ackproof.checkers.index.partition_history import PartitionHistory, overtaken


def nonmonotonic_send(partition: PartitionHistory) -> pa.Table:
    """Acked records at lower offsets than one that their producer sent before: one row a record.

    Also of records that are gone from the log. Whether the producer's settings promise order is not
    asked here: a retry may rightly come in behind what was sent later.
    """
    named = partition.named_acks
    sent = named[np.argsort(partition.sequence[named], kind="stable")]
    acked = partition.acked_offset[sent]
    places, before = overtaken(partition.stream[sent], acked)
    if not len(places):
        return NOTHING
    behind, offsets = sent[places], acked[places]
    earlier = joined(names(partition, sent[before]), ", which its producer sent before, ")
    details = joined("acked at offset ", offsets, "; ", earlier, "at offset ", acked[before])
    return rows(partition, "nonmonotonic-send", records=behind, offsets=offsets, details=details)


def watermark_regressed(partition: PartitionHistory) -> pa.Table:
    """Acked records (acks=all) at or behind which the log ended later: one row a record.

    Its ack says that the high watermark was beyond its offset. Three witnesses tell that it went
    back below that, each by itself:

    - Acks alone: a record that was sent after this ack came was acked at this offset or a lower
      one. Who acked it had a log that ended there. It was not the same log, or it was cut.
    - The leader of an epoch to which somebody was elected after this ack came said itself that its
      log ended at this offset or a lower one when it began to lead.
    - ListOffsets, asked when the final read began and after this ack had come, told an end at this
      offset or a lower one, though the record stands there. The end for read_uncommitted is the
      high watermark, and a leader that does not know it yet must refuse to answer (KIP-207).

    What no ack stands for is not seen; nor is what went back and came again before the next send.
    """
    acked = telling(partition)
    undercut, by = _undercut(partition, acked)
    words = {
        int(record): _undercut_by(partition, other)
        for record, other in zip(undercut, by, strict=True)
    }
    for record, detail in (*_led_from_below(partition, acked), *_listed_below(partition, acked)):
        words.setdefault(record, detail)
    records = np.array(sorted(words), dtype=np.int64)
    offsets = partition.acked_offset[records]
    told = zip(records, offsets, strict=True)
    details = (f"acked at offset {offset}; {words[int(record)]}" for record, offset in told)
    return rows(partition, "watermark-regressed", records=records, offsets=offsets, details=details)


def _undercut(partition: PartitionHistory, acked: Array) -> tuple[Array, Array]:
    """Of acked records: those of which another was sent after they were acked, and acked at their
    offset or a lower one; and that other one."""
    if not len(acked):
        return acked, acked
    by_send = acked[np.argsort(partition.asked[acked], kind="stable")]
    sent, offsets = partition.asked[by_send], partition.acked_offset[by_send]
    lowest_since = np.minimum.accumulate(offsets[::-1])[::-1]
    since = partition.answered[by_send] + 2 * (partition.timeline.clock_bound_ns or 0)
    # Mostly offsets rise in the order of sends: what stands below all that comes behind it there
    # need not be looked up. Sent before it was asked for is what a damaged history tells alone.
    below_all = np.append(offsets[:-1] < lowest_since[1:], True) & (since >= sent)
    places = np.flatnonzero(~below_all)
    after = np.searchsorted(sent, since[places], side="right")
    later = after < len(sent)
    places, after = places[later], after[later]
    under = lowest_since[after] <= offsets[places]
    return by_send[places[under]], by_send[_lowest_from(offsets)[after[under]]]


def _lowest_from(values: Array) -> Array:
    """Of each place, the first one from there on that holds the lowest value from there on."""
    lowest = np.minimum.accumulate(values[::-1])[::-1]
    holds_it = np.where(values == lowest, np.arange(len(values)), len(values))
    first: Array = np.minimum.accumulate(holds_it[::-1])[::-1]
    return first


def _undercut_by(partition: PartitionHistory, other: int) -> str:
    offset = partition.acked_offset[other]
    return f"{partition.name(other)}, which was sent after that ack, was acked at offset {offset}"


def _led_from_below(partition: PartitionHistory, acked: Array) -> Iterator[tuple[int, str]]:
    timeline = partition.timeline
    ends = zip(timeline.epochs, timeline.elected_after, timeline.log_ends, strict=True)
    for epoch, elected_after, log_end in ends:
        before = partition.answered[acked] < elected_after
        beyond = partition.acked_offset[acked] >= log_end
        for record in acked[before & beyond] if log_end != NONE else ():
            yield (
                int(record),
                f"the leader of epoch {epoch} began with a log that ended at {log_end}",
            )


def _listed_below(partition: PartitionHistory, acked: Array) -> Iterator[tuple[int, str]]:
    listed = partition.read.listed
    if listed is None or partition.read.began is None:
        return
    stands = acked[partition.at_acked_offset[acked] != NONE]
    before = stands[partition.read.covers(partition.answered[stands])]
    for record in before[partition.acked_offset[before] >= listed]:
        yield int(record), f"ListOffsets told the end {listed} after that"


def stale_leader_ack(partition: PartitionHistory) -> pa.Table:
    """Records that were acked (acks=all) by a leader which had been deposed: one row a record.

    Who acked is not recorded; the final log tells in which leader epoch a record was appended. So
    it is known of two kinds, and of no other:

    - The record stands at its offset, in an epoch whose leader must have heard before it was sent
      that another one leads (``checkers.context.surroundings``). Until then it may go on acking:
      its followers, the new leader among them, may not have heard either, and have what it acks.
    - The record is not at its offset; another one, at that offset or a higher one, was acked before
      it was sent, and is; and nobody was elected in a later epoch than that one's until this ack
      came. The leader of that epoch had a log beyond that offset: whoever acked was another one, of
      an epoch before. Not where a disk lost data: a leader may then have filled the offset again.
    """
    acked = telling(partition)
    stands = partition.at_acked_offset[acked]
    there, gone = acked[stands != NONE], acked[stands == NONE]
    epochs = partition.log_epoch[stands[stands != NONE]]
    words = dict(_deposed(partition, there, epochs))
    if partition.read.complete and partition.timeline.disks_kept:
        words |= dict(_beside_the_leader(partition, there, epochs, gone))
    records = np.array(sorted(words), dtype=np.int64)
    offsets = partition.acked_offset[records]
    told = zip(records, offsets, strict=True)
    details = (f"acked at offset {offset} {words[int(record)]}" for record, offset in told)
    return rows(partition, "stale-leader-ack", records=records, offsets=offsets, details=details)


def _deposed(
    partition: PartitionHistory, records: Array, epochs: Array
) -> Iterator[tuple[int, str]]:
    known = zip(partition.timeline.epochs, partition.timeline.deposed, strict=True)
    for epoch, deposed in known:
        for record in records[(epochs == epoch) & (partition.asked[records] > deposed)]:
            words = "long after another one was elected and all must have heard of it"
            yield int(record), f"in epoch {epoch}, {words}"


def _beside_the_leader(
    partition: PartitionHistory, there: Array, epochs: Array, gone: Array
) -> Iterator[tuple[int, str]]:
    """Of the acked records that are not at their offsets, those acked while the leader's log was
    already beyond."""
    timeline = partition.timeline
    epochs_seen = zip(timeline.epochs, _until(timeline), strict=True) if len(gone) else ()
    for epoch, until in epochs_seen:
        of_epoch = there[epochs == epoch]
        if not len(of_epoch):
            continue
        in_time = of_epoch[np.argsort(partition.answered[of_epoch], kind="stable")]
        highest = np.maximum.accumulate(partition.acked_offset[in_time])
        since = partition.asked[gone] - 2 * (timeline.clock_bound_ns or 0)
        before = np.searchsorted(partition.answered[in_time], since, side="left") - 1
        known = (before >= 0) & (partition.answered[gone] < until)
        beyond = highest[np.maximum(before, 0)] >= partition.acked_offset[gone]
        for record, last in zip(gone[known & beyond], highest[before[known & beyond]], strict=True):
            yield int(record), f"when the leader of epoch {epoch} had acked offset {last}"


def _until(timeline: Timeline) -> list[int]:
    """Of each epoch that was seen, until when nobody was elected in a later one."""
    return [*timeline.elected_after[1:], timeline.watched_until] if timeline.epochs else []


def acked_below_min_isr(partition: PartitionHistory) -> pa.Table:
    """Records that were sent and acked (acks=all) while fewer than min.insync.replicas were in
    sync, and their leader must have known it: one row a record.

    The ISR is ZooKeeper's. A leader shrinks and grows it there first, and a controller tells it:
    so it is given the time in which all hear of a change, but where the record was appended in an
    epoch that began with so few. Nothing is said of an ack that may have been given before or
    after, nor where the observer did not see versions: an ISR that grew and shrank again unseen
    would be missing.
    """
    acked = telling(partition)
    asked, answered = partition.asked[acked], partition.answered[acked]
    stands = partition.at_acked_offset[acked]
    epochs = np.full(len(acked), NONE, dtype=np.int64)
    epochs[stands != NONE] = partition.log_epoch[stands[stands != NONE]]
    words: dict[int, str] = {}
    for thin in partition.timeline.thin:
        inside = (asked > thin.start) & (answered < thin.end)
        if thin.epoch is not None:
            inside &= epochs == thin.epoch
        for record in acked[inside]:
            words.setdefault(int(record), f"acked while only {thin.isr}")
    records = np.array(sorted(words), dtype=np.int64)
    offsets = partition.acked_offset[records]
    details = (words[int(record)] for record in records)
    return rows(partition, "acked-below-min-isr", records=records, offsets=offsets, details=details)


def telling(partition: PartitionHistory) -> Array:
    """Those whose acks tell of the cluster, and when: acks=all, from a send that is recorded, by
    clocks that are known."""
    if not partition.timeline.tells_of_acks:
        return np.empty(0, dtype=np.int64)
    named = partition.named_acks
    asked: Array = partition.asked[named]
    return np.extract(asked != NONE, named)
