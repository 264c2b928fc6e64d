"""The migration of a cluster of Apache Kafka from ZooKeeper to KRaft (KIP-866), server by server,
and the way back.

The cluster is deployed with ZooKeeper. Beside it are KRaft's controllers, which wait for the
brokers (Kafka's step "Provisioning the KRaft controller quorum"). Faults then change the servers:

1. Brokers are restarted in migration mode, ``zookeeper.metadata.migration.enable``. When all have
   it, the controllers copy the metadata and take over. They also write to ZooKeeper (dual-write).
2. Brokers are restarted as brokers of KRaft, without ZooKeeper.
3. Controllers are restarted without migration mode: the migration is final.

The state of the migration is in the metadata log (``ZkMigrationStateRecord``). Until it is
MIGRATION, ZooKeeper has the truth about leaders and ISRs, and afterwards the metadata log.

Before the third step there is a way back (Kafka 3.9, "Reverting to ZooKeeper mode During the
Migration"):

1. Brokers of KRaft are restarted with ZooKeeper, still in migration mode.
2. The controllers are stopped for good. ``/controller`` and ``/migration`` are deleted, and a
   broker becomes controller. ZooKeeper has the truth again.
3. Brokers are restarted without migration mode.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import PurePosixPath
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.interfaces import IAsyncResult

from ackproof.infra.api.capabilities import (
    DiskPlan,
    MigrationState,
    Stage,
    UpgradeRefused,
    ZooKeeperTraces,
)
from ackproof.infra.api.interface import (
    Backend,
    ClusterView,
    Command,
    Node,
    PartitionView,
    Server,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.api.metadata import CONTROLLER_IDS, ClusterChange, Ensemble, Observer
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.systems.deployment import STOP_GRACE_S, await_all, disks, name_of
from ackproof.infra.systems.kafka.jars import jars_of
from ackproof.infra.systems.kafka.kraft.image import Image
from ackproof.infra.systems.kafka.kraft.log import LEADER, MetadataLog, Quorum, ReadingOrigin
from ackproof.infra.systems.kafka.kraft.metadata import ClusterMetadata
from ackproof.infra.systems.kafka.kraft.properties import (
    CONTROLLERS,
    OF_ZOOKEEPER,
    PLAINTEXT,
    SESSION,
    in_force,
)
from ackproof.infra.systems.kafka.kraft.system import (
    CONTROLLERS_UP_S,
    ServerProgram,
    fenced_registrations,
    metadata,
    metadata_of,
)
from ackproof.infra.systems.kafka.programs import knock
from ackproof.infra.systems.kafka.releases import Release
from ackproof.infra.systems.kafka.upgrades import PROTOCOL, ServerChange
from ackproof.infra.systems.observer import PollingObserver, Report
from ackproof.infra.systems.on_zookeeper import Program, ProgramChange, SystemOnZooKeeper
from ackproof.infra.systems.properties import KnownProperties
from ackproof.infra.systems.server import NodeServer, stop_all
from ackproof.infra.systems.view import CONTROLLER, CONTROLLER_EPOCH, znode
from ackproof.infra.systems.zookeeper import ZooKeeperEnsemble

_WITHIN_S = 2.0
_EVERY_S = 0.1
_TAKEN_OVER = (MigrationState.MIGRATION, MigrationState.POST_MIGRATION)
"""The states in which KRaft's controllers decide."""

# --- what the controllers write to ZooKeeper ------------------------------------------------------

_MIGRATION = "/migration"


