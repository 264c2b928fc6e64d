"""The additional tables of a transactional workload.

A client that writes in transactions is a *session*: one instance with a ``transactional.id``, from
its ``init_transactions`` until that of the next instance fences it. Each session has a producer
number of its own in records and rows, because each numbers its records separately. Nothing is sent
outside a transaction, so a transaction consists of everything that its session sent from its
``begin`` to the next.
"""

from enum import StrEnum

import pyarrow as pa

SESSIONS_MAX = 1_000
"""The greatest number of sessions of one client."""
TRANSFORMERS = 1_000_000
"""The lowest producer number of a transformer, whose output records are made from records that it
read."""


def producer_number(client: int, session: int, *, transformer: bool = False) -> int:
    """Return the number of a session of a client. Both numbers count from 0. Raises ValueError if
    there are too many sessions."""
    if session >= SESSIONS_MAX:
        raise ValueError(f"a client has at most {SESSIONS_MAX} sessions")
    return client * SESSIONS_MAX + session + (TRANSFORMERS if transformer else 0)


class TransactionEvent(StrEnum):
    """The event of a row of ``transactions``, by Kafka's names."""

    INIT = "init"
    """``init_transactions``. When it is answered, the former instance with this
    ``transactional.id`` is fenced, and its open transaction is aborted."""
    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"


FETCHED = "fetched"
"""The ``type`` of a row of ``transaction_offsets`` with a committed offset."""
NOTHING_COMMITTED = -1
"""The offset that stands for no commit, as in Kafka's OffsetFetch."""


def _dictionary() -> pa.DataType:
    return pa.dictionary(pa.int32(), pa.string())


TRANSACTIONS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("cell", pa.string(), nullable=False),
        pa.field("transactional_id", pa.string(), nullable=False),
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("transaction", pa.int64(), nullable=False),
        pa.field("event", pa.string(), nullable=False),
        pa.field("type", pa.string(), nullable=False),
        pa.field("sequence", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
"""The events of a session's transactions, one row each: ``invoke``, then at most one of ``ok``,
``fail`` and ``info``. A ``begin`` sends no request and only has ``ok``.

A session counts its transactions from 1; an ``init`` has 0. ``sequence`` of a begin is that of the
first record in the transaction. ``error`` is Kafka's error name. An ``invoke`` is written to the
file before the request is sent. A commit without a row was therefore never requested, whatever was
killed.
"""

INPUTS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("client", _dictionary(), nullable=False),
        pa.field("producer", pa.int32(), nullable=False),
        pa.field("transaction", pa.int64(), nullable=False),
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("read_cell", _dictionary()),
        pa.field("read_producer", pa.int32()),
        pa.field("read_sequence", pa.int64()),
        pa.field("sequence", pa.int64()),
    ]
)
"""The reads of transformers, one row for each record, with the transaction in which it was read.

``time`` is when the poll returned. ``read_cell``, ``read_producer`` and ``read_sequence`` name the
record. They are null if no client wrote the payload or it was damaged. ``sequence`` is that of the
output record. It is null if there was none, because the record was a transformer's own.
"""

TRANSACTION_OFFSETS = pa.schema(
    [
        pa.field("time", pa.int64(), nullable=False),
        pa.field("client", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("producer", pa.int32()),
        pa.field("transaction", pa.int64()),
        pa.field("type", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("error", pa.string()),
    ]
)
"""The offsets that transformers sent to their transactions (``send_offsets_to_transaction``), one
row for each event and partition, as in ``commits``.

``fetched`` is the coordinator's answer when it was asked for the committed offset, or -1 for
nothing. ``producer`` and ``transaction`` are null for offsets that the final read fetched.
"""

COMMITTED = pa.schema(
    [
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
"""The final read as read_committed, one row for each record, in offset order. The table ``log``
says which record it is."""

TABLES: dict[str, pa.Schema] = {
    "transactions": TRANSACTIONS,
    "inputs": INPUTS,
    "transaction_offsets": TRANSACTION_OFFSETS,
    "committed": COMMITTED,
}
