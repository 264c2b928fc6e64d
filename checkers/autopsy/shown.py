"""What consumers were shown and the final log does not have there: who was shown it when, by which
leader of which epoch, and whether a leader's own word is that it was below the high watermark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.autopsy.attribution import Lost
from ackproof.checkers.autopsy.explaining import Story
from ackproof.checkers.autopsy.scene import Reign, Scene
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.reads.anomalies import Found
from ackproof.checkers.reads.claims import ACK


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
    for story in stories:
        had = _had(story, scene) if len(story.epochs) == 1 else []
        if had:
            mine = story.records
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
