"""Credentials of a secured cluster: its certificates in real TLS connections, the properties of its
servers, and what cannot be deployed so."""

import base64
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ackproof.infra.api.capabilities import CertificateProblem
from ackproof.infra.systems import parse
from ackproof.infra.systems.kafka.kraft.properties import BROKERS, CLIENTS, CONTROLLERS
from ackproof.infra.systems.kafka.kraft.security import ClusterCredentials, TokenIssuer
from ackproof.infra.systems.product import MetadataQuorum
from ackproof.infra.systems.security import ClusterSecurity, TlsKind
from ackproof.infra.systems.wire import connector
from tests.support.processes.deadlines import PATIENCE_S

SECURED = (
    ClusterSecurity(tls=TlsKind.SERVER),
    ClusterSecurity(tls=TlsKind.MUTUAL, acls=True),
    ClusterSecurity(mechanism="PLAIN"),
    ClusterSecurity(tls=TlsKind.SERVER, mechanism="SCRAM-SHA-512", acls=True),
    ClusterSecurity(tls=TlsKind.MUTUAL, mechanism="SCRAM-SHA-256"),
    ClusterSecurity(mechanism="OAUTHBEARER"),
)


class NodeOnDisk:
    """A node's files, in a directory of this machine."""

    name, address = "broker-1", "127.0.0.1"

    def __init__(self, directory: Path) -> None:
        self.directory = PurePosixPath(directory)

    def write(self, path: PurePosixPath, content: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(content)


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[tuple[tuple[str, int], list[str]]]:
    """Yield the address of a server that only shakes hands, and its reasons for refusals."""
    listener = socket.create_server(("127.0.0.1", 0))
    refusals: list[str] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                with context.wrap_socket(connection, server_side=True) as secured:
                    secured.recv(1)
            except OSError as error:
                refusals.append(str(error))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname(), refusals
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def served(credentials: ClusterCredentials, node: NodeOnDisk) -> ssl.SSLContext:
    """Return the context of a server with the files of a broker's clients' listener."""
    found = credentials.secure(node, [CLIENTS, BROKERS])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(found[CLIENTS.property("ssl.keystore.location")])
    context.load_verify_locations(found["ssl.truststore.location"])
    if found[CLIENTS.property("ssl.client.auth")] == "required":
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.mark.parametrize("kind", TlsKind)
def test_client_and_broker_of_a_run_verify_each_other(tmp_path: Path, kind: TlsKind) -> None:
    credentials = ClusterCredentials(ClusterSecurity(tls=kind))
    other = ClusterCredentials(ClusterSecurity(tls=kind))
    with tls_server(served(credentials, NodeOnDisk(tmp_path))) as (address, refusals):
        deadline = time.monotonic() + PATIENCE_S
        with connector(credentials.client)(address, deadline) as connection:
            shown = connection.getpeercert()
            connection.sendall(b"x")
        assert shown["subject"] == ((("commonName", "server"),),)
        assert refusals == []
        with pytest.raises(OSError, match="certificate verify failed"):
            connector(other.client)(address, deadline)


@pytest.mark.parametrize("own", [True, False], ids=["own authority", "another authority"])
def test_librdkafka_verifies_the_certificate_of_an_address(tmp_path: Path, own: bool) -> None:
    asked = ClusterSecurity(tls=TlsKind.MUTUAL)
    credentials = ClusterCredentials(asked)
    client = credentials.client if own else ClusterCredentials(asked).client
    errors: list[str] = []
    with tls_server(served(credentials, NodeOnDisk(tmp_path))) as (address, refusals):
        place = {"bootstrap.servers": f"127.0.0.1:{address[1]}", "log_level": 0}
        heard = {"error_cb": lambda error: errors.append(str(error))}
        admin = AdminClient({**client, **place, **heard})
        with pytest.raises(KafkaException):
            admin.list_topics(timeout=2)
        admin.poll(0)
    assert errors
    assert any("certificate verify failed" in one for one in errors) is not own, errors
    assert own is not bool(refusals)


def test_server_with_required_certificates_refuses_a_client_without_one(tmp_path: Path) -> None:
    credentials = ClusterCredentials(ClusterSecurity(tls=TlsKind.MUTUAL))
    strangers = dict(credentials.strangers())
    with tls_server(served(credentials, NodeOnDisk(tmp_path))) as (address, refusals):
        stranger = connector(strangers["a client without a certificate"])
        connection = stranger(address, time.monotonic() + PATIENCE_S)
        # With TLS 1.3 a client learns only when it reads that it was refused.
        with connection, pytest.raises(OSError, match="alert"):
            connection.recv(1)
    assert len(refusals) == 1


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (CertificateProblem.EXPIRED, "certificate has expired"),
        (CertificateProblem.FOREIGN, "certificate verify failed"),
    ],
)
def test_client_refuses_a_bad_certificate_and_accepts_the_renewed_one(
    tmp_path: Path, problem: CertificateProblem, reason: str
) -> None:
    credentials, node = (
        ClusterCredentials(ClusterSecurity(tls=TlsKind.SERVER)),
        NodeOnDisk(tmp_path),
    )
    context = served(credentials, node)
    connect = connector(credentials.client)
    first = credentials.certificates.serials(node)["CLIENTS"]
    with tls_server(context) as (address, _refusals):
        deadline = time.monotonic() + PATIENCE_S
        context.load_cert_chain(credentials.certificates.write(node, CLIENTS, problem))
        with pytest.raises(OSError, match=reason):
            connect(address, deadline)
        context.load_cert_chain(credentials.certificates.write(node, CLIENTS))
        with connect(address, deadline) as connection:
            assert isinstance(connection, ssl.SSLSocket)
            shown = connection.getpeercert()
    assert shown is not None
    renewed = credentials.certificates.serials(node)["CLIENTS"]
    assert int(str(shown["serialNumber"]), 16) == renewed != first


