"""What brokers tell clients of the cluster, and the settings that each broker goes by.

* **ClusterIsShown**: each broker is shown once, where it is or was in a former life, with its own
  rack; the cluster has the id that ZooKeeper has; the controller is or was one.
* **NoLeaderIsSaid**: a partition without a leader is told with LEADER_NOT_AVAILABLE, and clients
  ask again.
* **LeadersHaveLed**: a broker that is said to lead in an epoch leads or led in it. With another
  epoch, clients would take the right answer, a moment later, for an older one (KIP-320).
"""

import json
from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig, TopicConfig
from ackproof.broker.server.requests.find_coordinator import KEYS_SINCE
from ackproof.broker.types import NO_EPOCH, NO_LEADER, TopicPartition
from ackproof.broker.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ackproof.broker.wire.messages.metadata import MetadataResponse
from simulation.violation import Violation

CLUSTER: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
BROKERS: Final = "/config/brokers/"
ALL: Final = "<default>"

Led = tuple[TopicPartition, int, int]
"""A partition, its leader and the epoch."""


class BrokerSettings:
    """The settings that brokers go by where a topic has none: their properties, and the dynamic
    ones in ZooKeeper (KIP-226)."""

    def __init__(self) -> None:
        self.properties: dict[int, BrokerConfig] = {}
        self.dynamic: dict[str, Mapping[str, str]] = {}
        """By broker id, or :data:`ALL`."""

    def written(self, path: str, data: bytes | None) -> None:
        """Note a write to a node of ZooKeeper."""
        if path.startswith(BROKERS):
            self.dynamic[path.removeprefix(BROKERS)] = json.loads(data)["config"] if data else {}

    def defaults(self, broker: int) -> TopicConfig:
        """Return the settings of a broker; its own take precedence over those of all."""
        dynamic = {**self.dynamic.get(ALL, {}), **self.dynamic.get(str(broker), {})}
        return self.properties[broker].overridden(dynamic).topic_defaults()


class _Place(NamedTuple):
    host: str
    port: int


class ClusterShown:
    """What brokers may tell clients of the cluster."""

    def __init__(self, ever_led: Container[Led]) -> None:
        self._ever_led = ever_led
        self._racks: dict[int, str | None] = {}
        self._places: dict[int, set[_Place]] = {}
        """The addresses of each broker in all its lives."""
        self._cluster: str | None = None
        self._controllers: set[int] = set()

    def begun(self, broker: int, config: BrokerConfig) -> None:
        """Note a new life of a broker."""
        self._racks[broker] = config.broker_rack
        self._places.setdefault(broker, set()).add(_Place(*config.advertised))

    def written(self, path: str, data: bytes | None) -> None:
        """Note a write to a node of ZooKeeper."""
        if path == CLUSTER and data is not None:
            self._cluster = json.loads(data)["id"]
        if path == CONTROLLER and data is not None:
            self._controllers.add(json.loads(data)["brokerid"])

    def answered(self, request: object, response: object) -> None:
        """Judge an answer to a client; raises Violation."""
        if isinstance(response, MetadataResponse):
            self.metadata(response)
            leaders(response, self._ever_led)
        elif isinstance(response, FindCoordinatorResponse):
            assert isinstance(request, FindCoordinatorRequest)
            several = request.version >= KEYS_SINCE
            for coordinator in response.coordinators if several else (response,):
                self.coordinator(coordinator)

    def metadata(self, answer: MetadataResponse) -> None:
        """Judge an answer to Metadata; raises Violation."""
        ids = [broker.node_id for broker in answer.brokers]
        _require(len(ids) == len(set(ids)), f"brokers {ids}")
        for broker in answer.brokers:
            self._is_there(broker.node_id, broker)
            rack = self._racks[broker.node_id]
            _require(broker.rack == rack, f"{broker.rack} of broker {broker.node_id}, in {rack}")
        _require(answer.cluster_id == self._cluster, f"cluster {answer.cluster_id}")
        could = {NO_LEADER, *(self._controllers or self._racks)}
        _require(answer.controller_id in could, f"controller {answer.controller_id}")

    def coordinator(self, coordinator: Coordinator | FindCoordinatorResponse) -> None:
        """Judge a coordinator that a client is told; raises Violation."""
        if coordinator.error_code is ErrorCode.none:
            self._is_there(coordinator.node_id, coordinator)

    def _is_there(self, broker: int, shown: Any) -> None:
        at, been = _Place(shown.host, shown.port), self._places.get(broker, ())
        _require(at in been, f"broker {broker} at {at}, and it has been at {sorted(been)}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation("ClusterIsShown", f"clients are shown {what}")


def leaders(answer: MetadataResponse, ever_led: Container[Led]) -> None:
    """Judge the leaders in an answer to Metadata; raises Violation. ``ever_led``: the leaders and
    epochs that ZooKeeper has ever had."""
    for topic in answer.topics:
        for part in topic.partitions:
            tp = TopicPartition(topic.name or "", part.partition_index)
            has_none = part.leader_id == NO_LEADER
            if has_none != (part.error_code is ErrorCode.leader_not_available):
                what = f"the error is {part.error_code.name} and the leader {part.leader_id}"
                raise Violation("NoLeaderIsSaid", f"{tp}: {what}")
            led = (tp, part.leader_id, part.leader_epoch)
            if not has_none and part.leader_epoch != NO_EPOCH and led not in ever_led:
                what = f"{part.leader_id} is said to lead in epoch {part.leader_epoch}"
                raise Violation("LeadersHaveLed", f"{tp}: {what}, and never did")
