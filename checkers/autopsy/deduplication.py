"""Lost records that nobody ever appended: their leader took each for one that its producer had sent
before and given up, and acked it at the offset at which that one stands.

A leader that is sent batches whose numbers it has in its log answers with their offsets, and
appends nothing (KIP-98). So it does where a client gives the numbers of what it gave up, and what
was written all the same, to what it sends next: librdkafka 2.16 does so with what it purges when it
aborts a transaction (docs/reports/librdkafka-purged-transaction.md).

That such a record stands at the offset of the ack is no proof. Sequence 20 was given up, then:

- Broker 1 leads epoch 3 without it, appends 29 at offset 7 and acks it. Broker 2 leads epoch 4
  without that; a late request brings it 20, which it appends at offset 7.
- Broker 1 has appended 20 at offset 7 in epoch 3 and is cut off. Broker 2 leads epoch 4 without
  that, appends 29 at offset 7 and acks it. Then broker 1 is elected uncleanly.

So nobody who may have acked it may have been able to append it there: whoever that is, by the
strict bounds of what was observed, led in the epoch in which the other one stands, or began with a
log that reached beyond. An epoch has one leader, whose log does not shrink while it leads: in it
nothing else ever stood there.

Where a fault takes data from its disk it may fill an offset twice in its epoch. Not if that was
over when the other one was sent; nor if it began when the lost one was acked, and so was something
that stands above the other one, which hence stood there already.
"""

from collections.abc import Collection, Iterator

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.autopsy.attribution import Lost
from ackproof.checkers.autopsy.explaining import Story, faults_on
from ackproof.checkers.autopsy.kinds import Kind
from ackproof.checkers.autopsy.scene import Scene
from ackproof.checkers.cluster.faults import FOREVER
from ackproof.checkers.partition.indexes import Fate, PartitionHistory
from ackproof.history.cell import LIBRDKAFKA


def deduplicated(
    history: PartitionHistory, records: Array, lost: Lost, scene: Scene, held: Collection[int]
) -> Iterator[Story]:
    """A story for all that were acked in the same epochs; none of a partition that is not written
    in transactions: of such a one the history may be in slices, and not all be here that stands
    above. ``records``: whose each of ``lost`` is; ``held``: the offsets at which a replica still
    holds what was acked there."""
    bound = history.timeline.clock_bound_ns
    if not history.transactional or bound is None:
        return
    given_up = _given_up_before(history, records)
    given_up[np.isin(lost.offset, list(held))] = NONE
    places = np.flatnonzero(given_up != NONE)
    first, last = _acked_in(history, records[places], given_up[places], scene, bound)
    told = last != NONE
    places, epochs = places[told], np.stack([first[told], last[told]])
    alike, whose = np.unique(epochs, axis=1, return_inverse=True)
    for number, (begin, end) in enumerate(alike.T.tolist()):
        mine = places[whose.ravel() == number]
        offset, time = lost.offset[mine], lost.time[mine]
        reigns = scene.reigns[begin : end + 1]
        leaders = [reign.leader for reign in reigns]
        since, until = history.asked[given_up[mine]], history.answered[given_up[mine]]
        yield Story(
            kind=Kind.DEDUPLICATED,
            records=mine,
            offsets=(int(offset.min()), int(offset.max())),
            times=(int(time.min()), int(time.max())),
            epochs=reigns,
            faults=faults_on(scene, int(since.min()), int(until.max()), leaders),
            purged=scene.sender.client == LIBRDKAFKA,
        )


def _given_up_before(history: PartitionHistory, records: Array) -> Array:
    """By record: which one of its producer stands at the offset of its ack, and was answered
    otherwise than by an ack before this one was sent; NONE where there is none."""
    if not len(history.log_offset):
        return np.full(len(records), NONE, dtype=np.int64)
    offsets = history.acked_offset[records]
    places = np.searchsorted(history.log_offset, offsets)
    places = np.minimum(places, len(history.log_offset) - 1)
    there = history.log_record[places]
    found = history.log_offset[places] == offsets
    found &= history.stream[there] == history.stream[records]
    found &= (history.fate[there] != Fate.ACKED) & (history.answered[there] != NONE)
    found &= history.answered[there] <= history.asked[records]
    return np.where(found, there, NONE)


def _acked_in(
    history: PartitionHistory, records: Array, given_up: Array, scene: Scene, bound: int
) -> tuple[Array, Array]:
    """By record: the first and the last reign that may have acked it; NONE where one of them may
    have appended it where the one that was given up stands, or one may have gone unseen."""
    offsets, asked = history.acked_offset[records], history.asked[records]
    answered, stands = history.answered[records], history.epoch_at(offsets)
    settled = np.maximum(answered, _acked_above(history, offsets))
    first, last = np.full((2, len(records)), NONE, dtype=np.int64)
    excluded = answered < _seen_until(history, scene)
    for number, reign in enumerate(scene.reigns):
        may = (answered >= reign.elected_after) & (asked <= reign.deposed)
        kept = (stands == reign.epoch) | (offsets < reign.log_end)
        kept &= reign.epoch not in scene.contended
        for fault in scene.faults:
            if fault.befell(reign.leader) and fault.start <= reign.deposed:
                before = history.asked[given_up] > fault.took + bound
                kept &= before | (settled < fault.start - bound)
        excluded &= ~may | kept
        first[may & (first == NONE)] = number
        last[may] = number
    return np.where(excluded, first, NONE), np.where(excluded, last, NONE)


def _acked_above(history: PartitionHistory, offsets: Array) -> Array:
    """By offset: when the first of those was acked that stand above it; FOREVER where none was."""
    acked = np.full(len(history.log_offset) + 1, FOREVER, dtype=np.int64)
    standing = np.flatnonzero(history.at_acked_offset != NONE)
    acked[history.at_acked_offset[standing]] = history.answered[standing]
    since: Array = np.minimum.accumulate(acked[::-1])[::-1]
    return since[np.searchsorted(history.log_offset, offsets, side="right")]


def _seen_until(history: PartitionHistory, scene: Scene) -> int:
    """Before when certainly nobody led in an epoch of which nothing is known.

    Whoever was elected in a hole of the observation shows in the number of what is seen after it;
    where that is still the last one, nobody was.
    """
    seen = history.timeline
    known = {*seen.epochs, *(reign.epoch for reign in scene.reigns)}
    missing = min(set(range(len(known) + 1)) - known)
    later = zip(seen.epochs, seen.elected_after, strict=True)
    last = FOREVER if seen.watched else seen.watched_until
    return next((time for epoch, time in later if epoch > missing), last)
