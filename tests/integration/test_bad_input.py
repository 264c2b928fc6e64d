"""Nonsense on the wire: the broker neither dies nor grows, and its other clients notice nothing.

A witness connection is asked after every piece of nonsense; nothing that arrives may make a
handler fail in an unforeseen way, which the broker's log would show.
"""

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4 import request as fetch
from kio.schema.list_offsets.v1 import request as list_offsets
from kio.schema.produce.v9 import request as produce_request
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64

from tests.support.builders.batches import encoded, with_payload
from tests.support.builders.examples import examples
from tests.support.builders.messages import TOPIC, entities
from tests.support.clients.confluent import create_topic, produce, read_all, wait_until_led
from tests.support.clients.kio_peer import request_type, write_request
from tests.support.clients.raw_client import RawClient
from tests.support.clusters.bundled import Broker, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

REQUEST_MAX_BYTES = 2**20
IDLE_MS = 4_000
PER_IP = 100
GROWTH_MAX_BYTES = 100 * 2**20
ADDRESS_SPACE_BYTES = 2**30
"""What the broker may ask for beyond what it has: a lie that is believed is fatal then."""

CHANGE_THE_CLUSTER = frozenset({4, 5, 6, 7, 19, 20, 33, 37, 43, 44, 45})
"""APIs by which a well-formed request with made-up contents does lawful damage."""

bounded = settings(
    max_examples=examples(40),
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = {
        "socket.request.max.bytes": str(REQUEST_MAX_BYTES),
        "connections.max.idle.ms": str(IDLE_MS),
        "max.connections.per.ip": str(PER_IP),
    }
    with running_cluster(tmp_path_factory.mktemp("bad"), 1, overrides) as cluster:
        create_topic(cluster, TOPIC, replication_factor=1)
        create_topic(cluster, "sound", replication_factor=1)
        yield cluster


@pytest.fixture(scope="module")
def broker(cluster: Cluster) -> Broker:
    return cluster.brokers[1]


@pytest.fixture(scope="module")
def advertised(broker: Broker) -> dict[int, range]:
    with RawClient(broker.port) as client:
        return client.advertised()


@pytest.fixture(autouse=True)
def unharmed(cluster: Cluster, broker: Broker) -> Iterator[None]:
    """Whatever a test does: at its end the broker serves, is no fatter, and nothing broke."""
    broker.limit_growth(ADDRESS_SPACE_BYTES)
    serve(cluster)
    before = memory(broker)
    failures = failures_in(broker.log)
    yield
    assert broker.running
    serve(cluster)
    assert failures_in(broker.log) == failures
    assert memory(broker) - before < GROWTH_MAX_BYTES


def serve(cluster: Cluster) -> None:
    before = len(read_all(cluster, "sound"))
    assert set(produce(cluster, "sound", [b"x"]).values()) == {None}
    assert len(read_all(cluster, "sound")) == before + 1


def memory(broker: Broker) -> int:
    return psutil.Process(broker.pid).memory_info().rss


def failures_in(log: Path) -> str:
    """Return the failures of handlers in the log."""
    text = log.read_text()
    at = text.find("Traceback")
    return "" if at < 0 else text[max(0, at - 300) : at + 5000]


# --- frames -----------------------------------------------------------------------------------


def bad_size(data: st.DataObject) -> int:
    too_large = st.integers(REQUEST_MAX_BYTES + 1, 2**31 - 1)
    return data.draw(too_large | st.integers(-(2**31), -1))


@bounded
@given(data=st.data())
def test_an_impossible_length_closes_its_connection_alone(
    broker: Broker, data: st.DataObject
) -> None:
    with RawClient(broker.port) as witness, RawClient(broker.port) as client:
        client.send(struct.pack(">i", bad_size(data)) + data.draw(st.binary(max_size=99)))
        assert client.until_closed() == b""
        witness.advertised()


@bounded
@given(noise=st.binary(max_size=300))
def test_noise_ends_in_a_closed_connection(broker: Broker, noise: bytes) -> None:
    with RawClient(broker.port) as witness, RawClient(broker.port) as client:
        client.send(noise)
        client.finish()
        witness.advertised()


# --- requests ---------------------------------------------------------------------------------


def head(api_key: int, version: int, data: st.DataObject) -> bytes:
    """A right header, with unknown tagged fields now and then."""
    flexible = request_type(api_key, version).__flexible__
    tags = data.draw(st.sampled_from((b"\0", b"\1\x7f\2??"))) if flexible else b""
    return struct.pack(">hhih", api_key, version, 1, -1) + tags


@settings(bounded, max_examples=examples(100))
@given(data=st.data())
def test_garbage_behind_a_right_header(
    broker: Broker, advertised: dict[int, range], data: st.DataObject
) -> None:
    api_key = data.draw(st.sampled_from(sorted(advertised)))
    version = data.draw(st.sampled_from(advertised[api_key]))
    lies = st.lists(st.sampled_from((b"\x7f\xff\xff\xff", b"\xff" * 5 + b"\x0f", b"\0", b"\1")))
    body = data.draw(st.binary(max_size=200) | lies.map(b"".join))
    payload = head(api_key, version, data) + body
    with RawClient(broker.port) as witness, RawClient(broker.port) as client:
        client.send(struct.pack(">i", len(payload)) + payload)
        client.glance()
        client.finish()
        witness.advertised()


def test_every_advertised_version_survives_lies(
    broker: Broker, advertised: dict[int, range]
) -> None:
    with RawClient(broker.port) as witness:
        for api_key, versions in advertised.items():
            for version in versions:
                tags = b"\0" if request_type(api_key, version).__flexible__ else b""
                for body in (b"", b"\x7f" * 40, b"\xff" * 40, b"\0\0\0\0\x7f\xff\xff\xff" * 5):
                    payload = struct.pack(">hhih", api_key, version, 1, -1) + tags + body
                    with RawClient(broker.port) as client:
                        client.send(struct.pack(">i", len(payload)) + payload)
                        client.finish()
                    witness.advertised()  # nor does it become idle


@settings(bounded, max_examples=examples(100))
@given(data=st.data())
def test_any_values_in_a_well_formed_request(
    broker: Broker, advertised: dict[int, range], data: st.DataObject
) -> None:
    api_key = data.draw(st.sampled_from(sorted(advertised.keys() - CHANGE_THE_CLUSTER)))
    version = data.draw(st.sampled_from(advertised[api_key]))
    request = data.draw(entities(request_type(api_key, version)))
    whole = write_request(request, 1, "raw")
    keep = data.draw(st.just(len(whole)) | st.integers(0, len(whole)))
    with RawClient(broker.port) as witness, RawClient(broker.port) as client:
        client.send(whole[:keep])
        client.glance()
        client.finish()
        witness.advertised()


# --- record batches ---------------------------------------------------------------------------

SOUND = encoded([b"a", b"b", b"c"])
FIELDS = {
    "base offset": (">q", 0),
    "length": (">i", 8),
    "leader epoch": (">i", 12),
    "magic": (">b", 16),
    "attributes": (">h", 21),
    "last offset delta": (">i", 23),
    "base timestamp": (">q", 27),
    "max timestamp": (">q", 35),
    "producer id": (">q", 43),
    "producer epoch": (">h", 51),
    "base sequence": (">i", 53),
    "count": (">i", 57),
}
CRC_AT = 17
SEALED_FROM = 21


def sealed(data: bytearray) -> bytes:
    """With a CRC that is right."""
    if len(data) > SEALED_FROM:
        struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[SEALED_FROM:])))
    return bytes(data)


