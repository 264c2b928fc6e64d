"""Which segments may go: ``retention.ms``, ``retention.bytes``, and what was given up."""

from collections.abc import Sequence

from ackproof.broker.log.config import LogConfig
from ackproof.broker.log.segment import Segment


def count_deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many of the oldest segments are to be deleted.

    A segment goes when it is too old, when those behind it are enough, or when the log's start
    has moved past it; never before all of it is below the high watermark, and never before those
    in front of it. Records without timestamp do not get too old. The last segment only goes by
    age or size, and not when it is empty.
    """
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    for count, segment in enumerate(segments):
        is_last = count == len(segments) - 1
        end = segment.next_offset if is_last else segments[count + 1].base_offset
        excess -= segment.size
        too_much = config.retention_bytes >= 0 and excess >= 0
        given_up = end <= log_start and not is_last
        unwanted = too_much or given_up or _too_old(segment, config, now_ms)
        if not unwanted or end > high_watermark or (is_last and segment.size == 0):
            return count
    return len(segments)


def _too_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    age_known = config.retention_ms >= 0 and segment.max_timestamp >= 0
    return age_known and now_ms - segment.max_timestamp > config.retention_ms
