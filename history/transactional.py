"""Tables of transactions: what a transactional workload records besides what any other does.

Who writes in transactions is a *session*: one life of a ``transactional.id``, from its
``init_transactions`` until the next one's fences it. Each session has a producer number of its own,
in records and rows, since each numbers its records for itself. Nothing is sent outside of a
transaction, so that a transaction is all that its session sent from its ``begin`` to the next.
"""

from enum import StrEnum

import pyarrow as pa

SESSIONS_MAX = 1_000
"""Of one client."""
TRANSFORMERS = 1_000_000
"""From this number on a producer is a transformer's: what it sends is made of what it read."""


def producer_number(client: int, session: int, *, transformer: bool = False) -> int:
    """The number of a session, of the client of that number; both from 0. Raises ValueError for a
    session too many."""
    if session >= SESSIONS_MAX:
        raise ValueError(f"a client has at most {SESSIONS_MAX} sessions")
    return client * SESSIONS_MAX + session + (TRANSFORMERS if transformer else 0)


class TransactionEvent(StrEnum):
    """What a row of ``transactions`` is about, by Kafka's names."""

    INIT = "init"
    """``init_transactions``: whoever had this ``transactional.id`` before is fenced, and what it
    left open is aborted, when it is answered."""
    BEGIN = "begin"
    COMMIT = "commit"
    ABORT = "abort"


FETCHED = "fetched"
"""The ``type`` of a row of ``transaction_offsets`` that tells what is committed."""
NOTHING_COMMITTED = -1
"""In place of an offset; Kafka's own word for it in OffsetFetch."""


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
"""One row an event of a session's transactions, which it counts from 1 (0 of an ``init``):
``invoke``, then at most one of ``ok``, ``fail`` and ``info``; of a ``begin``, which asks nobody,
``ok`` alone. ``sequence``: of a begin, that of the first record in it. ``error``: Kafka's error
name. An ``invoke`` is in its file before anybody is asked: a commit of which there is no row was
asked for by nobody, whoever was killed."""

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
"""What transformers read, one row a record, by the transaction in which it was read. ``time``: when
the poll returned. ``read_cell``, ``read_producer`` and ``read_sequence`` name the record, null
where the payload is none of ours or was damaged. ``sequence``: of the record that was made of it;
null where none was, since it is a transformer's own."""

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
"""Offsets that transformers sent to their transactions (``send_offsets_to_transaction``), one row
an event and partition, as in ``commits``; ``fetched``: what the coordinator answered when it was
asked what is committed, -1 for nothing. ``producer`` and ``transaction`` are null of what the final
read fetched."""

COMMITTED = pa.schema(
    [
        pa.field("topic", _dictionary(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
    ]
)
"""The final read once more, as read_committed: one row a record, in offset order. Which record it
is, ``log`` tells."""

TABLES: dict[str, pa.Schema] = {
    "transactions": TRANSACTIONS,
    "inputs": INPUTS,
    "transaction_offsets": TRANSACTION_OFFSETS,
    "committed": COMMITTED,
}
