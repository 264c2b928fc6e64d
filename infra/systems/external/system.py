"""An external cluster as a system under test: nothing is deployed, and nothing is left."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ConfigSource

from ackproof.infra.api.capabilities import Admin
from ackproof.infra.api.interface import (
    Backend,
    BrokerAdditions,
    ClusterView,
    DeploymentError,
    InfraError,
    NoBrokerAdditions,
    Server,
    ViewUnavailable,
    ZooKeeperCounters,
)
from ackproof.infra.api.metadata import ClusterChange, Ensemble, Observer
from ackproof.infra.machine.parallel import on_all
from ackproof.infra.machine.waiting import wait_until
from ackproof.infra.node.node import AgentNode
from ackproof.infra.systems.admin import KafkaAdmin, admin_client
from ackproof.infra.systems.external.description import DescribedCluster
from ackproof.infra.systems.external.journal import Journal
from ackproof.infra.systems.external.probes import ClusterDescription, ProbingObserver, pod_storage
from ackproof.infra.systems.external.restoration import undo
from ackproof.infra.systems.external.server import ExternalServer
from ackproof.infra.systems.kafka.releases import NEWEST_RECORDS, Release
from ackproof.infra.systems.observer import PollingObserver
from ackproof.infra.systems.product import EXTERNAL

if TYPE_CHECKING:
    from ackproof.infra.systems.kafka.kraft.metadata import ClusterMetadata

_EVERY_S = 0.2


def looking_observer(
    look: Callable[[], ClusterView],
    on_change: Callable[[ClusterChange], None],
    clock: Callable[[], int] = time.time_ns,
) -> PollingObserver:
    """Return an observer of the result of ``look``, which raises ViewUnavailable."""
    return PollingObserver(
        lambda report: report(look()),
        _EVERY_S,
        lambda change: on_change(_reported_change(change)),
        clock,
    )


def _reported_change(change: ClusterChange) -> ClusterChange:
    """Remove the values that a client does not get: a null in the history is no epoch."""
    return replace(change, leader_epoch=None, controller_epoch=None, version=None)


# --- orders -----------------------------------------------------------------------------------


_ANSWER_S = 5.0


class ExternalAdmin(KafkaAdmin):
    """An ``infra.api.capabilities.Admin`` of an external cluster.

    Args:
        connection: librdkafka's properties, with ``bootstrap.servers``.

    Attributes:
        journal: The journal; None before the cluster was examined. No order is given then.
    """

    def __init__(self, brokers: Sequence[Server], connection: Mapping[str, str]) -> None:
        super().__init__(lambda: brokers, lambda topic: own_settings(connection, topic), connection)
        self.journal: Journal | None = None
        self.made: list[str] = []
        """The topics that it has made, or was about to make."""

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        assert self.journal is not None
        self.journal.topic(topic)
        self.made.append(topic)
        super().create_topic(topic, assignment, within_s)


def own_settings(connection: Mapping[str, str], topic: str) -> Mapping[str, str]:
    """Return the settings of a topic itself, without those of its broker. Raises
    ViewUnavailable."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        with admin_client(connection) as client:
            asked = client.describe_configs([resource], request_timeout=_ANSWER_S)
            found = asked[resource].result()
    except KafkaException as failure:
        raise ViewUnavailable(f"{topic}: {failure.args[0].str()}") from failure
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    return {name: one.value for name, one in found.items() if one.source == own}


# --- system -----------------------------------------------------------------------------------


_OFFSETS_TOPIC = "__consumer_offsets"
_TRANSACTIONS_TOPIC = "__transaction_state"
_ANSWERS_WITHIN_S = 30.0
_GONE_WITHIN_S = 20.0


def metadata_of(
    described: DescribedCluster, keeps: Callable[[str], bool], cluster_id: str | None = None
) -> "ClusterMetadata":
    """Return the metadata of a cluster by its controllers. Topics that ``keeps`` refuses are not in
    it.

    Raises InfraError for a missing secret, or properties by which no connection is made.
    """
    # kio takes long to import (infra.systems.kafka.product).
    from ackproof.infra.systems.kafka.kraft.metadata import ClusterMetadata
    from ackproof.infra.systems.wire import connector

    controllers = described.controllers
    assert controllers is not None
    try:
        connect = connector(controllers.connection())
    except (ValueError, OSError) as error:
        raise InfraError(f"no connection to the controllers can be made: {error}") from error
    release = Release(version=controllers.release or NEWEST_RECORDS)
    return ClusterMetadata(described.quorum, release, connect, keeps, cluster_id)


_LEADS = "leader"
"""The mode of the active controller (:meth:`infra.api.metadata.Ensemble.modes`)."""


