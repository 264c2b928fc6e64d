"""The autopsies of what a partition's log does not have, from the rows of those who found it: of
acked records that are lost, and of what consumers were shown that does not stand there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.autopsy.attribution import Lost, groups
from ackproof.checkers.autopsy.causes import Place, cause, held_responsible, told
from ackproof.checkers.autopsy.copies import LOOKED_FOR_MAX, copies
from ackproof.checkers.autopsy.deduplication import deduplicated
from ackproof.checkers.autopsy.explaining import Around, Story, story
from ackproof.checkers.autopsy.rows import AUTOPSY, autopsies
from ackproof.checkers.autopsy.scene import Reign, Scene
from ackproof.checkers.autopsy.shown import Shown, seen_columns, watermark
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.promises.standing import standings
from ackproof.checkers.promises.terms import Terms
from ackproof.checkers.reads.anomalies import Found
from ackproof.checkers.verdict import Cause
from ackproof.history.payload import Identity
from ackproof.history.storage import located

LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Autopsies:
    """``of_records``: an :data:`~checkers.autopsy.rows.AUTOPSY` a row of the anomaly, in their
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
