"""Errors of a producer's malformed batch."""

import pytest
from kio.schema.errors import ErrorCode

from ackproof.broker.server.requests.produce import validated
from ackproof.broker.wire.batch import Compression
from simulation.clients.producers import patch_batch
from tests.support.builders.batches import encoded, with_payload

SOUND = encoded([b"a", b"b", b"c"])
NEWEST = 9
MAX_BYTES = 1000
CONTROL = 0x20


def compressed(last_offset_delta: int, count: int) -> bytes:
    raw = with_payload(SOUND, b"opaque", Compression.ZSTD)
    return patch_batch(patch_batch(raw, 23, ">i", last_offset_delta), 57, ">i", count)


def test_a_sound_batch_is_taken() -> None:
    (batch,) = validated(SOUND, NEWEST, len(SOUND))
    assert bytes(batch.raw) == SOUND


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(None, ErrorCode.invalid_record, id="null"),
        pytest.param(b"", ErrorCode.invalid_record, id="nothing"),
        pytest.param(SOUND + SOUND, ErrorCode.invalid_record, id="two batches"),
        pytest.param(SOUND[:-1], ErrorCode.corrupt_message, id="torn"),
        pytest.param(SOUND + b"x", ErrorCode.corrupt_message, id="something behind it"),
        pytest.param(SOUND[:9], ErrorCode.corrupt_message, id="not even a length"),
        pytest.param(SOUND[:-1] + b"x", ErrorCode.corrupt_message, id="wrong CRC"),
        pytest.param(patch_batch(SOUND, 16, ">b", 1), ErrorCode.invalid_record, id="magic 1"),
        pytest.param(patch_batch(SOUND, 16, ">b", 3), ErrorCode.invalid_record, id="magic 3"),
        pytest.param(
            patch_batch(SOUND, 8, ">i", 2**31 - 1), ErrorCode.corrupt_message, id="length too large"
        ),
        pytest.param(
            patch_batch(SOUND, 8, ">i", -1), ErrorCode.corrupt_message, id="length negative"
        ),
        pytest.param(
            patch_batch(SOUND, 57, ">i", 4), ErrorCode.invalid_record, id="count above offsets"
        ),
        pytest.param(
            patch_batch(SOUND, 23, ">i", 9), ErrorCode.invalid_record, id="offsets above count"
        ),
        pytest.param(
            patch_batch(SOUND, 23, ">i", 2**31 - 1), ErrorCode.invalid_record, id="huge delta"
        ),
        pytest.param(
            patch_batch(patch_batch(SOUND, 23, ">i", 2**30 - 1), 57, ">i", 2**30),
            ErrorCode.invalid_record,
            id="more records than fit",
        ),
        pytest.param(
            patch_batch(patch_batch(SOUND, 23, ">i", -1), 57, ">i", 0),
            ErrorCode.corrupt_message,
            id="no records",
        ),
        pytest.param(compressed(8, 10), ErrorCode.invalid_record, id="compressed, count lies"),
        pytest.param(
            patch_batch(SOUND, 0, ">q", 7), ErrorCode.invalid_record, id="base offset not 0"
        ),
        pytest.param(
            patch_batch(SOUND, 21, ">h", CONTROL), ErrorCode.invalid_record, id="control batch"
        ),
        pytest.param(
            patch_batch(SOUND, 21, ">h", 7), ErrorCode.corrupt_message, id="unknown codec"
        ),
        pytest.param(
            patch_batch(SOUND, 43, ">q", 5), ErrorCode.invalid_record, id="producer, no sequence"
        ),
        pytest.param(encoded([b"x" * 1000]), ErrorCode.message_too_large, id="too large"),
    ],
)
def test_malformed_batch_is_refused_with_its_error(data: bytes | None, error: ErrorCode) -> None:
    assert validated(data, NEWEST, MAX_BYTES) is error


def test_zstd_came_with_version_7() -> None:
    assert validated(compressed(2, 3), 6, MAX_BYTES) is ErrorCode.unsupported_compression_type
    assert not isinstance(validated(compressed(2, 3), 7, MAX_BYTES), ErrorCode)
