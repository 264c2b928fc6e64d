"""Validation of a batch by the topic's settings."""

import struct

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, TopicConfig
from ackproof.broker.log.config import LOG_APPEND_TIME, LogConfig
from ackproof.broker.log.validator import RefusedBatch, admitted
from ackproof.broker.wire.batch import HEADER_BYTES, RecordBatch, TimestampType, parse_batch
from tests.support.builders.batches import NOW_MS, batch, encoded, with_payload

DEFAULT = LogConfig()
HOUR_MS = 3_600_000
WITHIN = LogConfig(
    message_timestamp_before_max_ms=2 * HOUR_MS, message_timestamp_after_max_ms=HOUR_MS
)


def marked(attributes: int) -> RecordBatch:
    raw = encoded([b"v"])
    return parse_batch(with_payload(raw, raw[HEADER_BYTES:], attributes))


def at(*timestamps: int) -> RecordBatch:
    return batch([b"v"] * len(timestamps), timestamps=timestamps)


def error_of(one: RecordBatch, config: LogConfig) -> ErrorCode:
    try:
        admitted(one, config, NOW_MS)
    except RefusedBatch as refused:
        return refused.error
    return ErrorCode.none


def test_batch_with_create_time_is_unchanged() -> None:
    one = at(0, NOW_MS + 10**9)
    assert admitted(one, DEFAULT, NOW_MS) is one


def test_log_append_time_is_the_leaders_clock_with_a_valid_crc() -> None:
    config = LogConfig(message_timestamp_type=LOG_APPEND_TIME, message_timestamp_after_max_ms=0)
    stored = parse_batch(bytes(admitted(at(NOW_MS + 10**9), config, NOW_MS).raw))
    assert (stored.timestamp_type, stored.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW_MS)


@pytest.mark.parametrize(
    ("relative", "error"),
    [
        ([-2 * HOUR_MS, HOUR_MS], ErrorCode.none),
        ([0, -2 * HOUR_MS - 125, 0], ErrorCode.invalid_timestamp),
        ([0, HOUR_MS + 125, 0], ErrorCode.invalid_timestamp),
    ],
)
def test_timestamp_of_every_record_is_checked(relative: list[int], error: ErrorCode) -> None:
    assert error_of(at(*[NOW_MS + moment for moment in relative]), WITHIN) is error


def test_records_without_timestamp_are_never_too_old() -> None:
    raw = bytearray(encoded([b"v"], timestamps=[0]))
    payload = bytes(raw[HEADER_BYTES:])
    struct.pack_into(">q", raw, 27, -1)
    one = parse_batch(with_payload(bytes(raw), payload, 0))
    assert error_of(one, WITHIN) is ErrorCode.none


@pytest.mark.parametrize(
    ("one", "config", "error"),
    [
        (marked(0x10), DEFAULT, ErrorCode.invalid_txn_state),
        (marked(0x08), DEFAULT, ErrorCode.invalid_timestamp),
        (batch([b"v" * 200]), LogConfig(segment_bytes=200), ErrorCode.record_list_too_large),
        (marked(1), WITHIN, ErrorCode.corrupt_message),
        (marked(1), DEFAULT, ErrorCode.none),
    ],
    ids=["transaction", "LogAppendTime", "segment", "no gzip, read", "no gzip, not read"],
)
def test_invalid_batch_is_refused_with_its_error(
    one: RecordBatch, config: LogConfig, error: ErrorCode
) -> None:
    assert error_of(one, config) is error


def test_old_timestamp_limit_applies_both_ways_without_the_new_ones() -> None:
    topic = TopicConfig().overridden(
        {"message.timestamp.difference.max.ms": "5000", "message.timestamp.after.max.ms": "100"}
    )
    config = topic.log_config()
    assert config.message_timestamp_before_max_ms == 5000
    assert config.message_timestamp_after_max_ms == 100


def test_broker_settings_are_defaults_of_topics() -> None:
    broker = BrokerConfig.model_validate(
        {
            "broker.id": 1,
            "zookeeper.connect": "z",
            "log.message.timestamp.type": "LogAppendTime",
            "log.message.timestamp.before.max.ms": 7,
            "log.flush.scheduler.interval.ms": 9,
        }
    )
    config = broker.topic_defaults().log_config()
    assert config.message_timestamp_type == LOG_APPEND_TIME
    assert config.message_timestamp_before_max_ms == 7
    assert config.flush_ms == 9, "log.flush.interval.ms, when it is not set"
