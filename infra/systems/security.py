"""The security of connections to brokers: librdkafka's properties, TLS, and SASL with SCRAM.

Also, what a campaign can request of a cluster that Ackproof deploys.
"""

import base64
import hashlib
import hmac
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash functions by mechanism."""
_FEWEST_ROUNDS = 4096
"""Kafka's minimum, and RFC 5802's. With fewer rounds, a server that poses as a broker could guess
the password."""
_MOST_ROUNDS = 1_000_000
"""The maximum. More rounds would keep this process busy for as long as the server likes."""


class ScramError(Exception):
    """The server sends an impossible answer, or does not know the password."""


class Scram:
    """One conversation: :meth:`first`, :meth:`final`, then :meth:`check`.

    Args:
        nonce: A text that was never used before; printable, without commas.
    """

    def __init__(self, mechanism: str, user: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        # Kafka takes both as UTF-8, without SASLprep.
        self._password = password.encode()
        self._nonce = nonce
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, message: bytes) -> bytes:
        """Return the proof for the server's answer to the first message. Raises ScramError."""
        fields = _fields(message)
        nonce, salt, rounds = (_field(fields, name) for name in "rsi")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the server's answer belongs to another exchange")
        if not rounds.isdecimal() or not _FEWEST_ROUNDS <= int(rounds) <= _MOST_ROUNDS:
            raise ScramError(f"the server asks for {rounds} rounds")
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={nonce}"
        said = f"{self._bare},{message.decode()},{without_proof}".encode()
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, _bytes(salt), int(rounds))
        client_key = self._mac(salted, b"Client Key")
        signed = self._mac(hashlib.new(self._hash, client_key).digest(), said)
        proof = bytes(a ^ b for a, b in zip(client_key, signed, strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), said)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, message: bytes) -> None:
        """Check that the server knows the password, too. Raises ScramError."""
        fields = _fields(message)
        if "e" in fields:
            raise ScramError(f"the server says {fields['e']}")
        if not hmac.compare_digest(_bytes(_field(fields, "v")), self._signature):
            raise ScramError("the server does not know the password")

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash)


def _fields(message: bytes) -> dict[str, str]:
    try:
        pieces = message.decode().split(",")
    except UnicodeDecodeError:
        raise ScramError("the server does not answer in UTF-8") from None
    return {name: value for name, _, value in (piece.partition("=") for piece in pieces)}


def _field(fields: dict[str, str], name: str) -> str:
    if name not in fields:
        raise ScramError(f"the server's answer has no {name}")
    return fields[name]


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ScramError("the server's answer is not base64") from None


# --- security of connections ------------------------------------------------------------------


PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
"""The mechanisms of SASL that need no token."""
OAUTHBEARER = "OAUTHBEARER"
TOKEN = "sasl.oauthbearer.token"
"""The property with the token for OAUTHBEARER. It is Ackproof's own: librdkafka takes a token from
a callback."""
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_ALIASES = {"sasl.mechanisms": "sasl.mechanism"}
_SASL = frozenset({"sasl.mechanism", "sasl.username", "sasl.password", TOKEN})
_TLS = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
        *("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem"),
        *("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"),
    }
)
_NO_MATTER = frozenset(
    {
        *("bootstrap.servers", "broker.address.family", "security.protocol"),
        "socket.connection.setup.timeout.ms",
    }
)
_DEFAULT_MECHANISM = "GSSAPI"
PROBE = "probe"
"""librdkafka's word for the system's own location of certificates."""
_FALSE = frozenset({"false", "f", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """The security of a connection.

    Attributes:
        tls: The context of TLS; None without encryption.
        mechanism: The mechanism of SASL; None without a login.
        token: The token for OAUTHBEARER.
    """

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    user: str = ""
    password: str = ""
    token: str = ""


def unspoken(given: Mapping[str, str], secrets: frozenset[str] = frozenset()) -> str | None:
    """Return which of these properties a direct connection does not support; None if it supports
    all.

    ``secrets`` has the names of further ones, whose values are not needed here.
    """
    said = _canonical(given)
    encrypted, logs_in = _uses(said)
    names = {_ALIASES.get(name, name) for name in secrets | said.keys()}
    # librdkafka ignores properties that the protocol does not use.
    known = _NO_MATTER | _SASL | _TLS
    needless = {n for n in names if _needless(n, encrypted=encrypted, logs_in=logs_in)}
    if unknown := sorted(names - known - needless):
        return ", ".join(unknown)
    mechanism = said.get("sasl.mechanism", _DEFAULT_MECHANISM)
    spoken = (*MECHANISMS, OAUTHBEARER) if TOKEN in said else MECHANISMS
    return f"sasl.mechanism {mechanism}" if logs_in and mechanism not in spoken else None


def security(given: Mapping[str, str]) -> Security:
    """Return the security of librdkafka's properties for a connection, with secrets among them.

    Raises ValueError for unsupported properties, OSError for files that cannot be read or are no
    certificates.
    """
    if (reason := unspoken(given)) is not None:
        raise ValueError(f"Ackproof's own connection does not support {reason}")
    said = _canonical(given)
    encrypted, logs_in = _uses(said)
    return Security(
        tls=_context(said) if encrypted else None,
        mechanism=said["sasl.mechanism"] if logs_in else None,
        user=said.get("sasl.username", ""),
        password=said.get("sasl.password", ""),
        token=said.get(TOKEN, ""),
    )


def _canonical(given: Mapping[str, str]) -> Mapping[str, str]:
    return {_ALIASES.get(name, name): value for name, value in given.items()}


def _uses(said: Mapping[str, str]) -> tuple[bool, bool]:
    """Return whether there is TLS, and whether there is SASL."""
    protocol = said.get("security.protocol", _PROTOCOLS[0]).lower()
    return protocol.endswith("ssl"), protocol.startswith("sasl")


def _needless(name: str, *, encrypted: bool, logs_in: bool) -> bool:
    of_sasl = name.startswith("sasl.")
    return (of_sasl and not logs_in) or (not of_sasl and "ssl." in name and not encrypted)


def _context(said: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    location = said.get("ssl.ca.location", PROBE)
    if location != PROBE or "ssl.ca.pem" in said:
        # The system's certificates would accept other servers than librdkafka does.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if location != PROBE:
        _trust(context, location)
    if "ssl.ca.pem" in said:
        context.load_verify_locations(cadata=said["ssl.ca.pem"])
    if said.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if said.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    # Without a password OpenSSL would ask the terminal for one.
    password = said.get("ssl.key.password", "")
    if certificate := said.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, said.get("ssl.key.location"), lambda: password)
    if "ssl.certificate.pem" in said:
        _show(context, said.get("ssl.key.pem", "") + said["ssl.certificate.pem"], password)
    return context


def _show(context: ssl.SSLContext, key_and_chain: str, password: str) -> None:
    """Let the context show a certificate. OpenSSL takes it only from a file, which here exists in
    memory alone."""
    with os.fdopen(os.memfd_create("certificate"), "w") as file:
        file.write(key_and_chain)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=lambda: password)


def _trust(context: ssl.SSLContext, location: str) -> None:
    try:
        context.load_verify_locations(cafile=location)
    except IsADirectoryError:
        context.load_verify_locations(capath=location)


# --- security of deployed clusters ------------------------------------------------------------


class TlsKind(StrEnum):
    """The ends of a client's connection that show a certificate."""

    SERVER = "server"
    """Only the broker, as on most web sites."""
    MUTUAL = "mutual"
    """The broker and the client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSecurity:
    """The security of a cluster that Ackproof deploys. There is TLS, a login, or both.

    Attributes:
        tls: The kind of TLS; None without encryption.
        mechanism: SASL's mechanism, by which clients log in; None without a login.
        acls: Whether rules say what clients may do (ACLs).
    """

    tls: TlsKind | None = None
    mechanism: str | None = None
    acls: bool = False

    def __str__(self) -> str:
        parts = [
            *([] if self.tls is None else ["mutual TLS" if self.tls is TlsKind.MUTUAL else "TLS"]),
            *([] if self.mechanism is None else [f"SASL {self.mechanism}"]),
            *(["ACLs"] if self.acls else []),
        ]
        return ", ".join(parts)

    @property
    def protocol(self) -> str:
        """Return Kafka's ``security.protocol`` of clients."""
        if self.mechanism is None:
            return "SSL"
        return "SASL_PLAINTEXT" if self.tls is None else "SASL_SSL"