class MigrationZnodes:
    """The znodes by which brokers and KRaft's controllers take turns.

    All methods raise ViewUnavailable.

    Args:
        client: Returns a client of ZooKeeper.
        view: Returns the view by ZooKeeper.
    """

    def __init__(self, client: Callable[[], KazooClient], view: Callable[[], ClusterView]) -> None:
        self._client = client
        self.view = view

    def controller(self) -> int | None:
        """Return the id in ``/controller``; None while there is none."""
        found = znode(self._client(), CONTROLLER, _WITHIN_S)
        return None if found is None else int(found["brokerid"])

    def traces(self) -> ZooKeeperTraces:
        client, view = self._client(), self.view()
        controller = znode(client, CONTROLLER, _WITHIN_S) or {}
        # A broker that is controller writes -1.
        epochs = [one.controller_epoch for one in view.partitions.values()]
        return ZooKeeperTraces(
            controller=int(controller["brokerid"]) if controller else None,
            migration=self._content(_MIGRATION),
            epoch=view.controller_epoch,
            newest_epoch=max([int(controller.get("kraftControllerEpoch", -1)), *epochs]),
        )

    def clear(self, *, raises_epoch: bool) -> None:
        """Delete what controllers of KRaft have left (``Migration.clear_traces``).

        ``/migration`` would keep a later migration from copying the metadata (KAFKA-17146).
        """
        client, traces = self._client(), self.traces()
        if raises_epoch and traces.epoch < traces.newest_epoch:
            epoch = str(traces.newest_epoch).encode()
            _answer(client, CONTROLLER_EPOCH, client.set_async(CONTROLLER_EPOCH, epoch))
        # A broker that is controller waits until the other's znode is gone.
        if traces.controller is not None and _is_of_kraft(traces.controller):
            _answer(client, CONTROLLER, client.delete_async(CONTROLLER))
        if traces.migration is not None:
            _answer(client, _MIGRATION, client.delete_async(_MIGRATION))

    def _content(self, path: str) -> str | None:
        found = znode(self._client(), path, _WITHIN_S)
        return None if found is None else json.dumps(found)


def _is_of_kraft(controller: int) -> bool:
    return controller > CONTROLLER_IDS


def _answer(client: KazooClient, path: str, asked: IAsyncResult) -> None:
    """Wait for ZooKeeper's answer. An absent znode is fine. Raises ViewUnavailable."""
    try:
        asked.get(timeout=_WITHIN_S)
    except NoNodeError:
        return
    except (KazooException, client.handler.timeout_exception) as error:
        raise ViewUnavailable(f"the znode {path}: {error!r}") from error


# --- servers and their modes ----------------------------------------------------------------------

_ENABLE = "zookeeper.metadata.migration.enable"
_ROLES_IN_LOG = re.compile(rb"\bprocess\.roles = \[(.*?)\]")
_ENABLED_IN_LOG = re.compile(rb"\bzookeeper\.metadata\.migration\.enable = (true|false)")
_ON_ZOOKEEPER, _STARTED = b"[ZooKeeperClient KRaft Migration]", b"Kafka Server started"
"""The lines of a controller that starts in migration mode, and of any server that has started."""
_MODES = {
    Stage.BEFORE: "ZooKeeper",
    Stage.MIGRATING: "migration mode",
    Stage.KRAFT: "KRaft",
    Stage.RETURNING: "migration mode",
}

Read = Callable[[Callable[[Image, ReadingOrigin], Any]], Any]
"""A function that returns what its argument returns for the present state of the metadata log.
Raises ViewUnavailable."""


