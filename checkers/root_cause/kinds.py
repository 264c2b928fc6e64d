"""The kinds of causes: by which of the known ways an anomaly came about (docs/root-causes.md)."""

from enum import StrEnum


class Kind(StrEnum):
    """Of what became of records, one of the first ones; of copies that are too many, and of
    replicas that differ, one of those that name them; of any, one of the last."""

    DEPOSED_LEADER = "deposed-leader"
    """Their leader went on acking when another one had been elected, who did not have them."""
    UNCLEAN_ELECTION = "unclean-election"
    """The next leader was none of those in sync."""
    LOST_FROM_DISK = "lost-from-disk"
    """A fault took data from the disk of the next leader, or of the one that led on; or of the
    replica that lacks them."""
    CUT_BEFORE_LEADING = "cut-before-leading"
    """The next leader had cut its own log, as a follower, before it led."""
    LET_IN_TOO_EARLY = "let-in-too-early"
    """A leader that had them let the next one into the ISR before that one had all that was in its
    log when its own epoch began (KAFKA-7128)."""
    NOT_REPLICATED = "not-replicated"
    """The ack did not wait for the followers (acks=0 or 1), and the next leader, one of those in
    sync, had not fetched them yet."""
    UNANSWERED = "unanswered"
    """No broker answered for them (acks=0): nobody knows whether one ever had them."""
    DEDUPLICATED = "deduplicated"
    """Their leader took them for what their producer had sent before and given up, acked them at
    the offsets of that, and never appended them."""
    BELOW_LOG_START = "below-log-start"
    """The log starts above them: retention, or DeleteRecords."""

    RETRIED = "retried"
    """Copies. The producer, which is not idempotent, sent again what it had no answer of, and the
    same leader appended it again."""
    RETRIED_AT_NEXT_LEADER = "retried-at-next-leader"
    """Likewise, and another leader did, or the same one in a later epoch."""
    NEW_SESSION = "new-session"
    """The idempotent producer began another session, and sent them again in that one."""
    RENUMBERED = "renumbered"
    """The idempotent producer sent them again in the same session, under other numbers."""
    FORGOTTEN = "forgotten"
    """Of the same session and number; a fault took data from the disk of the leader that did not
    know them again."""

    NOT_CUT = "not-cut"
    """Replicas. One kept what it had of an earlier epoch where a later one began."""
    REFILLED = "refilled"
    """A fault took data from the disk of the epoch's leader, which filled these offsets again."""
    TWO_LEADERS = "two-leaders"
    """In the epoch two brokers led."""
    DAMAGED = "damaged"
    """A fault changed data on the disk of one of them."""
    NOT_FETCHED = "not-fetched"
    """One cut its log there and did not fetch again what was behind."""

    UNEXPLAINED = "unexplained"
    """What was recorded should tell, and does not: none of these ways. The most interesting."""
    UNKNOWN = "unknown"
    """What was recorded does not suffice to tell."""


EXPECTED = frozenset({Kind.UNANSWERED, Kind.RETRIED, Kind.RETRIED_AT_NEXT_LEADER})
"""What comes of the settings alone whenever anything goes wrong: told last."""
