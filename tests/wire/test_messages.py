"""Our classes and kio's, both made of Kafka's schemas, write the same bytes and read them alike."""

import struct
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.sync_group.v0.request import SyncGroupRequestAssignment

from ackproof.broker.server.requests.dispatch import APIS
from ackproof.broker.wire.codec import (
    MalformedRequest,
    MalformedResponse,
    read_response,
    response_pieces,
)
from ackproof.broker.wire.codec import write_request as write_ours
from ackproof.broker.wire.framing import LARGE_BYTES
from ackproof.broker.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ackproof.broker.wire.messages.produce import ProduceRequest
from ackproof.broker.wire.reader import ELEMENTS_MAX
from protocol.__main__ import MESSAGES, stale
from protocol.apis import modules
from tests.support.builders.examples import examples
from tests.support.builders.messages import entities
from tests.support.clients.frames import read_request
from tests.support.clients.kio_peer import (
    SIZE,
    request_type,
    response_type,
    write_request,
    write_response,
    written,
)
from tests.support.clients.kio_peer import read_response as read_by_kio

EVERY = [(key, version) for key, api in APIS.items() for version in api.request.VERSIONS]
FLEXIBLE = [it for it in EVERY if it[1] >= APIS[it[0]].request.FLEXIBLE_SINCE]
MILLISECOND = timedelta(milliseconds=1)


def test_committed_messages_equal_the_generated_ones() -> None:
    assert not stale(modules(), MESSAGES), "python -m protocol"


def of_kio(value: Any) -> Any:
    """Plain values of one of kio's entities, as ours has them: fields by name."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f"{f.name}_ms" if is_time(f.metadata.get("kafka_type", "")) else f.name: of_kio(
                milliseconds(getattr(value, f.name))
                if is_time(f.metadata.get("kafka_type", ""))
                else getattr(value, f.name)
            )
            for f in fields(value)
            if "tag" not in f.metadata
        }
    return [of_kio(element) for element in value] if isinstance(value, tuple) else value


def is_time(kafka_type: str) -> bool:
    return kafka_type.startswith(("timedelta", "datetime"))


def milliseconds(value: timedelta | datetime | None) -> int:
    if value is None:
        return -1
    if isinstance(value, datetime):
        return round(value.timestamp() * 1000)
    return round(value / MILLISECOND)


def of_ours(value: Any, like: Any) -> Any:
    """The fields of ours that kio's has."""
    if isinstance(like, dict):
        return {name: of_ours(getattr(value, name), wanted) for name, wanted in like.items()}
    if isinstance(like, list):
        assert len(value) == len(like)
        return [of_ours(*both) for both in zip(value, like, strict=True)]
    return bytes(value) if isinstance(value, memoryview) else value


def without_tags(entity_type: Any) -> st.SearchStrategy[Any]:
    return entities(entity_type, tagged=False)


def same_request(data: st.DataObject, api_key: int, version: int) -> None:
    theirs = data.draw(without_tags(request_type(api_key, version)))
    client_id = data.draw(st.none() | st.text(max_size=9))
    frame = write_request(theirs, 7, client_id)
    header, ours = read_request(APIS[api_key].request, frame[SIZE.size :])
    assert header == (api_key, version, 7, client_id)
    assert ours.version == version
    plain = of_kio(theirs)
    assert of_ours(ours, plain) == plain
    assert write_ours(ours, 7, client_id) == frame
    assert read_request(APIS[api_key].request, memoryview(frame)[SIZE.size :])[1] == ours


def same_response(data: st.DataObject, api_key: int, version: int) -> None:
    theirs = data.draw(without_tags(response_type(api_key, version)))
    frame = write_response(-3, theirs)
    correlation_id, ours = read_response(asking(api_key, version), frame[SIZE.size :])
    plain = of_kio(theirs)
    assert (correlation_id, of_ours(ours, plain)) == (-3, plain)
    assert b"".join(response_pieces(-3, ours, version)) == frame
    assert read_by_kio(request_type(api_key, version), frame[SIZE.size :]) == (-3, theirs)


