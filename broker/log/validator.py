"""The checks of a client's batch against the topic's settings before it is appended."""

from kio.schema.errors import ErrorCode

from ackproof.broker.log.config import LOG_APPEND_TIME, MAX_LONG, LogConfig
from ackproof.broker.wire.batch import (
    CorruptBatch,
    RecordBatch,
    TimestampType,
    records,
    with_append_time,
)


class RefusedBatch(Exception):
    """A batch that must not be appended. ``error`` is sent to its client, beside the text."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


_NO_TIMESTAMP = -1


def admitted(batch: RecordBatch, config: LogConfig, now_ms: int) -> RecordBatch:
    """Return the batch in the form in which it must be appended.

    With ``message.timestamp.type=LogAppendTime`` it has the timestamp ``now_ms``.

    Raises:
        RefusedBatch: RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, INVALID_TXN_STATE (there are no
            transactions), CORRUPT_MESSAGE (its records had to be read and cannot be).
    """
    if batch.is_transactional:
        raise RefusedBatch(ErrorCode.invalid_txn_state, "there are no transactions here")
    if batch.size > config.segment_bytes:
        raise RefusedBatch(
            ErrorCode.record_list_too_large,
            f"{batch.size} bytes are more than segment.bytes={config.segment_bytes}",
        )
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return with_append_time(batch, now_ms)
    _check_timestamps(batch, config, now_ms)
    return batch


def _check_timestamps(batch: RecordBatch, config: LogConfig, now_ms: int) -> None:
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        raise RefusedBatch(ErrorCode.invalid_timestamp, "clients do not set LogAppendTime")
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if min(before, after) == MAX_LONG:
        return
    try:
        timestamps = [record.timestamp for record in records(batch)]
    except CorruptBatch as error:
        raise RefusedBatch(ErrorCode.corrupt_message, str(error)) from error
    for timestamp in timestamps:
        if timestamp != _NO_TIMESTAMP and not -after <= now_ms - timestamp <= before:
            raise RefusedBatch(
                ErrorCode.invalid_timestamp,
                f"timestamp {timestamp} is not within {before} ms before and {after} ms after "
                f"{now_ms}",
            )
