"""Certificates for one run: their authority, and their exchange while brokers run."""

import datetime
import ipaddress
import logging
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ackproof.infra.api.capabilities import (
    AdminTimeout,
    CertificateProblem,
    HandshakeResult,
    OrderRefused,
)
from ackproof.infra.api.interface import InfraError, Node
from ackproof.infra.systems.admin import KafkaAdmin
from ackproof.infra.systems.kafka.kraft.properties import BROKERS, CLIENTS, Listener
from ackproof.infra.systems.security import security
from ackproof.infra.systems.server import NodeServer

# --- authority --------------------------------------------------------------------------------


VALID = datetime.timedelta(days=30)
_PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class IssuedCertificate:
    """A certificate with its private key, both in PEM. ``serial`` is its serial number."""

    key: str
    certificate: str
    serial: int


class Authority:
    """A certificate authority. Its private key is in the memory of this process alone."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named("certificate authority of an Ackproof run")
        until = now() + VALID
        own = _unsigned(self._name, self._name, self._key.public_key(), until)
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = _as_text(own.sign(self._key, hashes.SHA256()))
        """Its own certificate, in PEM."""

    def issue(
        self, name: str, address: str = "", until: datetime.datetime | None = None
    ) -> IssuedCertificate:
        """Return a new certificate for ``name`` (CN) at the ``address`` of its host, if any.

        It is valid from yesterday to the time ``until``, in 30 days by default.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        made = _unsigned(_named(name), self._name, key.public_key(), until or now() + VALID)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if address:
            hosts = x509.SubjectAlternativeName([_host(address)])
            made = made.add_extension(hosts, critical=False)
        signed = made.sign(self._key, hashes.SHA256())
        return IssuedCertificate(
            key.private_bytes(
                _PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ).decode(),
            _as_text(signed),
            signed.serial_number,
        )


def _unsigned(
    name: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        # Clocks of hosts may differ.
        .not_valid_before(now() - datetime.timedelta(days=1))
        .not_valid_after(until)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _as_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(_PEM).decode()


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


log = logging.getLogger(__name__)

# --- certificates of servers ------------------------------------------------------------------


SERVER = "server"
"""The name (CN) in the certificates of servers."""
KEY_STORE = "ssl.keystore.location"
_EXCHANGED = (CLIENTS, BROKERS)
_EXPIRED_FOR = datetime.timedelta(hours=1)
_ORDER_S = 30.0
_ANSWER_S = 5.0


class ServerCertificates:
    """The certificates of servers, in a file for each listener.

    Attributes:
        authority: The authority of the run.
    """

    def __init__(self, authority: Authority) -> None:
        self.authority = authority
        self._serials: dict[str, dict[str, int]] = {}

    def write(
        self, node: Node, listener: Listener, problem: CertificateProblem | None = None
    ) -> PurePosixPath:
        """Write a new certificate with its key for a listener, and return the file."""
        foreign = problem is CertificateProblem.FOREIGN
        until = now() - _EXPIRED_FOR if problem is CertificateProblem.EXPIRED else None
        authority = Authority() if foreign else self.authority
        made = authority.issue(SERVER, node.address, until)
        path = node.directory / "security" / f"{listener.name.lower()}.pem"
        node.write(path, (made.key + made.certificate).encode())
        self._serials.setdefault(node.name, {})[listener.name] = made.serial
        return path

    def serials(self, node: Node) -> Mapping[str, int]:
        """Return the serial numbers of the certificates that were last written, by listener."""
        return self._serials.get(node.name, {})


class KafkaCertificates:
    """An ``infra.api.capabilities.BrokerCertificates`` of brokers with KRaft.

    A broker loads a changed file of a key store when its path is set again (KIP-226). It refuses a
    bad certificate for the listener of the brokers, which it would not accept itself.

    Args:
        certificates: The certificates of all servers.
        brokers: Returns the brokers by name.
        admin: Gives orders through the listener of the brokers.
        client: librdkafka's properties of the clients of the run.
    """

    def __init__(
        self,
        certificates: ServerCertificates,
        brokers: Callable[[], Mapping[str, NodeServer]],
        admin: KafkaAdmin,
        client: Mapping[str, str],
    ) -> None:
        self._certificates = certificates
        self._brokers = brokers
        self._admin = admin
        self._client = client

    def renew(self, broker: str) -> None:
        for listener in _EXCHANGED:
            self._exchange(broker, listener, None)

    def spoil(self, broker: str, problem: CertificateProblem) -> None:
        self._exchange(broker, CLIENTS, problem)

    def installed(self, broker: str) -> dict[str, int]:
        serials = self._certificates.serials(self._brokers()[broker].node)
        return {one.name: serials[one.name] for one in _EXCHANGED}

    def shown(self, broker: str) -> HandshakeResult:
        host = self._brokers()[broker].node.address
        unverified = _context(self._client)
        unverified.check_hostname = False
        unverified.verify_mode = ssl.CERT_NONE
        serials = {one.name: _serial(host, one.port, unverified) for one in _EXCHANGED}
        try:
            _serial(host, CLIENTS.port, _context(self._client))
        except ssl.SSLCertVerificationError as refusal:
            return HandshakeResult(serials=serials, refusal=refusal.verify_message)
        return HandshakeResult(serials=serials, refusal=None)

    def _exchange(
        self, broker: str, listener: Listener, problem: CertificateProblem | None
    ) -> None:
        server = self._brokers()[broker]
        path = self._certificates.write(server.node, listener, problem)
        name = listener.property(KEY_STORE)
        try:
            self._admin.set_broker_config(server.id, name, str(path), _ORDER_S)
        except OrderRefused as reason:
            raise InfraError(f"{broker} does not load its new certificate: {reason}") from reason
        except AdminTimeout as silence:
            # A busy broker may have loaded it and answer late. New handshakes show which it is.
            log.warning("%s, %s: %s", broker, name, silence)


def _context(client: Mapping[str, str]) -> ssl.SSLContext:
    context = security(client).tls
    assert context is not None
    return context


def _serial(host: str, port: int, context: ssl.SSLContext) -> int:
    """Return the serial number of the certificate in a new handshake.

    Raises ssl.SSLCertVerificationError if the context refuses the certificate, and InfraError
    without an answer.
    """
    try:
        with (
            socket.create_connection((host, port), timeout=_ANSWER_S) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            shown = secured.getpeercert(binary_form=True)
    except ssl.SSLCertVerificationError:
        raise
    except OSError as error:
        raise InfraError(f"no handshake with {host}:{port}: {error}") from error
    if shown is None:
        raise InfraError(f"{host}:{port} shows no certificate")
    return x509.load_der_x509_certificate(shown).serial_number
