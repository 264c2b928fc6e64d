"""The root cause of one anomaly, as a row of ``root-causes.parquet``."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.checks.rows import ANOMALIES
from ackproof.checkers.root_cause.attribution import LostRecords
from ackproof.checkers.root_cause.copies import Copies
from ackproof.checkers.root_cause.narratives import Narrative
from ackproof.checkers.root_cause.partition_context import PartitionContext

FILE = "root-causes.parquet"
FORMER_FILE = "autopsies.parquet"
"""The name of the file in results of earlier versions, which can still be reported."""

_BROKERS = pa.list_(pa.int32())
ROOT_CAUSE = pa.struct(
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
        pa.field("let_in", pa.int64()),
        pa.field("let_in_by", pa.int32()),
        pa.field("late", pa.int64()),
        pa.field("cut_by", _BROKERS),
        pa.field("copies", _BROKERS),
        pa.field("shown_to", pa.list_(pa.string())),
        pa.field("shown_by", pa.int32()),
        pa.field("shown_epoch", pa.int32()),
        pa.field("below_watermark", pa.bool_()),
        pa.field("acked_offset", pa.int64()),
        pa.field("offsets", pa.list_(pa.int64())),
        pa.field("producer_ids", pa.list_(pa.int64())),
        pa.field("producer_epochs", pa.list_(pa.int32())),
        pa.field("producer_sequences", pa.list_(pa.int32())),
        pa.field("last_offset", pa.int64()),
        pa.field("brokers", _BROKERS),
        pa.field("crcs", pa.list_(pa.int64())),
        pa.field("cut_to", pa.list_(pa.int64())),
    ]
)
"""The columns of a root cause; docs/root-causes.md explains each."""

_FEW = 100
_NONE = {field.name: pa.nulls(_FEW, field.type) for field in ROOT_CAUSE.fields}
"""Null columns for a few records, which are created once. Creating them each time took longer than
the known columns."""

_OF_NARRATIVES = ("kind", "epochs", "leaders", "high_watermark")
_OF_NEXT = ("next_epoch", "next_leader", "next_offset", "let_in", "let_in_by")
_ALIKE = pa.schema([ROOT_CAUSE.field(name) for name in (*_OF_NARRATIVES, *_OF_NEXT)])
"""The columns that all records of a narrative share."""

_WHOSE = (
    *("run", "cell", "anomaly", "topic", "partition", "offset", "producer", "sequence", "time"),
    "fault",
)
ROOT_CAUSES = pa.schema([*(ANOMALIES.field(name) for name in _WHOSE), *ROOT_CAUSE.fields])
"""The schema of ``root-causes.parquet``: the record, as in ``anomalies.parquet``, and its root
cause."""


def root_cause_rows(
    narratives: Sequence[Narrative],
    lost: LostRecords,
    sent: Array,
    context: PartitionContext,
    copies: Copies | None,
    more: Mapping[str, pa.Array] = MappingProxyType({}),
) -> pa.Array:
    """Return one :data:`ROOT_CAUSE` for each record, in the order of ``lost``. The number of a
    narrative is its place, from 1. ``sent`` has the times of the sends, ``copies`` the remaining
    copies by offset, and ``more`` further columns.

    Shared values are created once and taken by each record, so that no Python list is created for
    every record of a long log.
    """
    of_narrative = np.full(len(lost.time), NONE, dtype=np.int64)
    for number, narrative in enumerate(narratives):
        of_narrative[narrative.records] = number
    alike = pa.array([_alike(narrative) for narrative in narratives], pa.struct(_ALIKE))
    columns = alike.take(pa.array(of_narrative)).flatten()
    return of_columns(
        {
            **dict(zip(_ALIKE.names, columns, strict=True)),
            "cause": pa.array(of_narrative + 1, pa.int32()),
            "sent": pa.array(sent, pa.int64(), mask=sent == NONE),
            "isr": isrs(lost.time, context),
            "late": _late(narratives, of_narrative, lost.time),
            "cut_by": _cut_by(narratives, of_narrative, lost.offset),
            "copies": _copies(copies, lost.offset),
            **more,
        },
        len(lost.time),
    )


def of_columns(known: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Return ``count`` values of :data:`ROOT_CAUSE` from the known columns. The other columns are
    null."""
    few = count <= _FEW
    arrays = [
        known[name] if name in known else none[:count] if few else pa.nulls(count, none.type)
        for name, none in _NONE.items()
    ]
    return pa.StructArray.from_arrays(arrays, fields=ROOT_CAUSE.fields)


