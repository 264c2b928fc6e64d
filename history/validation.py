"""What no writer of a history ever wrote: a file that holds it is damaged, and counts for nothing.

A word that is none of a column's, a negative time or number, or rows of another partition than the
file's name says. Such a row has no meaning that could be concluded from: an ``ok`` that has become
``oK`` is no outcome that nobody knows, and what was acknowledged at a negative time was not
acknowledged before the first fault. Kept apart from the types of columns, which pyarrow checks.
"""

from collections.abc import Iterable, Iterator, Mapping, Set

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ackproof.history.names import Stem
from ackproof.history.schema import TABLES, SendType
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
    "transactions": {"event": frozenset(TransactionEvent), "type": _SENDS},
    "transaction_offsets": {"type": _SENDS | {FETCHED}},
    "closings": {"table": frozenset(TABLES)},
}
"""The words of columns that have no others, by table and column; null where that is allowed."""

TIMES = frozenset({"time", "due", "killed", "led", "acked"})
"""Columns of nanoseconds of the Unix epoch."""

_COUNTS = frozenset(
    {
        *("partition", "partitions", "rows", "records", "poll", "commit"),
        *("transaction", "fault_id", "span_ns", "ran_ns", "waited_ns"),
    }
)
_IDENTITY = frozenset({"producer", "sequence"})
_READ = frozenset({"log", "polls"})
"""Tables of what was read back: which record a payload names is the cluster's to say."""
_OFFSETS_OF_RECORDS = frozenset({"sends", "log", "polls", "inputs", "committed"})
"""Tables in which an offset is a record's; in others -1 says that there is none."""


def problem(table: str, rows: pa.Table) -> str | None:
    """Return the first thing that is wrong with rows of a table, of which some columns may be left
    out; None where nothing is."""
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


def place_of(rows: pa.Table, stem: Stem) -> str | None:
    """Return of which other partition rows tell than the file's name says; None of none.

    ``rows``: with or without the columns ``topic`` and ``partition``.
    """
    for name, value in _place(stem):
        if (strange := other(rows, name, value)) is not None:
            return _elsewhere(name, strange, value)
    return None


def other(rows: pa.Table, name: str, value: object) -> object | None:
    """Return the first value of a column that is not the one that all rows must have; None if all
    have it, or the rows lack the column."""
    if name not in rows.column_names:
        return None
    return next(_others(rows[name], {value}), None)


def place_of_closed(file: pq.ParquetFile, stem: Stem) -> str | None:
    """Likewise of a closed file, from its footer where that tells the bounds of the columns."""
    names = file.metadata.schema.names
    for name, value in _place(stem):
        column = names.index(name) if name in names else None
        for number in range(file.num_row_groups if column is not None else 0):
            told = file.metadata.row_group(number).column(column).statistics
            if told is None or not told.has_min_max:
                return place_of(file.read([n for n, _ in _place(stem) if n in names]), stem)
            for bound in (told.min, told.max):
                if bound != value:
                    return _elsewhere(name, bound, value)
    return None


def _place(stem: Stem) -> Iterable[tuple[str, object]]:
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
        # The partitions of a fault are names.
        if known and pa.types.is_integer(field.type):
            yield name


def _others(column: pa.ChunkedArray, known: Set[object]) -> Iterator[object]:
    """The values of a column that are none of these, null aside."""
    for chunk in column.chunks:
        values = chunk
        if pa.types.is_dictionary(chunk.type):
            if known >= set(chunk.dictionary.to_pylist()):
                continue
            values = chunk.dictionary.take(pc.unique(chunk.indices).drop_null())
        for value in pc.unique(values).to_pylist():
            if value is not None and value not in known:
                yield value