def asking(api_key: int, version: int) -> Any:
    """Any request of that version: it is by it that the response is read."""
    return Asking(APIS[api_key].request, version)


class Asking:
    def __init__(self, request: Any, version: int) -> None:
        self.response, self.version = request.response, version


@pytest.mark.parametrize(("api_key", "version"), EVERY)
@settings(max_examples=examples(4))
@given(data=st.data())
def test_every_version_is_as_kio_has_it(data: st.DataObject, api_key: int, version: int) -> None:
    same_request(data, api_key, version)
    same_response(data, api_key, version)


@settings(max_examples=examples(60))
@given(data=st.data(), which=st.sampled_from(EVERY))
def test_whatever_is_in_them(data: st.DataObject, which: tuple[int, int]) -> None:
    same_request(data, *which)
    same_response(data, *which)


@settings(max_examples=examples(60))
@given(data=st.data(), which=st.sampled_from(FLEXIBLE))
def test_tagged_fields_are_skipped(data: st.DataObject, which: tuple[int, int]) -> None:
    """Test the tagged fields of the header and the body, also those that kio knows."""
    theirs = data.draw(entities(request_type(*which)))
    tags = tagged(data.draw(st.integers(128, 2**14 - 1)), data.draw(st.binary(max_size=99)))
    header_end = 2 + 2 + 4 + 2 + len("me")
    payload = write_request(theirs, 1, "me")[SIZE.size :]
    assert payload[header_end] == 0
    extended = payload[:header_end] + tags + payload[header_end + 1 :]
    if not any("tag" in f.metadata for f in fields(theirs)):
        assert extended[-1] == 0
        extended = extended[:-1] + tags
    request = read_request(APIS[which[0]].request, extended)
    assert request == read_request(APIS[which[0]].request, payload)
    answer = data.draw(entities(response_type(*which)))
    _, ours = read_response(asking(*which), write_response(1, answer)[SIZE.size :])
    plain = of_kio(answer)
    assert of_ours(ours, plain) == plain


def tagged(number: int, value: bytes) -> bytes:
    """A section with one tagged field; ``number`` from 128 to 16383, ``value`` below 128 bytes."""
    return bytes([1, number & 0x7F | 0x80, number >> 7, len(value)]) + value


# --- bytes that are no message ----------------------------------------------------------------


@settings(max_examples=examples(60))
@given(data=st.data(), which=st.sampled_from(EVERY))
def test_a_shortened_message_is_refused(data: st.DataObject, which: tuple[int, int]) -> None:
    request = write_request(data.draw(entities(request_type(*which))), 1, "me")[SIZE.size :]
    keep = data.draw(st.integers(0, len(request) - 1))
    with pytest.raises(MalformedRequest):
        read_request(APIS[which[0]].request, request[:keep])
    response = write_response(1, data.draw(entities(response_type(*which))))[SIZE.size :]
    keep = data.draw(st.integers(0, len(response) - 1))
    with pytest.raises(MalformedResponse):
        read_response(asking(*which), response[:keep])


@settings(max_examples=examples(100))
@given(data=st.data(), which=st.sampled_from(EVERY))
def test_a_damaged_message_raises_one_kind_of_error(
    data: st.DataObject, which: tuple[int, int]
) -> None:
    payload = bytearray(write_request(data.draw(entities(request_type(*which))), 1, "me"))
    del payload[: SIZE.size]
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(8, len(payload) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedRequest):
        read_request(APIS[which[0]].request, bytes(payload))


@settings(max_examples=examples(100))
@given(which=st.sampled_from(EVERY), rest=st.binary(max_size=60))
def test_random_bytes_raise_nothing_else(which: tuple[int, int], rest: bytes) -> None:
    with suppress(MalformedRequest):
        read_request(APIS[which[0]].request, struct.pack(">hhi", *which, 1) + rest)
    with suppress(MalformedResponse):
        read_response(asking(*which), rest)


