"""The reason why no client gets an answer from a cluster.

Connections are opened one after the other, to find what listens at its addresses, and what it
advertises.
"""

import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

_WITHIN_S = 3.0
_METADATA_S = 5.0
_PORT = 9092
"""librdkafka's default."""
_CORRELATION = b"\x00\x00\x00\x2a"
_API_VERSIONS = b"\x00\x00\x00\x0a\x00\x12\x00\x00" + _CORRELATION + b"\xff\xff"
"""ApiVersions v0 without a client id, which every Kafka listener without TLS answers."""
_TLS = (b"\x15\x03", b"\x16\x03")
_KAFKA, _SECURED, _HTTP, _ZOOKEEPER = "Kafka", "TLS", "HTTP", "ZooKeeper"
_NOT_KAFKA: Mapping[str, str] = {
    _HTTP: "it is an HTTP server, not a broker's listener: give the port of a Kafka listener",
    _ZOOKEEPER: "it is ZooKeeper, not a broker's listener: give bootstrap.servers, not "
    "zookeeper.connect",
}

Address = tuple[str, int]


def why_silent(connection: Mapping[str, str], silence: object) -> str:
    """Return why a client with these properties gets no answer, and what to do.

    ``bootstrap.servers`` is among the properties. ``silence`` is what is known already, in case
    nothing better is found.
    """
    given = [_address(one) for one in connection["bootstrap.servers"].split(",") if one.strip()]
    obstacles = {address: _obstacle(address) for address in given}
    if all(obstacles.values()):
        return "; ".join(
            f"{_text(address)}: {obstacle}: check bootstrap.servers, and that the broker runs"
            for address, obstacle in obstacles.items()
        )
    unlike = {one: _unlike(one, connection) for one in given if obstacles[one] is None}
    if all(unlike.values()):
        return "; ".join(f"{_text(address)}: {reason}" for address, reason in unlike.items())
    advertised, errors = _metadata(connection)
    if advertised or not errors:
        return "; ".join(_unreachable(advertised)) or f"it answers, but not this request: {silence}"
    return f"it refuses this client: check security.protocol, sasl.* and ssl.*: {errors[0]}"


_REFUSALS: Mapping[str, str] = {
    "cluster_authorization_failed": "this user needs the ACL ClusterAction on the cluster",
    "unknown_topic_id": "a broker's listener answers: give that of the controllers",
    "inconsistent_cluster_id": "the controllers belong to another cluster than bootstrap.servers",
}
"""The errors of a fetch of the metadata log that name their cause, with what to do."""


def why_unreadable(
    controllers: Sequence[Address], connection: Mapping[str, str], silence: str
) -> str:
    """Return why controllers do not let a client with these properties read the metadata log, and
    what to do. ``silence`` is the error of the reading."""
    known = [hint for error, hint in _REFUSALS.items() if error in silence]
    if known:
        return f"{'; '.join(known)} ({silence})"
    reasons = {one: _obstacle(one) or _unlike(one, connection) for one in controllers}
    found = [f"{_text(address)}: {reason}" for address, reason in reasons.items() if reason]
    return "; ".join(found) if found else silence


def _address(text: str) -> Address:
    host, colon, port = text.strip().rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        return text.strip().strip("[]"), _PORT
    return host.strip("[]"), int(port)


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _obstacle(address: Address) -> str | None:
    """Return why no connection to ``address`` can be opened; None if one can."""
    try:
        socket.create_connection(address, timeout=_WITHIN_S).close()
    except socket.gaierror as error:
        return f"this machine cannot resolve the name ({error.strerror})"
    except ConnectionRefusedError:
        return "no server listens there (connection refused)"
    except TimeoutError:
        return f"no connection within {_WITHIN_S:g} s, as behind a firewall"
    except (OSError, ValueError, OverflowError) as error:
        return f"no connection: {error}"
    return None


def _metadata(connection: Mapping[str, str]) -> tuple[Mapping[int, Address], Sequence[str]]:
    """Return which address each broker advertises, and the errors that librdkafka reports
    meanwhile.

    There are none if a slow listener has not answered in time, which does not show who may log in.
    """
    errors: list[str] = []

    def heard(error: KafkaError) -> None:
        errors.append(error.str())

    try:
        with AdminClient({**connection, "log_level": 0, "error_cb": heard}) as client:
            metadata = client.list_topics(timeout=_METADATA_S)
    except KafkaException as failure:
        error: KafkaError = failure.args[0]
        late = error.code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT)
        return {}, errors if late or errors else [error.str()]
    return {one.id: (one.host, one.port) for one in metadata.brokers.values()}, errors


def _unreachable(advertised: Mapping[int, Address]) -> Iterator[str]:
    for broker, address in sorted(advertised.items()):
        if (obstacle := _obstacle(address)) is not None:
            yield (
                f"it answers, and broker {broker} advertises {_text(address)}, but {obstacle}: "
                "set advertised.listeners of the broker to an address that this machine reaches, "
                "or make the name known here (/etc/hosts)"
            )


def _unlike(address: Address, connection: Mapping[str, str]) -> str | None:
    """Return how the listener differs from the properties; None if it may match."""
    wants_tls = connection.get("security.protocol", "plaintext").lower().endswith("ssl")
    spoken = _spoken(address)
    if spoken is None:
        return "the server there does not answer like a broker: is it a Kafka listener?"
    if spoken in _NOT_KAFKA:
        return _NOT_KAFKA[spoken]
    if spoken == _SECURED and not wants_tls:
        return "it speaks TLS: give security.protocol SSL or SASL_SSL among the client's properties"
    if spoken == _KAFKA and wants_tls:
        return (
            "it speaks Kafka's protocol without TLS: give security.protocol PLAINTEXT or "
            "SASL_PLAINTEXT, or the port of the listener with TLS"
        )
    return None


def _spoken(address: Address) -> str | None:
    """Return the protocol that is spoken there; None for an unknown one."""
    answer = _said(address, _API_VERSIONS)
    if answer[4:8] == _CORRELATION:
        return _KAFKA
    if answer.startswith(b"HTTP/"):
        return _HTTP
    if answer.startswith(_TLS) or _shakes_hands(address):
        return _SECURED
    if _said(address, b"ruok").startswith((b"imok", b"ruok is not executed")):
        return _ZOOKEEPER
    answer = _said(address, b"GET / HTTP/1.0\r\n\r\n")
    return _HTTP if answer.startswith(b"HTTP/") else None


def _said(address: Address, words: bytes) -> bytes:
    try:
        with socket.create_connection(address, timeout=_WITHIN_S) as connection:
            connection.sendall(words)
            return connection.recv(64)
    except OSError:
        return b""


def _shakes_hands(address: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, timeout=_WITHIN_S) as connection,
            context.wrap_socket(connection, server_hostname=address[0]),
        ):
            return True
    except ssl.SSLError as error:
        # A server that requires a client certificate, or another version, speaks TLS, too.
        return "ALERT" in str(error.reason)
    except (OSError, ValueError):
        return False
