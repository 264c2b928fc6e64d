"""The names of what can be wrong with transactions, and one offence as a row."""

from collections.abc import Mapping
from dataclasses import dataclass

ABORTED_READ = "aborted-read"
PRECOMMITTED_READ = "precommitted-read"
LOST_COMMIT = "lost-commit"
TORN = "torn-transaction"
RESURRECTED = "resurrected-write"
ZOMBIE = "zombie-write"
OFFSETS_ALONE = "offsets-without-records"
RECORDS_ALONE = "records-without-offsets"
TWICE = "transformed-twice"
G0 = "G0"
G1C = "G1c"

SUMMARIES: Mapping[str, str] = {
    ABORTED_READ: "shown to a consumer, and its transaction was not committed (G1a)",
    PRECOMMITTED_READ: "shown to a read_committed consumer before its commit was asked for",
    LOST_COMMIT: "a transaction whose commit was answered, and none of its records is committed",
    TORN: "a transaction some of whose records are committed, and others are not",
    RESURRECTED: "committed in the final log, and its transaction was not",
    ZOMBIE: "committed in the final log, and sent by a producer that had been fenced",
    OFFSETS_ALONE: "below what a group has committed, and no committed transaction was made of it",
    RECORDS_ALONE: "a committed transaction was made of it, and its group has not committed it",
    TWICE: "two committed transactions were made of it",
    G0: "a cycle of transactions, each of which wrote behind the one before",
    G1C: "a cycle of transactions, each of which read the one before, or came next in its session",
}
"""Name to summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offence:
    """One anomaly. ``time``: of the commit, or of the read; nanoseconds, None where nobody knows.
    The others are None where it is about none."""

    anomaly: str
    detail: str
    time: int | None = None
    partition: int | None = None
    offset: int | None = None
    producer: int | None = None
    sequence: int | None = None
