"""Values that no writer of a history ever wrote. A file with such a value is damaged and does not
count.

These are words that a column does not have, negative times or numbers, and rows of another
partition than that in the file's name. Nothing can be concluded from such a row: an ``ok`` that has
become ``oK`` is not an unknown outcome, and a record that was acknowledged at a negative time was
not acknowledged before the first fault. The types of columns are checked separately, by pyarrow.
"""

from collections.abc import Iterable, Iterator, Mapping, Set

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.history.names import FileStem, SendType
from ackproof.history.schema import TABLES
from ackproof.history.transactional import FETCHED, TransactionEvent

_SENDS = frozenset(SendType)
WORDS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "sends": {"type": _SENDS},
    "faults": {
        "event": frozenset(
            {"inject", "injected", "verified", "heal", "healed", "lifted", "failed"}
        ),
    },
    "cluster": {
        "kind": frozenset(
            {
                *("partition", "controller", "broker-up", "broker-down"),
                *("zookeeper-lost", "zookeeper-back"),
            }
        )
    },
    "phases": {"event": frozenset({"start", "end", "failed"})},
    "servers": {"event": frozenset({"started", "ended"})},
    "clocks": {"moment": frozenset({"start", "end"})},
    "zookeeper": {
        "moment": frozenset({"deployed", "ready", "faults", "recovered", "grown", "failed-over"})
    },
    "assignments": {"event": frozenset({"assigned", "revoked", "lost", "out-of-range"})},
    "commits": {"type": _SENDS | {"fetched", "looked"}},
    "deliveries": {
        "event": frozenset({"delivered", SendType.INVOKE, SendType.OK, SendType.INFO}),
        "acknowledgement": frozenset({"accept", "release", "reject"}),
    },
    "transactions": {"event": frozenset(TransactionEvent), "type": _SENDS},
    "transaction_offsets": {"type": _SENDS | {FETCHED}},
    "closings": {"table": frozenset(TABLES)},
}
"""The complete set of words of a column, by table and column. Null is also valid where the schema
allows it."""

TIMES = frozenset({"time", "asked", "due", "killed", "led", "acked"})
"""The columns of nanoseconds of the Unix epoch."""

_COUNTS = frozenset(
    {
        *("partition", "partitions", "rows", "records", "poll", "commit"),
        *("transaction", "fault_id", "span_ns", "ran_ns", "waited_ns"),
    }
)
_IDENTITY = frozenset({"producer", "sequence"})
_READ = frozenset({"log", "polls"})
"""The tables of records that were read back. Their payloads may name any record, which is for the
checkers to judge."""
_OFFSETS_OF_RECORDS = frozenset({"sends", "log", "polls", "deliveries", "inputs", "committed"})
"""The tables in which an offset is that of a record. In other tables, -1 stands for none."""


def problem(table: str, rows: pa.Table) -> str | None:
    """Return a sentence about the first problem of these rows of a table, or None. Columns may be
    left out."""
    words = WORDS.get(table, {})
    for name in rows.column_names:
        if name in words and (strange := list(_others(rows[name], words[name]))):
            known = ", ".join(sorted(words[name]))
            return f"the column {name} holds {strange[0]!r}, which is none of {known}"
    for name in _not_negative(table, rows.schema):
        least = pc.min_max(rows[name])["min"].as_py()
        if least is not None and least < 0:
            return f"the column {name} holds {least}, which is negative"
    return None


def place_of(rows: pa.Table, stem: FileStem) -> str | None:
    """Return a sentence about rows of another partition than that in the file's name, or None.

    The columns ``topic`` and ``partition`` may be missing.
    """
    for name, value in _place(stem):
        if (strange := other(rows, name, value)) is not None:
            return _elsewhere(name, strange, value)
    return None


def other(rows: pa.Table, name: str, value: object) -> object | None:
    """Return the first value of a column that differs from the one that all rows must have, or None
    if all have it or the rows lack the column."""
    if name not in rows.column_names:
        return None
    return next(_others(rows[name], {value}), None)


def place_of_closed(file: pq.ParquetFile, stem: FileStem) -> str | None:
    """Return the same as :func:`place_of` for a closed file, from its footer if that has the bounds
    of the columns."""
    names = file.metadata.schema.names
    for name, value in _place(stem):
        column = names.index(name) if name in names else None
        for number in range(file.num_row_groups if column is not None else 0):
            statistics = file.metadata.row_group(number).column(column).statistics
            if statistics is None or not statistics.has_min_max:
                return place_of(file.read([n for n, _ in _place(stem) if n in names]), stem)
            for bound in (statistics.min, statistics.max):
                if bound != value:
                    return _elsewhere(name, bound, value)
    return None


def _place(stem: FileStem) -> Iterable[tuple[str, object]]:
    return zip(("topic", "partition"), stem.partition or (), strict=False)


def _elsewhere(name: str, strange: object, value: object) -> str:
    return f"the column {name} holds {strange!r}, its name says {value!r}"


def _not_negative(table: str, columns: pa.Schema) -> Iterator[str]:
    for field in columns:
        name = field.name
        known = (
            name in TIMES
            or name in _COUNTS
            or (name in _IDENTITY and table not in _READ)
            or (name == "offset" and table in _OFFSETS_OF_RECORDS)
        )
        # The partitions of a fault are names and not numbers.
        if known and pa.types.is_integer(field.type):
            yield name


def _others(column: pa.ChunkedArray, known: Set[object]) -> Iterator[object]:
    """Yield the values of a column that are none of these. Null is left out."""
    for chunk in column.chunks:
        values = chunk
        if pa.types.is_dictionary(chunk.type):
            if known >= set(chunk.dictionary.to_pylist()):
                continue
            values = chunk.dictionary.take(pc.unique(chunk.indices).drop_null())
        for value in pc.unique(values).to_pylist():
            if value is not None and value not in known:
                yield value
