"""Requests of Kafka's protocol that librdkafka does not support, over direct connections."""

import io
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
)
from kio.schema.alter_replica_log_dirs.v1.request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kio.schema.alter_replica_log_dirs.v1.response import AlterReplicaLogDirsResponse
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.api_versions.v3.response import ApiVersionsResponse
from kio.schema.describe_configs.v4.request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.describe_log_dirs.v1.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v1.response import (
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import i8, i32, i32Timedelta
from kio.static.protocol import RequestPayload, ResponsePayload

from ackproof.infra.api.capabilities import LogDirectory
from ackproof.infra.systems.security import (
    OAUTHBEARER,
    PLAIN,
    Scram,
    ScramError,
    Security,
    security,
)
from ackproof.infra.systems.server import BrokerAddress

R = TypeVar("R", bound=ResponsePayload)

Connect = Callable[[tuple[str, int], float], socket.socket]
"""A function that opens a connection to an address until a time of time.monotonic(). Raises
OSError."""

_CORRELATION_ID = 1
"""The id of each request: a connection carries one at a time."""
_CLIENT = "ackproof"
_LENGTH = struct.Struct(">i")
_ANSWER_MAX_BYTES = 16 * 1024 * 1024


def in_the_clear(address: tuple[str, int], deadline: float) -> socket.socket:
    """Open a connection without encryption, as a :data:`Connect`."""
    return socket.create_connection(address, timeout=max(deadline - time.monotonic(), 0.001))


def call(
    address: tuple[str, int],
    request: RequestPayload,
    answer: type[R],
    timeout_s: float,
    connect: Connect = in_the_clear,
) -> R:
    """Send a request to a broker, over a connection of its own, and return the answer.

    Raises OSError (TimeoutError is one) without the right answer within ``timeout_s`` seconds. It
    is then unknown whether the broker has executed the request.
    """
    deadline = time.monotonic() + timeout_s
    with connect(address, deadline) as connection:
        return ask(connection, request, answer, deadline)


def api_versions(
    address: tuple[str, int], timeout_s: float, connect: Connect = in_the_clear
) -> ApiVersionsResponse:
    """Return the requests and features that a broker supports. Raises OSError as :func:`call`."""
    request = ApiVersionsRequest(client_software_name="ackproof", client_software_version="1")
    return call(address, request, ApiVersionsResponse, timeout_s, connect)


def ask(connection: socket.socket, request: RequestPayload, answer: type[R], deadline: float) -> R:
    """Send a request as :func:`call` does, over an open connection.

    ``deadline`` is a time of time.monotonic(). The connection must be closed after an OSError: a
    late answer would be taken for the next one.
    """
    connection.settimeout(max(deadline - time.monotonic(), 0.001))
    connection.sendall(_frame(request))
    (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size, deadline))
    if not 0 <= length <= _ANSWER_MAX_BYTES:
        raise OSError(f"it answers with {length} bytes")
    return _decoded(_read(connection, length, deadline), answer)


def _frame(request: RequestPayload) -> bytes:
    buffer = io.BytesIO()
    header = request.__header_schema__
    entity_writer(header)(
        buffer,
        header(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=i32(_CORRELATION_ID),
            client_id=_CLIENT,
        ),
    )
    entity_writer(type(request))(buffer, request)
    return _LENGTH.pack(buffer.tell()) + buffer.getvalue()


def _read(connection: socket.socket, size: int, deadline: float) -> bytes:
    read = bytearray()
    while len(read) < size:
        # One deadline applies to all pieces: a broker that sends a byte now and then is given up
        # like one that sends none.
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(size - len(read))
        if not piece:
            raise ConnectionError("the broker closed the connection")
        read += piece
    return bytes(read)


