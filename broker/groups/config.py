"""What groups are told about themselves; names and defaults are Apache Kafka's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A field ``min_session_timeout_ms`` is the property ``group.min.session.timeout.ms``."""

    min_session_timeout_ms: int = 6_000
    """A JoinGroup with a shorter session is refused."""

    max_session_timeout_ms: int = 1_800_000
    """A JoinGroup with a longer session is refused."""

    initial_rebalance_delay_ms: int = 3_000
    """How long an empty group waits for more members after the first, and again as long for each
    that comes within that time (KIP-134)."""

    max_size: int = 2**31 - 1
    """Members a group may have."""

    offset_metadata_max_bytes: int = 4_096
    """``offset.metadata.max.bytes``: of the text that a client commits with an offset; counted in
    UTF-16 code units, as Kafka counts them."""

    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """``offsets.retention.minutes``, in ms: how long offsets outlive their group (KIP-211)."""
