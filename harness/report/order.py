"""Sends that were acknowledged out of order, and what they follow from.

``nonmonotonic-send`` looks at acks, ``reordered`` at the final log. A log that is truncated gives
its offsets out again: then a later send is acked at a lower offset, while nothing of what the final
log has stands out of order. Such sends are laid to the fault that the lost records are laid to.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

LOST, SENDS, REORDERED = "lost", "nonmonotonic-send", "reordered"
_PLACE = ("run", "topic", "partition")
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutOfOrder:
    """The sends of a campaign that were acknowledged out of order.

    Attributes:
        sends: How many there are.
        after_losses: How many were acked at or below the offset of a record that had been acked
            before and is lost, by that record's faults; None: no fault was on.
        reordered: How many records stand out of order in the final log.
    """

    sends: int
    after_losses: Counter[str | None]
    reordered: int

    @property
    def others(self) -> int:
        """How many sends follow no loss: a retry that came in behind later sends is one."""
        return self.sends - self.after_losses.total()

    @property
    def words(self) -> str:
        """The whole of it in sentences; empty without any such send."""
        if not self.sends:
            return ""
        told = [
            f"Acknowledged at a lower offset than one that the same producer had sent before: "
            f"{self.sends:,} (nonmonotonic-send)."
        ]
        if self.after_losses:
            ordered = sorted(self.after_losses.items(), key=lambda item: (-item[1], item[0] or ""))
            by_fault = ", ".join(f"{fault or 'no fault'} {count:,}" for fault, count in ordered)
            told.append(
                f"{self.after_losses.total():,} of them follow lost records ({by_fault}): the log "
                f"was truncated, and its offsets were given out again."
            )
        if self.others:
            told.append(f"{self.others:,} follow no loss.")
        told.append(
            f"Out of order in the final log stand {self.reordered:,} (reordered); records that are "
            f"lost cannot count there."
        )
        return " ".join(told)


def out_of_order(anomalies: pa.Table) -> OutOfOrder:
    """Return them from the rows of ``anomalies.parquet``."""
    counts = {name: _count(anomalies, name) for name in (SENDS, REORDERED)}
    after: Counter[str | None] = Counter()
    if counts[SENDS]:
        rows = anomalies.filter(pc.is_in(anomalies["anomaly"], pa.array([LOST, SENDS])))
        rows = rows.sort_by([(name, "ascending") for name in (*_PLACE, "time")])
        places = [rows[name].combine_chunks().dictionary_encode().indices for name in _PLACE]
        changes = [np.diff(place.to_numpy()) != 0 for place in places]
        bounds = np.flatnonzero(np.logical_or.reduce(changes)) + 1
        for start, end in zip([0, *bounds], [*bounds, len(rows)], strict=True):
            after.update(_after_losses(rows.slice(start, end - start)))
    return OutOfOrder(sends=counts[SENDS], after_losses=after, reordered=counts[REORDERED])


def _count(anomalies: pa.Table, name: str) -> int:
    return int(pc.sum(pc.equal(anomalies["anomaly"], name)).as_py() or 0)


def _after_losses(rows: pa.Table) -> Counter[str | None]:
    """The sends of one partition that follow a loss, by its faults. ``rows``: by time."""
    lost = pc.equal(rows["anomaly"], LOST).to_numpy(zero_copy_only=False)
    offsets = pc.fill_null(rows["offset"], _NO_OFFSET).to_numpy()
    of_lost = np.where(lost, offsets, _NO_OFFSET)
    highest = np.maximum.accumulate(of_lost)
    # The row of the highest lost offset so far.
    places = np.maximum.accumulate(np.where(of_lost == highest, np.arange(len(rows)), 0))
    follows = ~lost & (offsets != _NO_OFFSET) & (highest >= offsets)
    faults = rows["fault"].take(pa.array(places[follows]))
    return Counter(faults.to_pylist())
