"""The kinds of root causes (docs/root-causes.md)."""

from enum import StrEnum


class CauseKind(StrEnum):
    """The kind of a root cause. The first ones are for missing records, the next for repeated
    records and for divergent replicas, and the last two for any anomaly."""

    DEPOSED_LEADER = "deposed-leader"
    """Their leader continued to ack after the election of another leader, which did not have
    them."""
    UNCLEAN_ELECTION = "unclean-election"
    """The next leader was not in the ISR."""
    LOST_FROM_DISK = "lost-from-disk"
    """A fault took data from the disk of the next leader, of the leader that remained, or of the
    replica that lacks them."""
    TRUNCATED_BEFORE_LEADING = "cut-before-leading"
    """The next leader had truncated its own log as a follower before it became leader."""
    ISR_EXPANDED_TOO_EARLY = "let-in-too-early"
    """A leader that had them added the next leader to the ISR before that one had everything that
    was in its log when its own epoch began (KAFKA-7128)."""
    NOT_REPLICATED = "not-replicated"
    """The ack did not wait for the followers (acks=0 or 1), and the next leader, an in-sync
    replica, had not fetched them yet."""
    UNANSWERED = "unanswered"
    """No broker answered for them (acks=0), so it is unknown whether one ever had them."""
    DEDUPLICATED = "deduplicated"
    """Their leader took them for records that their producer had sent before and given up, acked
    them at the offsets of those, and never appended them."""
    BELOW_LOG_START = "below-log-start"
    """The log starts above them because of retention or DeleteRecords."""
    DELETED_TOO_EARLY = "deleted-too-early"
    """The log starts above them, although neither retention nor DeleteRecords could remove them
    yet."""

    TOMBSTONE_TOO_EARLY = "tombstone-too-early"
    """A cleaner removed the tombstones, although ``delete.retention.ms`` had not passed."""

    RETRIED = "retried"
    """The producer is not idempotent and sent unanswered records again. The same leader appended
    them again."""
    RETRIED_AT_NEXT_LEADER = "retried-at-next-leader"
    """The producer is not idempotent and sent unanswered records again. Another leader, or the same
    one in a later epoch, appended them again."""
    NEW_SESSION = "new-session"
    """The idempotent producer began another session and sent them again in it."""
    RENUMBERED = "renumbered"
    """The idempotent producer sent them again in the same session, with other sequence numbers."""
    FORGOTTEN = "forgotten"
    """The copies have the same session and sequence number. A fault took data from the disk of the
    leader that did not recognise them."""

    NOT_TRUNCATED = "not-cut"
    """A replica kept records of an earlier epoch at offsets where a later epoch began."""
    REFILLED = "refilled"
    """A fault took data from the disk of the epoch's leader, which filled these offsets again."""
    TWO_LEADERS = "two-leaders"
    """Two brokers led in the epoch."""
    DAMAGED = "damaged"
    """A fault changed data on the disk of one of the replicas."""
    NOT_FETCHED = "not-fetched"
    """A replica truncated its log there and did not fetch the following records again."""

    UNEXPLAINED = "unexplained"
    """The records of the run should show the cause, but it is none of these. This is the most
    interesting kind."""
    UNKNOWN = "unknown"
    """The records of the run do not suffice to find the cause."""


EXPECTED = frozenset({CauseKind.UNANSWERED, CauseKind.RETRIED, CauseKind.RETRIED_AT_NEXT_LEADER})
"""Kinds that follow from the settings alone whenever a failure occurs. They are reported last."""