class UnknownEnsemble:
    """An ``infra.api.metadata.Ensemble`` without servers: clients do not learn who keeps the
    metadata."""

    ours: frozenset[int] = frozenset()

    def modes(self) -> Mapping[str, str]:
        return {}

    def end_session(self, session: int) -> bool:  # noqa: ARG002
        return False

    def occupy(self, broker: int) -> bool:  # noqa: ARG002
        return False

    def vacate(self, broker: int) -> None: ...


class ExternalSystem:
    """An ``infra.api.interface.System`` that the harness does not deploy.

    Args:
        connection: librdkafka's properties for a connection, with secrets.
        topics, groups: The topics and groups that the run will make. Topics must not exist yet.
        transactional: Whether its clients send in transactions. Their coordinators are then
            observed, too.
        journal: The file in which changes are noted.
        session_timeout_ms, replica_lag_ms: The values in force on the cluster, by the campaign.
        backend: The backend whose nodes are beside the brokers, if the description wants agents.
        run: The name of the run in the claims of the brokers' hosts.
    """

    name = EXTERNAL

    def __init__(
        self,
        described: DescribedCluster,
        connection: Mapping[str, str],
        *,
        topics: Sequence[str],
        groups: Sequence[str],
        transactional: bool = False,
        journal: Path,
        session_timeout_ms: int,
        replica_lag_ms: int,
        backend: Backend,
        run: str,
    ) -> None:
        self._backend, self._run = backend, run
        self._described = described
        self._topics = topics
        self._groups = groups
        self._internal = (
            (_OFFSETS_TOPIC, _TRANSACTIONS_TOPIC) if transactional else (_OFFSETS_TOPIC,)
        )
        self._path = journal
        self._journal: Journal | None = None
        self._connection = {**connection, "bootstrap.servers": described.bootstrap_servers}
        self._brokers = [
            ExternalServer(
                number,
                described.handles.get(number),
                self._connection,
                self._written,
                lambda: self._looking.cluster().brokers,
                run=run,
            )
            for number in described.brokers
        ]
        self._admin = ExternalAdmin(self._brokers, self._connection)
        self._looking = ProbingObserver(self._connection, self._all_topics)
        self._metadata = None if described.controllers is None else self._of_controllers()
        self._keepers = [] if self._metadata is None else self._servers_of(self._metadata)
        self.zookeeper_session_timeout_ms = session_timeout_ms
        self.replica_lag_time_max_ms = replica_lag_ms

    @property
    def brokers(self) -> Sequence[Server]:
        return self._brokers

    @property
    def removed(self) -> Sequence[Server]:
        return ()

    @property
    def added(self) -> BrokerAdditions[Server]:
        return NoBrokerAdditions("an external cluster is not deployed")

    @property
    def zookeepers(self) -> Sequence[Server]:
        """Return the controllers, as far as they are known."""
        return self._keepers

    @property
    def ensemble(self) -> Ensemble:
        return UnknownEnsemble() if self._metadata is None else self._metadata.ensemble

    @property
    def admin(self) -> Admin:
        return self._admin

    @property
    def voters(self) -> None:
        """Return None: the harness changes no voters of a cluster that it did not deploy."""

    @property
    def certificates(self) -> None:
        """Return None: the harness issues no certificates for a cluster that it did not deploy."""

    @property
    def remote_tier(self) -> None:
        """Return None: the harness does not come between brokers and the storage of their own."""

    @property
    def upgrade(self) -> None:
        """Return None: the harness does not exchange programs of a cluster that it did not
        deploy."""

    @property
    def bootstrap_servers(self) -> str:
        return self._described.bootstrap_servers

    @property
    def connection(self) -> Mapping[str, str]:
        return self._connection

    @property
    def metadata_connect(self) -> tuple[str, str]:
        return "bootstrap.servers", self.bootstrap_servers

    def deploy(self) -> None:
        """Check that all named brokers answer, and that none of the topics exists yet; begin the
        journal, and put agents beside the brokers if that is wanted.

        Nothing is deployed.
        """
        found = self._await_all()
        for server in self._brokers:
            server.at(*found.brokers[server.id])
        if there := self._looking.described(self._topics):
            names = ", ".join(sorted(there))
            raise DeploymentError(
                f"{names} already exists, and nothing shows that Ackproof created it"
            )
        journal = Journal.begin(self._path, self._described)
        for topic in self._topics:
            journal.topic(topic)
        for group in self._groups:
            journal.group(group)
        self._journal = self._admin.journal = journal
        self._examine_storage()
        if self._described.agent:
            journal.attached(self._run)
            on_all(lambda server: self._attach(server, found.cluster_id), self._attended)

    def _examine_storage(self) -> None:
        """Note of each broker in a pod the storage that is lost with it."""
        of_pods = {server.id: server.pod for server in self._brokers if server.pod is not None}
        if not of_pods:
            return
        pods = next(iter(of_pods.values())).pods
        for broker, storage in pod_storage(pods, self._connection, list(of_pods)).items():
            # A loss of one directory of several must not excuse what is lost from the others.
            if storage and all(one is not None and one.ends_with_pod for one in storage):
                words = dict.fromkeys(one.words for one in storage if one is not None)
                of_pods[broker].lost_storage = " and ".join(words)

    @property
    def _attended(self) -> Sequence[ExternalServer]:
        """Return the servers beside which the agent is put."""
        servers = {server.name: server for server in (*self._brokers, *self._keepers)}
        return [one for one in servers.values() if self._described.has_agent(one.id)]

    def _attach(self, server: ExternalServer, cluster_id: str) -> None:
        node = self._backend.node(server.name)
        assert isinstance(node, AgentNode)
        server.attach(node, cluster_id)

    def view(self) -> ClusterView:
        return self._looking.view() if self._metadata is None else self._metadata.view()

    def observer(
        self, on_change: Callable[[ClusterChange], None], clock: Callable[[], int]
    ) -> Observer:
        if self._metadata is not None:
            return self._metadata.observer(on_change, clock, from_now=True)
        # The observer has a client of its own: while it waits for a paused broker, no other request
        # waits.
        own = ProbingObserver(self._connection, self._all_topics)
        return looking_observer(own.view, on_change, clock)

    def zookeeper_leader(self) -> Server | None:
        modes = self.ensemble.modes()
        return next((one for one in self._keepers if modes.get(one.name) == _LEADS), None)

    def zookeeper_counters(self) -> Sequence[ZooKeeperCounters]:
        return ()

    def expired_sessions(self) -> frozenset[int]:
        """Return the registrations that the controllers have fenced without being asked.

        Those that a controller let go at once, by its log, are among them.
        """
        if self._metadata is None:
            return frozenset()
        return self._metadata.read(lambda image, _: image.fenced_unasked)

    def log_directories(self, broker: Server) -> Sequence[PurePosixPath]:
        return self._brokers[self._described.brokers.index(broker.id)].log_directories

    def close(self) -> None:
        """Remove the agents, bring back what is down, and delete what was made. Raises
        InfraError."""
        if self._metadata is not None:
            self._metadata.close()
        if self._journal is None:
            return
        if self._described.agent:
            on_all(lambda server: self._backend.remove(server.name), self._attended)
            self._journal.detached()
        undo(self._journal, lambda _line: None, _GONE_WITHIN_S)

    def _servers_of(self, metadata: "ClusterMetadata") -> list[ExternalServer]:
        """Return the controllers. One that is also a broker is that server."""
        brokers = {server.name: server for server in self._brokers}
        found = []
        for name, (number, address) in self._described.quorum.items():
            if (server := brokers.get(name)) is None:
                handle = self._described.handles.get(number)
                probe = partial(metadata.ensemble.answers, name)
                server = ExternalServer(
                    number, handle, self._connection, self._written, probe=probe
                )
                server.at(*address)
            found.append(server)
        return found

    def _of_controllers(self) -> "ClusterMetadata":
        return metadata_of(self._described, lambda topic: topic in self._all_topics())

    def _await_all(self) -> ClusterDescription:
        """Return the cluster once all brokers are in it. Raises DeploymentError."""
        addresses: dict[int, tuple[str, int]] = {}
        silence, cluster_id = ["no broker answers"], [""]

        def there() -> bool:
            try:
                found = self._looking.cluster()
                cluster_id[0] = found.cluster_id
                addresses.update(found.brokers)
            except ViewUnavailable as reason:
                silence[0] = str(reason)
            return all(server.id in addresses for server in self._brokers)

        try:
            wait_until(there, _ANSWERS_WITHIN_S, "all brokers", interval=0.5)
        except TimeoutError as error:
            found = ", ".join(map(str, sorted(addresses))) or silence[0]
            wanted = ", ".join(str(server.id) for server in self._brokers)
            raise DeploymentError(
                f"the campaign names the brokers {wanted}, but {self.bootstrap_servers} has {found}"
            ) from error
        return ClusterDescription(cluster_id=cluster_id[0], brokers=addresses)

    def _all_topics(self) -> Sequence[str]:
        return [*self._topics, *self._admin.made, *self._internal]

    def _written(self) -> Journal:
        assert self._journal is not None
        return self._journal
