"""The autopsy of each lost record: a row of ``autopsies.parquet``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from checkers.autopsy.attribution import Lost
from checkers.autopsy.explaining import Story
from checkers.autopsy.scene import Scene
from checkers.indexes import NONE, Array
from checkers.verdict import ANOMALIES

_BROKERS = pa.list_(pa.int32())
AUTOPSY = pa.struct(
    [
        pa.field("cause", pa.int32()),
        pa.field("kind", pa.string()),
        pa.field("sent", pa.int64()),
        pa.field("epochs", pa.list_(pa.int32())),
        pa.field("leaders", _BROKERS),
        pa.field("high_watermark", pa.int64()),
        pa.field("isr", _BROKERS),
        pa.field("next_epoch", pa.int32()),
        pa.field("next_leader", pa.int32()),
        pa.field("next_offset", pa.int64()),
        pa.field("late", pa.int64()),
        pa.field("cut_by", _BROKERS),
        pa.field("copies", _BROKERS),
    ]
)
"""What is found of one record; docs/autopsies.md says what each column means."""

_WHOSE = (
    *("run", "cell", "anomaly", "topic", "partition", "offset", "producer", "sequence", "time"),
    "fault",
)
AUTOPSIES = pa.schema([*(ANOMALIES.field(name) for name in _WHOSE), *AUTOPSY.fields])
"""``autopsies.parquet``: whose it is, as in ``anomalies.parquet``, and what was found."""


def autopsies(
    stories: Sequence[Story],
    lost: Lost,
    sent: Array,
    scene: Scene,
    copies: Mapping[int, Sequence[int]] | None,
) -> pa.Array:
    """One :data:`AUTOPSY` a record, in the order of ``lost``; a story's number is its place.
    ``sent``: when each was; ``copies``: by offset, where one was found."""
    of_story = np.full(len(lost.time), NONE, dtype=np.int64)
    for number, story in enumerate(stories):
        of_story[story.records] = number
    numbers = of_story.tolist()
    columns: dict[str, Iterable[Any]] = {
        "cause": (of_story + 1).tolist(),
        "kind": [stories[number].kind.value for number in numbers],
        "sent": [None if time == NONE else time for time in sent.tolist()],
        "isr": _isrs(lost.time, scene),
        "late": [_late(stories[s], t) for s, t in zip(numbers, lost.time.tolist(), strict=True)],
        "cut_by": _cut_by(stories, numbers, lost),
        "copies": [None if copies is None else copies.get(o, []) for o in lost.offset.tolist()],
    }
    alike = [_alike(story) for story in stories]
    for name in alike[0] if alike else ():
        columns[name] = [alike[number][name] for number in numbers]
    arrays = [pa.array(columns.get(field.name, []), field.type) for field in AUTOPSY.fields]
    return pa.StructArray.from_arrays(arrays, fields=AUTOPSY.fields)


def _alike(story: Story) -> dict[str, Any]:
    """What the records of a story have in common."""
    after = story.next
    watermark = story.epochs[0].high_watermark if len(story.epochs) == 1 else NONE
    return {
        "epochs": [reign.epoch for reign in story.epochs],
        "leaders": story.leaders,
        "high_watermark": None if watermark == NONE else watermark,
        "next_epoch": after.epoch if after else None,
        "next_leader": after.leader if after else None,
        "next_offset": after.log_end if after and after.log_end >= 0 else None,
    }


def _isrs(times: Array, scene: Scene) -> list[list[int] | None]:
    """Who was last seen in sync before each moment; None before anybody was seen."""
    places = np.searchsorted(np.array(scene.isr_times, np.int64), times, side="right") - 1
    return [list(scene.isrs[place]) if place >= 0 else None for place in places.tolist()]


def _late(story: Story, time: int) -> int | None:
    return None if story.next is None or story.next.seen < 0 else time - story.next.seen


def _cut_by(stories: Sequence[Story], numbers: Sequence[int], lost: Lost) -> list[list[int]]:
    """Of each record, the brokers whose logs were cut below it and had reached beyond, or may
    have."""
    return [
        [
            cut.broker
            for cut in stories[number].cuts
            if cut.offset <= offset and (cut.log_end is None or offset < cut.log_end)
        ]
        for number, offset in zip(numbers, lost.offset.tolist(), strict=True)
    ]
