"""A checker of timestamps: a record carries the time at which it was sent.

A client gives each record a timestamp when it is handed over. Topics keep it by default
(``message.timestamp.type=CreateTime``): consumers look records up by time, and retention deletes by
time. So the timestamp in the final log must lie between the moments at which the client recorded
the send and its outcome. Both are read from the clock of that client.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.interface import Anomaly, Examined, PluginChecker, RecordedRows
from ackproof.history.cell import Cell

SLACK_MS = 1_000
"""How far a timestamp may be off: a clock that is set may go back by less than that."""

_RECORD = ["cell", "producer", "sequence"]
_NS_PER_MS = 1_000_000


def examine(recorded: RecordedRows) -> Examined:
    """Compare the timestamp of each record in the final log with the events of its send."""
    sends, log = recorded.tables["sends"], recorded.tables["log"]
    sent = _times(sends, pc.equal(sends["type"], "invoke"), "sent")
    done = _times(sends, pc.is_in(sends["type"], pa.array(["ok", "fail", "info"])), "done")
    # A record that nobody sent is an anomaly of another checker, phantom: it has no row here.
    records = log.join(sent, _RECORD, join_type="inner")
    # The outcome of a record may be missing: its client was crashed, or never heard of it.
    records = records.join(done, _RECORD, join_type="left outer")
    early = pc.less(records["timestamp"], pc.subtract(records["sent"], SLACK_MS))
    late = pc.greater(records["timestamp"], pc.add(records["done"], SLACK_MS))
    wrong = records.filter(pc.or_(early, pc.fill_null(late, False))).sort_by("offset")
    anomalies = [_anomaly(row) for row in wrong.to_pylist()]
    return Examined(anomalies=anomalies, examined=len(records))


def _times(sends: pa.Table, chosen: pa.ChunkedArray, name: str) -> pa.Table:
    """Return when each record had an event of these, in milliseconds, in the column ``name``."""
    rows = sends.filter(chosen)
    milliseconds = pc.divide(rows["time"], _NS_PER_MS)
    return rows.select(_RECORD).append_column(name, milliseconds)


def _anomaly(row: dict[str, int]) -> Anomaly:
    outcome = "no outcome" if row["done"] is None else f"its outcome recorded at {row['done']} ms"
    return Anomaly(
        detail=f"timestamp {row['timestamp']} ms, sent at {row['sent']} ms, {outcome}",
        time=row["sent"] * _NS_PER_MS,
        offset=row["offset"],
        producer=row["producer"],
        sequence=row["sequence"],
    )


def _keeps_create_time(cell: Cell) -> bool:
    """Return whether the cell's topic keeps the timestamps of its clients."""
    return cell.settings.get("topic.message.timestamp.type") != "LogAppendTime"


MISDATED = PluginChecker(
    name="misdated",
    summary="in the final log with a timestamp at which its client was not sending it",
    guarantee="A record keeps the timestamp that its client gave it (CreateTime).",
    reads={
        "sends": (*_RECORD, "type", "time"),
        "log": (*_RECORD, "offset", "timestamp"),
    },
    examine=examine,
    concerns=_keeps_create_time,
)
