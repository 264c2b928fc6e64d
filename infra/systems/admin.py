"""Orders to a cluster by Kafka's protocol: through librdkafka, or by a direct request.

A direct request is used for what librdkafka does not support. Each attempt has a new client: one
that has met a cluster without a controller believes for minutes that there is none.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from confluent_kafka import ElectionType, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from ackproof.infra.api.capabilities import (
    AdminTimeout,
    Election,
    LogDirectory,
    NoSuchTopic,
    OrderRefused,
)
from ackproof.infra.api.interface import InfraError, Server
from ackproof.infra.systems.server import BrokerAddress

if TYPE_CHECKING:
    from ackproof.infra.systems.wire import Connect

_ATTEMPT_S = 10.0
"""The limit of an attempt: a paused broker does not answer sooner if a client waits longer."""
_ANSWER_MS = 30_000
"""The time for three attempts."""
_PAUSE_S = 0.3
_VALUE = bytes(100)
_QUIET = {"log_level": 0}
_KINDS = {
    Election.PREFERRED: ElectionType.PREFERRED,
    Election.UNCLEAN: ElectionType.UNCLEAN,
}
_MOVE_LIMIT = "replica.alter.log.dirs.io.max.bytes.per.second"
_NO_TOPIC = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART})

Attempt = Callable[[float], None]
"""A function that gives an order once, within so many seconds. Raises KafkaException."""


def admin_client(properties: Mapping[str, str | int]) -> AdminClient:
    """Return an admin client.

    Raises InfraError with librdkafka's reason, such as a file without certificates, or the wrong
    passphrase for a key.
    """
    try:
        return AdminClient({"log_level": 0, **properties})
    except KafkaException as refusal:
        raise InfraError(
            f"librdkafka refuses these connection settings: {refusal.args[0].str()}"
        ) from None


class KafkaAdmin:
    """An ``infra.api.capabilities.Admin`` by Kafka's protocol.

    Args:
        brokers: Returns all present brokers, those that are down, too.
        topic_config: Returns a topic's own settings from the metadata.
        connection: Further properties of librdkafka for a connection.
        port: The port of every broker for orders; None for that of its clients.
    """

    def __init__(
        self,
        brokers: Callable[[], Sequence[Server]],
        topic_config: Callable[[str], Mapping[str, str]],
        connection: Mapping[str, str] = MappingProxyType({}),
        port: int | None = None,
    ) -> None:
        self._brokers = brokers
        self._port = port
        self._topic_config = topic_config
        self._connection = connection

    @property
    def answer_ms(self) -> int:
        return _ANSWER_MS

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], within_s: float
    ) -> None:
        # kio takes long to import. Where hypothesis is installed, the import writes into the
        # working directory. It is therefore imported only for the orders that need it.
        from ackproof.infra.systems.wire import reassign

        connect = self._connector()

        def attempt(left_s: float) -> None:
            brokers = list(map(self._address, self._brokers()))
            reassign(brokers, topic, partition, replicas, left_s, connect)

        try:
            _ordered(attempt, within_s, given_up=_NO_TOPIC)
        except OrderRefused as refusal:
            raise NoSuchTopic(str(refusal)) if _code(refusal) in _NO_TOPIC else refusal from None

    def elect(self, election: Election, topic: str, partition: int, within_s: float) -> bool:
        asked = TopicPartition(topic, partition)
        codes: list[int | None] = []

        def attempt(left_s: float) -> None:
            codes.append(KafkaError._TIMED_OUT)
            with self._client(left_s) as client:
                found = client.elect_leaders(_KINDS[election], [asked]).result()
            (error,) = found.values()
            codes[-1] = None if error is None else _kafka_error(error).code()
            if error is not None:
                raise KafkaException(_kafka_error(error))

        _ordered(attempt, within_s, done={KafkaError.ELECTION_NOT_NEEDED})
        # If the order was sent twice, the first may have been executed and its answer lost.
        return codes != [KafkaError.ELECTION_NOT_NEEDED]

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        new = NewTopic(topic, len(assignment), replica_assignment=list(map(list, assignment)))

        def attempt(left_s: float) -> None:
            with self._client(left_s) as client:
                client.create_topics([new])[topic].result()

        _ordered(attempt, within_s, done={KafkaError.TOPIC_ALREADY_EXISTS})

    def grow_topic(self, topic: str, partitions: int, within_s: float) -> None:
        more = NewPartitions(topic, partitions)

        def attempt(left_s: float) -> None:
            with self._client(left_s) as client:
                client.create_partitions([more])[topic].result()

        # INVALID_PARTITIONS is Kafka's error when there are as many already.
        _ordered(attempt, within_s, done={KafkaError.INVALID_PARTITIONS})

    def delete_topic(self, topic: str, within_s: float) -> None:
        def attempt(left_s: float) -> None:
            with self._client(left_s) as client:
                client.delete_topics([topic])[topic].result()

        _ordered(attempt, within_s, done=_NO_TOPIC)

    def set_topic_config(self, topic: str, name: str, value: str | None, within_s: float) -> None:
        self._set_config(ConfigResource.Type.TOPIC, topic, name, value, within_s)

    def set_broker_config(self, broker: int, name: str, value: str, within_s: float) -> None:
        """Set a property of one broker while it runs. Raises OrderRefused, AdminTimeout."""
        self._set_config(ConfigResource.Type.BROKER, str(broker), name, value, within_s)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self._topic_config(topic)

    def append(self, topic: str, partition: int, records: int, within_s: float) -> None:
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _message: object) -> None:
            failed.extend([error] if error is not None else [])

        producer = Producer(
            {
                **self._connect(),
                "acks": "all",
                "message.timeout.ms": int(within_s * 1000),
            }
        )
        for _ in range(records):
            producer.produce(topic, _VALUE, partition=partition, on_delivery=delivered)
        if producer.flush(within_s) or failed:
            raise AdminTimeout(f"{topic}-{partition}: {failed[0].str() if failed else 'no answer'}")

    def delete_records(self, topic: str, partition: int, before: int, within_s: float) -> None:
        asked = TopicPartition(topic, partition, before)

        def attempt(left_s: float) -> None:
            with self._client(left_s) as client:
                client.delete_records([asked])[asked].result()

        _ordered(attempt, within_s)

    def log_start(self, topic: str, partition: int, within_s: float) -> int:
        asked = TopicPartition(topic, partition)
        found: list[int] = []

        def attempt(left_s: float) -> None:
            with self._client(left_s) as client:
                offsets = client.list_offsets({asked: OffsetSpec.earliest()})
                offset = offsets[asked].result().offset
            if offset < 0:  # librdkafka's result (2.16) without an answer of the leader
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            found[:] = [offset]

        _ordered(attempt, within_s)
        return found[0]

    def log_directories(self, broker: int, within_s: float) -> Sequence[LogDirectory]:
        from ackproof.infra.systems.wire import log_directories

        connect, server = self._connector(), self._broker(broker)
        found: list[LogDirectory] = []

        def attempt(left_s: float) -> None:
            found[:] = log_directories(server, left_s, connect)

        _ordered(attempt, within_s)
        return found

    def move_log(
        self, broker: int, topic: str, partition: int, directory: str, within_s: float
    ) -> None:
        from ackproof.infra.systems.wire import move_log

        connect, server = self._connector(), self._broker(broker)

        def attempt(left_s: float) -> None:
            move_log(server, topic, partition, directory, left_s, connect)

        _ordered(attempt, within_s)

    def limit_log_moves(self, broker: int, bytes_per_s: int | None, within_s: float) -> None:
        value = None if bytes_per_s is None else str(bytes_per_s)
        self._set_config(ConfigResource.Type.BROKER, str(broker), _MOVE_LIMIT, value, within_s)

    def set_group_config(self, group: str, name: str, value: str, within_s: float) -> None:
        from ackproof.infra.systems.wire import set_group_config

        connect = self._connector()

        def attempt(left_s: float) -> None:
            brokers = list(map(self._address, self._brokers()))
            set_group_config(brokers, group, name, value, left_s, connect)

        _ordered(attempt, within_s)

    def _set_config(
        self, kind: ConfigResource.Type, of: str, name: str, value: str | None, within_s: float
    ) -> None:
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(kind, of, incremental_configs=[entry])

        def attempt(left_s: float) -> None:
            with self._client(left_s) as client:
                asked = client.incremental_alter_configs([resource])
                asked[resource].result()

        _ordered(attempt, within_s)

    def _broker(self, number: int) -> BrokerAddress:
        found = next((one for one in self._brokers() if one.id == number), None)
        if found is None:
            raise OrderRefused(f"there is no broker {number}")
        return self._address(found)

    def _connector(self) -> "Connect":
        from ackproof.infra.systems.wire import connector

        try:
            return connector(self._connection)
        except (ValueError, OSError) as error:
            raise OrderRefused(f"Ackproof's own connection failed: {error}") from error

    def _client(self, timeout_s: float) -> AdminClient:
        # Requests take their limits from this property. A limit that is given with a request cannot
        # be given to elect_leaders (confluent-kafka 2.16).
        # Every client is closed by `with`, in the thread that made it. Otherwise it may be freed by
        # librdkafka's own thread just after an answer, which ends this process (confluent-kafka
        # 2.16).
        return AdminClient({**self._connect(), "socket.timeout.ms": int(timeout_s * 1000)})

    def _address(self, broker: Server) -> BrokerAddress:
        return BrokerAddress(broker.name, broker.node.address, self._port or broker.port)

    def _connect(self) -> dict[str, Any]:
        servers = [f"{host}:{port}" for _, host, port in map(self._address, self._brokers())]
        return {"bootstrap.servers": ",".join(servers), **self._connection, **_QUIET}


def _ordered(
    attempt: Attempt,
    within_s: float,
    done: "frozenset[int] | set[int]" = frozenset(),
    given_up: frozenset[int] = frozenset(),
) -> None:
    """Give an order until it is executed.

    ``done`` has the refusals that mean that it is already executed, and ``given_up`` those that
    will not change. Raises OrderRefused, NoAnswer.
    """
    end = time.monotonic() + within_s
    unknown = False
    while True:
        try:
            attempt(min(max(end - time.monotonic(), 1.0), _ATTEMPT_S))
        except KafkaException as failure:
            error = _kafka_error(failure)
        else:
            return
        if error.code() in done:
            return
        # A cluster that has lost its controller may refuse a repeated order that the former
        # controller has executed.
        unknown = unknown or _unanswered(error)
        if error.code() in given_up or time.monotonic() + _PAUSE_S >= end:
            kind = AdminTimeout if unknown else OrderRefused
            raise kind(f"{error.name()}: {error.str()}") from KafkaException(error)
        time.sleep(_PAUSE_S)


def _unanswered(error: KafkaError) -> bool:
    """Return whether it may have been executed: librdkafka's own errors are negative."""
    return bool(error.code() < 0 or error.code() == KafkaError.REQUEST_TIMED_OUT)


def _code(refusal: OrderRefused) -> int | None:
    cause = refusal.__cause__
    return int(_kafka_error(cause).code()) if isinstance(cause, KafkaException) else None


def _kafka_error(failure: KafkaException | KafkaError) -> KafkaError:
    error = failure if isinstance(failure, KafkaError) else failure.args[0]
    assert isinstance(error, KafkaError)
    return error
