"""Brokers with ZooKeeper, each server on a node of its own.

They are deployed like any other program, by command line and ``server.properties``. The broker's
node holds ``server.properties`` and ``data`` (``log.dirs``), or disks with a log directory each.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

from kazoo.client import KazooClient

from ackproof.infra.api.capabilities import DiskPlan, Stage, Upgrade
from ackproof.infra.api.interface import (
    Backend,
    ClusterView,
    Command,
    InfraError,
    Node,
    Server,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.api.metadata import ClusterChange, Ensemble, Observer
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.systems.deployment import (
    BROKER_PORT,
    BROKERS_UP_S,
    STOP_GRACE_S,
    DeployedSystem,
    await_all,
    disks,
    listens,
    server_properties,
)
from ackproof.infra.systems.observer import ClusterObserver
from ackproof.infra.systems.product import Build, Layout, MetadataQuorum
from ackproof.infra.systems.properties import (
    RESERVED,
    TIMINGS,
    KnownProperties,
    timing_ms,
)
from ackproof.infra.systems.server import NodeServer, stop_all
from ackproof.infra.systems.view import ViewReader, connect, disconnect, topic_config
from ackproof.infra.systems.zookeeper import (
    ZooKeeperEnsemble,
    counters,
    expired,
    serves,
    zookeeper_server,
)

_LEADING = ("leader", "standalone")
_VIEW_TIMEOUT_S = 2.0
_ZOOKEEPER_UP_S = 60.0
_SESSIONS_UNTIL_GONE = 2
"""The session timeouts that a killed broker stays registered at most.

ZooKeeper counts from the last request that it received, and expires whole ticks at a time.
"""

BrokerCommand = Callable[[Node, PurePosixPath], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program of a broker.

    Attributes:
        command: Returns the command line for the node and the path of ``server.properties`` there.
            It also puts on the node what the program needs.
        knock: Returns the bytes that make the broker write a line into its log, and that line (see
            ``infra.api.capabilities.ClockQuery``).
        properties: Properties of every broker that a campaign does not set, where the program's own
            default is unsuitable.
        starts_beside_itself: Whether it starts while the session of its killed predecessor has not
            expired yet.
    """

    command: BrokerCommand
    knock: Callable[[], tuple[bytes, str]]
    properties: Mapping[str, str] = field(default_factory=dict)
    starts_beside_itself: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramChange:
    """The change of brokers from one release of their program to another.

    Attributes:
        commands: The command line of a broker in each stage.
        properties: The properties that brokers have only in that stage.
        upgrade: Makes the change of a cluster, from a function that returns its servers by name,
            and one that configures a broker for a stage.
    """

    commands: Mapping[Stage, BrokerCommand]
    properties: Mapping[Stage, Mapping[str, str]]
    upgrade: Callable[
        [Callable[[], Mapping[str, NodeServer]], Callable[[NodeServer, Stage], Command]], Upgrade
    ]