def of_rows(rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """Return the values of :data:`ROOT_CAUSE` for these rows, for anomalies with individual
    facts."""
    return pa.array([dict(row) for row in rows], ROOT_CAUSE)


def _alike(narrative: Narrative) -> dict[str, Any]:
    """Return the values that the records of a narrative share."""
    after = narrative.next
    watermark = narrative.epochs[0].high_watermark if len(narrative.epochs) == 1 else NONE
    return {
        "kind": narrative.kind.value,
        "epochs": [term.epoch for term in narrative.epochs],
        "leaders": narrative.leaders,
        "high_watermark": None if watermark == NONE else watermark,
        "next_epoch": after.epoch if after else None,
        "next_leader": after.leader if after else None,
        "next_offset": after.log_end if after and after.log_end >= 0 else None,
        "let_in": narrative.isr_expansion.time if narrative.isr_expansion else None,
        "let_in_by": narrative.expanding_term.leader if narrative.expanding_term else None,
    }


def isrs(times: Array, context: PartitionContext) -> pa.Array:
    """Return the last observed ISR before each time, or null before the first observation."""
    places = np.searchsorted(np.array(context.isr_times, np.int64), times, side="right")
    return pa.array([None, *map(list, context.isrs)], _BROKERS).take(pa.array(places))


def _late(narratives: Sequence[Narrative], of_narrative: Array, times: Array) -> pa.Array:
    seen = [narrative.next.seen if narrative.next else NONE for narrative in narratives]
    since = np.array(seen, np.int64)[of_narrative]
    return pa.array(times - since, pa.int64(), mask=since < 0)


def _cut_by(narratives: Sequence[Narrative], of_narrative: Array, offsets: Array) -> pa.Array:
    """Return, for each record, the brokers whose logs were truncated below it and had reached
    beyond it, or may have. A narrative has at most as many truncations as brokers, so each is a
    bit."""
    bits = np.zeros(len(offsets), np.int64)
    if not any(narrative.truncations for narrative in narratives):
        return pa.array([[]], _BROKERS).take(pa.array(bits))
    for narrative in narratives:
        mine = narrative.records
        for number, truncation in enumerate(narrative.truncations):
            within = offsets[mine] >= truncation.offset
            within &= (truncation.log_end is None) | (offsets[mine] < (truncation.log_end or 0))
            bits[mine] |= within.astype(np.int64) << number
    found, places = np.unique(np.stack([of_narrative, bits]), axis=1, return_inverse=True)
    lists = [
        [
            truncation.broker
            for number, truncation in enumerate(narratives[narrative].truncations)
            if one >> number & 1
        ]
        for narrative, one in found.T.tolist()
    ]
    return pa.array(lists, _BROKERS).take(pa.array(places.ravel()))


def _copies(copies: Copies | None, offsets: Array) -> pa.Array:
    if copies is None:
        return pa.nulls(len(offsets), _BROKERS)
    held = np.array(sorted(copies), np.int64)
    lists = pa.array([[], *(list(copies[offset]) for offset in held.tolist())], _BROKERS)
    places = np.searchsorted(held, offsets)
    there = places < len(held)
    there[there] = held[places[there]] == offsets[there]
    return lists.take(pa.array(np.where(there, places + 1, 0)))
