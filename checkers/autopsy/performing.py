"""The autopsy of a partition's lost records, from the rows of the rule that found them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from checkers.autopsy.attribution import Lost, groups
from checkers.autopsy.causes import Place, cause, told
from checkers.autopsy.copies import copies
from checkers.autopsy.explaining import Around, story
from checkers.autopsy.rows import autopsies
from checkers.autopsy.scene import Reign, Scene
from checkers.indexes import NONE, Array, PartitionHistory
from checkers.terms import Terms
from checkers.verdict import Cause
from history.payload import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Autopsies:
    """``of_records``: an :data:`~checkers.autopsy.rows.AUTOPSY` a lost record, in the order in
    which the rule ``lost`` tells of them; ``causes``: the few that are told."""

    of_records: pa.Array
    causes: Sequence[Cause]


def perform(history: PartitionHistory, scene: Scene, terms: Terms, run: int = 1) -> Autopsies:
    """Of all records that the rule ``lost`` finds in a partition."""
    records = history.lost
    lost = Lost(
        producer=history.producer[records],
        sequence=history.sequence[records],
        offset=history.acked_offset[records],
        time=history.time[records],
        stands=_standing(history, history.acked_offset[records]),
    )
    scene = replace(scene, reigns=_with_ends(scene.reigns, history))
    around = Around(
        acks=history.timeline.acks,
        watched=history.timeline.watched,
        bound=history.timeline.clock_bound_ns,
        log_start=NONE if history.read.start is None else history.read.start,
    )
    stories = [
        story(group, lost, scene, around) for group in groups(lost, scene.reigns, scene.faults)
    ]
    found = copies(
        list(zip(scene.brokers, map(Path, scene.directories), strict=True)),
        _wanted(history, records),
        dict(zip(lost.offset.tolist(), lost.stands.tolist(), strict=True)),
    )
    place = Place(run, history.cell, history.topic, history.partition)
    causes = [
        cause(number, one, lost, place, terms, found) for number, one in enumerate(stories, start=1)
    ]
    return Autopsies(
        of_records=autopsies(stories, lost, history.asked[records], scene, found),
        causes=told(causes),
    )


def _wanted(history: PartitionHistory, records: Array) -> Mapping[int, Identity]:
    named = records[history.acked_offset[records] != NONE]
    return {
        int(history.acked_offset[record]): Identity(
            history.cell_names[history.cell_of[record]],
            int(history.producer[record]),
            int(history.sequence[record]),
        )
        for record in named
    }


def _standing(history: PartitionHistory, offsets: Array) -> Array:
    """The epoch of what the final log holds at each offset."""
    found = np.full(len(offsets), NONE, dtype=np.int64)
    if len(history.log_offset):
        places = np.searchsorted(history.log_offset, offsets)
        within = np.minimum(places, len(history.log_offset) - 1)
        there = (places < len(history.log_offset)) & (history.log_offset[within] == offsets)
        found[there] = history.log_epoch[within[there]]
    return found


def _with_ends(reigns: Sequence[Reign], history: PartitionHistory) -> list[Reign]:
    """Where a leader did not say itself where its log ended when it began: the first record that
    the final log has of its epoch stands there. Not of the log's first epoch, of which the
    beginning may have been deleted."""
    epochs, places = np.unique(history.log_epoch, return_index=True)
    begun = dict(zip(epochs.tolist(), history.log_offset[places].tolist(), strict=True))
    return [
        replace(reign, log_end=begun[reign.epoch])
        if reign.log_end < 0 and begun.get(reign.epoch, history.read.start) != history.read.start
        else reign
        for reign in reigns
    ]