class SystemOnZooKeeper(DeployedSystem):
    """An ``infra.api.interface.System`` with ZooKeeper.

    Args:
        name: The name in campaigns.
        program: The program of the brokers.
        brokers: The number of brokers; ids from 1.
        zookeepers: The number of servers; 1, or 3 and more for an ensemble.
        properties: Kafka's broker properties, the same for every broker. Those that identify a
            broker and its address (``RESERVED``) raise ValueError.
        disks: The disks of the brokers' logs; None for directories of their nodes.
        clocks: Whether every server uses a fake clock of its node.
        racks: The racks that brokers take in turn; none for those of ``properties``.
        known: The properties that the brokers have; None if they are not known.
        change: The change of release that its brokers can make; None for none.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        name: str,
        program: Program,
        brokers: int,
        zookeepers: int = 1,
        properties: Mapping[str, str],
        disks: DiskPlan | None = None,
        clocks: bool = False,
        racks: Sequence[str] = (),
        known: KnownProperties | None = None,
        change: ProgramChange | None = None,
    ) -> None:
        _check(brokers, zookeepers, properties)
        super().__init__(
            name, {**program.properties, **properties}, disks, clocks=clocks, racks=racks
        )
        self._program = program
        self._change = change
        self._upgrade = None if change is None else change.upgrade(self._by_name, self._configured)
        self._known = known
        self._connecting = threading.Lock()
        self._client: KazooClient | None = None
        ensemble = {n: backend.node(f"zookeeper-{n}") for n in range(1, zookeepers + 1)}
        session_ms = self.zookeeper_session_timeout_ms
        self._zookeepers = tuple(
            on_all(
                lambda n: zookeeper_server(
                    ensemble[n], n, ensemble, session_ms, self._clock(ensemble[n])
                ),
                list(ensemble),
            )
        )
        self._ensemble = ZooKeeperEnsemble(
            {zookeeper.name: zookeeper.address for zookeeper in self._zookeepers}, session_ms
        )
        self._make_brokers(backend, brokers)

    @property
    def zookeepers(self) -> Sequence[Server]:
        return self._zookeepers

    @property
    def ensemble(self) -> Ensemble:
        return self._ensemble

    @property
    def zookeeper_connect(self) -> str:
        return ",".join(zookeeper.address for zookeeper in self._zookeepers)

    @property
    def upgrade(self) -> Upgrade | None:
        return self._upgrade

    @property
    def metadata_connect(self) -> tuple[str, str]:
        return "zookeeper.connect", self.zookeeper_connect

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        return self._number("zookeeper.session.timeout.ms")

    @property
    def replica_lag_time_max_ms(self) -> int:
        return self._number("replica.lag.time.max.ms")

    def deploy(self) -> None:
        on_all(NodeServer.start, self._zookeepers)
        await_all(self._zookeepers, serves, _ZOOKEEPER_UP_S, "serves")
        on_all(NodeServer.start, self._brokers)
        await_all(self._brokers, self._registered, BROKERS_UP_S, "is in /brokers/ids")
        await_all(self._brokers, listens, BROKERS_UP_S, "accepts connections")

    def view(self) -> ClusterView:
        return self._in_zookeeper()

    def _in_zookeeper(self) -> ClusterView:
        """Return the view by ZooKeeper. Raises ViewUnavailable."""
        view = ViewReader(self._zookeeper(), _VIEW_TIMEOUT_S).read()
        return replace(view, by_isr_order=self._by_isr_order)

    def observer(
        self, on_change: Callable[[ClusterChange], None], clock: Callable[[], int]
    ) -> Observer:
        return ClusterObserver(self.zookeeper_connect, on_change, clock)

    def zookeeper_leader(self) -> Server | None:
        modes = self._ensemble.modes()
        leading = (server for server in self._zookeepers if modes.get(server.name) in _LEADING)
        return next(leading, None)

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        found = [counters(server) for server in self._zookeepers]
        silent = [
            s.name for s, counted in zip(self._zookeepers, found, strict=True) if counted is None
        ]
        if silent:
            raise ViewUnavailable(f"{', '.join(silent)}: no answer to srvr and mntr")
        return [counted for counted in found if counted is not None]

    def expired_sessions(self) -> frozenset[int]:
        try:
            return expired(server.log() for server in self._zookeepers)
        except (InfraError, FileNotFoundError) as error:
            raise ViewUnavailable(f"the logs of ZooKeeper cannot be read: {error}") from error

    def close(self) -> None:
        self._ensemble.close()
        if self._client is not None:
            disconnect(self._client)
            self._client = None
        stop_all(self._all_brokers(), STOP_GRACE_S)
        stop_all(self._zookeepers, STOP_GRACE_S)

    def _zookeeper(self) -> KazooClient:
        # Every fault calls this from a thread of its own.
        with self._connecting:
            if self._client is None:
                self._client = connect(self.zookeeper_connect)
            return self._client

    def _topic_config(self, topic: str) -> Mapping[str, str]:
        return topic_config(self._zookeeper(), topic, _VIEW_TIMEOUT_S)

    def _number(self, name: str) -> int:
        return timing_ms(name, self._properties, self._known)

    @property
    def _by_isr_order(self) -> bool:
        return self._known is not None and self._known.by_isr_order(self._properties)

    def _broker(self, node: Node, number: int) -> NodeServer:
        broker = NodeServer(
            node,
            number,
            BROKER_PORT,
            Command(name=node.name, argv=()),
            disks=disks(node, self._disks),
            clock=self._clock(node),
            knock=self._program.knock,
            before_start=lambda: self._before_start(number),
        )
        stage = Stage.BEFORE if self._upgrade is None else self._upgrade.first_stage(node.name)
        broker.use(self._configured(broker, stage))
        return broker

    def _configured(self, broker: NodeServer, stage: Stage) -> Command:
        """Write the configuration of a broker in a stage, and return the command that starts it."""
        node, config = broker.node, broker.node.directory / "server.properties"
        program = self._program.command if self._change is None else self._change.commands[stage]
        node.write(config, server_properties(self._settings(broker, stage)))
        return Command(name=node.name, argv=program(node, config))

    def _settings(self, broker: NodeServer, stage: Stage) -> Mapping[str, str]:
        """Return all properties of a broker in a stage."""
        own = {
            "broker.id": str(broker.id),
            "listeners": f"PLAINTEXT://{broker.node.address}:{BROKER_PORT}",
            "log.dirs": ",".join(map(str, self.log_directories(broker))),
            "zookeeper.connect": self.zookeeper_connect,
            **self._rack(broker.name),
        }
        extra = {} if self._change is None else self._change.properties[stage]
        return {**own, **self._properties, **extra}

    def _by_name(self) -> Mapping[str, NodeServer]:
        return {one.name: one for one in self._all_brokers()}

    def _before_start(self, broker_id: int) -> None:
        """Wait until a broker's registration is gone, if the broker does not start before.

        If ZooKeeper is silent for longer than that takes, the broker is started nevertheless.
        """
        if self._program.starts_beside_itself:
            return
        expired_s = _SESSIONS_UNTIL_GONE * self.zookeeper_session_timeout_ms / 1000
        with suppress(TimeoutError):
            wait_until(lambda: self._is_deregistered(broker_id), expired_s, "its session to expire")

    def _is_deregistered(self, broker_id: int) -> bool:
        try:
            return broker_id not in self._in_zookeeper().brokers
        except ViewUnavailable:
            return False


@dataclass(frozen=True, kw_only=True)
class BuildOnZooKeeper(Build):
    """A build whose brokers keep their metadata in ZooKeeper, configured by a
    ``server.properties``.

    Attributes:
        program: The program of the brokers.
        properties: The properties that brokers and topics have; None if they are not known.
    """

    program: Program
    properties: KnownProperties | None = None
    takes_racks: bool = True

    def described(self, quorum: MetadataQuorum | None) -> KnownProperties | None:  # noqa: ARG002
        return self.properties

    def configured(self, layout: Layout) -> SystemOnZooKeeper:
        return SystemOnZooKeeper(
            layout.backend,
            name=self.text,
            program=self.program,
            brokers=layout.brokers,
            zookeepers=layout.keepers,
            properties=layout.properties,
            disks=layout.disks,
            clocks=layout.clocks,
            racks=layout.racks,
            known=self.known(layout.quorum),
        )


def _check(brokers: int, zookeepers: int, properties: Mapping[str, str]) -> None:
    if brokers < 0 or zookeepers < 1:
        raise ValueError(f"{brokers} brokers and {zookeepers} ZooKeeper servers: 0, 1 or more")
    if taken := sorted(RESERVED.keys() & properties.keys()):
        raise ValueError(
            f"broker properties {', '.join(taken)}: Ackproof sets them for each broker"
        )
    for name in TIMINGS.keys() & properties.keys():
        if not properties[name].isdecimal():
            raise ValueError(f"broker property {name}={properties[name]!r}: not a number")
