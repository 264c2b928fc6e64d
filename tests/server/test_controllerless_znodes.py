"""The znodes where there is no controller: what is written can be read, nonsense is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.broker.coordination.nodes import Change, Kind, Node, StateChangeRequest
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.zk.znodes import MalformedNode
from ackproof.broker.types import BrokerId, LeaderEpoch, TopicPartition

TP = TopicPartition("orders", 3)

ids = st.lists(st.integers(0, 2**31 - 2), unique=True, max_size=5).map(tuple)
epochs = st.integers(-1, 2**31 - 2)


def test_nodes_have_the_documented_paths() -> None:
    assert nodes.path(Node(Kind.REPLICAS, TP)) == "/brokers/topics/orders/3/replicas"
    assert nodes.path(Node(Kind.LEADER, TP)) == "/brokers/topics/orders/3/leader"
    assert nodes.path(Node(Kind.ISR, TP)) == "/brokers/topics/orders/3/ISR"
    assert nodes.path(Node(Kind.REASSIGNED, TP)) == "/brokers/partitions_reassigned/orders/3"
    assert nodes.parent(Node(Kind.REASSIGNED, TP)) == "/brokers/partitions_reassigned/orders"
    assert nodes.queue(BrokerId(7)) == "/brokers/state/7"


@given(ids, ids, epochs)
def test_written_nodes_are_read_back(brokers, others, epoch) -> None:
    moving = nodes.encode_ids(brokers, others)
    assert nodes.decode_ids("p", nodes.encode_ids(brokers)) == brokers
    assert nodes.decode_ids("p", moving) == brokers
    assert nodes.decode_removing("p", moving) == others
    assert nodes.decode_isr("p", nodes.encode_isr(brokers, epoch)) == (brokers, epoch)
    for broker in brokers:
        assert nodes.decode_leader("p", nodes.encode_leader(broker, epoch)) == (broker, epoch)


@pytest.mark.parametrize("change", list(Change))
def test_requests_are_read_as_they_were_put(change: Change) -> None:
    request = StateChangeRequest(
        change=change, partition=TP, leader=BrokerId(2), epoch=LeaderEpoch(9)
    )
    assert nodes.decode_request("p", nodes.encode_request(request)) == request


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (nodes.decode_ids, b'{"replicas":[1,1]}'),
        (nodes.decode_ids, b'{"replicas":[-1]}'),
        (nodes.decode_ids, b'{"replicas":["1"]}'),
        (nodes.decode_ids, b'{"replicas":1}'),
        (nodes.decode_ids, b"1,2"),
        (nodes.decode_removing, b'{"replicas":[1],"removing_replicas":[2,2]}'),
        (nodes.decode_isr, b'{"isr":[1]'),
        (nodes.decode_isr, b'{"isr":[1],"leader_epoch":2147483647}'),
        (nodes.decode_leader, b'{"leader":true,"leader_epoch":1}'),
        (nodes.decode_leader, b'{"leader_epoch":1}'),
        (nodes.decode_request, b'{"request":"start-replica","topic":"../x","partition":0}'),
        (nodes.decode_request, b'{"request":"dance","topic":"t","partition":0,"leader":1}'),
        (nodes.decode_request, b'{"request":"close-replica","topic":"t","partition":-1}'),
        (nodes.decode_request, b'{"request":["start-replica"],"topic":"t","partition":0}'),
    ],
)
def test_nonsense_names_its_path(decode, data) -> None:
    with pytest.raises(MalformedNode, match="/a/path"):
        decode("/a/path", data)


def test_no_list_at_all_is_an_empty_one() -> None:
    """``/brokers/partitions_reassigned/topic/partition=""``."""
    assert nodes.decode_ids("p", b"") == ()
    assert nodes.decode_removing("p", b"") == ()


@pytest.mark.parametrize("name", ["", "-1", "01", "x", "1.0", "99999999999", "¹"])
def test_other_node_name_is_no_partition(name: str) -> None:
    assert nodes.partition_number(name) is None
    assert nodes.partition_number("12") == 12
