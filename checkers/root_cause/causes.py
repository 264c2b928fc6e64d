"""The causes that anomalies of a partition share, as a few lines that are returned to the
driver."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ackproof.checkers.arrays import Array
from ackproof.checkers.root_cause.attribution import LostRecords
from ackproof.checkers.root_cause.copies import Copies
from ackproof.checkers.root_cause.kinds import EXPECTED, CauseKind
from ackproof.checkers.root_cause.narratives import Narrative, sentence
from ackproof.checkers.verdict import Cause

REPORTED_MAX = 20
"""The greatest number of causes for each partition and anomaly, however long the history is."""

MORE = "more"
"""The kind of the line that stands for the causes that are not reported."""


class CauseKey(NamedTuple):
    """The anomaly and the partition of a cause."""

    run: int
    cell: str
    anomaly: str
    topic: str
    partition: int


def cause(
    number: int,
    narrative: Narrative,
    lost: LostRecords,
    place: CauseKey,
    promised: Array,
    copies: Copies | None,
) -> Cause:
    """Return the cause of a narrative, without its records. ``promised`` says of each of ``lost``
    whether it was guaranteed to stay. ``copies`` has the remaining copies of all of them."""
    after = narrative.next
    first, last = narrative.offsets or (None, None)
    return Cause(
        **place._asdict(),
        number=number,
        kind=narrative.kind.value,
        sentence=sentence(narrative, _held(lost.offset[narrative.records], copies or {})),
        records=len(narrative.records),
        promised=int(np.count_nonzero(promised[narrative.records])),
        first_offset=first,
        last_offset=last,
        first_time=narrative.times[0],
        last_time=narrative.times[1],
        leaders=tuple(narrative.leaders),
        epochs=tuple(term.epoch for term in narrative.epochs),
        next_leader=after.leader if after else None,
        next_epoch=after.epoch if after else None,
        next_offset=after.log_end if after and after.log_end >= 0 else None,
        isr_before=tuple(after.isr_before) if after else (),
        faults=tuple(fault.label for fault in narrative.disks or narrative.faults),
    )


def _held(offsets: Array, copies: Copies) -> dict[int, int]:
    """Return how many of the records each broker still holds. Brokers that hold none are left
    out."""
    brokers = sorted({broker for held in copies.values() for broker in held})
    places = {one: [at for at, held in copies.items() if one in held] for one in brokers}
    counts = {one: int(np.isin(offsets, held).sum()) for one, held in places.items()}
    return {broker: count for broker, count in counts.items() if count}


_NO_CAUSE = (CauseKind.UNEXPLAINED, CauseKind.UNKNOWN)
"""Kinds without a known cause. The faults of these were active at some time, but may be unrelated
to some of the records."""


def attributed_faults(cause: Cause) -> str | None:
    """Return the faults to which the records of a cause are attributed, comma-separated, or
    None."""
    return None if cause.kind in _NO_CAUSE else ",".join(cause.faults) or None


def in_order(causes: Iterable[Cause]) -> list[Cause]:
    """Return the causes, the most severe first: violations of guarantees, then unexplained
    anomalies. Effects that the settings allow come last."""
    return sorted(
        causes,
        key=lambda one: (
            -one.promised,
            one.kind != CauseKind.UNEXPLAINED,
            one.kind in EXPECTED,
            -one.records,
            *(one.run, one.topic, one.partition, one.anomaly, one.number),
        ),
    )


def reported(causes: Sequence[Cause]) -> list[Cause]:
    """Return the causes that are reported. The last line stands for all others."""
    ordered = in_order(causes)
    kept, left = ordered[:REPORTED_MAX], ordered[REPORTED_MAX:]
    if left:
        kept.append(_more(left))
    return kept


def _more(left: Sequence[Cause]) -> Cause:
    return replace(
        left[0],
        number=0,
        kind=MORE,
        sentence=f"{len(left):,} more causes are listed only in root-causes.parquet.",
        records=sum(one.records for one in left),
        promised=sum(one.promised for one in left),
        first_offset=None,
        last_offset=None,
        first_time=min(
            (one.first_time for one in left if one.first_time is not None), default=None
        ),
        last_time=max((one.last_time for one in left if one.last_time is not None), default=None),
        leaders=(),
        epochs=(),
        next_leader=None,
        next_epoch=None,
        next_offset=None,
        isr_before=(),
        faults=(),
    )
