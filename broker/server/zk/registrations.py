"""``/brokers/ids/N``: how a broker says where it can be reached (see
:mod:`broker.server.zk.znodes`)."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ackproof.broker.controller.cluster import SECURITY_PROTOCOLS, BrokerInfo, Endpoint
from ackproof.broker.server.zk.znodes import (
    BROKER_IDS,
    MalformedNode,
    broker_id,
    decode,
    encode,
    number,
)
from ackproof.broker.types import BrokerId


def encode_broker(info: BrokerInfo, timestamp_ms: int) -> bytes:
    """Version 5; ``host`` and ``port`` are the first endpoint's, for old readers."""
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
    """The broker that ``/brokers/ids/<name>`` is about."""
    try:
        return BrokerId(number(int(name)))
    except ValueError as error:
        raise MalformedNode(f"{BROKER_IDS}/{name} is named after no broker") from error


def decode_broker(broker: BrokerId, data: bytes) -> BrokerInfo:
    """The broker that ``/brokers/ids/<broker>`` describes."""
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
    """Return the endpoint of a broker of version 1, which was before there were listeners (0.9)."""
    if not isinstance(host, str) or not host or not 0 < number(port) < 2**16:
        raise ValueError(f"{host!r:.80} and {port!r:.80} where a host and a port should be")
    return Endpoint(host=host, port=port)
