"""Probes of an external cluster: its metadata, its configuration, and whether a broker answers."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable
from ackproof.infra.backends.kubernetes.broker_pods import BrokerPods, PodStorage, passing_storage
from ackproof.infra.systems.admin import admin_client
from ackproof.infra.systems.external.description import DescribedCluster

T = TypeVar("T")

UNTOLD = -1
"""A leader epoch that clients do not get."""

_ANSWER_S = 1.5
_SLACK_S = 1.0
_NO_LEADER = -1
_QUIET: Mapping[str, str | int] = {
    "log_level": 0,
    # A paused broker is given up with the first request that it does not answer, so that the next
    # request goes to another.
    "socket.timeout.ms": int(_ANSWER_S * 1000),
    "reconnect.backoff.max.ms": 1_000,
}
_SESSION = 0
"""The session of a registration, of which clients get none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The cluster by a broker's answer. ``brokers`` has the host and port of each, and ``racks``
    the rack of each that is in one."""

    cluster_id: str
    brokers: Mapping[int, tuple[str, int]]
    racks: Mapping[int, str] = field(default_factory=dict)


class ProbingObserver:
    """An observer of a cluster by requests. Thread-safe.

    Args:
        connection: librdkafka's properties, with ``bootstrap.servers``.
        topics: Returns which topics to look at; called each time.
    """

    def __init__(
        self, connection: Mapping[str, str], topics: Callable[[], Sequence[str]] = tuple
    ) -> None:
        self._connection = connection
        self._topics = topics
        self._lock = threading.Lock()
        self._client: AdminClient | None = None
        self._former: list[AdminClient] = []
        """Given up, but perhaps still asked by another thread. They are kept so that no thread of
        librdkafka frees them, which would end this process (confluent-kafka 2.16)."""

    def cluster(self, within_s: float = _ANSWER_S) -> ClusterDescription:
        """Return the cluster. Raises ViewUnavailable without an answer.

        All these methods raise InfraError without a connection.
        """

        def asked(client: AdminClient) -> Any:
            return _answer(client.describe_cluster(request_timeout=within_s), within_s)

        answer = self._ask(asked)
        return ClusterDescription(
            cluster_id=answer.cluster_id or "",
            brokers={node.id: (node.host, node.port) for node in answer.nodes},
            racks={node.id: node.rack for node in answer.nodes if node.rack},
        )

    def view(self) -> ClusterView:
        """Return the registered brokers and the partitions of the topics that exist.

        Raises ViewUnavailable.
        """
        return self._ask(self._view)

    def described(self, topics: Sequence[str]) -> Mapping[str, Sequence[PartitionView]]:
        """Return those of ``topics`` that exist, with their partitions. Raises ViewUnavailable."""
        return self._ask(lambda client: _topics(client, topics))

    def _view(self, client: AdminClient) -> ClusterView:
        cluster = client.describe_cluster(request_timeout=_ANSWER_S)
        topics = _topics(client, self._topics())
        answer = _answer(cluster, _ANSWER_S)
        return ClusterView(
            brokers={node.id: _SESSION for node in answer.nodes},
            controller=None,
            controller_epoch=0,
            partitions={(p.topic, p.partition): p for one in topics.values() for p in one},
        )

    def _ask(self, question: Callable[[AdminClient], T]) -> T:
        with self._lock:
            if self._client is None:
                self._client = admin_client({**self._connection, **_QUIET})
            client = self._client
        try:
            return question(client)
        except ViewUnavailable:
            # These requests go to the controller. A client whose controller has died asks it for
            # minutes, until its metadata are old enough to be refreshed.
            with self._lock:
                if self._client is client:
                    self._client = None
                    self._former.append(client)
            raise


def answers(connection: Mapping[str, str], address: tuple[str, int]) -> bool:
    """Return whether the broker at this address answers a request.

    The request comes from a new client, which knows no other broker yet.
    """
    host, port = address
    try:
        one = {**connection, **_QUIET, "bootstrap.servers": f"{host}:{port}"}
        with AdminClient(one) as client:
            client.list_topics(timeout=_ANSWER_S)
    except KafkaException:
        return False
    return True


def _topics(client: AdminClient, topics: Sequence[str]) -> Mapping[str, Sequence[PartitionView]]:
    if not topics:
        return {}
    asked = client.describe_topics(TopicCollection(list(topics)), request_timeout=_ANSWER_S)
    found = {}
    for topic, future in asked.items():
        try:
            found[topic] = list(_partitions(topic, _answer(future, _ANSWER_S)))
        except _NoSuchTopic:
            continue
    return found


class _NoSuchTopic(Exception):
    """The cluster knows no such topic."""


def _answer(future: "Future[Any]", within_s: float) -> Any:
    try:
        return future.result(within_s + _SLACK_S)
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _NoSuchTopic from None
        raise ViewUnavailable(f"{error.name()}: {error.str()}") from failure
    except Late as late:
        raise ViewUnavailable(f"no answer within {within_s + _SLACK_S:g} s") from late


def _partitions(topic: str, metadata: Any) -> Iterator[PartitionView]:
    for one in metadata.partitions:
        yield PartitionView(
            topic=topic,
            partition=one.id,
            leader=_NO_LEADER if one.leader is None else one.leader.id,
            isr=tuple(node.id for node in one.isr),
            replicas=tuple(node.id for node in one.replicas),
            leader_epoch=UNTOLD,
            controller_epoch=0,
        )


# --- survey -----------------------------------------------------------------------------------


_WITHIN_S = 15.0
_SURVEY_ANSWER_S = 5.0
_LAG = "replica.lag.time.max.ms"
CLEANUP = "log.cleanup.policy"
_BY_ROLES = {True: "broker.session.timeout.ms", False: "zookeeper.session.timeout.ms"}
_ROLES = "process.roles"
"""The property that is set only with KRaft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedCluster:
    """The facts about a cluster.

    Attributes:
        in_force: The settings from which waits are derived, and the cleanup policy, by a broker's
            answer; empty without one.
        racks: The rack of each broker that is in one.
        keepers_apart: Whether servers that are no brokers keep the metadata: ZooKeeper's, or
            controllers. By the same answer.
    """

    cluster_id: str
    brokers: Mapping[int, tuple[str, int]]
    in_force: Mapping[str, str]
    racks: Mapping[int, str]
    keepers_apart: bool

    def __str__(self) -> str:
        brokers = (f"{one} ({host}:{port})" for one, (host, port) in sorted(self.brokers.items()))
        racks: dict[str, list[int]] = {}
        for broker, rack in sorted(self.racks.items()):
            racks.setdefault(rack, []).append(broker)
        within = "".join(
            f"; rack {rack}: {', '.join(map(str, of))}" for rack, of in sorted(racks.items())
        )
        return f"the cluster {self.cluster_id}: brokers {', '.join(brokers)}{within}"


