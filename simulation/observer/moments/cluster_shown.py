"""**ClusterIsShown**: where clients are sent, there is the broker (Metadata, FindCoordinator): each
is shown once, with its own host, port and rack; the cluster has the id that stands in ZooKeeper,
and whom they take for the controller is or was it.

Clients of the simulator know where brokers are and ask anybody; and one in another rack reads from
afar, and says nothing.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.types import NO_LEADER
from broker.wire.messages.find_coordinator import Coordinator
from broker.wire.messages.metadata import MetadataResponse
from simulation.violation import Violation

INVARIANT: Final = "ClusterIsShown"
CLUSTER: Final = "/cluster/id"
CONTROLLER: Final = "/controller"


class _Place(NamedTuple):
    """Of a broker."""

    host: str
    port: int


class ClusterShown:
    """``brokers``: what they are told to be, by id."""

    def __init__(self, brokers: Mapping[int, BrokerConfig]) -> None:
        self._brokers = brokers
        self._cluster: str | None = None
        self._controllers: set[int] = set()
        """Whoever was one; without a controller nobody."""

    def written(self, path: str, data: bytes | None) -> None:
        """To a node of ZooKeeper."""
        if path == CLUSTER and data is not None:
            self._cluster = json.loads(data)["id"]
        if path == CONTROLLER and data is not None:
            self._controllers.add(json.loads(data)["brokerid"])

    def told(self, answer: MetadataResponse) -> None:
        """To a client; raises Violation."""
        ids = [broker.node_id for broker in answer.brokers]
        _require(len(ids) == len(set(ids)), f"brokers {ids}")
        for broker in answer.brokers:
            self._is_there(broker.node_id, broker)
            rack = self._brokers[broker.node_id].broker_rack
            _require(broker.rack == rack, f"{broker.rack} of broker {broker.node_id}, in {rack}")
        _require(answer.cluster_id == self._cluster, f"cluster {answer.cluster_id}")
        could = {NO_LEADER, *(self._controllers or self._brokers)}
        _require(answer.controller_id in could, f"controller {answer.controller_id}")

    def found(self, coordinator: Coordinator) -> None:
        """By a client; raises Violation."""
        if coordinator.error_code is ErrorCode.none:
            self._is_there(coordinator.node_id, coordinator)

    def _is_there(self, broker: int, shown: Any) -> None:
        at, own = _Place(shown.host, shown.port), self._brokers.get(broker)
        due = None if own is None else _Place(own.advertised.host, own.advertised.port)
        _require(at == due, f"broker {broker} at {at}, not at {due}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(INVARIANT, f"clients are shown {what}")
