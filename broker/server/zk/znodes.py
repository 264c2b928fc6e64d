"""Kafka's znodes: their paths and contents.

Paths and JSON are those of Kafka 3.x (``kafka.zk.ZkData``). The older forms that *HA design* prints
("HA-related ZooKeeper structure") are read, too, and additional or missing optional fields are
accepted. Any program may have written a node. Decoders raise :class:`MalformedNode` with the path
if there is no JSON, for a number that no request could carry, and for a topic's name that must not
get into a path.
"""

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from ackproof.broker.controller.cluster import (
    NEVER_READ,
    SECURITY_PROTOCOLS,
    BrokerInfo,
    Endpoint,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion
from ackproof.broker.wire.uuids import decode_uuid, encode_uuid

logger = logging.getLogger(__name__)


BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
ISR_CHANGES = "/isr_change_notification"
DELETE_TOPICS = "/admin/delete_topics"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
TOPIC_CONFIGS = "/config/topics"
CONFIG_CHANGES = "/config/changes"
CLUSTER_ID = "/cluster/id"
PRODUCER_IDS = "/latest_producer_id_block"

PERSISTENT = (
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    ISR_CHANGES,
    DELETE_TOPICS,
    TOPIC_CONFIGS,
    "/config/brokers",
    CONFIG_CHANGES,
    "/config/clients",
    "/config/users",
    PRODUCER_IDS,
    "/log_dir_event_notification",
)
"""The paths that are created at start when missing (``ZkData.PersistentZkPaths``)."""


PRODUCER_IDS_MAX = 2**62
"""The largest producer id. Ids are signed 64-bit numbers in requests. Half of them are more than
will ever be allocated, and leave room for the next block."""


class MalformedNode(ValueError):
    """A znode whose content cannot be parsed."""


def broker_id(broker: BrokerId) -> str:
    """Return ``/brokers/ids/N``."""
    return f"{BROKER_IDS}/{broker}"


def topic(name: str) -> str:
    """Return ``/brokers/topics/T``."""
    return f"{TOPICS}/{name}"


def partitions(name: str) -> str:
    """Return ``/brokers/topics/T/partitions``."""
    return f"{TOPICS}/{name}/partitions"


def partition(tp: TopicPartition) -> str:
    """Return ``/brokers/topics/T/partitions/P``."""
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def partition_state(tp: TopicPartition) -> str:
    """Return ``/brokers/topics/T/partitions/P/state``."""
    return f"{partition(tp)}/state"


def topic_config(name: str) -> str:
    """Return ``/config/topics/T``."""
    return f"{TOPIC_CONFIGS}/{name}"


def encode(value: Mapping[str, Any]) -> bytes:
    """Encode JSON as Kafka writes it: compact."""
    return json.dumps(value, separators=(",", ":")).encode()


def decode(path: str, data: bytes) -> dict[str, Any]:
    """Return the JSON object in a node."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedNode(f"{path} holds no JSON: {error}") from error
    if not isinstance(value, dict):
        raise MalformedNode(f"{path} holds no JSON object: {data[:80]!r}")
    return value


def number(value: Any) -> int:
    """Return a number from JSON, in Kafka's 32 bits even when 1 is added. Raise ValueError
    otherwise."""
    if type(value) is not int or not -(2**31) <= value < 2**31 - 1:
        raise ValueError(f"{value!r:.80} where a 32-bit number should be")
    return value


def _broker_epoch(value: Any) -> int:
    """Return a transaction's number, in 64 bits. Raise ValueError otherwise."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.80} where a broker epoch should be")
    return value


def _partition_of(value: Mapping[str, Any]) -> TopicPartition:
    """Return the partition in ``{"topic": T, "partition": P}``. Raise KeyError, TypeError,
    ValueError."""
    return TopicPartition(_topic_name(value["topic"]), number(value["partition"]))


def _topic_name(name: Any) -> str:
    """Return a topic's name. Raise ValueError if it is illegal."""
    if not isinstance(name, str) or not is_legal(name):
        raise ValueError(f"{name!r:.80} where a topic's name should be")
    return name


# --- topics ---------------------------------------------------------------------------------


def encode_topic(assignment: TopicAssignment) -> bytes:
    """Encode a topic, version 3."""
    parts = assignment.partitions

    def lists(attribute: str) -> dict[str, list[int]]:
        return {str(p): list(getattr(a, attribute)) for p, a in parts.items()}

    node: dict[str, Any] = {
        "removing_replicas": {p: ids for p, ids in lists("removing").items() if ids},
        "partitions": lists("replicas"),
        "adding_replicas": {p: ids for p, ids in lists("adding").items() if ids},
        "version": 3,
    }
    if assignment.topic_id is not None:
        node["topic_id"] = encode_uuid(assignment.topic_id)
    return encode(node)


def decode_topic(name: str, data: bytes) -> TopicAssignment:
    """Decode ``/brokers/topics/<name>``."""
    path = topic(name)
    node = decode(path, data)
    adding = node.get("adding_replicas", {})
    removing = node.get("removing_replicas", {})
    try:
        parts = {
            number(int(p)): ReplicaAssignment(
                replicas=_replicas(ids),
                adding=_brokers(adding.get(p, ())),
                removing=_brokers(removing.get(p, ())),
            )
            for p, ids in node["partitions"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedNode(f"{path} has no usable partitions: {error!r}") from error
    topic_id = decode_topic_id(path, node)
    return TopicAssignment(topic_id=topic_id, partitions=dict(sorted(parts.items())))


def decode_topic_id(path: str, node: Mapping[str, Any]) -> uuid.UUID | None:
    """Return the id in a topic's node, or None if the node is older than topic ids."""
    text = node.get("topic_id")
    try:
        return None if text is None else decode_uuid(text)
    except (TypeError, ValueError) as error:
        raise MalformedNode(f"{path} holds {text!r:.80} where an id should be") from error


def _brokers(ids: Iterable[Any]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(number(i)) for i in ids)


def _replicas(ids: Iterable[Any]) -> tuple[BrokerId, ...]:
    brokers = _brokers(ids)
    if not brokers:
        raise ValueError("a partition without replicas")
    return brokers


def encode_state(
    *,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    controller_epoch: ControllerEpoch,
    isr: Sequence[BrokerId],
    broker_epochs: Mapping[BrokerId, int],
) -> bytes:
    """Encode a partition's state, version 1, with the broker epoch under which each member is in
    the ISR. Kafka's brokers neither write nor need these epochs."""
    return encode(
        {
            "controller_epoch": controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
            "isr_broker_epochs": [broker_epochs[member] for member in isr],
        }
    )


def decode_state(
    tp: TopicPartition, data: bytes, version: int, mzxid: int = NEVER_READ
) -> PartitionState:
    """Decode a partition's state, read at the znode's ``version``, which transaction ``mzxid``
    wrote."""
    path = partition_state(tp)
    node = decode(path, data)
    try:
        isr = _brokers(node["isr"])
        epochs = [_broker_epoch(epoch) for epoch in node.get("isr_broker_epochs", ())]
        return PartitionState(
            leader=BrokerId(number(node["leader"])),
            leader_epoch=LeaderEpoch(number(node["leader_epoch"])),
            isr=isr,
            broker_epochs=dict(zip(isr, epochs, strict=True)) if epochs else {},
            controller_epoch=ControllerEpoch(number(node["controller_epoch"])),
            zk_version=ZkVersion(version),
            mzxid=mzxid,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedNode(f"{path} is no partition state: {error!r}") from error


# --- the rest -------------------------------------------------------------------------------


def encode_partitions(tps: Iterable[TopicPartition]) -> bytes:
    """Encode a list of partitions: ISR change notification, preferred replica election."""
    listed = [{"topic": tp.topic, "partition": tp.partition} for tp in tps]
    return encode({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes) -> tuple[TopicPartition, ...]:
    """Invert :func:`encode_partitions`."""
    node = decode(path, data)
    try:
        return tuple(_partition_of(each) for each in node["partitions"])
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedNode(f"{path} lists no partitions: {error!r}") from error


def decode_deletions(data: bytes) -> tuple[str, ...]:
    """Return the topics that ``/admin/delete_topics`` itself lists (*HA design*). Since 0.8.1 each
    is a child of that node."""
    node = decode(DELETE_TOPICS, data)
    try:
        return tuple(dict.fromkeys(_topic_name(each) for each in node["topics"]))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedNode(f"{DELETE_TOPICS} lists no topics: {error!r}") from error


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Decode ``/admin/reassign_partitions``: the new replicas by partition."""
    node = decode(REASSIGN_PARTITIONS, data)
    try:
        return {_partition_of(each): _brokers(each["replicas"]) for each in node["partitions"]}
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedNode(f"{REASSIGN_PARTITIONS} is no reassignment: {error!r}") from error


def encode_reassignment(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    """Invert :func:`decode_reassignment`."""
    listed = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in targets.items()
    ]
    return encode({"version": 1, "partitions": listed})


def encode_controller(broker: BrokerId, timestamp_ms: int) -> bytes:
    """Encode ``/controller``, version 1."""
    return encode({"version": 1, "brokerid": broker, "timestamp": str(timestamp_ms)})


def decode_controller(data: bytes) -> BrokerId:
    """Return the broker that holds ``/controller``."""
    try:
        return BrokerId(number(decode(CONTROLLER, data)["brokerid"]))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedNode(f"{CONTROLLER} names no broker: {error!r}") from error


def decode_controller_epoch(data: bytes) -> ControllerEpoch:
    """Return the epoch of the last election."""
    try:
        return ControllerEpoch(number(int(data)))
    except (TypeError, ValueError) as error:
        raise MalformedNode(f"{CONTROLLER_EPOCH} holds no number: {data!r:.80}") from error


def encode_producer_ids(broker: BrokerId, block: range) -> bytes:
    """Encode the block of producer ids that ``broker`` took last, version 1."""
    start, end = str(block.start), str(block.stop - 1)
    return encode({"version": 1, "broker": broker, "block_start": start, "block_end": end})


def decode_producer_ids_end(data: bytes) -> int:
    """Return the first producer id after the block that was taken last, or 0 when none was."""
    if not data:
        return 0
    try:
        end = int(decode(PRODUCER_IDS, data)["block_end"])
        if not 0 <= end < PRODUCER_IDS_MAX:
            raise ValueError(f"{end} is not between 0 and {PRODUCER_IDS_MAX}")
        return end + 1
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise MalformedNode(f"{PRODUCER_IDS} names no block: {error!r}") from error


def encode_config(config: Mapping[str, str]) -> bytes:
    """Encode ``/config/topics/T``, version 1."""
    return encode({"version": 1, "config": dict(config)})


def decode_config(path: str, data: bytes) -> dict[str, str]:
    """Return the properties in a config node."""
    node = decode(path, data)
    config = node.get("config")
    if not isinstance(config, dict):
        raise MalformedNode(f"{path} has no config")
    return {str(key): str(value) for key, value in config.items()}


def encode_config_change(entity: str) -> bytes:
    """Encode ``/config/changes/config_change_N``, version 2. ``entity`` is, for example,
    ``topics/T``."""
    return encode({"version": 2, "entity_path": entity})


def decode_config_change(path: str, data: bytes) -> str:
    """Return the entity whose configuration changed."""
    entity = decode(path, data).get("entity_path")
    if not isinstance(entity, str):
        raise MalformedNode(f"{path} names no entity_path")
    return entity


# --- registrations of brokers ---------------------------------------------------------------------
#
# ``/brokers/ids/N``: the addresses of a broker (see :mod:`broker.server.zk.znodes`).


def encode_broker(info: BrokerInfo, timestamp_ms: int) -> bytes:
    """Encode a broker, version 5. ``host`` and ``port`` are the first endpoint's, for old
    readers."""
    first = info.endpoints[0]
    node: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in info.endpoints},
        "endpoints": [f"{e.listener}://{e.host}:{e.port}" for e in info.endpoints],
        "jmx_port": -1,
        "port": first.port,
        "host": first.host,
        "version": 5,
        "timestamp": str(timestamp_ms),
    }
    if info.rack is not None:
        node["rack"] = info.rack
    return encode(node)


def decode_broker_id(name: str) -> BrokerId:
    """Return the broker that ``/brokers/ids/<name>`` names."""
    try:
        return BrokerId(number(int(name)))
    except ValueError as error:
        raise MalformedNode(f"{BROKER_IDS}/{name} is named after no broker") from error


def decode_broker(broker: BrokerId, data: bytes) -> BrokerInfo:
    """Decode ``/brokers/ids/<broker>``."""
    path = broker_id(broker)
    node = decode(path, data)
    protocols = node.get("listener_security_protocol_map", {})
    try:
        if "endpoints" in node:
            endpoints = tuple(_endpoint(text, protocols) for text in node["endpoints"])
        else:
            endpoints = (_only_endpoint(node["host"], node["port"]),)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedNode(f"{path} has no usable endpoints: {error}") from error
    rack = node.get("rack")
    if not endpoints or not (rack is None or isinstance(rack, str)):
        raise MalformedNode(f"{path} has no endpoints, or {rack!r} for a rack")
    return BrokerInfo(broker_id=broker, endpoints=endpoints, rack=rack)


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    parts = urlsplit(text)
    listener = text.partition("://")[0]
    if parts.hostname is None or parts.port is None:
        raise ValueError(f"{text!r} is not LISTENER://host:port")
    protocol = protocols.get(listener, listener)
    if protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"{protocol!r} is no security protocol")
    return Endpoint(
        host=parts.hostname, port=parts.port, listener=listener, security_protocol=protocol
    )


def _only_endpoint(host: Any, port: Any) -> Endpoint:
    """Return the endpoint of a broker of version 1, which is older than listeners (0.9)."""
    if not isinstance(host, str) or not host or not 0 < number(port) < 2**16:
        raise ValueError(f"{host!r:.80} and {port!r:.80} where a host and a port should be")
    return Endpoint(host=host, port=port)


# --- contents that cannot be read -----------------------------------------------------------------
#
# A malformed node in ZooKeeper counts as absent, and is logged: whatever wrote it, it must not stop
# brokers.


P = ParamSpec("P")
T = TypeVar("T")


def understood(decode: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Return the result of ``decode`` for a node. If it is malformed, return None and log it."""
    try:
        return decode(*args, **kwargs)
    except MalformedNode as error:
        logger.error("%s; treated as absent", error)
        return None