def test_token_names_the_client_and_is_signed_by_its_issuer() -> None:
    issuer = TokenIssuer()
    (key,) = json.loads(issuer.key_set)["keys"]
    n, e = (int.from_bytes(decoded(key[name]), "big") for name in ("n", "e"))
    public = rsa.RSAPublicNumbers(e, n).public_key()
    header, claims, signature = issuer.issue("client").split(".")
    public.verify(
        decoded(signature), f"{header}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    assert json.loads(decoded(header))["kid"] == key["kid"]
    assert json.loads(decoded(claims))["sub"] == "client"
    assert json.loads(decoded(claims))["exp"] > time.time() + 24 * 3600


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("asked", SECURED, ids=str)
def test_every_listener_of_a_secured_server_is_secured(
    tmp_path: Path, asked: ClusterSecurity
) -> None:
    credentials = ClusterCredentials(asked)
    for listeners in ([CLIENTS, BROKERS], [CONTROLLERS], [CLIENTS, BROKERS, CONTROLLERS]):
        found = credentials.secure(NodeOnDisk(tmp_path), listeners)
        protocols = dict(
            one.split(":") for one in found["listener.security.protocol.map"].split(",")
        )
        assert protocols.keys() == {"CLIENTS", "BROKERS", "CONTROLLER"}
        assert not {"PLAINTEXT"} & set(protocols.values())
        assert protocols["CLIENTS"] == credentials.client["security.protocol"]
        assert protocols["CONTROLLER"] == credentials.harness["security.protocol"]
        assert ("inter.broker.listener.name" in found) is (BROKERS in listeners)
        assert ("authorizer.class.name" in found) is asked.acls


def test_credentials_differ_from_run_to_run() -> None:
    asked = ClusterSecurity(tls=TlsKind.MUTUAL, mechanism="PLAIN")
    one, other = ClusterCredentials(asked), ClusterCredentials(asked)
    for name in ("sasl.password", "ssl.key.pem", "ssl.ca.pem"):
        assert one.client[name] != other.client[name]
    assert len(set(one.passwords.values())) == len(one.passwords)
    assert one.passwords["server"] not in "".join(one.client.values())
    assert not set(one.passwords.values()) & {repr(one), str(one.security)}


@pytest.mark.parametrize(
    ("system", "quorum", "mechanism", "reason"),
    [
        ("bundled", None, None, "bundled is deployed with connections in the clear only"),
        ("external", None, None, "say under cluster.external how to connect"),
        ("kafka:3.9.1", "zookeeper", None, "with ZooKeeper is deployed with connections in the"),
        ("kafka:3.4.1", "isolated-kraft", "SCRAM-SHA-512", "since 3.5 (KIP-900)"),
        ("kafka:3.9.1..4.1.1", None, None, "an upgrade is done with connections in the clear"),
        ("kafka:3.4.1", "isolated-kraft", "PLAIN", None),
        ("kafka:3.8.1", "isolated-kraft", "OAUTHBEARER", "with Apache Kafka 3.9 or newer"),
        ("kafka:4.1.1", "combined-kraft", "SCRAM-SHA-512", None),
    ],
)
def test_system_says_why_it_cannot_be_secured(
    system: str, quorum: str | None, mechanism: str | None, reason: str | None
) -> None:
    asked = ClusterSecurity(tls=TlsKind.SERVER, mechanism=mechanism)
    servers = None if quorum is None else MetadataQuorum(quorum)
    found = parse(system).insecurity(asked, servers)
    assert found is None if reason is None else reason in str(found)
