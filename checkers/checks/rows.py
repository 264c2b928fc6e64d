"""The rows that rules return, and the phrases that their details share."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.fault_windows import FaultWindows
from ackproof.checkers.index.partition_history import PartitionHistory
from ackproof.history.cell import Cell

_BLOCK = 1 << 18


def joined(*parts: str | Array | pa.Array) -> pa.Array:
    """Concatenate texts, numbers and columns of texts, element by element. At least one part is an
    array."""
    columns = [
        pc.cast(pa.array(part), pa.string()) if isinstance(part, np.ndarray) else part
        for part in parts
    ]
    return pc.binary_join_element_wise(*columns, "")


def in_blocks(words: Callable[[slice], pa.Array], count: int) -> pa.Array:
    """Build a column of ``count`` texts block by block, because several intermediate columns exist
    at a time."""
    blocks = [words(slice(first, first + _BLOCK)) for first in range(0, count, _BLOCK)]
    return pa.concat_arrays(blocks) if blocks else pa.array([], pa.string())


def names(partition: PartitionHistory, records: Array) -> pa.Array:
    """Return the name of each record, as
    :meth:`checkers.index.partition_history.PartitionHistory.name` does."""
    words = joined(
        "producer ", partition.producer[records], " sequence ", partition.sequence[records]
    )
    if partition.cell_names == (partition.cell,):
        return words
    cells = pa.array(partition.cell_names, pa.string()).take(pa.array(partition.cell_of[records]))
    return pc.if_else(pc.equal(cells, partition.cell), words, joined("cell ", cells, " ", words))


def standing_at(partition: PartitionHistory, offsets: Array) -> pa.Array:
    """Return what the final log holds at each offset."""
    positions = np.searchsorted(partition.log_offset, offsets)
    held = np.append(partition.log_offset, NONE)[positions] == offsets
    held &= positions < len(partition.log_offset)
    records = np.append(partition.log_record, NONE)[positions]
    ours = held & (records != NONE)
    if ours.all():
        return names(partition, records)
    told = pa.array(["no record", "a payload that no client sent"]).take(
        pa.array(held.astype(np.int8))
    )
    return pc.replace_with_mask(told, pa.array(ours), names(partition, records[ours]))


def chosen(condition: Array, words: pa.Array | str, otherwise: pa.Array | str) -> pa.Array:
    """Return for each element one text or the other."""
    return pc.if_else(pa.array(condition), words, otherwise)


# --- rows -----------------------------------------------------------------------------------------
#
# The rows of ``anomalies.parquet``, and those that rules return.


ANOMALIES = pa.schema(
    [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("anomaly", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("producer", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("fault", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("seen", pa.bool_()),
    ]
)
"""One row for each anomaly.

- ``partition`` is -1 if the anomaly does not concern a single partition.
- ``time`` is that of the ack, or of the invoke if there was no ack, in nanoseconds of the Unix
  epoch. For reads and offsets it is the time of the read, and for a transaction that of its commit.
