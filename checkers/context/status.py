"""The guarantee status of anomalies: counts by whether the guarantee applied."""

from collections import Counter
from enum import StrEnum

import numpy as np

from ackproof.checkers.arrays import NONE, Array
from ackproof.checkers.context.validity import ValidityWindow

REORDERED_ACKED = "reordered acked"
"""The name of the count of acked records among the reordered ones."""

REPLICAS = "replicas"
"""The name of the count of partitions by whether their replicas are guaranteed to agree."""

COMPARED = "replicas compared"
"""The name of the count of partitions whose replicas were all compared, from their start to the end
of the final read."""


READABLE = "readable"
"""The name of the count of partitions by whether reads of consumers are guaranteed to stay."""

COORDINATED = "coordinated"
"""The name of the count of groups' partitions by whether committed offsets are guaranteed to be
kept."""

BY_THE_DEPOSED = "read back from a deposed coordinator"
"""The name of the count of answers that a deposed coordinator may have given."""

WATCHED = "partitions watched"
"""The name of the count of partitions whose states in ZooKeeper were observed until the end."""

VERSIONED = "partitions watched by version"
"""The name of the count of those among them whose ISR could not change unobserved."""

IN_BROKER_LOGS = "partitions spoken of"
"""The name of the count of partitions that brokers' own logs mention."""

FORGOTTEN = "forgotten"
"""The name of the count of acked records that are absent because the topic's cleanup policy may
remove them."""

FORGOTTEN_UNREAD = "forgotten unread"
"""The name of the count of those among them that no consumer is known to have read, so that they
may have been lost before they were removed."""

FORGOTTEN_UNKEYED = "forgotten unkeyed"
"""The name of the count of those among them whose key or offset is unknown, so that compaction may
not explain that they are absent."""

FORGOTTEN_UNANSWERED = "forgotten unanswered"
"""The name of the count of those among them that only a tombstone without an ack can have
deleted."""

FORGOTTEN_UNDETERMINED = "forgotten undetermined"
"""The name of the count of those among them that may have been deleted too early."""


REMOTE_ONLY = "in the remote tier only"
"""The name of the count of offsets of the final log that no replica's own log had any more when the
logs were copied, so that they were in the remote tier alone."""


def examined(checker: str) -> str:
    """Return the name of the count of things that a checker examined: acks, records of the final
    log, states, reads of consumers. If it is 0, the checker says nothing."""
    return f"{checker} examined"


def looked(checker: str) -> str:
    """Return the name of the count of partitions that a checker of consumers could examine
    completely."""
    return f"{checker} looked"


class GuaranteeStatus(StrEnum):
    """The guarantee status of an acked record or a partition."""

    PROMISED = "promised"
    UNPROMISED = "unpromised"
    UNKNOWN = "unknown"
    """The observation does not show whether the guarantee applied. This is neither a violation nor
    an excuse."""


def count_name(what: str, standing: GuaranteeStatus) -> str:
    """Return the name of a count, for example ``lost promised``."""
    return f"{what} {standing}"


def by_time(
    what: str, times: Array, terms: ValidityWindow, earliest: Array | None = None
) -> Counter[str]:
    """Count the times (of acks) by guarantee status. ``earliest`` has a lower bound for each
    time."""
    unpromised, unknown = statuses(times, terms, earliest)
    return Counter(
        {
            count_name(what, GuaranteeStatus.PROMISED): int((~unpromised & ~unknown).sum()),
            count_name(what, GuaranteeStatus.UNPROMISED): int(unpromised.sum()),
            count_name(what, GuaranteeStatus.UNKNOWN): int(unknown.sum()),
        }
    )


def statuses(
    times: Array, terms: ValidityWindow, earliest: Array | None = None
) -> tuple[Array, Array]:
    """Return which of the times are not covered by the guarantee, and for which that is unknown; as
    :func:`by_time`."""
    unpromised: Array = times < terms.unpromised_before
    since = times if earliest is None else np.minimum(times, earliest)
    unknown: Array = since < terms.unknown_before
    for span in terms.unknown_in:
        unknown |= (times >= span.start) & (times < span.end)
    return unpromised, unknown & ~unpromised


def of_partition(begun: int, terms: ValidityWindow) -> GuaranteeStatus:
    """Return the guarantee status of a whole partition whose first send was at ``begun``.

    The log itself stores what distinguishes a retry from a new record. Once a part of the log is
    lost, a producer may continue in another order, and with copies of records that were acked much
    later.
    """
    if begun != NONE and begun < terms.unpromised_before:
        return GuaranteeStatus.UNPROMISED
    if begun != NONE and begun < terms.unknown_before:
        return GuaranteeStatus.UNKNOWN
    return GuaranteeStatus.PROMISED
