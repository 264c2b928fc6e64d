"""The autopsies of what a partition's log does not have, from the rows of those who found it: of
acked records that are lost, and of what consumers were shown that does not stand there."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.claims import ACK
from ackproof.checkers.checks.read_anomalies import Found
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.status import standings
from ackproof.checkers.context.validity import Terms
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.root_cause.attribution import Lost, groups
from ackproof.checkers.root_cause.causes import Place, cause, held_responsible, told
from ackproof.checkers.root_cause.copies import LOOKED_FOR_MAX, copies
from ackproof.checkers.root_cause.kinds import Kind
from ackproof.checkers.root_cause.partition_context import Reign, Scene
from ackproof.checkers.root_cause.rows import AUTOPSY, autopsies
from ackproof.checkers.root_cause.stories import Around, Story, faults_on, story
from ackproof.checkers.verdict import Cause
from ackproof.history.cell import LIBRDKAFKA
from ackproof.history.payload import Identity
from ackproof.history.storage import located


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


# --- shown ----------------------------------------------------------------------------------------
#
# What consumers were shown and the final log does not have there: who was shown it when, by which
# leader of which epoch, and whether a leader's own word is that it was below the high watermark.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Of the rows of an anomaly those of what somebody was shown.

    Attributes:
        rows: Which rows.
        gone: What each is about. Its time is when the first consumer was shown it for the last
            time.
        records: Whose it is; NONE for nobody's of whom the history tells.
        to: Who was shown it.
    """

    rows: Array
    gone: Lost
    records: Array
    to: Sequence[Sequence[str]]

    @classmethod
    def of(cls, found: Found, history: PartitionHistory, clients: Sequence[str]) -> "Shown":
        """``clients``: by number."""
        told = found.shown
        if told is None:
            raise ValueError(f"{found.anomaly} is not about what somebody was shown")
        rows, firsts, to = [], [], []
        for row, mine in enumerate(found.whose):
            readers = mine[told.who[mine] != ACK]
            if len(readers):
                rows.append(row)
                another = told.record[readers] != told.record[mine[0]]
                firsts.append(readers[np.lexsort((told.until[readers], another))[0]])
                whose = told.record[readers] == told.record[firsts[-1]]
                to.append([clients[who] for who in np.unique(told.who[readers[whose]])])
        chosen = told.at(np.array(firsts, dtype=np.int64))
        known = (chosen.record != NONE) & (chosen.record < len(history.sequence))
        records = np.where(known, chosen.record, NONE)
        gone = Lost(
            producer=np.where(known, history.producer[records], NONE) if known.any() else records,
            sequence=np.where(known, history.sequence[records], chosen.offset)
            if known.any()
            else chosen.offset,
            offset=chosen.offset,
            time=chosen.until,
            stands=history.epoch_at(chosen.offset),
            epoch=chosen.epoch,
        )
        return cls(rows=np.array(rows, dtype=np.int64), gone=gone, records=records, to=to)


def watermark(story: Story, scene: Scene) -> Reign | None:
    """The first leader that had them whose high watermark was beyond all of them when it began."""
    if story.offsets is None or len(story.epochs) != 1:
        return None
    for reign in _had(story, scene):
        if reign.high_watermark > story.offsets[1]:
            return reign
    return None


def _had(story: Story, scene: Scene) -> list[Reign]:
    """The reigns whose leaders had them, as far as that is known."""
    end = story.next.epoch if story.next else story.epochs[-1].epoch + 1
    return [
        one for one in scene.reigns if story.epochs[0].epoch <= one.epoch < end and not one.unheard
    ]


def seen_columns(shown: Shown, stories: Sequence[Story], scene: Scene) -> Mapping[str, pa.Array]:
    """What rows tell of them alone."""
    count = len(shown.rows)
    by, epoch = (np.full(count, NONE, dtype=np.int64) for _ in range(2))
    below = np.zeros(count, dtype=bool)
    for one_story in stories:
        had = _had(one_story, scene) if len(one_story.epochs) == 1 else []
        if had:
            mine = one_story.records
            # Before the first was seen at all it was the first; who came later did not have them.
            seen = np.array([one.seen for one in had], dtype=np.int64)
            at = np.searchsorted(np.maximum.accumulate(seen), shown.gone.time[mine], "right")
            at = np.maximum(at - 1, 0)
            by[mine] = np.array([one.leader for one in had])[at]
            epoch[mine] = np.array([one.epoch for one in had])[at]
            highest = max(one.high_watermark for one in had)
            below[mine] = highest > shown.gone.offset[mine]
    return {
        "shown_to": pa.array(shown.to, pa.list_(pa.string())),
        "shown_by": pa.array(by, pa.int32(), mask=by == NONE),
        "shown_epoch": pa.array(epoch, pa.int32(), mask=epoch == NONE),
        "below_watermark": pa.array(below, pa.bool_(), mask=~below),
    }


# --- performing -----------------------------------------------------------------------------------


LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autopsies:
    """``of_records``: an :data:`~checkers.root_cause.rows.AUTOPSY` a row of the anomaly, in their
    order, null where it is none's; ``causes``: the few that are told; ``faults``: the faults of the
    cause of each row, comma-separated, null where it has none; None where no row's are known."""

    of_records: pa.Array
    causes: Sequence[Cause]
    faults: pa.Array | None = None