class KRaftMigration(ServerChange):
    """An ``infra.api.capabilities.Migration`` of Apache Kafka.

    Args:
        controllers: The names of KRaft's controllers, which begin in migration mode.
        servers: Returns all servers that change, by name.
        command: Configures a server for a stage, and returns the command that starts it.
        read: Reads the metadata log.
        znodes: What the controllers write to ZooKeeper.

    Attributes:
        controllers_removed: Whether the way back has begun to remove the controllers.
    """

    def __init__(
        self,
        controllers: Sequence[str],
        servers: Callable[[], Mapping[str, NodeServer]],
        command: Callable[[NodeServer, Stage], Command],
        read: Read,
        znodes: MigrationZnodes,
    ) -> None:
        super().__init__(_MODES, servers, command)
        self._controllers = controllers
        self._stages.update(dict.fromkeys(controllers, Stage.MIGRATING))
        self._read = read
        self._znodes = znodes
        self.controllers_removed = False

    def reported(self, server: str) -> str | None:
        """Return the mode in which a server has started.

        A broker logs its configuration. A controller of 3.9 does not, but names its session with
        ZooKeeper before it has started.
        """
        said = self._said(server)
        if server in self._controllers:
            if _ON_ZOOKEEPER in said:
                return _MODES[Stage.MIGRATING]
            return _MODES[Stage.KRAFT] if _STARTED in said else None
        roles, enabled = _ROLES_IN_LOG.findall(said), _ENABLED_IN_LOG.findall(said)
        if not roles or not enabled:
            return None
        if enabled[-1] == b"true":
            return _MODES[Stage.MIGRATING]
        return _MODES[Stage.KRAFT if roles[-1] else Stage.BEFORE]

    def obstacle(self, server: str, stage: Stage) -> str | None:
        if stage not in self.versions:
            return "the servers have one release, and can only migrate to KRaft"
        if stage is Stage.MIGRATING:
            return None
        if stage is Stage.RETURNING:
            return self._finality()
        try:
            if stage is Stage.BEFORE:
                return self._tie_to_controllers(server)
            state = self.state()
        except ViewUnavailable as silence:
            return str(silence)
        if state not in _TAKEN_OVER:
            return f"{server} cannot leave ZooKeeper: the migration is in {state}, not in MIGRATION"
        left = [one for one in self._brokers() if self.stage(one) is not Stage.KRAFT]
        if server in self._controllers and left:
            return f"the migration cannot be final: {', '.join(left)} still needs ZooKeeper"
        return None

    def _finality(self) -> str | None:
        """Return that the migration is final, or may be, for any controller; None if it is not."""
        if Stage.KRAFT in map(self.stage, self._controllers):
            return "the migration is final, and Kafka does not go back from there"
        return None

    def _tie_to_controllers(self, broker: str) -> str | None:
        """Return why a broker cannot leave migration mode now; None if it can. Raises
        ViewUnavailable."""
        if not self.controllers_removed:
            if (state := self.state()) not in _TAKEN_OVER:
                return None
            decide = f"the migration is in {state}, and the controllers decide; remove them first"
            return f"{broker} cannot leave migration mode: {self._finality() or decide}"
        controller = self._znodes.controller()
        if controller is not None and _is_of_kraft(controller):
            return f"{broker} cannot leave migration mode: {CONTROLLER} still names {controller}"
        return None

    def finalize(self, timeout_s: float) -> None:  # noqa: ARG002
        raise UpgradeRefused("the controllers are restarted without migration mode")

    def finality(self, broker: str) -> tuple[bool, str]:  # noqa: ARG002
        state = self.state()
        return state is MigrationState.POST_MIGRATION, state

    @property
    def may_have_begun(self) -> bool:
        return all(self.stage(one) is not Stage.BEFORE for one in self._brokers())

    def state(self) -> MigrationState:
        state: MigrationState = self._read(lambda image, _: image.migration)
        return state

    def controller_in_zookeeper(self) -> int | None:
        return self._znodes.controller()

    def in_kraft_mode(self) -> frozenset[int]:
        brokers: frozenset[int] = self._read(lambda image, _: image.in_kraft_mode)
        return brokers

    def removal_obstacle(self) -> str | None:
        left = [one for one in self._brokers() if self.stage(one) is Stage.KRAFT]
        if left:
            return self._finality() or f"{', '.join(left)} has no ZooKeeper, and needs them"
        return None

    def behind(self) -> Sequence[str]:
        log = self._read(lambda image, _: image.migration in _TAKEN_OVER and image.view(None, 0))
        if not log:
            return ()
        there = self._znodes.view().partitions
        return [
            f"{topic}-{number} {_leadership(there.get((topic, number)))} in ZooKeeper, "
            f"{_leadership(one)} in the metadata log"
            for (topic, number), one in sorted(log.partitions.items())
            if _leadership(there.get((topic, number))) != _leadership(one)
        ]

    def remove_controllers(self) -> None:
        self.controllers_removed = True

    def traces(self) -> ZooKeeperTraces:
        return self._znodes.traces()

    def clear_traces(self, *, raises_epoch: bool) -> None:
        self._znodes.clear(raises_epoch=raises_epoch)

    def _brokers(self) -> Sequence[str]:
        return sorted(self._servers().keys() - set(self._controllers))


def _leadership(partition: PartitionView | None) -> str:
    if partition is None:
        return "is absent"
    isr = sorted(partition.isr)
    return f"has leader {partition.leader} of epoch {partition.leader_epoch}, ISR {isr}"


# --- observation ----------------------------------------------------------------------------------


_DISTANCE = 2
"""The smallest difference of versions that are no neighbors."""