def survey(described: DescribedCluster) -> SurveyedCluster:
    """Return the facts about a cluster.

    Raises ViewUnavailable without an answer, and InfraError for a missing secret or properties by
    which librdkafka does not connect.
    """
    connection = {**described.connection(), "bootstrap.servers": described.bootstrap_servers}
    cluster = ProbingObserver(connection).cluster(_WITHIN_S)
    settings = settings_of(connection, min(cluster.brokers, default=0))
    session = _BY_ROLES[_ROLES in settings]
    return SurveyedCluster(
        cluster_id=cluster.cluster_id,
        brokers=cluster.brokers,
        in_force={name: settings[name] for name in (_LAG, session, CLEANUP) if name in settings},
        racks=cluster.racks,
        keepers_apart="controller" not in settings.get(_ROLES, ""),
    )


def settings_of(connection: Mapping[str, str], broker: int) -> Mapping[str, str]:
    """Return the settings of a broker that are not empty; none if it may not be asked."""
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker))
    try:
        with admin_client(connection) as client:
            asked = client.describe_configs([resource], request_timeout=_SURVEY_ANSWER_S)
            return {name: one.value for name, one in asked[resource].result().items() if one.value}
    except KafkaException:
        return {}


def log_directories_of(settings: Mapping[str, str]) -> Sequence[str]:
    """Return the log directories that a broker's settings name; none if they are not known."""
    named = settings.get("log.dirs") or settings.get("log.dir") or ""
    return [directory.strip() for directory in named.split(",") if directory.strip()]


def pod_storage(
    pods: BrokerPods, connection: Mapping[str, str], brokers: Sequence[int]
) -> Mapping[int, Sequence[PodStorage | None]]:
    """Return the storage of each of the brokers' log directories; see
    :func:`.broker_pods.passing_storage`. Raises InfraError if Kubernetes does not answer."""
    settings = {broker: settings_of(connection, broker) for broker in brokers}
    return passing_storage(pods, {one: log_directories_of(settings[one]) for one in brokers})


# --- rights -----------------------------------------------------------------------------------
#
# A cluster with ACLs says what a user may do without being changed: by authorized operations
# (KIP-430), and by its answers to requests for topics that do not exist.


class Resource(StrEnum):
    """A kind of resource that Kafka's ACLs name."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The right to an operation on a resource. ``name`` is empty for the cluster."""

    resource: Resource
    name: str = ""
    operation: AclOperation

    @property
    def words(self) -> str:
        """The operation as Kafka's tools spell it."""
        return "".join(map(str.capitalize, self.operation.name.split("_")))

    def __str__(self) -> str:
        return f"{self.words} on the {self.resource} {self.name}".rstrip()


