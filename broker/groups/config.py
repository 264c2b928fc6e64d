"""The settings of groups. Names and defaults are Apache Kafka's."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The settings of groups. The field ``min_session_timeout_ms`` is
    ``group.min.session.timeout.ms``, and so on."""

    min_session_timeout_ms: int = 6_000
    """The shortest session that a JoinGroup may request."""

    max_session_timeout_ms: int = 1_800_000
    """The longest session that a JoinGroup may request."""

    initial_rebalance_delay_ms: int = 3_000
    """The time for which an empty group waits for more members after the first, and again for each
    that arrives within that time (KIP-134)."""

    max_size: int = 2**31 - 1
    """The largest number of members of a group."""

    offset_metadata_max_bytes: int = 4_096
    """``offset.metadata.max.bytes``: the limit of the text that a client commits with an offset,
    counted in UTF-16 code units, as in Kafka."""

    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """``offsets.retention.minutes``, in ms: how long offsets outlive their group (KIP-211)."""
