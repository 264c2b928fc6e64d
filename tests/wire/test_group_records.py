"""The records of ``__consumer_offsets``, byte for byte as Kafka has them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.wire.batch import KeyValue, new_batch, records
from ackproof.broker.wire.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MalformedGroupRecord,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    decode,
    encode,
)

TEXT = st.text(max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
DATA = st.binary(max_size=20)
OFFSET_KEYS = st.builds(OffsetCommitKey, group=TEXT, topic=TEXT, partition=INT32)
OFFSETS = st.builds(
    OffsetCommitValue, offset=INT64, leader_epoch=INT32, metadata=TEXT, commit_timestamp=INT64
)
MEMBERS = st.builds(
    MemberMetadata,
    member_id=TEXT,
    group_instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout=INT32,
    session_timeout=INT32,
    subscription=DATA,
    assignment=DATA,
)
GROUPS = st.builds(
    GroupMetadataValue,
    protocol_type=TEXT,
    generation=INT32,
    protocol=st.none() | TEXT,
    leader=st.none() | TEXT,
    current_state_timestamp=INT64,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)


@given(
    st.tuples(OFFSET_KEYS, st.none() | OFFSETS)
    | st.tuples(st.builds(GroupMetadataKey, group=TEXT), st.none() | GROUPS)
)
def test_written_group_records_are_read_back(record):
    key, value = record
    assert decode(encode(key), None if value is None else encode(value)) == record


def test_an_offset_is_laid_out_as_in_kafka():
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=9)
    assert encode(key) == struct.pack(">hh1sh1si", 1, 1, b"g", 1, b"t", 3)
    assert encode(value) == struct.pack(">hqih1sq", 3, 7, 2, 1, b"m", 9)


def test_a_group_is_laid_out_as_in_kafka():
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol=None,
        leader=None,
        current_state_timestamp=9,
        members=(),
    )
    assert encode(GroupMetadataKey(group="g")) == struct.pack(">hh1s", 2, 1, b"g")
    expected = struct.pack(">hh8sihhqi", 3, 8, b"consumer", 5, -1, -1, 9, 0)
    assert encode(value) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, None),
        (b"", None),
        (b"\0\3\0\1g", None),
        (b"\0\2\0\2g", None),
        (b"\0\2\0\1gg", None),
        (b"\0\2\0\1g", b"\0\1"),
        (b"\0\2\0\1g", b"\0\3\0"),
    ],
)
def test_foreign_group_record_is_refused(key, value):
    with pytest.raises(MalformedGroupRecord):
        decode(key, value)


def test_a_batch_of_our_own_is_read_like_any_other():
    pairs = [KeyValue(b"a", b"1"), KeyValue(b"b", None)]
    batch = new_batch(pairs, 1_700_000_000_125)
    assert batch.is_dense
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records(batch)] == [
        (0, 1_700_000_000_125, b"a", b"1"),
        (1, 1_700_000_000_125, b"b", None),
    ]
