import gzip
import struct
from itertools import accumulate

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.wire.batch import (
    HEADER_BYTES,
    Compression,
    CorruptBatch,
    TimestampType,
    parse_batch,
    parse_batches,
    records,
    stamped,
    whole_batches_below,
    with_append_time,
)
from tests.support.builders.batches import NOW_MS, batch, encoded, with_payload

THREE = encoded([b"a", b"bb", b"ccc"], timestamps=[NOW_MS, NOW_MS + 250, NOW_MS + 125])


def test_parsed_header_equals_the_written_one() -> None:
    found = parse_batch(encoded([b"a", b"b"], base_offset=7, leader_epoch=3, attributes=0x30))
    assert (found.base_offset, found.last_offset, found.next_offset) == (7, 8, 9)
    assert (found.leader_epoch, found.count, found.last_offset_delta) == (3, 2, 1)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (-1, -1, -1)
    assert (found.base_timestamp, found.max_timestamp) == (NOW_MS, NOW_MS)
    assert found.is_transactional
    assert found.is_control
    assert found.is_dense
    assert found.compression is Compression.NONE
    assert found.timestamp_type is TimestampType.CREATE_TIME
    assert found.size == len(found.raw)


def test_batches_are_views_on_the_data_and_follow_each_other() -> None:
    data = encoded([b"a"]) + THREE
    first, second = parse_batches(data)
    assert (first.count, second.count) == (1, 3)
    assert bytes(first.raw) + bytes(second.raw) == data
    assert second.raw.obj is data


@given(cut=st.integers(min_value=1, max_value=len(THREE) - 1))
def test_a_torn_tail_is_refused_or_dropped(cut: int) -> None:
    data = THREE + THREE[:cut]
    with pytest.raises(CorruptBatch, match="torn"):
        parse_batches(data)
    assert len(parse_batches(data, partial_tail=True)) == 1


@given(byte=st.integers(min_value=0, max_value=len(THREE) - 1), bit=st.integers(0, 7))
def test_each_flipped_bit_is_found_except_in_the_fields_of_the_leader(byte: int, bit: int) -> None:
    damaged = bytearray(THREE)
    damaged[byte] ^= 1 << bit
    if byte < 8 or 12 <= byte < 16:  # base offset and leader epoch are outside the CRC
        return
    with pytest.raises(CorruptBatch):
        parse_batches(bytes(damaged))


def test_crc_is_looked_at_only_when_asked() -> None:
    damaged = THREE[:-1] + b"\xff"
    assert parse_batches(damaged, verify_crc=False)[0].count == 3


@pytest.mark.parametrize(
    ("form", "position", "value", "why"),
    [
        (">b", 16, 1, "magic 1"),
        (">i", 8, 48, "batch length 48"),
        (">i", 8, -1, "batch length -1"),
        (">q", 0, -1, "none may be negative"),
        (">i", 23, -1, "none may be negative"),
        (">i", 57, -1, "none may be negative"),
        (">h", 21, 5, "codec 5"),
    ],
)
def test_nonsense_is_named(form: str, position: int, value: int, why: str) -> None:
    damaged = bytearray(THREE)
    struct.pack_into(form, damaged, position, value)
    with pytest.raises(CorruptBatch, match=why):
        parse_batches(bytes(damaged), verify_crc=False)


@given(offset=st.integers(0, 2**63 - 4), epoch=st.integers(0, 2**31 - 1))
def test_stamping_changes_offset_and_epoch_alone(offset: int, epoch: int) -> None:
    placed = stamped(parse_batch(THREE), offset, epoch)
    assert (placed.base_offset, placed.next_offset) == (offset, offset + 3)
    assert placed.leader_epoch == epoch
    assert parse_batch(bytes(placed.raw)) == placed, "the CRC still holds"
    assert bytes(placed.raw[16:]) == THREE[16:]


def test_log_append_time_counts_for_every_record() -> None:
    placed = with_append_time(parse_batch(THREE), NOW_MS + 9)
    checked = parse_batch(bytes(placed.raw))
    assert checked.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in records(checked)] == [NOW_MS + 9] * 3


@given(
    counts=st.lists(st.integers(1, 4), max_size=6),
    bound=st.integers(0, 25),
    cut=st.integers(0, 30),
)
def test_whole_batches_below_a_bound(counts: list[int], bound: int, cut: int) -> None:
    data = b""
    expected = offset = 0
    for count in counts:
        data += encoded([b"v"] * count, base_offset=offset)
        offset += count
    data = data[: len(data) - cut]
    for whole in parse_batches(data, partial_tail=True):
        if whole.next_offset > bound:
            break
        expected += whole.size
    assert whole_batches_below(data, bound) == expected
    for start in accumulate((whole.size for whole in parse_batches(data[:expected])), initial=0):
        assert whole_batches_below(data, bound, start) == expected


def test_records_keep_milliseconds_keys_and_values() -> None:
    found = list(records(parse_batch(THREE)))
    assert [record.offset for record in found] == [0, 1, 2]
    assert [record.timestamp for record in found] == [NOW_MS, NOW_MS + 250, NOW_MS + 125]
    assert [record.key for record in found] == [None, b"k1", None]
    assert [record.value for record in found] == [b"a", b"bb", b"ccc"]


def xerial(data: bytes) -> bytes:
    blocks = [bytes(pa.compress(part, codec="snappy")) for part in (data[:40], data[40:])]
    framed = b"".join(len(block).to_bytes(4, "big") + block for block in blocks)
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + framed


@pytest.mark.parametrize(
    ("codec", "compress"),
    [
        (Compression.GZIP, gzip.compress),
        (Compression.SNAPPY, lambda data: bytes(pa.compress(data, codec="snappy"))),
        (Compression.SNAPPY, xerial),
        (Compression.LZ4, lambda data: bytes(pa.compress(data, codec="lz4"))),
        (Compression.ZSTD, lambda data: bytes(pa.compress(data, codec="zstd"))),
    ],
    ids=["gzip", "snappy", "snappy-xerial", "lz4", "zstd"],
)
def test_compressed_records(codec: Compression, compress) -> None:  # type: ignore[no-untyped-def]
    raw = encoded([b"v%d" % number * 30 for number in range(50)])
    packed = parse_batch(with_payload(raw, compress(raw[HEADER_BYTES:]), codec))
    assert packed.compression is codec
    assert packed.size < len(raw)
    assert list(records(packed)) == list(records(parse_batch(raw)))


@pytest.mark.parametrize("codec", list(Compression))
def test_records_that_cannot_be_read_are_corrupt(codec: Compression) -> None:
    broken = parse_batch(with_payload(THREE, b"\x04nonsense", codec))
    with pytest.raises(CorruptBatch, match="records of the batch at offset 0"):
        list(records(broken))


def test_a_compacted_batch_is_not_dense() -> None:
    raw = bytearray(bytes(batch([b"a", b"b"]).raw))
    struct.pack_into(">i", raw, 23, 9)
    assert not parse_batch(bytes(raw), verify_crc=False).is_dense
