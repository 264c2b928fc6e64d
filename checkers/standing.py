"""Whether what was found was promised: counts of offences, by where they stand to the promise."""

from collections import Counter
from enum import StrEnum

from checkers.indexes import NONE, Array
from checkers.terms import Terms

REORDERED_ACKED = "reordered acked"
"""What the acked ones of the reordered records are counted as."""

REPLICAS = "replicas"
"""What a partition is counted as by whether its replicas are promised to agree."""

COMPARED = "replicas compared"
"""What a partition is counted as of which all replicas were compared, from where they start to the
end of the final read."""


WATCHED = "partitions watched"
"""What a partition is counted as whose states in ZooKeeper were seen until the end."""

VERSIONED = "partitions watched by version"
"""And of whose ISR no change could go unseen."""

SPOKEN = "partitions spoken of"
"""What a partition is counted as of which brokers' own logs tell."""


class Standing(StrEnum):
    """Of an acked record, or of a partition."""

    PROMISED = "promised"
    UNPROMISED = "unpromised"
    UNKNOWN = "unknown"
    """The observation does not tell: neither a broken promise nor an excuse."""


def name(what: str, standing: Standing) -> str:
    """What a count is called, e.g. ``lost promised``."""
    return f"{what} {standing}"


def by_time(what: str, times: Array, terms: Terms) -> Counter[str]:
    """How many of the times (of acks) stand how to the terms."""
    unpromised = int((times < terms.unpromised_before).sum())
    unknown = int((times < terms.unknown_before).sum()) - unpromised
    return Counter(
        {
            name(what, Standing.PROMISED): len(times) - unpromised - max(unknown, 0),
            name(what, Standing.UNPROMISED): unpromised,
            name(what, Standing.UNKNOWN): max(unknown, 0),
        }
    )


def of_partition(begun: int, terms: Terms) -> Standing:
    """How a whole partition stands, whose first send was at ``begun``.

    What tells a retry from a new record is remembered by the log: once a part of the log is gone, a
    producer may go on in another order, and with copies, of records that were acked much later.
    """
    if begun != NONE and begun < terms.unpromised_before:
        return Standing.UNPROMISED
    if begun != NONE and begun < terms.unknown_before:
        return Standing.UNKNOWN
    return Standing.PROMISED
