"""Whether what was found was promised: counts of offences, by where they stand to the promise."""

from collections import Counter
from enum import StrEnum

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.validity import Terms

REORDERED_ACKED = "reordered acked"
"""What the acked ones of the reordered records are counted as."""

REPLICAS = "replicas"
"""What a partition is counted as by whether its replicas are promised to agree."""

COMPARED = "replicas compared"
"""What a partition is counted as of which all replicas were compared, from where they start to the
end of the final read."""


READABLE = "readable"
"""What a partition is counted as by whether what consumers were shown of it is promised to stay."""

COORDINATED = "coordinated"
"""What a group's share of a partition is counted as by whether what is committed is promised to be
kept."""

BY_THE_DEPOSED = "read back from a deposed coordinator"
"""What an answer is counted as that a coordinator may have given which had been deposed."""

WATCHED = "partitions watched"
"""What a partition is counted as whose states in ZooKeeper were seen until the end."""

VERSIONED = "partitions watched by version"
"""And of whose ISR no change could go unseen."""

SPOKEN = "partitions spoken of"
"""What a partition is counted as of which brokers' own logs tell."""


def examined(checker: str) -> str:
    """What the things are counted as that a checker examined: acks, records of the final log,
    states, what consumers were shown. Of none of them nothing can be said."""
    return f"{checker} examined"


def looked(checker: str) -> str:
    """What a partition is counted as at which a checker of consumers could look in full."""
    return f"{checker} looked"


class Standing(StrEnum):
    """Of an acked record, or of a partition."""

    PROMISED = "promised"
    UNPROMISED = "unpromised"
    UNKNOWN = "unknown"
    """The observation does not tell: neither a broken promise nor an excuse."""


def count_name(what: str, standing: Standing) -> str:
    """What a count is called, e.g. ``lost promised``."""
    return f"{what} {standing}"


def by_time(what: str, times: Array, terms: Terms, earliest: Array | None = None) -> Counter[str]:
    """How many of the times (of acks) stand how to the terms. ``earliest``: where each may have
    been as early as that."""
    unpromised, unknown = standings(times, terms, earliest)
    return Counter(
        {
            count_name(what, Standing.PROMISED): int((~unpromised & ~unknown).sum()),
            count_name(what, Standing.UNPROMISED): int(unpromised.sum()),
            count_name(what, Standing.UNKNOWN): int(unknown.sum()),
        }
    )


def standings(times: Array, terms: Terms, earliest: Array | None = None) -> tuple[Array, Array]:
    """Which of the times are not promised, and of which nobody knows; as :func:`by_time`."""
    unpromised: Array = times < terms.unpromised_before
    since = times if earliest is None else np.minimum(times, earliest)
    unknown: Array = since < terms.unknown_before
    for span in terms.unknown_in:
        unknown |= (times >= span.start) & (times < span.end)
    return unpromised, unknown & ~unpromised


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
