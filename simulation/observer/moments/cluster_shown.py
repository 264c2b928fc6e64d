"""**ClusterIsShown**: where clients are sent, there is the broker (Metadata, FindCoordinator): each
is shown once, where it is or was in a former life, and with its own rack; the cluster has the id
that stands in ZooKeeper, and whom they take for the controller is or was it.

Clients of the simulator know where brokers are and ask anybody; and one in another rack reads from
afar, and says nothing.
"""

import json
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.types import NO_LEADER
from ackproof.broker.wire.messages.find_coordinator import Coordinator
from ackproof.broker.wire.messages.metadata import MetadataResponse
from simulation.violation import Violation

INVARIANT: Final = "ClusterIsShown"
CLUSTER: Final = "/cluster/id"
CONTROLLER: Final = "/controller"


class _Place(NamedTuple):
    """Of a broker."""

    host: str
    port: int


class ClusterShown:
    """What there is to be shown."""

    def __init__(self) -> None:
        self._racks: dict[int, str | None] = {}
        self._places: dict[int, set[_Place]] = {}
        """Where a broker has been in any life."""
        self._cluster: str | None = None
        self._controllers: set[int] = set()
        """Whoever was one; without a controller nobody."""

    def begun(self, broker: int, config: BrokerConfig) -> None:
        """A life of a broker that is told to be this."""
        self._racks[broker] = config.broker_rack
        self._places.setdefault(broker, set()).add(_Place(*config.advertised))

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
            rack = self._racks[broker.node_id]
            _require(broker.rack == rack, f"{broker.rack} of broker {broker.node_id}, in {rack}")
        _require(answer.cluster_id == self._cluster, f"cluster {answer.cluster_id}")
        could = {NO_LEADER, *(self._controllers or self._racks)}
        _require(answer.controller_id in could, f"controller {answer.controller_id}")

    def found(self, coordinator: Coordinator) -> None:
        """By a client; raises Violation."""
        if coordinator.error_code is ErrorCode.none:
            self._is_there(coordinator.node_id, coordinator)

    def _is_there(self, broker: int, shown: Any) -> None:
        at, been = _Place(shown.host, shown.port), self._places.get(broker, ())
        _require(at in been, f"broker {broker} at {at}, and it has been at {sorted(been)}")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise Violation(INVARIANT, f"clients are shown {what}")
