"""Apache Kafka with KRaft: controllers and brokers, each server on a node of its own.

The first brokers may also be the controllers. The node of each holds ``server.properties``,
``metadata`` (``metadata.log.dir``) and ``data`` (``log.dirs``), or disks with a log directory each.
With these empty, the machine counts as new.
"""

import base64
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from ackproof.infra.api.artifacts import Artifact
from ackproof.infra.api.capabilities import (
    BrokerCertificates,
    Disk,
    DiskPlan,
    Stage,
    Upgrade,
    Voters,
)
from ackproof.infra.api.interface import (
    Backend,
    ClusterView,
    Command,
    DeploymentError,
    InfraError,
    Node,
    Server,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.api.metadata import CONTROLLER_IDS, ClusterChange, Ensemble, Observer
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.systems.admin import KafkaAdmin
from ackproof.infra.systems.deployment import (
    BROKER_PORT,
    BROKERS_UP_S,
    STOP_GRACE_S,
    DeployedSystem,
    await_all,
    disks,
    listens,
    name_of,
    server_properties,
)
from ackproof.infra.systems.kafka import remote_tier
from ackproof.infra.systems.kafka.jars import jars_of
from ackproof.infra.systems.kafka.kraft.admission import admit
from ackproof.infra.systems.kafka.kraft.certificates import KafkaCertificates
from ackproof.infra.systems.kafka.kraft.log import LEADER
from ackproof.infra.systems.kafka.kraft.metadata import ClusterMetadata
from ackproof.infra.systems.kafka.kraft.properties import (
    BROKERS,
    CLIENTS,
    CONTROLLERS,
    PLAINTEXT,
    SESSION,
    in_force,
)
from ackproof.infra.systems.kafka.kraft.security import ClusterCredentials, java_options
from ackproof.infra.systems.kafka.kraft.upgrade import MetadataVersionChange
from ackproof.infra.systems.kafka.kraft.voters import DynamicVoters, Voter, new_directory_id
from ackproof.infra.systems.kafka.programs import (
    MAIN,
    JavaAgent,
    agent_of,
    java,
    knock,
    logging,
)
from ackproof.infra.systems.kafka.releases import Release
from ackproof.infra.systems.kafka.remote_tier import RemoteTier
from ackproof.infra.systems.properties import RESERVED, needs_tier
from ackproof.infra.systems.security import ClusterSecurity
from ackproof.infra.systems.server import NodeServer, stop_all
from ackproof.infra.systems.wire import connector

_AFTER = 5
"""The number of lines behind a grant in which a controller logs its result."""
_OF_CONTROLLERS = re.compile(rb"^.* \[(?:Quorum)?Controller (?:id=)?\d+\] .*$", re.MULTILINE)
"""The lines of a log by the controller; the others are of a broker in the same process."""
_GRANTED = re.compile(rb"broker (\d+) has requested and been granted an immediate shutdown")
_REGISTERED = re.compile(rb"RegisterBrokerRecord\(brokerId=(\d+), .*?brokerEpoch=(\d+)\b")
_CHANGED = re.compile(
    rb" BrokerRegistrationChangeRecord\(brokerId=(\d+), brokerEpoch=(\d+), fenced=(-?\d+)\b"
)
_RESIGNED = re.compile(rb"\bRenounc", re.IGNORECASE)


def let_go(logs: Iterable[bytes]) -> frozenset[int]:
    """Return the broker epochs of immediate shutdowns that were granted, by the logs of all
    controllers."""
    return frozenset(epoch for log in logs for epoch in _of(_OF_CONTROLLERS.findall(log)))


def _of(lines: list[bytes]) -> Iterator[int]:
    logs_changes = any(map(_CHANGED.search, lines))
    registered: dict[bytes, int] = {}
    for number, line in enumerate(lines):
        if found := _REGISTERED.search(line):
            registered[found[1]] = int(found[2])
        if not (granted := _GRANTED.search(line)):
            continue
        behind = lines[number + 1 : number + 1 + _AFTER]
        if logs_changes:
            yield from _fenced(granted[1], behind)
        elif granted[1] in registered and not any(map(_RESIGNED.search, behind)):
            yield registered[granted[1]]


def _fenced(broker: bytes, lines: list[bytes]) -> Iterator[int]:
    changes = (found for line in lines if (found := _CHANGED.search(line)))
    yield from (
        int(epoch)
        for who, epoch, fenced in (one.groups() for one in changes)
        if who == broker and fenced == b"1"
    )


def fenced_registrations(
    metadata: ClusterMetadata, controllers: Sequence[NodeServer]
) -> frozenset[int]:
    """Return the broker epochs of the brokers that the controllers have fenced because they did not
    hear from them. Raises ViewUnavailable."""
    fenced = metadata.read(lambda image, _: image.fenced_unasked)
    try:
        return fenced - let_go(server.log() for server in controllers)
    except (InfraError, FileNotFoundError) as error:
        raise ViewUnavailable(f"the logs of controllers cannot be read: {error}") from None


# --- servers ----------------------------------------------------------------------------------


_FORMAT = "kafka.tools.StorageTool"
_FORMAT_WITHIN_S = 60.0
_HEAP_MB = 384
_TOOL_HEAP_MB = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """The program of all servers.

    Attributes:
        jars: The jars of the ``release``.
        cluster_id: The id of the cluster; 22 characters (``Uuid.randomUuid``).
        security: The security of connections; None for connections in the clear.
    """

    release: Release
    jars: Artifact
    cluster_id: str
    security: ClusterSecurity | None = None

    def configure(self, node: Node, settings: Mapping[str, str]) -> Command:
        """Write the configuration of the server on ``node``, and return the command that starts
        it."""
        node.write(_config(node), server_properties(settings))
        start = self._java(node, _HEAP_MB, agent_of(self.release))
        return Command(name=node.name, argv=[*start, MAIN, str(_config(node))])

    def format(
        self,
        node: Node,
        directories: Sequence[PurePosixPath],
        *,
        votes: bool,
        quorum: Sequence[str] = (),
    ) -> None:
        """Format the log ``directories`` and the metadata log's, if all are as on a new machine.

        That is so before the first start, and after a broker was replaced. The server itself
        formats a single emptied directory. Raises DeploymentError.

        ``votes`` is whether the server is in the quorum. Its metadata log is then kept. It is
        beside the directories that were replaced, and a voter without it would elect a controller
        that lacks what the voter had confirmed. ``quorum`` are further arguments, of a controller
        whose quorum can be changed.
        """
        if any(map(node.entries, directories)):
            return
        if not votes:
            node.empty(metadata(node))
        arguments = ["format", f"--cluster-id={self.cluster_id}", f"--config={_config(node)}"]
        arguments += quorum
        process = node.start(
            Command(
                name="kafka-storage",
                argv=[*self._java(node, _TOOL_HEAP_MB), _FORMAT, *arguments, "--ignore-formatted"],
            )
        )
        status = process.wait(_FORMAT_WITHIN_S)
        if status != 0:
            log = node.read(node.log_directory / "kafka-storage.log").decode(errors="replace")
            raise DeploymentError(f"kafka-storage format on {node.name}: status {status}\n{log}")

    def _java(self, node: Node, heap_mb: int, agent: JavaAgent | None = None) -> list[str]:
        option = logging(self.release, node)
        own = java_options(self.security, node)
        start = java(node, heap_mb=heap_mb, logging=option, jars=self.jars, agent=agent)
        return [*start, *own]


def metadata(node: Node) -> PurePosixPath:
    """Return the directory of the metadata log (``metadata.log.dir``), beside the log directories.

    Those hold only replicas, and are collected whole. The index files of the metadata log have 10
    MB each, whatever is set.
    """
    return node.directory / "metadata"


def metadata_of(controller: Node, own: Sequence[Disk]) -> PurePosixPath:
    """Return the directory of the metadata log of a controller that is no broker."""
    return own[0].data if own else metadata(controller)


def _config(node: Node) -> PurePosixPath:
    return node.directory / "server.properties"


def _by_stage(release: Release, newer: Release | None) -> Mapping[Stage, Release]:
    if newer is None:
        return {Stage.BEFORE: release}
    return {Stage.BEFORE: release, Stage.AFTER: newer, Stage.FINAL: newer}


# --- the system -------------------------------------------------------------------------------


CONTROLLER_PORT = CONTROLLERS.port
_BROKER, _CONTROLLER = "broker", "controller"
_BOOTSTRAP = "controller.quorum.bootstrap.servers"
CONTROLLERS_UP_S = 60.0


class SystemOnKRaft(DeployedSystem):
    """An ``infra.api.interface.System`` with KRaft. Its controllers take the place of ZooKeeper's
    servers.

    Args:
        name: The name in campaigns.
        release: The release, deployed on nodes that have its jars (``infra.systems.artifacts``).
        newer: The release to which its servers can change; None for none.
        brokers: The number of brokers; ids from 1.
        controllers: The number of controllers; 1, or 3 and more for a quorum. Unless they are
            brokers, their ids begin behind :data:`infra.api.metadata.CONTROLLER_IDS`.
        combined: Whether the first brokers are the controllers.
        dynamic: Whether controllers can leave and join the quorum (KIP-853).
        properties: Kafka's properties, the same for every server. Those that identify a server and
            its address (``RESERVED``) raise ValueError.
        disks: The disks of the brokers' logs, of which a controller has one for its metadata log
            unless it is a broker; None for directories of their nodes.
        clocks: Whether every server uses a fake clock of its node.
        racks: The racks that brokers take in turn; none for those of ``properties``.
        security: The security of connections; None for connections in the clear.

    Raises InfraError if the jars are not here, or differ from the release.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        name: str,
        release: Release,
        newer: Release | None = None,
        brokers: int,
        controllers: int,
        combined: bool = False,
        dynamic: bool = False,
        properties: Mapping[str, str],
        disks: DiskPlan | None = None,
        clocks: bool = False,
        racks: Sequence[str] = (),
        security: ClusterSecurity | None = None,
    ) -> None:
        if taken := sorted(RESERVED.keys() & properties.keys()):
            raise ValueError(f"broker properties {', '.join(taken)}: set for each server")
        super().__init__(name, in_force(properties), disks, clocks=clocks, racks=racks)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        self._programs = {
            stage: ServerProgram(
                release=one, jars=jars_of(one), cluster_id=cluster_id, security=security
            )
            for stage, one in _by_stage(release, newer).items()
        }
        self._credentials = None if security is None else ClusterCredentials(security)
        self._settings: dict[str, Mapping[str, str]] = {}
        self._change = (
            None
            if newer is None
            else MetadataVersionChange(release, newer, self._by_name, self._started_by)
        )
        numbers = range(1, controllers + 1)
        first = {n: name_of(n) for n in numbers}
        apart = {CONTROLLER_IDS + n: f"controller-{n}" for n in numbers}
        places = {n: backend.node(name) for n, name in (first if combined else apart).items()}
        self._voters = {n: (place.address, CONTROLLER_PORT) for n, place in places.items()}
        self._first = {n: new_directory_id() for n in self._voters} if dynamic else {}
        self._tier = (
            RemoteTier(
                backend.node(remote_tier.NODE), remote_tier.class_path(release), min(3, brokers)
            )
            if needs_tier(properties)
            else None
        )
        self._make_brokers(backend, brokers)
        self._controllers = (
            self._brokers[:controllers]
            if combined
            else tuple(on_all(lambda n: self._controller(places[n], n), list(places)))
        )
        self._metadata = ClusterMetadata(
            {s.name: (s.id, self._voters[s.id]) for s in self._controllers},
            newer or release,
            connector({} if self._credentials is None else self._credentials.harness),
        )
        self._dynamic = (
            DynamicVoters(cluster_id, [self._voter(one) for one in self._controllers])
            if dynamic
            else None
        )

    @property
    def zookeepers(self) -> Sequence[Server]:
        return self._controllers

    @property
    def ensemble(self) -> Ensemble:
        return self._metadata.ensemble

    @property
    def certificates(self) -> BrokerCertificates | None:
        if self._credentials is None or self._credentials.security.tls is None:
            return None
        own = self._credentials
        return KafkaCertificates(own.certificates, self._by_name, self._admin, own.client)

    @property
    def remote_tier(self) -> RemoteTier | None:
        return self._tier

    @property
    def upgrade(self) -> Upgrade | None:
        return self._change

    @property
    def voters(self) -> Voters | None:
        return self._dynamic

    @property
    def connection(self) -> Mapping[str, str]:
        return {} if self._credentials is None else self._credentials.client

    @property
    def metadata_connect(self) -> tuple[str, str]:
        servers = ",".join(f"{host}:{port}" for host, port in self._voters.values())
        return _BOOTSTRAP, servers

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        return int(self._properties[SESSION])

    @property
    def replica_lag_time_max_ms(self) -> int:
        return int(self._properties["replica.lag.time.max.ms"])

    def deploy(self) -> None:
        on_all(NodeServer.start, self._controllers)
        others = [one for one in self._brokers if one.id not in self._voters]
        # Each is a JVM that takes seconds on a busy machine. Meanwhile the controllers start.
        on_all(
            lambda one: self._format(one.node, self.log_directories(one), votes=False),
            others,
        )
        await_all(self._controllers, self._serves, CONTROLLERS_UP_S, "is in the quorum")
        on_all(NodeServer.start, others)
        await_all(self._brokers, self._registered, BROKERS_UP_S, "is registered and not fenced")
        await_all(self._brokers, listens, BROKERS_UP_S, "accepts connections")
        if self._credentials is not None:
            admit(self._credentials, [(one.node.address, one.port) for one in self._brokers])

    def view(self) -> ClusterView:
        return self._metadata.view()

    def observer(
        self, on_change: Callable[[ClusterChange], None], clock: Callable[[], int]
    ) -> Observer:
        return self._metadata.observer(on_change, clock)

    def zookeeper_leader(self) -> Server | None:
        modes = self.ensemble.modes()
        return next((one for one in self._controllers if modes.get(one.name) == LEADER), None)

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        return ()

    def expired_sessions(self) -> frozenset[int]:
        return fenced_registrations(self._metadata, self._controllers)

    def close(self) -> None:
        stop_all(self._all_brokers(), STOP_GRACE_S)
        stop_all(self._controllers, STOP_GRACE_S)
        self._metadata.close()

    def _topic_config(self, topic: str) -> Mapping[str, str]:
        return self._metadata.read(lambda image, _: image.config(topic))

    def _make_admin(self) -> KafkaAdmin:
        if self._credentials is None:
            return super()._make_admin()
        own = self._credentials.harness
        return KafkaAdmin(self._all_brokers, self._topic_config, own, BROKERS.port)

    def _controller(self, node: Node, number: int) -> NodeServer:
        place = node.directory / "data"
        own = disks(node, None if self._disks is None else replace(self._disks, per_server=1))
        return NodeServer(
            node,
            number,
            CONTROLLER_PORT,
            self._configured(node, number, [_CONTROLLER], [place], metadata_of(node, own)),
            self._peer_ports(number),
            disks=own,
            clock=self._clock(node),
            knock=knock,
            before_start=lambda: self._format(
                node, [place], votes=True, quorum=self._founding(number)
            ),
        )

    def _voter(self, controller: NodeServer) -> Voter:
        kept = (metadata_of(controller.node, controller.disks), controller.node.directory / "data")
        return Voter(controller, CONTROLLERS.name, kept)

    def _founding(self, number: int) -> Sequence[str]:
        """Return how a controller is formatted: as one of the first voters, and later without
        voters, whom it then hears of from the others."""
        if not self._first:
            return ()
        if self._dynamic is not None and number in self._dynamic.emptied:
            return ("--no-initial-controllers",)
        voters = [f"{n}@{host}:{port}:{self._first[n]}" for n, (host, port) in self._voters.items()]
        return ("--initial-controllers", ",".join(voters))

    def _broker(self, node: Node, number: int) -> NodeServer:
        own = disks(node, self._disks)
        places = [disk.data for disk in own] or [node.directory / "data"]
        votes = number in self._voters
        roles = [_BROKER, _CONTROLLER] if votes else [_BROKER]
        return NodeServer(
            node,
            number,
            BROKER_PORT,
            self._configured(node, number, roles, places, metadata(node)),
            self._peer_ports(number),
            () if self._credentials is None else (BROKERS.port,),
            disks=own,
            clock=self._clock(node),
            knock=knock,
            before_start=lambda: self._format(node, places, votes=votes),
        )

    def _peer_ports(self, number: int) -> Sequence[int]:
        return (CONTROLLER_PORT,) if number in self._voters and len(self._voters) > 1 else ()

    def _configured(
        self,
        node: Node,
        number: int,
        roles: Sequence[str],
        places: Sequence[PurePosixPath],
        kept: PurePosixPath,
    ) -> Command:
        """Configure a server with log directories at ``places``, and its metadata log in ``kept``.
        Return the command that starts it."""
        voters = [f"{n}@{host}:{port}" for n, (host, port) in self._voters.items()]
        fixed = {"controller.quorum.voters": ",".join(voters)}
        of_broker = [PLAINTEXT] if self._credentials is None else [CLIENTS, BROKERS]
        by_role = {_BROKER: of_broker, _CONTROLLER: [CONTROLLERS]}
        listeners = [one for role in roles for one in by_role[role]]
        secured = self._credentials.secure(node, listeners) if self._credentials else {}
        own = {
            "process.roles": ",".join(roles),
            "node.id": str(number),
            **(dict([self.metadata_connect]) if self._first else fixed),
            "controller.listener.names": CONTROLLERS.name,
            "listeners": ",".join(one.at(node.address) for one in listeners),
            **secured,
            "log.dirs": ",".join(map(str, places)),
            "metadata.log.dir": str(kept),
            **(self._rack(node.name) if _BROKER in roles else {}),
            **(self._tier.settings(PLAINTEXT.name) if self._tier and _BROKER in roles else {}),
        }
        self._settings[node.name] = own | self._properties
        if self._change is not None:
            self._change.first_stage(node.name)
        return self._program(node.name).configure(node, self._settings[node.name])

    def _program(self, server: str) -> ServerProgram:
        return self._programs[Stage.BEFORE if self._change is None else self._change.stage(server)]

    def _started_by(self, server: NodeServer, stage: Stage) -> Command:
        return self._programs[stage].configure(server.node, self._settings[server.name])

    def _format(
        self,
        node: Node,
        directories: Sequence[PurePosixPath],
        *,
        votes: bool,
        quorum: Sequence[str] = (),
    ) -> None:
        self._program(node.name).format(node, directories, votes=votes, quorum=quorum)

    def _by_name(self) -> Mapping[str, NodeServer]:
        return {one.name: one for one in (*self._controllers, *self._all_brokers())}

    def _serves(self, controller: NodeServer) -> bool:
        return controller.name in self.ensemble.modes()
