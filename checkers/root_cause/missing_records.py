"""Root causes of missing records: acked records that are lost, and records that consumers read and
that are not in the log."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.claims import ACK
from ackproof.checkers.checks.read_anomalies import ReadAnomalies
from ackproof.checkers.checks.tombstones import removed_early, vacated
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.status import statuses
from ackproof.checkers.context.validity import ValidityWindow
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.root_cause.attribution import LostRecords, groups
from ackproof.checkers.root_cause.causes import CauseKey, attributed_faults, cause, reported
from ackproof.checkers.root_cause.copies import LOOKED_FOR_MAX, copies
from ackproof.checkers.root_cause.kinds import CauseKind
from ackproof.checkers.root_cause.narratives import Narrative, NarrativeFacts, faults_on, narrative
from ackproof.checkers.root_cause.partition_context import LeadershipTerm, PartitionContext
from ackproof.checkers.root_cause.rows import ROOT_CAUSE, root_cause_rows
from ackproof.checkers.verdict import Cause
from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.payload import Identity
from ackproof.history.storage import located


def deduplicated(
    history: PartitionHistory,
    records: Array,
    lost: LostRecords,
    context: PartitionContext,
    held: Collection[int],
) -> Iterator[Narrative]:
    """Yield a narrative for all records that were acked in the same epochs and taken for earlier
    ones. Partitions without transactions have none, because their history may be a slice that lacks
    records above. ``records`` has the number of each of ``lost``. ``held`` has the offsets at which
    a replica still holds the acked record."""
    bound = history.timeline.clock_bound_ns
    if not history.transactional or bound is None:
        return
    given_up = _given_up_before(history, records)
    given_up[np.isin(lost.offset, list(held))] = NONE
    places = np.flatnonzero(given_up != NONE)
    first, last = _acked_in(history, records[places], given_up[places], context, bound)
    known = last != NONE
    places, epochs = places[known], np.stack([first[known], last[known]])
    alike, whose = np.unique(epochs, axis=1, return_inverse=True)
    for number, (begin, end) in enumerate(alike.T.tolist()):
        own = places[whose.ravel() == number]
        offset, time = lost.offset[own], lost.time[own]
        leadership_terms = context.leadership_terms[begin : end + 1]
        leaders = [term.leader for term in leadership_terms]
        since, until = history.asked[given_up[own]], history.answered[given_up[own]]
        yield Narrative(
            kind=CauseKind.DEDUPLICATED,
            records=own,
            offsets=(int(offset.min()), int(offset.max())),
            times=(int(time.min()), int(time.max())),
            epochs=leadership_terms,
            faults=faults_on(context, int(since.min()), int(until.max()), leaders),
            purged=context.sender.client == LIBRDKAFKA,
        )


def _given_up_before(history: PartitionHistory, records: Array) -> Array:
    """Return, for each record, the record of the same producer that is at the offset of its ack and
    was answered without an ack before this one was sent, or NONE."""
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
    history: PartitionHistory,
    records: Array,
    given_up: Array,
    context: PartitionContext,
    bound: int,
) -> tuple[Array, Array]:
    """Return the first and the last leadership term in which each record may have been acked.
    Return NONE if one of them may have appended it where the other record is, or if one may have
    gone unobserved."""
    offsets, asked = history.acked_offset[records], history.asked[records]
    answered, stands = history.answered[records], history.epoch_at(offsets)
    settled = np.maximum(answered, _acked_above(history, offsets))
    first, last = np.full((2, len(records)), NONE, dtype=np.int64)
    excluded = answered < _seen_until(history, context)
    for number, term in enumerate(context.leadership_terms):
        may = (answered >= term.elected_after) & (asked <= term.deposed)
        kept = (stands == term.epoch) | (offsets < term.log_end)
        kept &= term.epoch not in context.contended
        for fault in context.faults:
            if fault.affected(term.leader) and fault.start <= term.deposed:
                before = history.asked[given_up] > fault.took + bound
                kept &= before | (settled < fault.start - bound)
        excluded &= ~may | kept
        first[may & (first == NONE)] = number
        last[may] = number
    return np.where(excluded, first, NONE), np.where(excluded, last, NONE)


def _acked_above(history: PartitionHistory, offsets: Array) -> Array:
    """Return, for each offset, the time of the first ack of a record above it that is in the log,
    or FOREVER."""
    acked = np.full(len(history.log_offset) + 1, FOREVER, dtype=np.int64)
    standing = np.flatnonzero(history.at_acked_offset != NONE)
    acked[history.at_acked_offset[standing]] = history.answered[standing]
    since: Array = np.minimum.accumulate(acked[::-1])[::-1]
    return since[np.searchsorted(history.log_offset, offsets, side="right")]


def _seen_until(history: PartitionHistory, context: PartitionContext) -> int:
    """Return the time before which certainly no unknown leader was elected.

    A leader that was elected in a hole of the observation shows in the epoch observed after it. If
    that epoch has not risen, none was.
    """
    seen = history.timeline
    known = {*seen.epochs, *(term.epoch for term in context.leadership_terms)}
    missing = min(set(range(len(known) + 1)) - known)
    later = zip(seen.epochs, seen.elected_after, strict=True)
    last = FOREVER if seen.watched else seen.watched_until
    return next((time for epoch, time in later if epoch > missing), last)


# --- tombstones -----------------------------------------------------------------------------------


def removed_tombstones(
    history: PartitionHistory,
    records: Array,
    lost: LostRecords,
    context: PartitionContext,
    others: Sequence[Narrative],
) -> Iterator[Narrative]:
    """Yield a narrative for all tombstones that cleaners removed too early.

    A truncation may also have removed one that another record followed at its offset, if that
    record is gone, too. Where that is possible, a tombstone is only one of these if the leaders do
    not explain its loss. Elsewhere only a cleaner can have made the gap, perhaps that of another
    replica than the one whose log still has the deleted value.

    Args:
        records: The number of each of ``lost``, or NONE if the history does not know it.
        others: The narratives that the leaders give to these records.
    """
    places = np.flatnonzero(np.isin(records, vacated(history)))
    alone = _is_sole_claim(history, lost.offset[places]) & _is_each_placed(history, context)
    unexplained = [one.records for one in others if one.kind is CauseKind.UNEXPLAINED]
    left = np.isin(places, np.concatenate([places[:0], *unexplained]))
    left &= np.isin(records[places], removed_early(history))
    own = places[alone | left]
    if len(own):
        offset, time = lost.offset[own], lost.time[own]
        yield Narrative(
            kind=CauseKind.TOMBSTONE_TOO_EARLY,
            records=own,
            offsets=(int(offset.min()), int(offset.max())),
            times=(int(time.min()), int(time.max())),
        )


def _is_sole_claim(history: PartitionHistory, offsets: Array) -> Array:
    """Return whether only one record was acked at each of these offsets."""
    claimed = np.sort(history.acked_offset[history.named_acks])
    first, last = (np.searchsorted(claimed, offsets, side=side) for side in ("left", "right"))
    found: Array = last - first <= 1
    return found


def _is_each_placed(history: PartitionHistory, context: PartitionContext) -> bool:
    """Return whether the offset of each record is known that may have been in the log. Copies that
    a producer without idempotence sent have offsets that no ack names."""
    nameless = (history.acked_offset == NONE) & (history.first == NONE)
    nameless &= (history.fate == Fate.ACKED) | (history.fate == Fate.INDETERMINATE)
    recorded = history.sends_whole and not history.crashed and not history.contradicted.any()
    return bool(recorded and context.sender.idempotent and not nameless.any())


# --- shown ----------------------------------------------------------------------------------------
#
# Records that consumers read and that the final log does not have at that offset: which consumers
# read them and when, under which leader and epoch, and whether a leader's own log shows that they
# were below the high watermark.


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingReads:
    """The rows of an anomaly that are about reads of consumers.

    Attributes:
        rows: The places of the rows.
        gone: The record of each row. Its time is that of the first consumer's last read.
        records: The number of each record, or NONE if the history does not know it.
        to: The consumers that read it.
    """

    rows: Array
    gone: LostRecords
    records: Array
    to: Sequence[Sequence[str]]

    @classmethod
    def of(
        cls, found: ReadAnomalies, history: PartitionHistory, clients: Sequence[str]
    ) -> "MissingReads":
        """Return the reads among the rows of ``found``. ``clients`` has the names by number."""
        claims = found.shown
        if claims is None:
            raise ValueError(f"{found.anomaly} is not an anomaly of reads")
        rows, firsts, to = [], [], []
        for row, mine in enumerate(found.whose):
            readers = mine[claims.who[mine] != ACK]
            if len(readers):
                rows.append(row)
                another = claims.record[readers] != claims.record[mine[0]]
                firsts.append(readers[np.lexsort((claims.until[readers], another))[0]])
                whose = claims.record[readers] == claims.record[firsts[-1]]
                to.append([clients[who] for who in np.unique(claims.who[readers[whose]])])
        chosen = claims.at(np.array(firsts, dtype=np.int64))
        known = (chosen.record != NONE) & (chosen.record < len(history.sequence))
        records = np.where(known, chosen.record, NONE)
        missing = LostRecords(
            producer=np.where(known, history.producer[records], NONE) if known.any() else records,
            sequence=np.where(known, history.sequence[records], chosen.offset)
            if known.any()
            else chosen.offset,
            offset=chosen.offset,
            time=chosen.until,
            stands=history.epoch_at(chosen.offset),
            epoch=chosen.epoch,
        )
        return cls(rows=np.array(rows, dtype=np.int64), gone=missing, records=records, to=to)


def watermark(narrative: Narrative, context: PartitionContext) -> LeadershipTerm | None:
    """Return the first leader that had the records and whose high watermark was beyond all of them
    when its term began, or None."""
    if narrative.offsets is None or len(narrative.epochs) != 1:
        return None
    for term in _had(narrative, context):
        if term.high_watermark > narrative.offsets[1]:
            return term
    return None


def _had(narrative: Narrative, context: PartitionContext) -> list[LeadershipTerm]:
    """Return the terms whose leaders had the records, as far as is known."""
    end = narrative.next.epoch if narrative.next else narrative.epochs[-1].epoch + 1
    return [
        one
        for one in context.leadership_terms
        if narrative.epochs[0].epoch <= one.epoch < end and not one.unaware
    ]


def seen_columns(
    shown: MissingReads, narratives: Sequence[Narrative], context: PartitionContext
) -> Mapping[str, pa.Array]:
    """Return the columns that only reads have."""
    count = len(shown.rows)
    by, epoch = (np.full(count, NONE, dtype=np.int64) for _ in range(2))
    below = np.zeros(count, dtype=bool)
    for one_narrative in narratives:
        had = _had(one_narrative, context) if len(one_narrative.epochs) == 1 else []
        if had:
            own = one_narrative.records
            # A term counts from its first observation, and the first term also before that. Later
            # leaders did not have the records.
            seen = np.array([one.seen for one in had], dtype=np.int64)
            at = np.searchsorted(np.maximum.accumulate(seen), shown.gone.time[own], "right")
            at = np.maximum(at - 1, 0)
            by[own] = np.array([one.leader for one in had])[at]
            epoch[own] = np.array([one.epoch for one in had])[at]
            highest = max(one.high_watermark for one in had)
            below[own] = highest > shown.gone.offset[own]
    return {
        "shown_to": pa.array(shown.to, pa.list_(pa.string())),
        "shown_by": pa.array(by, pa.int32(), mask=by == NONE),
        "shown_epoch": pa.array(epoch, pa.int32(), mask=epoch == NONE),
        "below_watermark": pa.array(below, pa.bool_(), mask=~below),
    }


# --- performing -----------------------------------------------------------------------------------


LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootCauses:
    """The root causes of the rows of an anomaly.

    Attributes:
        of_records: One :data:`~checkers.root_cause.rows.ROOT_CAUSE` for each row, in their order,
            or null.
        causes: The causes that are reported.
        faults: The faults of each row's cause, comma-separated, or null; None if none are known.
    """

    of_records: pa.Array
    causes: Sequence[Cause]
    faults: pa.Array | None = None


def explain_lost(
    history: PartitionHistory, context: PartitionContext, terms: ValidityWindow, run: int = 1
) -> RootCauses:
    """Return the root causes of all records that the rule ``lost`` finds in a partition."""
    records = history.lost
    lost = LostRecords(
        producer=history.producer[records],
        sequence=history.sequence[records],
        offset=history.acked_offset[records],
        time=history.time[records],
        stands=history.epoch_at(history.acked_offset[records]),
        behind=_behind(history, records),
    )
    context = replace(context, leadership_terms=_appended(context.leadership_terms, history))
    found = _copies(history, context, lost, records)
    never = list(deduplicated(history, records, lost, context, held=found or ()))
    narratives = [
        *never,
        *_narratives(history, context, lost, records, acks=history.timeline.acks, but=never),
    ]
    place = CauseKey(run, history.cell, LOST, history.topic, history.partition)
    promised = ~np.logical_or(*statuses(lost.time, terms))
    causes = [
        cause(number, one, lost, place, promised, found)
        for number, one in enumerate(narratives, start=1)
    ]
    return RootCauses(
        of_records=root_cause_rows(narratives, lost, history.asked[records], context, found),
        causes=reported(causes),
        faults=_faults(causes, narratives, len(records)),
    )


def _faults(causes: Sequence[Cause], narratives: Sequence[Narrative], count: int) -> pa.Array:
    place = np.full(count, NONE, dtype=np.int64)
    for number, one in enumerate(narratives):
        place[one.records] = number
    labels = pa.array([attributed_faults(one) for one in causes], pa.string())
    return labels.take(pa.array(place, mask=place == NONE))


def explain_reads(
    history: PartitionHistory,
    context: PartitionContext,
    found: ReadAnomalies,
    clients: Sequence[str],
    run: int = 1,
) -> RootCauses:
    """Return the root causes of reads that the final log does not have. If only an ack is overruled
    there is none, because that record is explained where it is lost.

    A read record is below the high watermark of its leader, so all in-sync replicas have it. It is
    therefore treated like a record with acks=all, whatever ``acks`` is.
    """
    shown = MissingReads.of(found, history, clients)
    missing = shown.gone
    if not len(missing.time):
        return RootCauses(of_records=pa.nulls(len(found.rows), ROOT_CAUSE), causes=())
    context = replace(
        context, leadership_terms=_appended(context.leadership_terms, history, missing.epoch)
    )
    narratives = [
        replace(one, shown=True, committed=watermark(one, context))
        for one in _narratives(history, context, missing, shown.records, acks="all", shown=True)
    ]
    # If two records were read at one offset, a copy there belongs to only one of them.
    alone = len(np.unique(missing.offset)) == len(missing.offset)
    left = _copies(history, context, missing, shown.records) if alone else None
    place = CauseKey(run, history.cell, found.anomaly, history.topic, history.partition)
    causes = [
        cause(number, one, missing, place, found.promised[shown.rows], left)
        for number, one in enumerate(narratives, start=1)
    ]
    sent = np.where(shown.records == NONE, NONE, history.asked[shown.records])
    performed = root_cause_rows(
        narratives, missing, sent, context, left, more=seen_columns(shown, narratives, context)
    )
    places = np.full(len(found.rows), NONE, dtype=np.int64)
    places[shown.rows] = np.arange(len(shown.rows))
    of_rows = pa.array(places, mask=places == NONE)
    return RootCauses(
        of_records=performed.take(of_rows),
        causes=reported(causes),
        faults=_faults(causes, narratives, len(missing.time)).take(of_rows),
    )


def _deleted_by(history: PartitionHistory) -> int:
    """Return when the last records were seen to be gone that retention had to keep, or NONE."""
    found = history.deletions
    return NONE if found is None else int(found.removed_by[found.early].max(initial=NONE))


def _narratives(
    history: PartitionHistory,
    context: PartitionContext,
    lost: LostRecords,
    records: Array,
    acks: str,
    *,
    shown: bool = False,
    but: Sequence[Narrative] = (),
) -> list[Narrative]:
    """Return the narratives of the records, of which ``records`` has the numbers. ``but`` has the
    narratives that some of them already have."""
    found = _by_leaders(history, context, lost, acks, shown=shown, but=but)
    early = list(removed_tombstones(history, records, lost, context, found))
    if not early:
        return found
    return [*early, *_by_leaders(history, context, lost, acks, shown=shown, but=[*but, *early])]


def _by_leaders(
    history: PartitionHistory,
    context: PartitionContext,
    lost: LostRecords,
    acks: str,
    *,
    shown: bool,
    but: Sequence[Narrative],
) -> list[Narrative]:
    """Return the narratives of the records without :func:`removed_tombstones`."""
    bound = history.timeline.clock_bound_ns
    if shown:
        bound = None if context.readers_bound == NONE else context.readers_bound
    around = NarrativeFacts(
        acks=acks,
        watched=history.timeline.watched,
        bound=bound,
        log_start=NONE if history.read.start is None else history.read.start,
        deleted_by=NONE if shown else _deleted_by(history),
    )
    left = np.ones(len(lost.time), dtype=bool)
    for one in but:
        left[one.records] = False
    places = np.flatnonzero(left)
    return [
        narrative(replace(group, records=places[group.records]), lost, context, around)
        for group in groups(
            lost.at(places) if but else lost, context.leadership_terms, context.faults
        )
    ]


def _behind(history: PartitionHistory, records: Array) -> Array:
    """Return, for each record, the epoch of its producer's record that was acked right below it, no
    later than it, and is in the log; NONE if there is none."""
    found = np.full(len(records), NONE, dtype=np.int64)
    if not len(history.log_offset) or not len(records):
        return found
    below = history.acked_offset[records] - 1
    places = np.searchsorted(history.log_offset, below)
    places = np.minimum(places, len(history.log_offset) - 1)
    before = history.log_record[places]
    kept = (history.log_offset[places] == below) & (before != NONE)
    kept &= history.at_acked_offset[before] == places
    kept &= history.stream[before] == history.stream[records]
    kept &= history.sequence[before] < history.sequence[records]
    kept &= history.time[before] <= history.time[records]
    found[kept] = history.log_epoch[places[kept]]
    return found


def _copies(
    history: PartitionHistory, context: PartitionContext, lost: LostRecords, records: Array
) -> Mapping[int, Sequence[int]] | None:
    """Return the remaining copies of the records. ``records`` has the number of each of ``lost``,
    or NONE if the history does not know it."""
    named = np.flatnonzero((lost.offset != NONE) & (records != NONE))
    # Building the names of so many records would take more time and memory than everything else.
    if not context.brokers or len(np.unique(lost.offset[named])) > LOOKED_FOR_MAX:
        return None
    return copies(
        list(zip(context.brokers, map(located, context.directories), strict=True)),
        _wanted(history, lost.offset[named], records[named]),
        dict(zip(lost.offset.tolist(), lost.stands.tolist(), strict=True)),
    )


def _wanted(history: PartitionHistory, offsets: Array, records: Array) -> Mapping[int, Identity]:
    return {
        int(offset): Identity(
            history.cell_names[history.cell_of[record]],
            int(history.producer[record]),
            int(history.sequence[record]),
        )
        for offset, record in zip(offsets, records, strict=True)
    }


def _appended(
    leadership_terms: Sequence[LeadershipTerm],
    history: PartitionHistory,
    shown: Array | None = None,
) -> list[LeadershipTerm]:
    """Return the leadership terms, completed by what was appended in them. A leader certainly led
    if the final log, or a record that was read (``shown``), has its epoch, whatever its own log
    lacks.

    If a leader did not report the log end with which it began, the first record of its epoch in the
    final log counts. This does not hold for the log's first epoch, whose beginning may have been
    deleted.
    """
    changes = np.flatnonzero(np.diff(history.log_epoch)) + 1
    places = np.append(0, changes)[: len(history.log_epoch)]
    begun: dict[int, int] = {}
    for place in places.tolist():
        begun.setdefault(int(history.log_epoch[place]), int(history.log_offset[place]))
    led = begun.keys() | set([] if shown is None else shown.tolist())
    leadership_terms = [
        replace(one, unaware=one.unaware and one.epoch not in led) for one in leadership_terms
    ]
    return [
        replace(term, log_end=begun[term.epoch])
        if term.log_end < 0 and begun.get(term.epoch, history.read.start) != history.read.start
        else term
        for term in leadership_terms
    ]
