"""The znodes of *Design V2*, "Paths stored in Zookeeper": their paths and contents.

The paths are the document's, with JSON as in Kafka's own. ``/brokers/ids/N`` is Kafka's
(:mod:`broker.server.zk.znodes`), with host, port and more. ``/brokers/topics/T`` itself holds the
topic's id (KIP-516), which the document does not know. Decoders raise
:class:`~broker.server.zk.znodes.MalformedNode` with the path.
"""

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from ackproof.broker.config import BrokerConfig
from ackproof.broker.coordination.nodes import Change, Kind, Node, StateChangeRequest
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.session import ZkError, ZkSession
from ackproof.broker.server.zk.znodes import TOPICS, MalformedNode, decode, encode
from ackproof.broker.types import NO_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from ackproof.broker.wire.uuids import encode_uuid

REASSIGNED: Final = "/brokers/partitions_reassigned"
STATE: Final = "/brokers/state"

REQUEST: Final = "request-"
"""The beginning of the names of queued requests. ZooKeeper appends ten digits."""

NUMBER_MAX: Final = 2**31 - 1


def partition(tp: TopicPartition) -> str:
    """Return ``/brokers/topics/T/P``."""
    return f"{TOPICS}/{tp.topic}/{tp.partition}"


def reassigned(name: str) -> str:
    """Return ``/brokers/partitions_reassigned/T``."""
    return f"{REASSIGNED}/{name}"


def queue(broker: BrokerId) -> str:
    """Return ``/brokers/state/N``."""
    return f"{STATE}/{broker}"


def path(node: Node) -> str:
    """Return the path of one of a partition's nodes."""
    if node.kind is Kind.REASSIGNED:
        return f"{REASSIGNED}/{node.partition.topic}/{node.partition.partition}"
    return f"{partition(node.partition)}/{node.kind.value}"


def parent(node: Node) -> str:
    """Return the path of the node's parent, which must exist first."""
    return path(node).rpartition("/")[0]


def partition_number(name: str) -> int | None:
    """Return the partition that a child is named after, or None if it names none."""
    number = int(name) if name.isascii() and name.isdigit() else NUMBER_MAX
    return number if number < NUMBER_MAX and str(number) == name else None


def encode_topic_id(topic_id: uuid.UUID) -> bytes:
    """Encode ``/brokers/topics/T``."""
    return encode({"version": 1, "topic_id": encode_uuid(topic_id)})


def decode_topic_id(where: str, data: bytes) -> uuid.UUID | None:
    """Invert :func:`encode_topic_id`. None if the node is older than topic ids."""
    return znodes.decode_topic_id(where, decode(where, data)) if data else None


def encode_ids(brokers: Sequence[BrokerId], removing: Sequence[BrokerId] = ()) -> bytes:
    """Encode ``replicas`` or ``partitions_reassigned``, with Kafka's name for ``removing`` if there
    are any."""
    node = {"version": 1, "replicas": list(brokers)}
    return encode(node | {"removing_replicas": list(removing)} if removing else node)


def decode_ids(where: str, data: bytes) -> tuple[BrokerId, ...]:
    """Invert :func:`encode_ids`. The document's empty list may be no JSON at all."""
    return _ids(where, decode(where, data), "replicas") if data else ()


def decode_removing(where: str, data: bytes) -> tuple[BrokerId, ...]:
    """Return the ``removing`` brokers written by :func:`encode_ids`."""
    node = decode(where, data) if data else {}
    return _ids(where, node, "removing_replicas") if "removing_replicas" in node else ()


def encode_leader(broker: BrokerId, epoch: LeaderEpoch) -> bytes:
    """Encode ``leader``."""
    return encode({"version": 1, "leader": broker, "leader_epoch": epoch})


def decode_leader(where: str, data: bytes) -> tuple[BrokerId, LeaderEpoch]:
    """Invert :func:`encode_leader`."""
    node = decode(where, data)
    return BrokerId(_number(where, node, "leader")), _epoch(where, node)


def encode_isr(isr: Sequence[BrokerId], epoch: LeaderEpoch) -> bytes:
    """Encode ``ISR``."""
    return encode({"version": 1, "isr": list(isr), "leader_epoch": epoch})


def decode_isr(where: str, data: bytes) -> tuple[tuple[BrokerId, ...], LeaderEpoch]:
    """Invert :func:`encode_isr`."""
    node = decode(where, data)
    return _ids(where, node, "isr"), _epoch(where, node)


def encode_variant(variant: str) -> bytes:
    """Encode ``/brokers/state`` itself: the variant by which all brokers of the cluster
    coordinate."""
    return encode({"version": 1, "variant": variant})


def decode_variant(where: str, data: bytes) -> str:
    """Invert :func:`encode_variant`."""
    variant = decode(where, data).get("variant")
    if not isinstance(variant, str):
        raise MalformedNode(f"{where} names no variant")
    return variant


