"""The walk before decoding agrees with kio on sound messages and is not taken in by lies."""

import struct
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader
from messages import entities

from broker.wire.codec import MalformedRequest, read_request, write_request, write_response
from broker.wire.registry import request_type, response_type
from broker.wire.shape import ELEMENTS_MAX, MalformedShape, checked

PREFIX = 4
INTERBROKER = [(4, 5), (5, 3), (6, 7), (7, 3)]
EVERY_API = [
    *((int(key), int(v)) for key, name in api_key_map.items() for v in schema_name_map[name]),
    *INTERBROKER,
]
FLEXIBLE = [it for it in EVERY_API if request_type(*it).__flexible__]


def tagged(number: int, value: bytes) -> bytes:
    """A section with one tagged field; ``number`` from 128 to 16383, ``value`` below 128 bytes."""
    return bytes([1, number & 0x7F | 0x80, number >> 7, len(value)]) + value


@settings(max_examples=300, derandomize=True)
@given(data=st.data())
def test_what_kio_writes_passes_unchanged(data: st.DataObject) -> None:
    api_key, version = data.draw(st.sampled_from(EVERY_API))
    request = data.draw(entities(request_type(api_key, version)))
    payload = write_request(request, 1, data.draw(st.none() | st.text(max_size=9)))[PREFIX:]
    assert checked(payload, request.__header_schema__, type(request)) is payload
    response = data.draw(entities(response_type(api_key, version)))
    payload = write_response(1, response)[PREFIX:]
    assert checked(payload, response.__header_schema__, type(response)) is payload


@settings(max_examples=200, derandomize=True)
@given(data=st.data())
def test_unknown_tags_are_skipped_in_header_and_body(data: st.DataObject) -> None:
    api_key, version = data.draw(st.sampled_from(FLEXIBLE))
    request = data.draw(entities(request_type(api_key, version)))
    payload = write_request(request, 1, "me")[PREFIX:]
    head_end = 2 + 2 + 4 + 2 + len("me")
    section = tagged(data.draw(st.integers(128, 2**14 - 1)), data.draw(st.binary(max_size=99)))
    assert payload[head_end] == 0
    in_header = payload[:head_end] + section + payload[head_end + 1 :]
    assert checked(in_header, request.__header_schema__, type(request)) == payload
    if payload[-1] == 0 and not any("tag" in f.metadata for f in fields(request)):
        in_body = payload[:-1] + section
        assert checked(in_body, request.__header_schema__, type(request)) == payload


def test_known_tags_stay_when_unknown_ones_go() -> None:
    response = response_type(18, 3)
    supported = bytes([2]) + b"\2f" + struct.pack(">hh", 1, 2) + b"\0"
    sound = b"\0\0" + b"\1" + bytes(4) + b"\1" + bytes([0, len(supported)]) + supported
    unknown_inside = supported[:-1] + tagged(200, b"new")
    mixed = b"\0\0" + b"\1" + bytes(4) + b"\2" + bytes([0, len(unknown_inside)]) + unknown_inside
    mixed += tagged(300, b"newer")[1:]
    assert checked(mixed, response) == sound
    entity, _ = entity_reader(response)(sound, 0)
    assert entity.supported_features[0].name == "f"


@settings(max_examples=200, derandomize=True)
@given(data=st.data())
def test_a_shortened_message_is_refused(data: st.DataObject) -> None:
    api_key, version = data.draw(st.sampled_from(EVERY_API))
    request = data.draw(entities(request_type(api_key, version)))
    payload = write_request(request, 1, "me")[PREFIX:]
    keep = data.draw(st.integers(0, len(payload) - 1))
    with pytest.raises(MalformedShape):
        checked(payload[:keep], request.__header_schema__, type(request))


LIES = [
    pytest.param(3, 8, struct.pack(">i", 2**31 - 1), id="more elements than bytes"),
    pytest.param(3, 8, struct.pack(">i", -2), id="fewer elements than none"),
    pytest.param(0, 9, b"\0" + bytes(6) + b"\xff\xff\xff\xff\x0f", id="compact count"),
    pytest.param(0, 9, b"\0" + bytes(6) + b"\xff\xff\xff\xff\xff\x0f", id="endless varint"),
    pytest.param(0, 9, b"\xff\xff\xff\xff\x0f", id="longer than the message"),
    pytest.param(0, 9, b"\0" + bytes(6) + b"\1" + b"\xff\xff\xff\xff\x0f", id="count of tags"),
    pytest.param(0, 3, struct.pack(">h", -3), id="negative string"),
]


@pytest.mark.parametrize(("api_key", "version", "body"), LIES)
def test_lies_are_refused(api_key: int, version: int, body: bytes) -> None:
    head = struct.pack(">hhih", api_key, version, 1, -1)
    flexible = b"\0" if request_type(api_key, version).__flexible__ else b""
    with pytest.raises(MalformedRequest):
        read_request(head + flexible + body + bytes(9))


def test_elements_are_bounded_over_all_arrays() -> None:
    head = struct.pack(">hhih", 3, 8, 1, -1)
    names = ELEMENTS_MAX * b"\0\1a"
    flags = bytes(3)
    read_request(head + struct.pack(">i", 9) + names[: 9 * 3] + flags)
    with pytest.raises(MalformedRequest, match="claims 1048577 elements"):
        read_request(head + struct.pack(">i", ELEMENTS_MAX + 1) + names + b"\0\1a" + flags)