def _decoded(payload: bytes, answer: type[R]) -> R:
    try:
        header, start = entity_reader(answer.__header_schema__)(payload, 0)
        entity, _ = entity_reader(answer)(payload, start)
    except (SerialError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise OSError(f"no {answer.__name__}: {error}") from error
    if header.correlation_id != _CORRELATION_ID:
        raise OSError(f"the answer to request {header.correlation_id}")
    return entity


# --- secured connections ----------------------------------------------------------------------


_NONCE_BYTES = 24


def connector(given: Mapping[str, str]) -> Connect:
    """Return a function that opens connections by librdkafka's properties for connections.

    That function raises OSError if the login fails. This one raises the errors of
    :func:`infra.systems.security.security`.
    """
    wanted = security(given)

    def connect(address: tuple[str, int], deadline: float) -> socket.socket:
        with ExitStack() as opened:
            left_s = max(deadline - time.monotonic(), 0.001)
            connection = opened.enter_context(socket.create_connection(address, timeout=left_s))
            if wanted.tls is not None:
                # It closes the wrapped connection if the handshake fails.
                wrapped = wanted.tls.wrap_socket(connection, server_hostname=address[0])
                connection = opened.enter_context(wrapped)
            _log_in(connection, wanted, deadline)
            opened.pop_all()
        return connection

    return connect


def _log_in(connection: socket.socket, wanted: Security, deadline: float) -> None:
    if wanted.mechanism is None:
        return
    shaken = ask(
        connection,
        SaslHandshakeRequest(mechanism=wanted.mechanism),
        SaslHandshakeResponse,
        deadline,
    )
    if shaken.error_code.value:
        offered = ", ".join(shaken.mechanisms)
        raise PermissionError(f"the broker does not accept {wanted.mechanism}, only {offered}")

    def say(words: bytes) -> bytes:
        request = SaslAuthenticateRequest(auth_bytes=words)
        answer = ask(connection, request, SaslAuthenticateResponse, deadline)
        if answer.error_code.value:
            raise PermissionError(answer.error_message or answer.error_code.name)
        return answer.auth_bytes

    if wanted.mechanism == PLAIN:
        say(f"\0{wanted.user}\0{wanted.password}".encode())
        return
    if wanted.mechanism == OAUTHBEARER:
        # RFC 7628, sections 3.1 and 3.2.3: only a refusal has an answer.
        if refusal := say(f"n,,\1auth=Bearer {wanted.token}\1\1".encode()):
            raise PermissionError(f"the broker refuses the token: {refusal.decode()}")
        return
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    scram = Scram(wanted.mechanism, wanted.user, wanted.password, nonce)
    try:
        scram.check(say(scram.final(say(scram.first()))))
    except ScramError as error:
        raise PermissionError(str(error)) from None


# --- reassignment (KIP-455) -------------------------------------------------------------------


_TELLS_LITTLE = {KafkaError._TRANSPORT: 1, KafkaError.NOT_CONTROLLER: 2}


def reassign(
    brokers: Sequence[BrokerAddress],
    topic: str,
    partition: int,
    replicas: Sequence[int],
    timeout_s: float,
    connect: Connect,
) -> None:
    """Ask one broker after the other until one is the controller. Raises KafkaException."""
    moved = ReassignablePartition(
        partition_index=i32(partition), replicas=tuple(map(BrokerId, replicas))
    )
    named = ReassignableTopic(name=TopicName(topic), partitions=(moved,))
    end = time.monotonic() + timeout_s
    refusals: list[KafkaError] = []
    for broker in brokers:
        left_s = min(max(end - time.monotonic(), 0.1), timeout_s / 2)
        error = _asked(broker, named, left_s, connect)
        if error is None:
            return
        refusals.append(error)
    # A broker without an answer may be the controller, so the refusals of the others say little.
    raise KafkaException(min(refusals, key=lambda one: _TELLS_LITTLE.get(one.code(), 0)))


def _asked(
    broker: BrokerAddress, topic: ReassignableTopic, timeout_s: float, connect: Connect
) -> KafkaError | None:
    """Return why a broker refuses to move the partition, or None if it moves."""
    request = AlterPartitionReassignmentsRequest(
        timeout=i32Timedelta.parse(timedelta(seconds=timeout_s)), topics=(topic,)
    )
    try:
        answer = call(broker[1:], request, AlterPartitionReassignmentsResponse, timeout_s, connect)
    except ConnectionRefusedError as refusal:
        return KafkaError(KafkaError.NOT_CONTROLLER, f"{broker.name}: {refusal}")
    except OSError as error:
        return KafkaError(KafkaError._TRANSPORT, f"{broker.name}: {error}")
    moves = [one for named in answer.responses for one in named.partitions]
    errors = [(one.error_code.value, one.error_message) for one in moves]
    refusals = [(answer.error_code.value, answer.error_message), *errors]
    return next((KafkaError(code, why) for code, why in refusals if code), None)


# --- log directories (KIP-113) ----------------------------------------------------------------


def log_directories(
    broker: BrokerAddress, timeout_s: float, connect: Connect
) -> Sequence[LogDirectory]:
    """Return the log directories of a broker that work. Raises KafkaException."""
    request = DescribeLogDirsRequest(topics=None)
    answer = _of_broker(broker, request, DescribeLogDirsResponse, timeout_s, connect)
    return [_directory(one) for one in answer.results if not one.error_code.value]


def move_log(
    broker: BrokerAddress,
    topic: str,
    partition: int,
    directory: str,
    timeout_s: float,
    connect: Connect,
) -> None:
    """Ask a broker to move its replica of a partition to a directory. Raises KafkaException."""
    moved = AlterReplicaLogDirTopic(name=TopicName(topic), partitions=(i32(partition),))
    request = AlterReplicaLogDirsRequest(
        dirs=(AlterReplicaLogDir(path=directory, topics=(moved,)),)
    )
    answer = _of_broker(broker, request, AlterReplicaLogDirsResponse, timeout_s, connect)
    for code in (one.error_code for named in answer.results for one in named.partitions):
        if code.value:
            raise KafkaException(KafkaError(code.value, f"{broker.name}: {code.name}"))


def _directory(found: DescribeLogDirsResult) -> LogDirectory:
    logs = [
        (one.is_future_key, (named.name, int(one.partition_index)))
        for named in found.topics
        for one in named.partitions
    ]
    return LogDirectory(
        path=found.log_dir,
        logs=frozenset(key for future, key in logs if not future),
        futures=frozenset(key for future, key in logs if future),
    )


# --- settings of groups (KIP-848, KIP-932) ----------------------------------------------------


_GROUP = i8(32)
"""The type of a group among the resources with settings (``ConfigResource.Type``), which librdkafka
does not have."""
_SET = i8(0)


def set_group_config(
    brokers: Sequence[BrokerAddress],
    group: str,
    name: str,
    value: str,
    timeout_s: float,
    connect: Connect,
) -> None:
    """Set one of a group's own settings, at any broker, and return when all brokers know the value.
    Raises KafkaException, also if a broker does not know it yet."""
    change = AlterableConfig(name=name, config_operation=_SET, value=value)
    changed = AlterConfigsResource(resource_type=_GROUP, resource_name=group, configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(changed,), validate_only=False)
    (broker, *_) = brokers
    answer = _of_broker(broker, request, IncrementalAlterConfigsResponse, timeout_s, connect)
    for one in answer.responses:
        if one.error_code.value:
            raise KafkaException(KafkaError(one.error_code.value, one.error_message or ""))
    asked = DescribeConfigsResource(
        resource_type=_GROUP, resource_name=group, configuration_keys=(name,)
    )
    question = DescribeConfigsRequest(resources=(asked,))
    for broker in brokers:
        known = _of_broker(broker, question, DescribeConfigsResponse, timeout_s, connect)
        values = [one.value for found in known.results for one in found.configs]
        if values != [value]:
            reason = f"{broker.name} has {values} for {name} of {group}, and not {value}"
            raise KafkaException(KafkaError(KafkaError.UNKNOWN, reason))


def _of_broker(
    broker: BrokerAddress,
    request: RequestPayload,
    answer: type[R],
    timeout_s: float,
    connect: Connect,
) -> R:
    """Return the answer of that very broker. Raises KafkaException without one."""
    try:
        return call(broker[1:], request, answer, timeout_s, connect)
    except ConnectionRefusedError as refusal:
        error = KafkaError(KafkaError.BROKER_NOT_AVAILABLE, f"{broker.name}: {refusal}")
        raise KafkaException(error) from refusal
    except OSError as failure:
        error = KafkaError(KafkaError._TRANSPORT, f"{broker.name}: {failure}")
        raise KafkaException(error) from failure
