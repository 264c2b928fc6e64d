"""The autopsies of records that stand in a partition's log more than once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE
from ackproof.checkers.autopsy.causes import Place, held_responsible, told
from ackproof.checkers.autopsy.performing import Autopsies
from ackproof.checkers.autopsy.repeats.explaining import Repeat, RepeatStory, repeats_of, stories
from ackproof.checkers.autopsy.repeats.telling import sentence
from ackproof.checkers.autopsy.rows import isrs, of_rows
from ackproof.checkers.autopsy.scene import Scene
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.promises import standing
from ackproof.checkers.promises.standing import Standing
from ackproof.checkers.promises.terms import Terms
from ackproof.checkers.raw_logs.sessions import Written, written
from ackproof.checkers.rules.order import renewed
from ackproof.checkers.verdict import Cause
from ackproof.history.storage import located

DUPLICATED = "duplicated"


def perform_repeated(
    history: PartitionHistory, scene: Scene, terms: Terms, run: int = 1
) -> Autopsies:
    """Of all records that the rule ``duplicated`` finds in a partition."""
    found = history.copies
    repeats = repeats_of(found, history, _written(found, history, scene))
    place = Place(run, history.cell, DUPLICATED, history.topic, history.partition)
    promised = scene.sender.idempotent and (
        standing.of_partition(history.begun, terms) is Standing.PROMISED
    )
    explained = stories(repeats, history, scene)
    of_record = {
        one.record: (number, story)
        for number, story in enumerate(explained, start=1)
        for one in story.repeats
    }
    rows = [_row(one, *of_record[one.record], history) for one in repeats]
    when = np.array([history.time[one.record] for one in repeats], dtype=np.int64)
    in_sync = isrs(when, scene).to_pylist()
    causes = [
        _cause(number, story, place, history, promised=promised)
        for number, story in enumerate(explained, start=1)
    ]
    return Autopsies(
        of_records=of_rows([{**row, "isr": isr} for row, isr in zip(rows, in_sync, strict=True)]),
        causes=[
            replace(one, sentence=_sentence(explained[one.number - 1], history, scene))
            if one.number
            else one
            for one in told(causes)
        ],
        faults=pa.array([held_responsible(causes[row["cause"] - 1]) for row in rows], pa.string()),
    )


def _written(
    found: Mapping[int, Sequence[int]], history: PartitionHistory, scene: Scene
) -> Mapping[int, Written]:
    """By the logs of replicas that were in sync, or else of any: a batch of the same epoch at the
    same offset is the same batch."""
    if history.written:
        return history.written
    offsets = [offset for of_one in found.values() for offset in of_one]
    epochs = history.epoch_at(np.array(offsets, dtype=np.int64)).tolist()
    # Of an epoch that is not told another batch may be taken for it.
    if NONE in epochs:
        return {}
    return written(list(map(located, scene.directories)), dict(zip(offsets, epochs, strict=True)))


def _row(one: Repeat, number: int, story: RepeatStory, history: PartitionHistory) -> dict[str, Any]:
    leaders = {reign.epoch: reign.leader for reign in story.reigns}
    acked = int(history.acked_offset[one.record])
    return {
        "cause": number,
        "kind": story.kind.value,
        "sent": None if one.asked == NONE else one.asked,
        "acked_offset": None if acked == NONE else acked,
        "offsets": list(one.offsets),
        "epochs": [None if epoch == NONE else epoch for epoch in one.epochs],
        "leaders": [leaders.get(epoch) for epoch in one.epochs],
        "producer_ids": [told.producer_id for told in one.written] or None,
        "producer_epochs": [told.producer_epoch for told in one.written] or None,
        "producer_sequences": [told.sequence for told in one.written] or None,
    }


def _cause(
    number: int,
    story: RepeatStory,
    place: Place,
    history: PartitionHistory,
    *,
    promised: bool,
) -> Cause:
    """Without its sentence: of many causes few are told, and it takes as long as all else."""
    times = [int(history.time[one.record]) for one in story.repeats]
    firsts = [one.offsets[0] for one in story.repeats]
    # As the rule excuses them: who began another session is no log's to know again.
    broken = sum(not renewed(history, one.offsets) for one in story.repeats)
    return Cause(
        **place._asdict(),
        number=number,
        kind=story.kind.value,
        sentence="",
        records=len(story.repeats),
        promised=broken if promised else 0,
        first_offset=min(firsts),
        last_offset=max(firsts),
        first_time=min(times),
        last_time=max(times),
        leaders=tuple(dict.fromkeys(reign.leader for reign in story.reigns)),
        epochs=tuple(story.epochs),
        faults=tuple(fault.label for fault in story.disks or story.faults),
    )


def _sentence(story: RepeatStory, history: PartitionHistory, scene: Scene) -> str:
    return sentence(story, scene.sender.client, history.timeline.acks)
