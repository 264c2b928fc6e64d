"""What a failed append to ``__consumer_offsets`` means to a client (as in Kafka 3.x)."""

from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

_TOO_LARGE: Final = frozenset(
    {ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.invalid_fetch_size}
)
_COMMON: Final[Mapping[ErrorCode, ErrorCode]] = {
    ErrorCode.none: ErrorCode.none,
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
}


def of_offsets(error: ErrorCode) -> ErrorCode:
    """When it was offsets that should be stored, or their deletion."""
    if error in _TOO_LARGE:
        return ErrorCode.invalid_commit_offset_size
    if error is ErrorCode.request_timed_out:
        return ErrorCode.coordinator_not_available
    return _COMMON.get(error, error)


def of_group(error: ErrorCode) -> ErrorCode:
    """When it was a generation that should be stored."""
    if error in _TOO_LARGE:
        return ErrorCode.unknown_server_error
    if error is ErrorCode.request_timed_out:
        return ErrorCode.rebalance_in_progress
    return _COMMON.get(error, error)
