"""A system whose servers are deployed here: its brokers, whoever keeps its metadata."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from ackproof.infra.added import Added
from ackproof.infra.admin import Admin
from ackproof.infra.clocks import FakeClock
from ackproof.infra.disks import DiskPlan
from ackproof.infra.interface import Backend, ClusterView, Node, Server, ViewUnavailable
from ackproof.infra.systems.added import AddedBrokers, name_of
from ackproof.infra.systems.admin import KafkaAdmin
from ackproof.infra.systems.server import NodeServer
from ackproof.infra.together import on_all


class DeployedSystem(ABC):
    """What of ``infra.interface.System`` follows from the brokers: those that are deployed, and
    those that join later.

    Args:
        name: As a campaign names it.
        properties: In force, the same for every server.
        disks: What the brokers' logs lie on; None: directories of their nodes.
        clocks: Whether every server goes by a fake clock of its node.
    """

    def __init__(
        self, name: str, properties: dict[str, str], disks: DiskPlan | None, *, clocks: bool
    ) -> None:
        self.name = name
        self._properties = properties
        self._disks = disks
        self._clocks = clocks

    def _make_brokers(self, backend: Backend, count: int) -> None:
        """With the ids from 1, once there is what :meth:`_broker` needs."""

        def make(number: int) -> NodeServer:
            return self._broker(backend.node(name_of(number)), number)

        self._brokers = tuple(on_all(make, range(1, count + 1)))
        self._added = AddedBrokers(backend, make, count)
        self._admin = KafkaAdmin(self._all_brokers, self._topic_config)

    @abstractmethod
    def _broker(self, node: Node, number: int) -> NodeServer:
        """The broker of that id, configured on its node."""

    @abstractmethod
    def _topic_config(self, topic: str) -> Mapping[str, str]:
        """What is set of a topic. Raises ViewUnavailable."""

    @abstractmethod
    def view(self) -> ClusterView: ...

    @property
    def brokers(self) -> Sequence[Server]:
        return self._brokers

    @property
    def added(self) -> Added[Server]:
        return self._added

    @property
    def admin(self) -> Admin:
        return self._admin

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self._brokers)

    def log_directories(self, broker: Server) -> Sequence[PurePosixPath]:
        return [disk.data for disk in broker.disks] or [broker.node.directory / "data"]

    def _all_brokers(self) -> Sequence[NodeServer]:
        return [*self._brokers, *self._added.there]

    def _clock(self, node: Node) -> FakeClock | None:
        return node.fake_clock() if self._clocks else None

    def _registered(self, broker: NodeServer) -> bool:
        try:
            return broker.id in self.view().brokers
        except ViewUnavailable:
            return False
