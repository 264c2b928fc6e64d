"""Building the rows that rules return."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.cluster.reach import FaultWindows
from ackproof.checkers.partition.indexes import PartitionHistory
from ackproof.checkers.verdict import ANOMALIES
from ackproof.history.cell import Cell

ROWS = pa.schema([field for field in ANOMALIES if field.name != "run"])
"""Shape of what a rule returns."""

NOTHING = ROWS.empty_table()
"""What most rules find in most partitions: made once, not for each of thousands."""


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
    """One row an offence, in the order given.

    Args:
        partition: Where it was found.
        anomaly: Name of the rule.
        offsets: Where in the log, NONE for nowhere.
        details: What to tell of each.
        records: Record numbers; NONE, a number that the history does not know or no records at all
            where it is about none of ours.
        times: Of each, where that is not the ack's, or else the send's, of its record; NONE where
            nobody knows.
        faults: Where it is not those of the partition that may have to do with it.
        seen: Whether a consumer was shown each, NONE where nobody knows; without it that is not
            asked.
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


class Finding(Protocol):
    """An anomaly that was found one by one, and not in columns. None: it is about none, or at a
    time that is not known. ``time``: nanoseconds of the Unix epoch."""

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
    run: int, cell: Cell, found: Sequence[tuple[str, Finding]], faults: FaultWindows
) -> pa.Table:
    """Return one row for each finding of a cell, as ANOMALIES, in the order given.

    Args:
        run: The number of the run.
        cell: The cell.
        found: The name of each anomaly, and the finding.
        faults: Those that each is attributed to, by its time.
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
