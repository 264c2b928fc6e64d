"""Headers, and what goes with a message beside its fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from ackproof.broker.types import BrokerId, Offset
from ackproof.broker.wire.codec import (
    MalformedRequest,
    MalformedResponse,
    first_fields,
    read_response,
    write_request,
    write_response,
)
from ackproof.broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ackproof.broker.wire.messages.controlled_shutdown import ControlledShutdownRequest
from ackproof.broker.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ackproof.broker.wire.messages.metadata import MetadataRequest
from ackproof.broker.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.support.builders.batches import encoded
from tests.support.clients.frames import read_request

PREFIX = 4

PRODUCE = ProduceRequest(
    version=9,
    acks=-1,
    timeout_ms=3_000,
    topic_data=(
        TopicProduceData(
            name="orders",
            partition_data=(PartitionProduceData(index=0, records=encoded([b"v"])),),
        ),
    ),
)
FETCH = FetchRequest(version=11, max_wait_ms=0, min_bytes=0, topics=())
FETCHED = FetchResponse(
    responses=(
        FetchableTopicResponse(
            topic="orders",
            partitions=(
                PartitionData(
                    partition_index=0,
                    error_code=ErrorCode.none,
                    high_watermark=Offset(5),
                    aborted_transactions=None,
                    records=encoded([b"v"]),
                ),
            ),
        ),
    ),
)


def test_requests_round_trip_with_their_header() -> None:
    frame = write_request(PRODUCE, 17, "me")
    assert int.from_bytes(frame[:PREFIX], "big") == len(frame) - PREFIX
    header, request = read_request(ProduceRequest, frame[PREFIX:])
    assert request == PRODUCE
    assert (header.api_key, header.version) == (0, 9)
    assert (header.correlation_id, header.client_id) == (17, "me")


def test_responses_round_trip() -> None:
    payload = write_response(-3, FETCHED, 11)[PREFIX:]
    assert read_response(FETCH, payload) == (-3, FETCHED)


def test_api_versions_response_has_the_old_header_in_every_version() -> None:
    response = ApiVersionsResponse(error_code=ErrorCode.none, api_keys=())
    payload = write_response(1, response, 3)[PREFIX:]
    assert payload[:6] == b"\0\0\0\1\0\0", "error code right behind the correlation id (KIP-511)"
    assert read_response(ApiVersionsRequest(version=3), payload) == (1, response)


def test_a_controllers_call_round_trips() -> None:
    request = ControlledShutdownRequest(broker_id=BrokerId(3), broker_epoch=9)
    payload = write_request(request, 5, None)[PREFIX:]
    header, read = read_request(ControlledShutdownRequest, payload)
    assert (read, header.correlation_id, header.client_id) == (request, 5, None)
    assert read.version == 3


def test_the_first_fields_are_those_of_every_version() -> None:
    assert first_fields(write_request(PRODUCE, 8, None)[PREFIX:]) == (0, 9, 8)
    assert first_fields(b"\0\3\0\x63\0\0\0\7") == (3, 99, 7), "an unknown one"


@given(data=st.data())
def test_damaged_requests_raise_one_kind_of_error(data: st.DataObject) -> None:
    payload = bytearray(write_request(PRODUCE, 17, "me")[PREFIX:])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, len(payload) - 1))
        payload[at] = data.draw(st.integers(0, 255))
    keep = data.draw(st.integers(0, len(payload)))
    try:
        read_request(ProduceRequest, bytes(payload[:keep]))
    except MalformedRequest:
        return
    assert keep == len(payload), "a shortened request was taken"


def test_an_unknown_tag_is_skipped() -> None:
    payload = write_request(PRODUCE, 1, None)[PREFIX:]
    known = read_request(ProduceRequest, payload)
    assert read_request(ProduceRequest, payload[:-1] + b"\1\x63\1\0") == known


def test_bytes_left_over_are_refused() -> None:
    payload = write_request(PRODUCE, 1, None)[PREFIX:]
    with pytest.raises(MalformedRequest, match="ProduceRequest v9: takes"):
        read_request(ProduceRequest, payload + b"\0")
    with pytest.raises(MalformedResponse, match="FetchResponse v11"):
        read_response(FETCH, write_response(1, FETCHED, 11)[PREFIX:] + b"\0")


def test_bytes_behind_a_metadata_request_are_passed_over() -> None:
    """Test librdkafka 2.16, which asks for all topics in v9: the topics' count has four bytes."""
    asked = MetadataRequest(version=9, topics=None, allow_auto_topic_creation=False)
    payload = write_request(asked, 1, None)[PREFIX:]
    header = payload[: -len(b"\0" + bytes(3) + b"\0")]
    for creates in (b"\0", b"\1"):
        librdkafka = header + bytes(4) + creates + bytes(2) + b"\0"
        assert read_request(MetadataRequest, librdkafka)[1] == asked


def test_too_short_for_a_header() -> None:
    with pytest.raises(MalformedRequest, match="7 bytes are too few"):
        first_fields(bytes(7))
    with pytest.raises(MalformedResponse):
        read_response(ApiVersionsRequest(version=0), b"\0")
