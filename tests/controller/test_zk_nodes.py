"""Decoding of nodes that any client may have written."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.controller.cluster import (
    BrokerInfo,
    Endpoint,
    PartitionState,
    ReplicaAssignment,
)
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.znodes import MalformedNode
from ackproof.broker.types import BrokerId, TopicPartition

TP = TopicPartition("orders", 0)
PATH = "/isr_change_notification/isr_change_0000000000"

DECODERS = {
    "broker": lambda data: znodes.decode_broker(BrokerId(1), data),
    "topic": lambda data: znodes.decode_topic("orders", data),
    "state": lambda data: znodes.decode_state(TP, data, 0),
    "partitions": lambda data: znodes.decode_partitions(PATH, data),
    "reassignment": znodes.decode_reassignment,
    "deletions": znodes.decode_deletions,
    "controller": znodes.decode_controller,
    "controller epoch": znodes.decode_controller_epoch,
    "config": lambda data: znodes.decode_config("/config/topics/orders", data),
    "config change": lambda data: znodes.decode_config_change("/config/changes/c", data),
}

KEYS = [
    "partitions",
    "topic",
    "partition",
    "replicas",
    "leader",
    "leader_epoch",
    "isr",
    "controller_epoch",
    "brokerid",
    "config",
    "entity_path",
    "endpoints",
    "host",
    "port",
    "topics",
    "listener_security_protocol_map",
    "rack",
    "topic_id",
    "adding_replicas",
    "0",
    "1",
    "-1",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from((0, 1, -1, 2**31 - 1, 2**31, 10**400, 1.5))
    | st.text(max_size=5)
    | st.sampled_from(("orders", "..", "a/b", "PLAINTEXT://h:1", "X://h:1", "X://h:70000"))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
@given(data=st.binary(max_size=40) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_znode_content_is_decoded_or_malformed(decode, data) -> None:
    with contextlib.suppress(MalformedNode):
        decode(data)


@pytest.mark.parametrize("decode", DECODERS.values(), ids=DECODERS)
def test_endless_nesting_is_malformed(decode) -> None:
    with pytest.raises(MalformedNode):
        decode(b"[" * 200_000)


def named(topic, partition=0) -> bytes:
    return json.dumps({"partitions": [{"topic": topic, "partition": partition}]}).encode()


@pytest.mark.parametrize("name", [5, None, "", ".", "..", "../ids", "a/b", "a\0b", "x" * 250])
def test_no_name_gets_into_a_path_that_is_no_topics(name) -> None:
    assert not isinstance(name, str) or not is_legal(name)
    with pytest.raises(MalformedNode, match="topic's name"):
        znodes.decode_partitions(PATH, named(name))


@pytest.mark.parametrize("number", ["0", 1.0, True, None, 2**31 - 1, -(2**31) - 1])
def test_numbers_are_numbers_that_requests_can_carry(number) -> None:
    with pytest.raises(MalformedNode):
        znodes.decode_partitions(PATH, named("orders", number))
    sound = {"leader": 1, "leader_epoch": 2, "isr": [1], "controller_epoch": 3}
    assert znodes.decode_state(TP, json.dumps(sound).encode(), 4) == PartitionState(
        leader=1, leader_epoch=2, isr=(1,), controller_epoch=3, zk_version=4
    )
    for key in sound:
        damaged = sound | {key: [number] if key == "isr" else number}
        with pytest.raises(MalformedNode):
            znodes.decode_state(TP, json.dumps(damaged).encode(), 4)


def test_a_partition_has_replicas() -> None:
    sound = znodes.decode_topic("orders", b'{"partitions": {"0": [2, 1]}}')
    assert sound.partitions == {0: ReplicaAssignment(replicas=(2, 1))}
    with pytest.raises(MalformedNode, match="without replicas"):
        znodes.decode_topic("orders", b'{"partitions": {"0": []}}')
    with pytest.raises(MalformedNode, match="where an id should be"):
        znodes.decode_topic("orders", b'{"partitions": {"0": [2]}, "topic_id": 5}')


@pytest.mark.parametrize(
    "node",
    [
        {"endpoints": []},
        {"endpoints": ["BOGUS://h:1"]},
        {"endpoints": ["PLAINTEXT://h:70000"]},
        {"endpoints": ["PLAINTEXT://h:1"], "rack": 5},
        {},
        {"host": "h"},
        {"host": "", "port": 1},
        {"host": "h", "port": 0},
        {"host": "h", "port": 65536},
        {"host": "h", "port": "1"},
        {"endpoints": ["PLAINTEXT://h:1"], "listener_security_protocol_map": []},
    ],
)
def test_a_broker_can_be_reached(node) -> None:
    with pytest.raises(MalformedNode, match="/brokers/ids/1"):
        znodes.decode_broker(BrokerId(1), json.dumps(node).encode())


def test_a_broker_of_version_1_is_read_as_the_document_prints_it() -> None:
    """*HA design*, "Broker": it has no endpoints, which came with 0.9."""
    node = b'{"jmx_port": -1, "host": "node1", "version": 1, "port": 9092}'
    assert znodes.decode_broker(BrokerId(1), node) == BrokerInfo(
        broker_id=1, endpoints=(Endpoint(host="node1", port=9092, listener="PLAINTEXT"),)
    )


def test_topics_to_delete_are_read_as_the_document_prints_them() -> None:
    """*HA design*, "/admin/delete_topics"."""
    node = b'{"version": 1, "topics": ["topic4", "topic5", "topic4"]}'
    assert znodes.decode_deletions(node) == ("topic4", "topic5")
    for wrong in (b'{"version": 1}', b'{"topics": ["../ids"]}', b'{"topics": [5]}'):
        with pytest.raises(MalformedNode, match="/admin/delete_topics"):
            znodes.decode_deletions(wrong)


@pytest.mark.parametrize("name", ["", "x", "1.0", "99999999999"])
def test_a_registration_is_named_after_a_broker(name) -> None:
    with pytest.raises(MalformedNode, match="/brokers/ids/"):
        znodes.decode_broker_id(name)
