"""The deployment of brokers, whichever servers keep their metadata, and the addition of brokers
later."""

import io
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from jproperties import Properties

from ackproof.infra.agent.measuring import accepts
from ackproof.infra.api.capabilities import (
    Admin,
    BrokerCertificates,
    Disk,
    DiskPlan,
    FakeClock,
    RemoteTier,
    Upgrade,
    Voters,
)
from ackproof.infra.api.interface import (
    Backend,
    BrokerAdditions,
    ClusterView,
    DeploymentError,
    Node,
    Server,
    ViewUnavailable,
)
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.admin import KafkaAdmin
from ackproof.infra.systems.properties import RACK, rack_of
from ackproof.infra.systems.server import NodeServer

BROKER_PORT = 9092
BROKERS_UP_S = 60.0
STOP_GRACE_S = 5.0


def disks(node: Node, planned: DiskPlan | None) -> Sequence[Disk]:
    """Return new disks of a node; none if none are ``planned``."""
    if planned is None:
        return ()
    return [node.disk(str(n), planned.megabytes) for n in range(1, planned.per_server + 1)]


def server_properties(settings: Mapping[str, str]) -> bytes:
    """Return the content of a ``server.properties``."""
    properties = Properties()
    for name, value in settings.items():
        properties[name] = value
    buffer = io.BytesIO()
    properties.store(buffer, encoding="utf-8", timestamp=False)
    return buffer.getvalue()


def listens(server: NodeServer) -> bool:
    """Return whether the server accepts connections."""
    return accepts(server.node.address, server.port)


def await_all(
    servers: Sequence[NodeServer],
    ready: Callable[[NodeServer], bool],
    timeout: float,
    what: str,
) -> None:
    """Wait until all servers are ready.

    Raises DeploymentError for the first that is not ready in time, and at once if its process has
    ended.
    """
    for server in servers:
        try:
            wait_until(
                lambda server=server: server.exited() or ready(server),  # type: ignore[misc]
                timeout,
                f"{server.name} {what}",
            )
        except TimeoutError as error:
            raise DeploymentError(f"{error}\n{server.log_tail()}", server) from error
        if server.exited():
            raise DeploymentError(
                f"{server.name} ended with status {server.process.exit_code()} before it {what}\n"
                f"{server.log_tail()}",
                server,
            )


# --- added brokers ----------------------------------------------------------------------------


class AddedBrokers:
    """An ``infra.api.interface.BrokerAdditions``. Thread-safe.

    Args:
        make: Makes the node of a ``broker.id``, and configures the broker on it.
        deployed: The number of the other brokers, whose ids begin with 1.
    """

    def __init__(self, backend: Backend, make: Callable[[int], NodeServer], deployed: int) -> None:
        self._backend = backend
        self._make = make
        self._lock = threading.Lock()
        self._there: dict[int, NodeServer] = {}
        self._highest = deployed

    @property
    def there(self) -> Sequence[NodeServer]:
        return list(self._there.values())

    @property
    def next_id(self) -> int:
        return self._highest + 1

    def add(self, number: int) -> NodeServer:
        with self._lock:
            if number not in self._there:
                self._highest = max(self._highest, number)
                try:
                    self._there[number] = self._make(number)
                except BaseException:
                    self._backend.remove(name_of(number))
                    raise
            return self._there[number]

    def remove(self, number: int) -> None:
        with self._lock:
            if number in self._there:
                self._backend.remove(name_of(number))
                del self._there[number]


def name_of(number: int) -> str:
    """Return the name of the broker of that id, which is also the name of its node."""
    return f"broker-{number}"


# --- deployed systems -------------------------------------------------------------------------


class DeployedSystem(ABC):
    """The part of ``infra.api.interface.System`` that only depends on the brokers.

    They are those that are deployed and those that join later.

    Args:
        name: The name in campaigns.
        properties: The properties in force, the same for every server.
        disks: The disks of the brokers' logs; None for directories of their nodes.
        clocks: Whether every server uses a fake clock of its node.
        racks: The racks that brokers take in turn; none for those of ``properties``.
    """

    def __init__(
        self,
        name: str,
        properties: dict[str, str],
        disks: DiskPlan | None,
        *,
        clocks: bool,
        racks: Sequence[str],
    ) -> None:
        self.name = name
        self._properties = properties
        self._disks = disks
        self._clocks = clocks
        self._racks = racks

    def _make_brokers(self, backend: Backend, count: int) -> None:
        """Make brokers with the ids from 1. Call it when everything that :meth:`_broker` needs
        exists."""

        def make(number: int) -> NodeServer:
            return self._broker(backend.node(name_of(number)), number)

        self._brokers = tuple(on_all(make, range(1, count + 1)))
        self._added = AddedBrokers(backend, make, count)
        self._admin = self._make_admin()

    def _make_admin(self) -> KafkaAdmin:
        return KafkaAdmin(self._all_brokers, self._topic_config)

    @abstractmethod
    def _broker(self, node: Node, number: int) -> NodeServer:
        """Return the broker of that id, configured on its node."""

    @abstractmethod
    def _topic_config(self, topic: str) -> Mapping[str, str]:
        """Return the settings of a topic. Raises ViewUnavailable."""

    @abstractmethod
    def view(self) -> ClusterView: ...

    @property
    def brokers(self) -> Sequence[Server]:
        return self._brokers

    @property
    def removed(self) -> Sequence[Server]:
        return ()

    @property
    def added(self) -> BrokerAdditions[Server]:
        return self._added

    @property
    def admin(self) -> Admin:
        return self._admin

    @property
    def certificates(self) -> BrokerCertificates | None:
        return None

    @property
    def remote_tier(self) -> RemoteTier | None:
        return None

    @property
    def upgrade(self) -> Upgrade | None:
        return None

    @property
    def voters(self) -> Voters | None:
        return None

    @property
    def connection(self) -> Mapping[str, str]:
        return {}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self._brokers)

    def log_directories(self, broker: Server) -> Sequence[PurePosixPath]:
        return [disk.data for disk in broker.disks] or [broker.node.directory / "data"]

    def _all_brokers(self) -> Sequence[NodeServer]:
        return [*self._brokers, *self._added.there]

    def _rack(self, broker: str) -> Mapping[str, str]:
        """Return the property for the rack of a broker, if it is in one."""
        rack = rack_of(broker, self._properties, self._racks)
        return {} if rack is None else {RACK: rack}

    def _clock(self, node: Node) -> FakeClock | None:
        return node.fake_clock() if self._clocks else None

    def _registered(self, broker: NodeServer) -> bool:
        try:
            return broker.id in self.view().brokers
        except ViewUnavailable:
            return False