LIES = [
    pytest.param(3, 8, struct.pack(">i", 2**31 - 1), id="more elements than bytes"),
    pytest.param(3, 8, struct.pack(">i", -2), id="fewer elements than none"),
    pytest.param(0, 9, b"\0" + bytes(6) + b"\xff\xff\xff\xff\x0f", id="compact count"),
    pytest.param(0, 9, b"\0" + bytes(6) + b"\xff\xff\xff\xff\xff\x0f", id="endless varint"),
    pytest.param(0, 9, b"\xff\xff\xff\xff\x0f", id="longer than the message"),
    pytest.param(0, 9, b"\0" + bytes(6) + b"\1" + b"\xff\xff\xff\xff\x0f", id="count of tags"),
    pytest.param(0, 3, struct.pack(">h", -3), id="negative string"),
    pytest.param(10, 0, struct.pack(">h", -1), id="null where there is none"),
    pytest.param(9, 1, struct.pack(">hi", 0, -1), id="null array where there is none"),
    pytest.param(35, 1, struct.pack(">ihi", 1, 0, 2**30), id="numbers that are not there"),
]


@pytest.mark.parametrize(("api_key", "version", "body"), LIES)
def test_lies_are_refused(api_key: int, version: int, body: bytes) -> None:
    request = APIS[api_key].request
    flexible = b"\0" if version >= request.HEADER_FLEXIBLE_SINCE else b""
    with pytest.raises(MalformedRequest):
        read_request(
            request, struct.pack(">hhih", api_key, version, 1, -1) + flexible + body + bytes(9)
        )


def test_a_client_id_of_negative_length_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="length -2"):
        read_request(ProduceRequest, struct.pack(">hhih", 0, 3, 1, -2) + bytes(20))


def test_elements_are_bounded_over_all_arrays() -> None:
    head = struct.pack(">hhih", 3, 8, 1, -1)
    names = ELEMENTS_MAX * b"\0\1a"
    flags = bytes(3)
    request = APIS[3].request
    read_request(request, head + struct.pack(">i", 9) + names[: 9 * 3] + flags)
    with pytest.raises(MalformedRequest, match="claims 1048577 elements"):
        read_request(request, head + struct.pack(">i", ELEMENTS_MAX + 1) + names + b"\0\1a" + flags)


def test_an_error_that_kafka_does_not_have_is_refused() -> None:
    with pytest.raises(MalformedResponse, match="no error code 9999"):
        read_response(asking(12, 0), struct.pack(">ih", 1, 9999))


# --- large records ----------------------------------------------------------------------------


def fetched(records: bytes | memoryview) -> FetchResponse:
    partition = PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        high_watermark=0,  # type: ignore[arg-type]
        aborted_transactions=None,
        records=records,
    )
    return FetchResponse(
        responses=(FetchableTopicResponse(topic="orders", partitions=(partition,)),)
    )


def test_large_records_are_not_copied() -> None:
    records = memoryview(bytes(LARGE_BYTES))
    pieces = response_pieces(1, fetched(records), 11)
    assert any(piece is records for piece in pieces)
    payload = memoryview(b"".join(pieces))[SIZE.size :]
    _, found = read_response(asking(1, 11), payload)
    read = found.responses[0].partitions[0].records
    assert isinstance(read, memoryview)
    assert read.obj is payload.obj


def test_stored_assignment_is_a_copy() -> None:
    """A group's metadata outlives its frame, of which it would keep all."""
    theirs = request_type(14, 0)(
        group_id="g",
        generation_id=1,
        member_id="m",
        assignments=(SyncGroupRequestAssignment(member_id="m", assignment=b"share"),),  # type: ignore[arg-type]
    )
    payload = memoryview(write_request(theirs, 1, None))[SIZE.size :]
    _, request = read_request(APIS[14].request, payload)
    assert type(request.assignments[0].assignment) is bytes


def test_fields_that_a_version_lacks_are_left_out() -> None:
    theirs = response_type(1, 4)
    frame = b"".join(response_pieces(1, fetched(b"v"), 4))
    _, read = read_by_kio(request_type(1, 4), frame[SIZE.size :])
    assert isinstance(read, theirs)
    assert written(read) == frame[SIZE.size + 4 :]
