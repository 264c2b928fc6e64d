"""The rules on transactions, in one explicit table. A new one is a function and a line here."""

from collections.abc import Callable, Iterator, Mapping

from ackproof.checkers.transactions.anomalies import (
    ABORTED_READ,
    G0,
    G1C,
    LOST_COMMIT,
    OFFSETS_ALONE,
    PRECOMMITTED_READ,
    RECORDS_ALONE,
    RESURRECTED,
    TORN,
    TWICE,
    Offence,
)
from ackproof.checkers.transactions.cycles import g0, g1c
from ackproof.checkers.transactions.histories import TransactionalHistory
from ackproof.checkers.transactions.processing import (
    offsets_without_records,
    records_without_offsets,
    transformed_twice,
)
from ackproof.checkers.transactions.visibility import (
    aborted_reads,
    lost_commits,
    precommitted_reads,
    resurrected,
    torn,
)

Rule = Callable[[TransactionalHistory], Iterator[Offence]]

RULES: Mapping[str, Rule] = {
    ABORTED_READ: aborted_reads,
    PRECOMMITTED_READ: precommitted_reads,
    LOST_COMMIT: lost_commits,
    TORN: torn,
    RESURRECTED: resurrected,
    OFFSETS_ALONE: offsets_without_records,
    RECORDS_ALONE: records_without_offsets,
    TWICE: transformed_twice,
    G0: g0,
    G1C: g1c,
}
"""By the anomaly that each finds; ``resurrected-write`` finds those of zombies, too."""