def extreme(form: str) -> st.SearchStrategy[int]:
    bits = 8 * struct.calcsize(form)
    edges = (-(2 ** (bits - 1)), -2, -1, 0, 1, 2, 3, 2 ** (bits - 1) - 1)
    return st.sampled_from(edges) | st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    """Batches with wrong headers under a right CRC, with garbage for records, or torn."""
    codec = draw(st.integers(0, 4))
    whole = SOUND
    if draw(st.booleans()):
        whole = with_payload(SOUND, draw(st.binary(max_size=200)), codec)
    data = bytearray(whole)
    for name in draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=3)):
        form, at = FIELDS[name]
        struct.pack_into(form, data, at, draw(extreme(form)))
    damaged = sealed(data) if draw(st.booleans()) else bytes(data)
    return damaged[: draw(st.just(len(damaged)) | st.integers(0, len(damaged)))]


def produce_of(records: bytes, acks: int = 1) -> Any:
    return produce_request.ProduceRequest(
        transactional_id=None,
        acks=i16(acks),
        timeout=i32Timedelta.parse(timedelta(seconds=5)),
        topic_data=(
            produce_request.TopicProduceData(
                name=TOPIC,
                partition_data=(
                    produce_request.PartitionProduceData(index=i32(0), records=Records(records)),
                ),
            ),
        ),
    )


def error_of(client: RawClient, records: bytes) -> ErrorCode:
    ((partition,),) = (t.partition_responses for t in client.ask(produce_of(records)).responses)
    error: ErrorCode = partition.error_code
    return error