- ``fault`` has the faults of its root cause (``kill#1``, comma-separated). Without a cause it has
  the faults that affected the partition at that time (``checkers.context.fault_windows``), or null.
- ``seen`` says of a lost record whether a consumer had read it. It is null if that is unknown, and
  for other anomalies.
"""

ROWS = pa.schema([field for field in ANOMALIES if field.name != "run"])
"""The schema of the rows that a rule returns."""

NOTHING = ROWS.empty_table()
"""The empty result, which most rules have for most partitions. It exists once instead of once for
each of thousands."""


def rows(
    partition: PartitionHistory,
    anomaly: str,
    *,
    offsets: Sequence[int] | Array,
    details: Iterable[str] | pa.Array,
    records: Sequence[int] | Array | None = None,
    times: Sequence[int] | Array | None = None,
    faults: FaultWindows | None = None,
    seen: Array | None = None,
) -> pa.Table:
    """Return one row for each violation, in the order of the offsets given.

    Args:
        partition: The history of the partition.
        anomaly: The name of the rule.
        offsets: The offset in the log, or NONE.
        details: The detail of each row.
        records: The record numbers. NONE, or a number that the history does not know, stands for a
            row that is about no record of a client. Without record numbers, all rows are.
        times: The time of each row, or NONE if it is unknown. The default is the time of the
            record's ack, or else of its send.
        faults: The faults to attribute rows to. The default is those of the partition.
        seen: Whether a consumer read each record, or NONE if that is unknown. Without it, the
            column is null.
    """
    offsets = np.asarray(offsets, dtype=np.int64)
    count = len(offsets)
    if not count:
        return NOTHING
    records = np.full(count, NONE) if records is None else np.asarray(records, dtype=np.int64)
    nameless = (records == NONE) | (records >= len(partition.sequence))
    when = _of(partition.time, records, nameless) if times is None else np.array(times, np.int64)
    unknown = when == NONE
    blamed = (partition.faults if faults is None else faults).at(when)
    columns = {
        "cell": pa.repeat(partition.cell, count),
        "anomaly": pa.repeat(anomaly, count),
        "topic": pa.repeat(partition.topic, count),
        "partition": pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        "offset": _nullable(offsets, offsets == NONE),
        "producer": _nullable(_of(partition.producer, records, nameless), nameless, pa.int32()),
        "sequence": _nullable(_of(partition.sequence, records, nameless), nameless),
        "time": _nullable(when, unknown),
        "fault": pc.if_else(pa.array(unknown), None, blamed) if unknown.any() else blamed,
        "detail": details if isinstance(details, pa.Array) else pa.array(details, pa.string()),
        "seen": pa.nulls(count, pa.bool_()) if seen is None else _flags(seen),
    }
    return pa.Table.from_arrays([columns[name] for name in ROWS.names], schema=ROWS)


class SingleAnomaly(Protocol):
    """An anomaly that was found individually and not in columns. An attribute is None if the
    anomaly does not concern such a thing, or if its time is unknown. ``time`` is in nanoseconds of
    the Unix epoch."""

    @property
    def detail(self) -> str: ...
    @property
    def time(self) -> int | None: ...
    @property
    def partition(self) -> int | None: ...
    @property
    def offset(self) -> int | None: ...
    @property
    def producer(self) -> int | None: ...
    @property
    def sequence(self) -> int | None: ...


def rows_of_findings(
    run: int, cell: Cell, found: Sequence[tuple[str, SingleAnomaly]], faults: FaultWindows
) -> pa.Table:
    """Return one row for each finding of a cell, as ANOMALIES, in the order given.

    Args:
        run: The number of the run.
        cell: The cell.
        found: The name of each anomaly, and the finding.
        faults: The faults to which each is attributed by its time.
    """
    times = [NONE if each.time is None else each.time for _, each in found]
    attributed = faults.at(np.array(times, dtype=np.int64)).to_pylist()
    return pa.Table.from_pylist(
        [
            {
                "run": run,
                "cell": cell.name,
                "anomaly": anomaly,
                "topic": cell.topic,
                "partition": NONE if each.partition is None else each.partition,
                "offset": each.offset,
                "producer": each.producer,
                "sequence": each.sequence,
                "time": each.time,
                "fault": None if each.time is None else fault,
                "detail": each.detail,
                "seen": None,
            }
            for (anomaly, each), fault in zip(found, attributed, strict=True)
        ],
        schema=ANOMALIES,
    )


def _of(values: Array, records: Array, nameless: Array) -> Array:
    picked = np.full(len(records), NONE, dtype=np.int64)
    picked[~nameless] = values[records[~nameless]]
    return picked


def _nullable(values: Array, missing: Array, kind: Any = None) -> pa.Array:
    return pa.array(values, kind or pa.int64(), mask=missing)


def _flags(values: Array) -> pa.Array:
    return pa.array(values == 1, pa.bool_(), mask=values == NONE)
