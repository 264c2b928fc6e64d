"""Where brokers stand, where that decides from which replica a consumer reads (KIP-392)."""

from collections.abc import Mapping, Sequence

RACK = "broker.rack"
SELECTOR = "replica.selector.class"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def own_rack(node: str, properties: Mapping[str, str]) -> Mapping[str, str]:
    """The property that says where the broker on ``node`` stands: in a rack of its own, called like
    the node, where consumers are sent to the replica in theirs and ``properties``, which are those
    of all brokers, name no rack."""
    return {RACK: node} if _apart(properties) else {}


def racks_of(nodes: Sequence[str], properties: Mapping[str, object]) -> Sequence[str]:
    """In which racks the brokers on ``nodes`` stand by :func:`own_rack`."""
    return tuple(nodes) if _apart(properties) else ()


def _apart(properties: Mapping[str, object]) -> bool:
    return properties.get(SELECTOR) == RACK_AWARE and RACK not in properties