@settings(bounded, max_examples=examples(100))
@given(records=batches())
def test_any_batch_is_answered(broker: Broker, records: bytes) -> None:
    with RawClient(broker.port) as client:
        error_of(client, records)
        client.advertised()


@pytest.mark.parametrize(
    ("records", "error"),
    [
        pytest.param(SOUND[:-1] + b"?", ErrorCode.corrupt_message, id="wrong CRC"),
        pytest.param(SOUND[:8] + b"\x7f" + SOUND[9:], ErrorCode.corrupt_message, id="length"),
        pytest.param(SOUND[:16] + b"\1" + SOUND[17:], ErrorCode.invalid_record, id="magic"),
        pytest.param(
            sealed(bytearray(SOUND[:23] + b"\x7f\xff\xff\xff" + SOUND[27:])),
            ErrorCode.invalid_record,
            id="huge last offset delta",
        ),
    ],
)
def test_malformed_batch_is_refused_with_its_error(
    broker: Broker, records: bytes, error: ErrorCode
) -> None:
    with RawClient(broker.port) as client:
        assert error_of(client, records) is error
        assert error_of(client, SOUND) is ErrorCode.none


def test_stored_garbage_is_served_and_recovered(cluster: Cluster, broker: Broker) -> None:
    """Garbage under a right CRC, claiming two billion records each, is stored as it came."""
    garbage = bytearray(with_payload(SOUND, b"no such zstd" * 9, 4))
    for at, value in ((23, 2**31 - 2), (57, 2**31 - 1)):
        struct.pack_into(">i", garbage, at, value)
    with RawClient(broker.port) as client:
        for _ in range(3):
            assert error_of(client, sealed(garbage)) is ErrorCode.none
        for timestamp in (-2, -1, 0, 1_700_000_000_000, 2**62):
            client.ask(list_offsets_of(timestamp))
        offset, end = 0, client.ask(list_offsets_of(-1)).topics[0].partitions[0].offset
        assert end > 3 * (2**31 - 1)
        (partition,) = client.ask(fetch_of(offset)).responses[0].partitions
        assert partition.error_code is ErrorCode.none
        assert partition.records
    broker.kill()
    broker.start()
    wait_until_led(cluster, TOPIC)
    with RawClient(broker.port) as client:
        assert client.ask(list_offsets_of(-1)).topics[0].partitions[0].offset == end
        assert error_of(client, SOUND) is ErrorCode.none


def list_offsets_of(timestamp: int) -> Any:
    partition = list_offsets.ListOffsetsPartition(partition_index=i32(0), timestamp=i64(timestamp))
    topic = list_offsets.ListOffsetsTopic(name=TOPIC, partitions=(partition,))
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))


def fetch_of(offset: int) -> Any:
    return fetch.FetchRequest(
        replica_id=-1,
        max_wait=i32Timedelta.parse(timedelta(0)),
        min_bytes=i32(1),
        max_bytes=i32(2**20),
        isolation_level=i8(0),
        topics=(
            fetch.FetchTopic(
                topic=TOPIC,
                partitions=(
                    fetch.FetchPartition(
                        partition=i32(0), fetch_offset=i64(offset), partition_max_bytes=i32(2**20)
                    ),
                ),
            ),
        ),
    )


# --- connections ------------------------------------------------------------------------------


def test_silent_clients_are_disconnected_and_delay_no_other(broker: Broker) -> None:
    half = struct.pack(">i", REQUEST_MAX_BYTES) + bytes(1000)
    with ExitStack() as opened, RawClient(broker.port) as witness:
        silent = [opened.enter_context(RawClient(broker.port)) for _ in range(PER_IP // 2)]
        for number, client in enumerate(silent):
            client.send(half[: number * 20])
        witness.advertised()
        for client in silent:
            assert client.until_closed() == b""
    with RawClient(broker.port) as client:
        client.advertised()


def test_an_address_gets_only_its_connections(broker: Broker) -> None:
    with RawClient(broker.port) as witness, ExitStack() as opened:
        crowd = [opened.enter_context(RawClient(broker.port)) for _ in range(PER_IP + 20)]
        served = 0
        for client in crowd:
            # Who is refused depends on when the broker sees that earlier tests' connections are
            # closed; how many are served at once does not.
            served += answers(client)
            witness.advertised()  # nor does it become idle
        assert 0 < served < PER_IP
    until("there is room again", lambda: serves(broker))


def serves(broker: Broker) -> bool:
    with RawClient(broker.port) as client:
        return answers(client)


def answers(client: RawClient) -> bool:
    try:
        return bool(client.advertised())
    except (AssertionError, ConnectionError):
        return False
