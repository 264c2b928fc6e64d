import datetime

import kio.schema.api_versions.v0 as api_versions_v0
import kio.schema.api_versions.v3 as api_versions_v3
import kio.schema.fetch.v11.response as fetch_v11
import kio.schema.produce.v9.request as produce_v9
import pytest
from batches import encoded
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.metadata.v8.request import MetadataRequest
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64

from broker.wire import interbroker
from broker.wire.codec import (
    MalformedRequest,
    MalformedResponse,
    read_request,
    read_response,
    write_request,
    write_response,
)
from broker.wire.registry import UnsupportedVersion, request_type, response_type

PREFIX = 4
NO_THROTTLE = i32Timedelta.parse(datetime.timedelta(0))

PRODUCE = produce_v9.ProduceRequest(
    transactional_id=None,
    acks=i16(-1),
    timeout=i32Timedelta.parse(datetime.timedelta(seconds=3)),
    topic_data=(
        produce_v9.TopicProduceData(
            name=TopicName("orders"),
            partition_data=(
                produce_v9.PartitionProduceData(index=i32(0), records=Records(encoded([b"v"]))),
            ),
        ),
    ),
)
FETCHED = fetch_v11.FetchResponse(
    throttle_time=NO_THROTTLE,
    error_code=ErrorCode.none,
    responses=(
        fetch_v11.FetchableTopicResponse(
            topic=TopicName("orders"),
            partitions=(
                fetch_v11.PartitionData(
                    partition_index=i32(0),
                    error_code=ErrorCode.none,
                    high_watermark=i64(5),
                    aborted_transactions=None,
                    records=Records(encoded([b"v"])),
                ),
            ),
        ),
    ),
)


def test_requests_round_trip_with_their_header() -> None:
    frame = write_request(PRODUCE, 17, "me")
    assert int.from_bytes(frame[:PREFIX], "big") == len(frame) - PREFIX
    header, entity = read_request(frame[PREFIX:])
    assert entity == PRODUCE
    assert (header.request_api_key, header.request_api_version) == (0, 9)
    assert (header.correlation_id, header.client_id) == (17, "me")


def test_responses_round_trip() -> None:
    payload = write_response(-3, FETCHED)[PREFIX:]
    assert read_response(request_type(1, 11), payload) == (-3, FETCHED)


def test_api_versions_response_has_the_old_header_in_every_version() -> None:
    response = api_versions_v3.ApiVersionsResponse(
        error_code=ErrorCode.none, api_keys=(), throttle_time=NO_THROTTLE
    )
    payload = write_response(1, response)[PREFIX:]
    assert payload[:6] == b"\0\0\0\1\0\0", "error code right behind the correlation id (KIP-511)"
    assert read_response(api_versions_v3.ApiVersionsRequest, payload) == (1, response)


def test_every_version_of_every_api_is_known_both_ways() -> None:
    for api_key, name in api_key_map.items():
        for version in schema_name_map[name]:
            assert request_type(api_key, version).__version__ == version
            assert response_type(api_key, version).__api_key__ == api_key


@pytest.mark.parametrize(("api_key", "version"), [(4, 5), (5, 3), (6, 7), (7, 3)])
def test_the_controllers_calls_are_known(api_key: int, version: int) -> None:
    assert request_type(api_key, version).__module__ == interbroker.__name__
    assert response_type(api_key, version).__module__ == interbroker.__name__


def test_a_controllers_call_round_trips() -> None:
    request = interbroker.ControlledShutdownRequest(broker_id=3, broker_epoch=9)
    header, entity = read_request(write_request(request, 5, None)[PREFIX:])
    assert (entity, header.correlation_id, header.client_id) == (request, 5, None)


def test_what_is_not_served_names_key_version_and_correlation_id() -> None:
    payload = write_request(MetadataRequest(topics=None, **_METADATA_FLAGS), 8, None)[PREFIX:]
    read_request(payload, {3: range(8, 9)})
    for served in ({3: range(9, 13)}, {18: range(4)}):
        with pytest.raises(UnsupportedVersion) as caught:
            read_request(payload, served)
        error = caught.value
        assert (error.api_key, error.version, error.correlation_id) == (3, 8, 8)


_METADATA_FLAGS = {
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


@pytest.mark.parametrize(("api_key", "version"), [(999, 0), (3, 99), (4, 4), (-1, -1)])
def test_what_nobody_knows(api_key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion, match=f"version {version} of API key {api_key} "):
        request_type(api_key, version)
    with pytest.raises(UnsupportedVersion):
        response_type(api_key, version)
    head = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
    with pytest.raises(UnsupportedVersion) as caught:
        read_request(head + b"\0\0\0\7")
    assert caught.value.correlation_id == 7


@given(data=st.data())
def test_damaged_requests_raise_one_kind_of_error(data: st.DataObject) -> None:
    payload = bytearray(write_request(PRODUCE, 17, "me")[PREFIX:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    keep = data.draw(st.integers(0, len(payload)))
    try:
        read_request(bytes(payload[:keep]))
    except MalformedRequest:
        return
    assert keep == len(payload), "a shortened request was taken"


@given(payload=st.binary(max_size=60), version=st.integers(4, 16))
def test_random_bytes_never_raise_anything_else(payload: bytes, version: int) -> None:
    for api_key in (0, 1, 3, 18):
        head = api_key.to_bytes(2, "big") + version.to_bytes(2, "big")
        try:
            read_request(head + payload)
        except (MalformedRequest, UnsupportedVersion):
            continue


def test_an_unknown_tag_is_skipped() -> None:
    payload = write_request(PRODUCE, 1, None)[PREFIX:]
    assert read_request(payload[:-1] + b"\1\x63\1\0") == read_request(payload)


def test_bytes_left_over_are_refused() -> None:
    payload = write_request(PRODUCE, 1, None)[PREFIX:]
    with pytest.raises(MalformedRequest, match="ProduceRequest v9: takes"):
        read_request(payload + b"\0")
    with pytest.raises(MalformedResponse, match="FetchResponse v11"):
        read_response(request_type(1, 11), write_response(1, FETCHED)[PREFIX:] + b"\0")


def test_too_short_for_a_header() -> None:
    with pytest.raises(MalformedRequest, match="7 bytes are too few"):
        read_request(bytes(7))
    with pytest.raises(MalformedResponse):
        read_response(api_versions_v0.ApiVersionsRequest, b"\0")
