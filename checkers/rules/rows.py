"""Building the rows that rules return."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.indexes import NONE, Array, PartitionHistory
from checkers.verdict import ANOMALIES

ROWS = pa.schema([field for field in ANOMALIES if field.name != "run"])
"""Shape of what a rule returns."""


def rows(
    partition: PartitionHistory,
    anomaly: str,
    *,
    offsets: Sequence[int] | Array,
    details: Iterable[str],
    records: Sequence[int] | Array | None = None,
    times: Sequence[int] | None = None,
) -> pa.Table:
    """One row an offence, in the order given.

    Args:
        partition: Where it was found.
        anomaly: Name of the rule.
        offsets: Where in the log, NONE for nowhere.
        details: What to tell of each.
        records: Record numbers, NONE or no records at all where it is about none of ours.
        times: When it was, where it is about no records; NONE where nobody knows.
    """
    offsets = np.asarray(offsets, dtype=np.int64)
    count = len(offsets)
    records = np.full(count, NONE) if records is None else np.asarray(records, dtype=np.int64)
    nameless = records == NONE
    when = _of(partition.time, records, nameless) if times is None else np.array(times, np.int64)
    columns = {
        "cell": pa.repeat(partition.cell, count),
        "anomaly": pa.repeat(anomaly, count),
        "topic": pa.repeat(partition.topic, count),
        "partition": pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        "offset": _nullable(offsets, offsets == NONE),
        "producer": _nullable(_of(partition.producer, records, nameless), nameless, pa.int32()),
        "sequence": _nullable(_of(partition.sequence, records, nameless), nameless),
        "time": _nullable(when, when == NONE),
        "fault": pc.if_else(pa.array(when != NONE), partition.faults.at(when), None),
        "detail": pa.array(details, pa.string()),
    }
    return pa.table(columns, schema=ROWS)


def _of(values: Array, records: Array, nameless: Array) -> Array:
    picked = np.full(len(records), NONE, dtype=np.int64)
    picked[~nameless] = values[records[~nameless]]
    return picked


def _nullable(values: Array, missing: Array, kind: Any = None) -> pa.Array:
    return pa.array(values, kind or pa.int64(), mask=missing)