def perform(history: PartitionHistory, scene: Scene, terms: Terms, run: int = 1) -> Autopsies:
    """Of all records that the rule ``lost`` finds in a partition."""
    records = history.lost
    lost = Lost(
        producer=history.producer[records],
        sequence=history.sequence[records],
        offset=history.acked_offset[records],
        time=history.time[records],
        stands=history.epoch_at(history.acked_offset[records]),
        behind=_behind(history, records),
    )
    scene = replace(scene, reigns=_appended(scene.reigns, history))
    found = _copies(history, scene, lost, records)
    never = list(deduplicated(history, records, lost, scene, held=found or ()))
    stories = [*never, *_stories(history, scene, lost, acks=history.timeline.acks, but=never)]
    place = Place(run, history.cell, LOST, history.topic, history.partition)
    promised = ~np.logical_or(*standings(lost.time, terms))
    causes = [
        cause(number, one, lost, place, promised, found)
        for number, one in enumerate(stories, start=1)
    ]
    return Autopsies(
        of_records=autopsies(stories, lost, history.asked[records], scene, found),
        causes=told(causes),
        faults=_faults(causes, stories, len(records)),
    )


def _faults(causes: Sequence[Cause], stories: Sequence[Story], count: int) -> pa.Array:
    place = np.full(count, NONE, dtype=np.int64)
    for number, one in enumerate(stories):
        place[one.records] = number
    labels = pa.array([held_responsible(one) for one in causes], pa.string())
    return labels.take(pa.array(place, mask=place == NONE))


def perform_shown(
    history: PartitionHistory, scene: Scene, found: Found, clients: Sequence[str], run: int = 1
) -> Autopsies:
    """Of what consumers were shown that the final log does not have there. Where an ack alone is
    overruled there is none: what became of that record is told where it is lost.

    What is shown is below the high watermark of who shows it, so that all in sync have it: it goes
    as what was acked with acks=all goes, whatever acks ask for.
    """
    shown = Shown.of(found, history, clients)
    gone = shown.gone
    if not len(gone.time):
        return Autopsies(of_records=pa.nulls(len(found.rows), AUTOPSY), causes=())
    scene = replace(scene, reigns=_appended(scene.reigns, history, gone.epoch))
    stories = [
        replace(one, shown=True, committed=watermark(one, scene))
        for one in _stories(history, scene, gone, acks="all", shown=True)
    ]
    # Of two records that were shown at one offset a copy there is one's alone.
    alone = len(np.unique(gone.offset)) == len(gone.offset)
    left = _copies(history, scene, gone, shown.records) if alone else None
    place = Place(run, history.cell, found.anomaly, history.topic, history.partition)
    causes = [
        cause(number, one, gone, place, found.promised[shown.rows], left)
        for number, one in enumerate(stories, start=1)
    ]
    sent = np.where(shown.records == NONE, NONE, history.asked[shown.records])
    performed = autopsies(
        stories, gone, sent, scene, left, more=seen_columns(shown, stories, scene)
    )
    places = np.full(len(found.rows), NONE, dtype=np.int64)
    places[shown.rows] = np.arange(len(shown.rows))
    of_rows = pa.array(places, mask=places == NONE)
    return Autopsies(
        of_records=performed.take(of_rows),
        causes=told(causes),
        faults=_faults(causes, stories, len(gone.time)).take(of_rows),
    )


def _stories(
    history: PartitionHistory,
    scene: Scene,
    lost: Lost,
    acks: str,
    *,
    shown: bool = False,
    but: Sequence[Story] = (),
) -> list[Story]:
    """``but``: those that some of them have already."""
    bound = history.timeline.clock_bound_ns
    if shown:
        bound = None if scene.readers_bound == NONE else scene.readers_bound
    around = Around(
        acks=acks,
        watched=history.timeline.watched,
        bound=bound,
        log_start=NONE if history.read.start is None else history.read.start,
    )
    left = np.ones(len(lost.time), dtype=bool)
    for one in but:
        left[one.records] = False
    places = np.flatnonzero(left)
    return [
        story(replace(group, records=places[group.records]), lost, scene, around)
        for group in groups(lost.at(places) if but else lost, scene.reigns, scene.faults)
    ]


def _behind(history: PartitionHistory, records: Array) -> Array:
    """By record: the epoch of the one of its producer that was acked right below it, no later than
    it, and stands there; NONE where there is none."""
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
    history: PartitionHistory, scene: Scene, lost: Lost, records: Array
) -> Mapping[int, Sequence[int]] | None:
    """``records``: whose each of ``lost`` is, NONE for nobody's of whom the history tells."""
    named = np.flatnonzero((lost.offset != NONE) & (records != NONE))
    # To name them all, for nobody, would take longer and more memory than all else.
    if not scene.brokers or len(np.unique(lost.offset[named])) > LOOKED_FOR_MAX:
        return None
    return copies(
        list(zip(scene.brokers, map(located, scene.directories), strict=True)),
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
    reigns: Sequence[Reign], history: PartitionHistory, shown: Array | None = None
) -> list[Reign]:
    """The reigns, by what was appended in them, too. In whose epoch the final log, or what was
    ``shown``, has a record, that leader has led, whatever its own log lacks.

    Where a leader did not say itself where its log ended when it began: the first record that the
    final log has of its epoch stands there. Not of the log's first epoch, of which the beginning
    may have been deleted."""
    changes = np.flatnonzero(np.diff(history.log_epoch)) + 1
    places = np.append(0, changes)[: len(history.log_epoch)]
    begun: dict[int, int] = {}
    for place in places.tolist():
        begun.setdefault(int(history.log_epoch[place]), int(history.log_offset[place]))
    led = begun.keys() | set([] if shown is None else shown.tolist())
    reigns = [replace(one, unheard=one.unheard and one.epoch not in led) for one in reigns]
    return [
        replace(reign, log_end=begun[reign.epoch])
        if reign.log_end < 0 and begun.get(reign.epoch, history.read.start) != history.read.start
        else reign
        for reign in reigns
    ]