def granted(connection: Mapping[str, str], rights: Collection[Right]) -> Mapping[Right, bool]:
    """Return whether the user has each of ``rights``, without those of which the cluster does not
    say so unless it is changed. Raises InfraError without a connection."""
    found: dict[Right, bool] = {}
    with admin_client({**connection, "log_level": 0}) as client:
        for operation, ask in _TOPIC_QUESTIONS.items():
            wanted = (Resource.TOPIC, operation)
            names = [one.name for one in rights if (one.resource, one.operation) == wanted]
            for name, is_granted in _of_topics(ask, client, names).items():
                right = Right(resource=Resource.TOPIC, name=name, operation=operation)
                found[right] = is_granted
        for resource, name in dict.fromkeys((one.resource, one.name) for one in rights):
            mine = [one for one in rights if (one.resource, one.name) == (resource, name)]
            operations = _operations(client, resource, name)
            if operations is not None:
                found.update(_by_operations(mine, operations))
    return found


def _configured(name: str, *entries: ConfigEntry) -> ConfigResource:
    return ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=list(entries))


_UNCHANGED = ConfigEntry("min.insync.replicas", "1", incremental_operation=AlterConfigOpType.SET)
_Question = Callable[[AdminClient, Sequence[str]], Mapping[Any, "Future[Any]"]]
_TOPIC_QUESTIONS: Mapping[AclOperation, _Question] = {
    AclOperation.CREATE: lambda client, names: client.create_topics(
        [NewTopic(name, 1, 1) for name in names],
        request_timeout=_SURVEY_ANSWER_S,
        validate_only=True,
    ),
    AclOperation.DESCRIBE: lambda client, names: client.describe_topics(
        TopicCollection(list(names)), request_timeout=_SURVEY_ANSWER_S
    ),
    AclOperation.DESCRIBE_CONFIGS: lambda client, names: client.describe_configs(
        [_configured(name) for name in names], request_timeout=_SURVEY_ANSWER_S
    ),
    AclOperation.ALTER_CONFIGS: lambda client, names: client.incremental_alter_configs(
        [_configured(name, _UNCHANGED) for name in names],
        request_timeout=_SURVEY_ANSWER_S,
        validate_only=True,
    ),
    AclOperation.ALTER: lambda client, names: client.create_partitions(
        [NewPartitions(name, _MANY) for name in names],
        request_timeout=_SURVEY_ANSWER_S,
        validate_only=True,
    ),
}
"""The question that tells of each right on a topic, which need not exist. None changes it."""
_MANY = 1_000
_OFFSETS_TOPIC = "__consumer_offsets"
_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_IMPLY_DESCRIBE = frozenset(
    {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
"""The operations that imply Describe, so that a user without that has none of them."""


def _of_topics(ask: _Question, client: AdminClient, names: Sequence[str]) -> Mapping[str, bool]:
    """Return whether a question about topics is allowed, for those of which that is known."""
    found = {}
    for topic, future in ask(client, names).items() if names else ():
        name = topic.name if isinstance(topic, ConfigResource) else topic
        try:
            future.result(_SURVEY_ANSWER_S + _SLACK_S)
            found[name] = True
        except KafkaException as error:
            code = error.args[0].code()
            if code in _DENIED or code == KafkaError.UNKNOWN_TOPIC_OR_PART:
                found[name] = code not in _DENIED
        except Late:
            continue
    return found


def _operations(
    client: AdminClient, resource: Resource, name: str
) -> frozenset[AclOperation] | None:
    """Return the operations that the user may do on the cluster or a group; none of them if it may
    not even describe it. Return None if the cluster does not say so."""
    try:
        if resource is Resource.CLUSTER:
            asked = client.describe_cluster(
                include_authorized_operations=True, request_timeout=_SURVEY_ANSWER_S
            )
        elif resource is Resource.GROUP and _has_coordinators(client):
            asked = client.describe_consumer_groups(
                [name], include_authorized_operations=True, request_timeout=_SURVEY_ANSWER_S
            )[name]
        else:
            return None
        answer = asked.result(_SURVEY_ANSWER_S + _SLACK_S)
    except KafkaException as error:
        return frozenset() if error.args[0].code() in _DENIED else None
    except Late:
        return None
    allowed = answer.authorized_operations
    return None if allowed is None else frozenset(allowed)


def _has_coordinators(client: AdminClient) -> bool:
    """Return whether the topic of the coordinators is there. Otherwise the first question about a
    group would create it."""
    return _OFFSETS_TOPIC in client.list_topics(timeout=_SURVEY_ANSWER_S).topics


def _by_operations(
    rights: Iterable[Right], operations: frozenset[AclOperation]
) -> Iterator[tuple[Right, bool]]:
    """Yield whether each right is among the operations of its resource. Without Describe, other
    operations that do not imply it are not told."""
    for right in rights:
        told = AclOperation.DESCRIBE in operations
        if told or right.operation in {AclOperation.DESCRIBE, *_IMPLY_DESCRIBE}:
            yield right, right.operation in operations