class MigrationObserver(PollingObserver):
    """An observer of ZooKeeper, and of the metadata log from the moment on in which it decides.

    From the moment on in which the last broker is being restarted in migration mode, both are
    needed: without an answer of the controllers, it is unknown which of them decides. Between the
    last reading of one and the first of the other is a gap.

    The gap of the way back begins when the controllers are being removed, and ends when ZooKeeper
    names a broker as controller. The version of a znode is then another number than the partition
    epoch that the metadata log had. A distance keeps the two from being taken for neighbors.

    Args:
        in_zookeeper: Returns the view by ZooKeeper. Raises ViewUnavailable.
        log: The metadata log, which has no other user.
        may_have_begun: Returns whether the metadata log may decide by now.
        is_removed: Returns whether the controllers were removed, or are being removed.
        on_change, clock: See :class:`PollingObserver`.
    """

    def __init__(
        self,
        in_zookeeper: Callable[[], ClusterView],
        log: MetadataLog,
        may_have_begun: Callable[[], bool],
        is_removed: Callable[[], bool],
        on_change: Callable[[ClusterChange], None],
        clock: Callable[[], int],
    ) -> None:
        super().__init__(self._both, _EVERY_S, on_change, clock, log.close)
        self._in_zookeeper = in_zookeeper
        self._log = log
        self._may_have_begun = may_have_begun
        self._is_removed = is_removed
        self._taken_over = False
        self._has_returned = False
        self._newest_version = 0
        """The newest partition epoch that the metadata log had."""

    def _both(self, report: Report) -> None:
        if self._is_removed():
            self._returned(report)
            return
        if self._may_have_begun():
            self._log.read(_WITHIN_S, partial(self._on_part, report))
        if not self._taken_over:
            report(self._in_zookeeper())

    def _on_part(self, report: Report, image: Image, moment: ReadingOrigin) -> None:
        if image.migration not in _TAKEN_OVER:
            return
        view = image.view(moment.controller, moment.epoch)
        versions = [one.version or 0 for one in view.partitions.values()]
        self._newest_version = max([self._newest_version, *versions])
        if self._taken_over:
            report(view)
        else:
            self._taken_over = True
            self.change_source(view)

    def _returned(self, report: Report) -> None:
        """Report the view by ZooKeeper after the way back. Raises ViewUnavailable before."""
        view = self._in_zookeeper()
        if not self._taken_over:
            report(view)
            return
        if view.controller is None or _is_of_kraft(view.controller):
            raise ViewUnavailable("no broker is controller yet")
        distant = replace(
            view,
            partitions={
                key: replace(one, version=(one.version or 0) + self._newest_version + _DISTANCE)
                for key, one in view.partitions.items()
            },
        )
        if self._has_returned:
            report(distant)
        else:
            self._has_returned = True
            self.change_source(distant)


class _BothEnsembles:
    """An ``infra.api.metadata.Ensemble`` of ZooKeeper's servers and KRaft's controllers. The
    operations on sessions are ZooKeeper's."""

    def __init__(self, zookeeper: ZooKeeperEnsemble, quorum: Quorum) -> None:
        self._zookeeper = zookeeper
        self._quorum = quorum

    @property
    def ours(self) -> frozenset[int]:
        return self._zookeeper.ours

    def modes(self) -> Mapping[str, str]:
        return {**self._zookeeper.modes(), **self._quorum.modes()}

    def end_session(self, session: int) -> bool:
        return self._zookeeper.end_session(session)

    def occupy(self, broker: int) -> bool:
        return self._zookeeper.occupy(broker)

    def vacate(self, broker: int) -> None:
        self._zookeeper.vacate(broker)


# --- the system -----------------------------------------------------------------------------------

_CLUSTER_ID = "/cluster/id"
_NOT_WITH_KRAFT = frozenset({"broker.id", PROTOCOL})


