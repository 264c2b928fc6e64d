"""The security of a deployed cluster: certificates and logins that exist for one run alone.

Each broker has a listener for clients, secured as the campaign requests, and one for the other
brokers. The latter and the controllers' listener are secured alike: with TLS each end shows a
certificate, and without TLS each client logs in by PLAIN. Ackproof's own orders and observations
use these two listeners, so that a broken certificate of the clients' listener hides nothing.

Keys and passwords are random. They are not drawn from the campaign's seed, which is in the results.
They are in the memory of this process, on the nodes of the servers, and in the environment of
client processes.
"""

import base64
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from ackproof.infra.api.interface import Node
from ackproof.infra.systems.kafka.kraft.certificates import (
    KEY_STORE,
    SERVER,
    VALID,
    Authority,
    ServerCertificates,
    now,
)
from ackproof.infra.systems.kafka.kraft.properties import BROKERS, CLIENTS, CONTROLLERS, Listener
from ackproof.infra.systems.security import (
    HASHES,
    OAUTHBEARER,
    PLAIN,
    TOKEN,
    ClusterSecurity,
    TlsKind,
)

HARNESS, CLIENT = "harness", "client"
"""The users beside the servers: Ackproof's own connections, and the clients of the run."""

# --- tokens -----------------------------------------------------------------------------------


_RSA_BITS = 2048
_ISSUER, _AUDIENCE, _KEY_ID = "https://ackproof.invalid/run", "kafka", "run"


class TokenIssuer:
    """An issuer of signed tokens (RFC 7519, RS256). Its private key is in the memory of this
    process alone."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)

    @property
    def key_set(self) -> str:
        """Return the public key for those who verify tokens, as a key set (JWKS, RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": _KEY_ID,
            **{name: _as_base64(_as_bytes(getattr(numbers, name))) for name in ("n", "e")},
        }
        return json.dumps({"keys": [key]})

    def issue(self, user: str) -> str:
        """Return a token for ``user``, which is valid for 30 days."""
        issued = int(now().timestamp())
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": user,
            "scope": "kafka",
            "iat": issued,
            "exp": issued + int(VALID.total_seconds()),
        }
        said = ".".join(_as_base64(json.dumps(one).encode()) for one in (header, claims))
        signature = self._key.sign(said.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{said}.{_as_base64(signature)}"


def _as_bytes(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _as_base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


# --- credentials ------------------------------------------------------------------------------


_PASSWORD_BYTES = 24
_SETUP_TIMEOUT_MS = "15000"
"""The time for a new connection of a client. It includes handshake and login, for which a broker
that has just started takes seconds on a busy machine."""
_LOGINS = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    **dict.fromkeys(HASHES, "org.apache.kafka.common.security.scram.ScramLoginModule"),
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""Kafka's login modules by mechanism."""
_VERIFIES_TOKENS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
)
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator"
_AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{SERVER};User:{HARNESS}",
}
"""The properties of servers that apply ACLs. Users without an ACL may do nothing."""


