"""Probes of an external cluster: its metadata, its configuration, and whether a broker answers."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from dataclasses import dataclass, field
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource

from ackproof.infra.api.interface import ClusterView, PartitionView, ViewUnavailable
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
