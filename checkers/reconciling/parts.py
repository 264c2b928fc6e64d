"""What is lost, or stands in the log more than once, a part at a time where there is too much of it
to have its autopsies together: each part with causes of its own, neighbours by sequence number."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ackproof.checkers.arrays import Array
from ackproof.checkers.partition.indexes import PartitionHistory

RARE_MAX = 300_000
"""Records that are judged together: each takes a thousand bytes, with its autopsy."""

REPEATED_MAX = 100_000
"""Of those that stand in the log more than once: each takes three thousand, with that of its
copies."""

CAUSES_EACH = 10_000
"""More than there are stories of what is judged together."""


def parts(history: PartitionHistory, records: Array, most: int) -> Iterator[PartitionHistory]:
    """The history with so many of these records at a time as those that are rare, and with all of
    them where they are no more."""
    if len(records) <= most:
        yield history
        return
    in_order = records[np.argsort(history.sequence[records], kind="stable")]
    for first in range(0, len(in_order), most):
        rare = np.zeros(len(history.fate), dtype=bool)
        rare[in_order[first : first + most]] = True
        yield replace(history, rare=rare)