def encode_request(request: StateChangeRequest) -> bytes:
    """Encode an entry of ``/brokers/state/N``."""
    return encode(
        {
            "version": 1,
            "request": request.change.value,
            "topic": request.partition.topic,
            "partition": request.partition.partition,
            "leader": request.leader,
            "leader_epoch": request.epoch,
        }
    )


def decode_request(where: str, data: bytes) -> StateChangeRequest:
    """Invert :func:`encode_request`."""
    node = decode(where, data)
    name = node.get("topic")
    if not isinstance(name, str) or not is_legal(name):
        raise MalformedNode(f"{where} names no topic: {name!r:.80}")
    try:
        change = Change(node.get("request"))
    except ValueError as error:
        raise MalformedNode(f"{where} asks for {node.get('request')!r:.80}") from error
    number = _number(where, node, "partition")
    if number < 0:
        raise MalformedNode(f"{where} is about partition {number}")
    return StateChangeRequest(
        change=change,
        partition=TopicPartition(name, number),
        leader=BrokerId(_number(where, node, "leader")),
        epoch=_epoch(where, node),
    )


def _epoch(where: str, node: dict[str, Any]) -> LeaderEpoch:
    return LeaderEpoch(_number(where, node, "leader_epoch", NO_EPOCH))


def _number(where: str, node: dict[str, Any], key: str, default: int | None = None) -> int:
    value = node.get(key, default)
    if type(value) is not int or not -1 <= value < NUMBER_MAX:
        raise MalformedNode(f"{where} holds {value!r:.80} for its {key}")
    return value


def _ids(where: str, node: dict[str, Any], key: str) -> tuple[BrokerId, ...]:
    ids = node.get(key)
    right = isinstance(ids, list) and all(type(i) is int and 0 <= i < NUMBER_MAX for i in ids)
    if not right or len(set(ids)) != len(ids):  # type: ignore[arg-type]
        raise MalformedNode(f"{where} holds {ids!r:.80} for its {key}")
    return tuple(BrokerId(i) for i in ids)  # type: ignore[union-attr]


# --- the kind of coordination ---------------------------------------------------------------------
#
# The kind of coordination of the tree: a cluster keeps the kind with which it was started.


COORDINATION = "ackproof.coordination"
VARIANT = "ackproof.coordination.variant"


class ForeignTree(ZkError):
    """A tree in ZooKeeper of brokers with another kind of coordination."""


async def claim(config: BrokerConfig, session: ZkSession) -> None:
    """Ensure that the tree is of this broker's kind, before anything in it is changed.

    A controller's tree has ``/controller_epoch`` for ever. One without a controller has
    ``/brokers/state``, which holds the variant. The first broker without a controller ensures in
    one transaction that there is none. All brokers need the same variant, because a fence holds
    only if every broker keeps to it. A printed leader overwrites the ISR by which a fenced one was
    elected, or deletes what it has acknowledged.

    Raises:
        ForeignTree: it is of another kind.
        SessionExpired: unknown whether it is claimed.
    """
    if not config.led_by_leaders:
        if await session.get(STATE) is not None:
            raise _foreign(config, STATE, COORDINATION, "leader", "controller")
        return
    ours = config.ackproof_coordination_variant
    await session.ensure("/brokers")
    while (found := await session.get(STATE)) is None:
        if await session.get(znodes.CONTROLLER_EPOCH) is not None:
            raise _is_a_controllers(config)
        results = await session.request(partial(_found, ours), session.number)
        if isinstance(results[0], NodeExistsError):
            raise _is_a_controllers(config)
    try:
        theirs = decode_variant(STATE, found[0])
    except znodes.MalformedNode as error:
        raise ForeignTree(f"its kind of coordination is unknown: {error}") from error
    if theirs != ours:
        raise _foreign(config, STATE, VARIANT, theirs, ours)


def _found(variant: str, client: KazooClient) -> Any:
    """Create the tree. A transaction cannot check that a node is absent, but it can create and
    delete it."""
    transaction = client.transaction()
    transaction.create(znodes.CONTROLLER_EPOCH, b"0")
    transaction.delete(znodes.CONTROLLER_EPOCH)
    transaction.create(STATE, encode_variant(variant))
    transaction.create(REASSIGNED, b"")
    return transaction.commit_async()


def _is_a_controllers(config: BrokerConfig) -> ForeignTree:
    where = znodes.CONTROLLER_EPOCH
    return _foreign(config, where, COORDINATION, "controller", "leader")


def _foreign(config: BrokerConfig, where: str, name: str, theirs: str, ours: str) -> ForeignTree:
    return ForeignTree(
        f"zookeeper.connect={config.zookeeper_connect} is a cluster's of {name}={theirs} "
        f"(by {where}), and this broker is told {name}={ours}; give it the cluster's, or another "
        "chroot"
    )
