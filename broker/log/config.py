"""The settings of a log. Names and defaults are Kafka's topic configuration."""

from dataclasses import dataclass

MAX_LONG = 2**63 - 1
_WEEK_MS = 7 * 24 * 3_600_000

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of a topic that concern its logs.

    The field ``segment_bytes`` is the property ``segment.bytes``, and so on.
    """

    segment_bytes: int = 2**30
    """The size limit of a segment: it is closed before it would grow above this."""

    segment_ms: int = _WEEK_MS
    """The age limit: a segment is closed when a batch is this much younger than its first one."""

    segment_index_bytes: int = 10 * 2**20
    """The size of an index at which its segment is closed."""

    index_interval_bytes: int = 4096
    """The approximate number of bytes of log between two index entries."""

    retention_ms: int = _WEEK_MS
    """The retention time: segments without a younger record are deleted. -1 means never."""

    retention_bytes: int = -1
    """The retention size: the oldest segments are deleted while the others hold this much. -1 means
    never."""

    flush_messages: int = MAX_LONG
    """The number of records after which the log is fsynced. Kafka leaves that to the operating
    system."""

    flush_ms: int = MAX_LONG
    """The time in ms that a record may wait for its fsync; ``flush_if_due`` checks it."""

    message_timestamp_type: str = CREATE_TIME
    """``CreateTime`` keeps the client's timestamps. With ``LogAppendTime`` the leader sets them."""

    message_timestamp_before_max_ms: int = MAX_LONG
    """The time (in ms) that a client's timestamp may lie before the leader's clock."""

    message_timestamp_after_max_ms: int = MAX_LONG
    """The time (in ms) that a client's timestamp may lie after the leader's clock."""

    def __post_init__(self) -> None:
        if self.message_timestamp_type not in (CREATE_TIME, LOG_APPEND_TIME):
            raise ValueError(
                f"message.timestamp.type={self.message_timestamp_type}: "
                f"should be {CREATE_TIME} or {LOG_APPEND_TIME}"
            )
        if self.segment_bytes < 1:
            raise ValueError(f"segment.bytes={self.segment_bytes}: should be above 0")
