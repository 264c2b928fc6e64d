"""Rules that compare acks with each other and with the observed state of the cluster, independent
of the contents of the log.

Only acks=all says something about the cluster: the broker that acks a record at an offset then
knows a high watermark beyond that offset, and an ISR of at least min.insync.replicas. An ack was
given at an unknown time between the send and the recorded time of the ack. It is a violation only
if that holds for the whole interval.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.rows import NOTHING, joined, names, rows
from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.index.partition_history import PartitionHistory, overtaken


def nonmonotonic_send(partition: PartitionHistory) -> pa.Table:
    """Return acked records at lower offsets than a record that their producer sent before, one row
    each.

    Records that are missing from the log are included. Whether the producer's settings promise
    order is not decided here: a retry may rightly arrive after a record that was sent later.
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
    """Return acked records (acks=all) at or beyond which the log ended later, one row each.

    The ack says that the high watermark was beyond the record's offset. Each of three observations
    proves that the log later ended below that:

    - Acks alone: a record that was sent after this ack came was acked at this offset or a lower
      one. The log of the broker that acked it ended there. It was another log, or this one had been
      truncated.
    - The leader of an epoch that began after this ack reported that its own log ended at this
      offset or a lower one when its term began.
    - A ListOffsets request, sent when the final read began and after this ack had come, returned an
      end at this offset or a lower one, although the record is there. The end for read_uncommitted
      is the high watermark, and a leader that does not know it yet must refuse to answer (KIP-207).

    A regression below offsets without acks is not detected. Neither is one that is undone before
    the next send.
    """
    acked = records_with_known_acks(partition)
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
    """Return those acked records for which another record was sent after their ack and acked at
    their offset or a lower one. Also return that other record for each."""
    if not len(acked):
        return acked, acked
    by_send = acked[np.argsort(partition.asked[acked], kind="stable")]
    sent, offsets = partition.asked[by_send], partition.acked_offset[by_send]
    lowest_since = np.minimum.accumulate(offsets[::-1])[::-1]
    since = partition.answered[by_send] + 2 * (partition.timeline.clock_bound_ns or 0)
    # Offsets usually rise in the order of sends, so a record below everything that was sent after
    # it needs no search. Only a damaged history has an ack before its send.
    below_all = np.append(offsets[:-1] < lowest_since[1:], True) & (since >= sent)
    places = np.flatnonzero(~below_all)
    after = np.searchsorted(sent, since[places], side="right")
    later = after < len(sent)
    places, after = places[later], after[later]
    under = lowest_since[after] <= offsets[places]
    return by_send[places[under]], by_send[_lowest_from(offsets)[after[under]]]


def _lowest_from(values: Array) -> Array:
    """Return for each place the first place from there on that has the lowest value from there
    on."""
    lowest = np.minimum.accumulate(values[::-1])[::-1]
    holds_it = np.where(values == lowest, np.arange(len(values)), len(values))
    first: Array = np.minimum.accumulate(holds_it[::-1])[::-1]
    return first


def _undercut_by(partition: PartitionHistory, other: int) -> str:
    offset = partition.acked_offset[other]
    return f"{partition.name(other)}, sent after that ack, was acked at offset {offset}"


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
        yield int(record), f"ListOffsets later returned the end {listed}"


def stale_leader_ack(partition: PartitionHistory) -> pa.Table:
    """Return records that were acked (acks=all) by a leader that had been deposed, one row each.

    The broker that acked a record is not recorded. The final log shows the leader epoch in which a
    record was appended. Two cases are therefore known, and no other:

    - The record is at its offset, in an epoch whose leader must have learned before the send that
      another broker leads (``checkers.context.surroundings``). Until then the leader may go on
      acking: its followers, including the new leader, may not have learned it either and have the
      records that it acks.
    - The record is not at its offset. Another record, at that offset or a higher one, was acked
      before this one was sent and is in the log, and no leader was elected in a later epoch before
      this ack came. The leader of that epoch had a log beyond the offset, so the ack came from a
      leader of an earlier epoch. This case is left out if a disk lost data, because the leader may
      then have filled the offset again.
    """
    acked = records_with_known_acks(partition)
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
            words = "long after another leader was elected and every broker must have learned of it"
            yield int(record), f"in epoch {epoch}, {words}"


def _beside_the_leader(
    partition: PartitionHistory, there: Array, epochs: Array, missing: Array
) -> Iterator[tuple[int, str]]:
    """Yield those of the acked records that are not at their offsets that were acked while the
    leader's log was already beyond these offsets."""
    timeline = partition.timeline
    epochs_seen = zip(timeline.epochs, _until(timeline), strict=True) if len(missing) else ()
    for epoch, until in epochs_seen:
        of_epoch = there[epochs == epoch]
        if not len(of_epoch):
            continue
        in_time = of_epoch[np.argsort(partition.answered[of_epoch], kind="stable")]
        highest = np.maximum.accumulate(partition.acked_offset[in_time])
        since = partition.asked[missing] - 2 * (timeline.clock_bound_ns or 0)
        before = np.searchsorted(partition.answered[in_time], since, side="left") - 1
        known = (before >= 0) & (partition.answered[missing] < until)
        beyond = highest[np.maximum(before, 0)] >= partition.acked_offset[missing]
        for record, last in zip(
            missing[known & beyond], highest[before[known & beyond]], strict=True
        ):
            yield int(record), f"after the leader of epoch {epoch} had acked offset {last}"


def _until(timeline: PartitionTimeline) -> list[int]:
    """Return for each observed epoch the time until which no leader was elected in a later one."""
    return [*timeline.elected_after[1:], timeline.watched_until] if timeline.epochs else []


def acked_below_min_isr(partition: PartitionHistory) -> pa.Table:
    """Return records that were sent and acked (acks=all) while the partition was under min ISR and
    its leader must have known it, one row each.

    The ISR is that of ZooKeeper. A leader changes it there first, or the controller informs the
    leader. The leader is given the time in which every broker learns of a change, except where the
    record was appended in an epoch that began under min ISR. An ack that may have been given before
    or after that time is not reported. Neither is one that the observer's view cannot decide
    because it did not see versions: an ISR that grew and shrank again between two observations
    would be missing.
    """
    acked = records_with_known_acks(partition)
    asked, answered = partition.asked[acked], partition.answered[acked]
    stands = partition.at_acked_offset[acked]
    epochs = np.full(len(acked), NONE, dtype=np.int64)
    epochs[stands != NONE] = partition.log_epoch[stands[stands != NONE]]
    words: dict[int, str] = {}
    for under_min_isr in partition.timeline.under_min_isr:
        inside = (asked > under_min_isr.start) & (answered < under_min_isr.end)
        if under_min_isr.epoch is not None:
            inside &= epochs == under_min_isr.epoch
        for record in acked[inside]:
            words.setdefault(int(record), f"acked while only {under_min_isr.isr}")
    records = np.array(sorted(words), dtype=np.int64)
    offsets = partition.acked_offset[records]
    details = (words[int(record)] for record in records)
    return rows(partition, "acked-below-min-isr", records=records, offsets=offsets, details=details)


def records_with_known_acks(partition: PartitionHistory) -> Array:
    """Return the records whose acks say something about the cluster at a known time: those with
    acks=all, a recorded send, and clocks of known accuracy."""
    if not partition.timeline.tells_of_acks:
        return np.empty(0, dtype=np.int64)
    named = partition.named_acks
    asked: Array = partition.asked[named]
    return np.extract(asked != NONE, named)