class MigratingSystem(SystemOnZooKeeper):
    """An ``infra.api.interface.System`` with ZooKeeper, and controllers to which it can migrate.

    Args:
        release: The release, deployed on nodes that have its jars.
        keepers: The number of ZooKeeper's servers, and that of the controllers.
        program, name, brokers, properties, disks, clocks, racks, known: See the base.

    Raises InfraError if the jars are not here, or differ from the release.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        name: str,
        release: Release,
        program: Program,
        brokers: int,
        keepers: int,
        properties: Mapping[str, str],
        disks: DiskPlan | None = None,
        clocks: bool = False,
        racks: Sequence[str] = (),
        known: KnownProperties | None = None,
    ) -> None:
        numbers = range(1, keepers + 1)
        places = {CONTROLLER_IDS + n: backend.node(f"controller-{n}") for n in numbers}
        self._voters = {n: (place.address, CONTROLLERS.port) for n, place in places.items()}
        self._metadata = ClusterMetadata(
            {place.name: (n, self._voters[n]) for n, place in places.items()}, release
        )
        self._kraft = ServerProgram(release=release, jars=jars_of(release), cluster_id="")
        self._migration = KRaftMigration(
            [place.name for place in places.values()],
            self._by_name,
            self._configured,
            self._metadata.read,
            MigrationZnodes(self._zookeeper, self._in_zookeeper),
        )
        self._taken_over = False
        self._fenced: frozenset[int] = frozenset()
        """The registrations that the controllers had fenced when they were last asked."""
        session = {OF_ZOOKEEPER: properties[OF_ZOOKEEPER]} if OF_ZOOKEEPER in properties else {}
        super().__init__(
            backend,
            name=name,
            program=program,
            brokers=brokers,
            zookeepers=keepers,
            properties={**in_force(properties), **session},
            disks=disks,
            clocks=clocks,
            racks=racks,
            known=known,
            change=ProgramChange(
                commands=dict.fromkeys(Stage, program.command),
                properties={stage: {} for stage in Stage},
                upgrade=lambda *_: self._migration,
            ),
        )
        self._controllers = tuple(on_all(lambda n: self._controller(places[n], n), list(places)))

    @property
    def zookeepers(self) -> Sequence[Server]:
        return (*self._zookeepers, *(() if self.removed else self._controllers))

    @property
    def removed(self) -> Sequence[Server]:
        return self._controllers if self._migration.controllers_removed else ()

    @property
    def ensemble(self) -> Ensemble:
        if self.removed:
            return self._ensemble
        return _BothEnsembles(self._ensemble, self._metadata.ensemble)

    @property
    def zookeeper_session_timeout_ms(self) -> int:
        """Return the longer one of ZooKeeper's and KRaft's."""
        return max(super().zookeeper_session_timeout_ms, int(self._properties[SESSION]))

    def deploy(self) -> None:
        super().deploy()
        on_all(NodeServer.start, self._controllers)
        await_all(self._controllers, self._serves, CONTROLLERS_UP_S, "is in the quorum")
        await_all(
            self._controllers[:1],
            lambda _: self._is_ready(),
            CONTROLLERS_UP_S,
            "waits for the brokers (PRE_MIGRATION)",
        )

    def view(self) -> ClusterView:
        if self._has_taken_over():
            return self._metadata.view()
        view = super().view()
        # Until a broker is controller, ZooKeeper may name a controller that was removed.
        is_gone = self.removed and view.controller is not None and _is_of_kraft(view.controller)
        return replace(view, controller=None) if is_gone else view

    def observer(
        self, on_change: Callable[[ClusterChange], None], clock: Callable[[], int]
    ) -> Observer:
        return MigrationObserver(
            self._in_zookeeper,
            self._metadata.opened(),
            lambda: self._migration.may_have_begun,
            lambda: self._migration.controllers_removed,
            on_change,
            clock,
        )

    def zookeeper_leader(self) -> Server | None:
        """Return the active controller of KRaft, while there are controllers."""
        if self.removed:
            return super().zookeeper_leader()
        modes = self._metadata.ensemble.modes()
        return next((one for one in self._controllers if modes.get(one.name) == LEADER), None)

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        return ()

    def expired_sessions(self) -> frozenset[int]:
        expired = super().expired_sessions()
        if self._has_taken_over():
            self._fenced = fenced_registrations(self._metadata, self._controllers)
        return expired | self._fenced

    def close(self) -> None:
        stop_all(self._all_brokers(), STOP_GRACE_S)
        stop_all(self._controllers, STOP_GRACE_S)
        super().close()
        self._metadata.close()

    def _has_taken_over(self) -> bool:
        """Return whether KRaft's controllers decide. Raises ViewUnavailable."""
        if self.removed:
            return False
        if not self._taken_over and self._migration.may_have_begun:
            self._taken_over = self._migration.state() in _TAKEN_OVER
        return self._taken_over

    def _topic_config(self, topic: str) -> Mapping[str, str]:
        if self._has_taken_over():
            return self._metadata.read(lambda image, _: image.config(topic))
        return super()._topic_config(topic)

    @cached_property
    def _cluster_id(self) -> str:
        """The id of the cluster, which its first broker has written to ZooKeeper."""
        found = znode(self._zookeeper(), _CLUSTER_ID, _WITHIN_S)
        if found is None:
            raise ViewUnavailable(f"ZooKeeper has no {_CLUSTER_ID}")
        return str(found["id"])

    def _controller(self, node: Node, number: int) -> NodeServer:
        controller = NodeServer(
            node,
            number,
            CONTROLLERS.port,
            Command(name=node.name, argv=()),
            (CONTROLLERS.port,) if len(self._voters) > 1 else (),
            disks=disks(node, None if self._disks is None else replace(self._disks, per_server=1)),
            clock=self._clock(node),
            knock=knock,
            before_start=lambda: self._format(node, [node.directory / "data"], votes=True),
        )
        controller.use(self._configured(controller, self._migration.first_stage(node.name)))
        return controller

    def _format(self, node: Node, directories: Sequence[PurePosixPath], *, votes: bool) -> None:
        program = replace(self._kraft, cluster_id=self._cluster_id)
        program.format(node, directories, votes=votes)

    def _before_start(self, broker_id: int) -> None:
        broker = self._by_name()[name_of(broker_id)]
        if self._migration.stage(broker.name) is Stage.KRAFT:
            self._format(broker.node, self.log_directories(broker), votes=False)
        else:
            super()._before_start(broker_id)

    def _configured(self, broker: NodeServer, stage: Stage) -> Command:
        if broker.id in self._voters:
            return self._kraft.configure(broker.node, self._controller_settings(broker, stage))
        return super()._configured(broker, stage)

    def _settings(self, broker: NodeServer, stage: Stage) -> Mapping[str, str]:
        settings = super()._settings(broker, stage)
        if stage is Stage.BEFORE:
            return settings
        kraft = {**self._quorum, "metadata.log.dir": str(metadata(broker.node))}
        if stage is not Stage.KRAFT:
            return {**settings, **kraft, _ENABLE: "true"}
        roles = {"process.roles": "broker", "node.id": str(broker.id)}
        return {**_without_zookeeper(settings), **kraft, **roles}

    def _controller_settings(self, controller: NodeServer, stage: Stage) -> Mapping[str, str]:
        node = controller.node
        settings = {
            **_without_zookeeper(self._properties),
            **self._quorum,
            "process.roles": "controller",
            "node.id": str(controller.id),
            "listeners": CONTROLLERS.at(node.address),
            "log.dirs": str(node.directory / "data"),
            "metadata.log.dir": str(metadata_of(node, controller.disks)),
        }
        if stage is not Stage.MIGRATING:
            return settings
        return {
            **settings,
            _ENABLE: "true",
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": self._properties["zookeeper.session.timeout.ms"],
            "inter.broker.listener.name": PLAINTEXT.name,
        }

    @property
    def _quorum(self) -> Mapping[str, str]:
        """The properties of the quorum, for every server that knows it."""
        voters = [f"{n}@{host}:{port}" for n, (host, port) in self._voters.items()]
        names = (PLAINTEXT.name, CONTROLLERS.name)
        return {
            "controller.quorum.voters": ",".join(voters),
            "controller.listener.names": CONTROLLERS.name,
            "listener.security.protocol.map": ",".join(f"{one}:PLAINTEXT" for one in names),
        }

    def _by_name(self) -> Mapping[str, NodeServer]:
        return {**{one.name: one for one in self._controllers}, **super()._by_name()}

    def _serves(self, controller: NodeServer) -> bool:
        return controller.name in self._metadata.ensemble.modes()

    def _is_ready(self) -> bool:
        try:
            return self._migration.state() is MigrationState.PRE_MIGRATION
        except ViewUnavailable:
            return False


def _without_zookeeper(settings: Mapping[str, str]) -> Mapping[str, str]:
    """Return properties without those of brokers on ZooKeeper."""
    return {
        name: value
        for name, value in settings.items()
        if name not in _NOT_WITH_KRAFT and not name.startswith("zookeeper.")
    }
