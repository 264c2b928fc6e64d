"""What a log is told about itself; names and defaults are Kafka's topic configuration."""

from dataclasses import dataclass

MAX_LONG = 2**63 - 1
_WEEK_MS = 7 * 24 * 3_600_000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """A topic's settings as far as its logs are concerned.

    A field ``segment_bytes`` is the property ``segment.bytes``.
    """

    segment_bytes: int = 2**30
    """A segment is closed before it would grow above this."""

    segment_ms: int = _WEEK_MS
    """A segment is closed when a batch comes that is this much younger than its first one."""

    segment_index_bytes: int = 10 * 2**20
    """A segment is closed when one of its indexes has reached this size."""

    index_interval_bytes: int = 4096
    """About how many bytes of log lie between two index entries."""

    retention_ms: int = _WEEK_MS
    """Segments with no younger record than this are deleted; -1: never."""

    retention_bytes: int = -1
    """The oldest segments are deleted while the others together hold this much; -1: never."""

    flush_messages: int = MAX_LONG
    """Records after which the log is fsynced. Kafka leaves that to the operating system."""

    flush_ms: int = MAX_LONG
    """Time in ms that a record may wait for its fsync; looked at by ``flush_if_due``."""

    message_timestamp_type: str = CREATE_TIME
    """``CreateTime``: the client's timestamps stay. ``LogAppendTime``: the leader sets them."""

    message_timestamp_before_max_ms: int = MAX_LONG
    """How far a client's timestamp may lie before the leader's clock."""

    message_timestamp_after_max_ms: int = MAX_LONG
    """How far a client's timestamp may lie after the leader's clock."""

    def __post_init__(self) -> None:
        if self.message_timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
            raise ValueError(
                f"message.timestamp.type={self.message_timestamp_type}: "
                f"should be {CREATE_TIME} or {LOG_APPEND_TIME}"
            )
        if self.segment_bytes < 1:
            raise ValueError(f"segment.bytes={self.segment_bytes}: should be above 0")