class ClusterCredentials:
    """Everything that servers, clients and Ackproof itself need to connect to a secured cluster.

    Args:
        security: The requested security of the clients' listener.

    Attributes:
        security: As above.
        certificates: The certificates of the servers.
        passwords: The password of each user.
    """

    def __init__(self, security: ClusterSecurity) -> None:
        self.security = security
        authority = Authority()
        self.certificates = ServerCertificates(authority)
        self._own = {user: authority.issue(user) for user in (HARNESS, CLIENT)}
        users = (SERVER, HARNESS, CLIENT)
        self._tokens = TokenIssuer() if security.mechanism == OAUTHBEARER else None
        self.passwords = {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in users}

    @property
    def client(self) -> Mapping[str, str]:
        """Return librdkafka's properties for the clients of the run; secrets are among them."""
        asked = self.security
        return {
            "security.protocol": asked.protocol,
            "socket.connection.setup.timeout.ms": _SETUP_TIMEOUT_MS,
            **self._verifying(CLIENT if asked.tls is TlsKind.MUTUAL else None),
            **({} if asked.mechanism is None else self._login(CLIENT, asked.mechanism)),
        }

    @property
    def harness(self) -> Mapping[str, str]:
        """Return librdkafka's properties for Ackproof's own connections, to brokers and
        controllers; secrets are among them."""
        protocol = {"security.protocol": self._protocol}
        if self.security.tls is None:
            return {**protocol, **self._login(HARNESS, PLAIN)}
        return {**protocol, **self._verifying(HARNESS)}

    def strangers(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield clients that no broker may accept: a description, and librdkafka's properties."""
        own = self.client
        if TOKEN in own:
            yield "a token of another issuer", {**own, TOKEN: TokenIssuer().issue(CLIENT)}
        if "sasl.password" in own:
            yield "a wrong password", {**own, "sasl.password": secrets.token_urlsafe()}
        if "ssl.certificate.pem" in own:
            shown = ("ssl.certificate.pem", "ssl.key.pem")
            without = {name: value for name, value in own.items() if name not in shown}
            yield "a client without a certificate", without
        yield "a connection in the clear, without a login", {}

    def secure(self, node: Node, listeners: Sequence[Listener]) -> Mapping[str, str]:
        """Write what a server needs on its node, and return its properties for ``listeners``."""
        asked = self.security
        protocols = {
            CLIENTS.name: asked.protocol,
            BROKERS.name: self._protocol,
            CONTROLLERS.name: self._protocol,
        }
        mapped = ",".join(f"{name}:{protocol}" for name, protocol in protocols.items())
        found = {"listener.security.protocol.map": mapped}
        if BROKERS in listeners:
            found |= {"inter.broker.listener.name": BROKERS.name}
        found |= self._plain if asked.tls is None else self._tls(node, asked.tls)
        if asked.mechanism is not None:
            found |= self._logins(asked.mechanism)
        if self._tokens is not None:
            found |= self._verified_tokens(node, self._tokens)
        return found | (_AUTHORIZED if asked.acls else {})

    @property
    def _protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.security.tls is None else "SSL"

    def _verifying(self, user: str | None) -> Mapping[str, str]:
        """Return the properties of a client that verifies the servers' certificates, and shows that
        of ``user``, if any."""
        if self.security.tls is None:
            return {}
        trusted = {"ssl.ca.pem": self.certificates.authority.certificate}
        if user is None:
            return trusted
        own = self._own[user]
        return {**trusted, "ssl.certificate.pem": own.certificate, "ssl.key.pem": own.key}

    def _login(self, user: str, mechanism: str) -> Mapping[str, str]:
        if self._tokens is not None and mechanism == OAUTHBEARER:
            return {"sasl.mechanism": mechanism, TOKEN: self._tokens.issue(user)}
        return {
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
        }

    def _tls(self, node: Node, kind: TlsKind) -> Mapping[str, str]:
        trusted = node.directory / "security" / "authority.pem"
        node.write(trusted, self.certificates.authority.certificate.encode())
        stores = {
            one.property(KEY_STORE): str(self.certificates.write(node, one))
            for one in (CLIENTS, BROKERS, CONTROLLERS)
        }
        return {
            **stores,
            "ssl.keystore.type": "PEM",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(trusted),
            "ssl.client.auth": "required",
            CLIENTS.property("ssl.client.auth"): "required" if kind is TlsKind.MUTUAL else "none",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        }

    @property
    def _plain(self) -> Mapping[str, str]:
        """Return the properties of servers that log in to each other by PLAIN."""
        users = {user: self.passwords[user] for user in (SERVER, HARNESS)}
        own = f'username="{SERVER}" password="{users[SERVER]}"'
        jaas = _jaas(PLAIN, own, *_known(users))
        return {
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "sasl.mechanism.controller.protocol": PLAIN,
            **{
                one.property(name): value
                for one in (BROKERS, CONTROLLERS)
                for name, value in (
                    ("sasl.enabled.mechanisms", PLAIN),
                    (f"{PLAIN.lower()}.sasl.jaas.config", jaas),
                )
            },
        }

    def _logins(self, mechanism: str) -> Mapping[str, str]:
        """Return the properties of the clients' listener for a login."""
        users = {CLIENT: self.passwords[CLIENT]}
        jaas = _jaas(mechanism, *(_known(users) if mechanism == PLAIN else ()))
        return {
            CLIENTS.property("sasl.enabled.mechanisms"): mechanism,
            CLIENTS.property(f"{mechanism.lower()}.sasl.jaas.config"): jaas,
        }

    def _verified_tokens(self, node: Node, issuer: TokenIssuer) -> Mapping[str, str]:
        """Return the properties of a listener that verifies tokens (KIP-768)."""
        path = _key_set(node)
        node.write(path, issuer.key_set.encode())
        return {
            CLIENTS.property("oauthbearer.sasl.server.callback.handler.class"): _VERIFIES_TOKENS,
            # The default of 4.1.1 accepts tokens of any issuer. Older releases ignore this.
            "sasl.oauthbearer.jwt.validator.class": _VALIDATOR,
            "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
            "sasl.oauthbearer.expected.issuer": _ISSUER,
            "sasl.oauthbearer.expected.audience": _AUDIENCE,
        }


def _key_set(node: Node) -> PurePosixPath:
    return node.directory / "security" / "tokens.json"


def java_options(security: ClusterSecurity | None, node: Node) -> Sequence[str]:
    """Return the Java options of a server.

    With SASL, Kafka looks up the name of its own address for each login. Without a name server, as
    in namespaces, that takes seconds, unless Java reads names from a file. Kafka reads keys for
    tokens only from permitted URLs (since 3.9.1).
    """
    if security is None:
        return ()
    names = node.directory / "security" / "hosts"
    node.write(names, b"")
    options = [f"-Djdk.net.hosts.file={names}"]
    if security.mechanism == OAUTHBEARER:
        options += [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={_key_set(node).as_uri()}"]
    return options


def _jaas(mechanism: str, *options: str) -> str:
    return " ".join([_LOGINS[mechanism], "required", *options]) + ";"


def _known(users: Mapping[str, str]) -> Sequence[str]:
    """Return the options by which PLAIN's login module knows users."""
    return [f'user_{user}="{password}"' for user, password in users.items()]
