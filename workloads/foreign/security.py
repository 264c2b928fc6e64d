"""The security of a program's connection, by Kafka's names, from librdkafka's.

A cluster's TLS and SASL are given to clients as librdkafka's properties. Programs get those of the
Java client, which differ: certificates and keys are the values themselves (PEM, KIP-651), on one
line with spaces for line breaks, and the login is a line of JAAS.

They reach a program by its standard input alone, so no argument, file or environment shows them.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ackproof.workloads.configuration import TOKEN_CALLBACK

_TOKENS = "OAUTHBEARER"
_LOGINS: Mapping[str, str] = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    _TOKENS: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
}
"""Java's classes that log in, by mechanism. With OAUTHBEARER, the option ``token`` of the line is
Ackproof's own."""

_PEM: Mapping[str, tuple[str, ...]] = {
    "ssl.truststore.certificates": ("ssl.ca.pem", "ssl.ca.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem", "ssl.certificate.location"),
    "ssl.keystore.key": ("ssl.key.pem", "ssl.key.location"),
}
"""Kafka's properties with a PEM text, and librdkafka's with the text and with the file of it."""

_TIMEOUT = "socket.connection.setup.timeout.ms"
"""A property that is no matter of security. Programs leave connecting as their library has it."""
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
_PASSPHRASE = "ssl.key.password"
_MECHANISM = "sasl.mechanism"
_ALIASES = {"sasl.mechanisms": _MECHANISM}
_TRANSLATED = frozenset(
    {
        *(name for names in _PEM.values() for name in names),
        *("security.protocol", "sasl.username", "sasl.password"),
        *(_MECHANISM, _IDENTIFICATION, _PASSPHRASE, _TIMEOUT),
    }
)
_WITHOUT_PASSPHRASES = ("aiokafka", "franz-go")
_PKCS8 = re.compile(r"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----")
_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?-----END [A-Z0-9 ]+-----", re.DOTALL)


def untranslated(
    client: str, given: Mapping[str, object], secrets: Collection[str] = ()
) -> str | None:
    """Return which of librdkafka's connection properties a program cannot get; None if it can get
    all.

    Args:
        client: The client of the program.
        given: The properties with their values.
        secrets: The names of further ones, whose values are not needed here.
    """
    named = _canonical(given)
    names = {*named, *_canonical(dict.fromkeys(secrets, ""))}
    if unknown := sorted(names - _TRANSLATED):
        return ", ".join(unknown)
    if (mechanism := named.get(_MECHANISM)) is not None and mechanism not in _LOGINS:
        return f"{_MECHANISM} {mechanism}"
    if mechanism == _TOKENS and TOKEN_CALLBACK not in given:
        return f"{_MECHANISM} {mechanism} without the token of a run"
    if named.get("ssl.ca.location") == "probe":
        return "ssl.ca.location probe"
    if client in _WITHOUT_PASSPHRASES and _PASSPHRASE in names:
        return f"{_PASSPHRASE}: {client} reads only keys without one"
    return None


def program_security(client: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return Kafka's connection properties for a program.

    Args:
        client: The client of the program.
        given: librdkafka's, with secrets among them, and with :data:`TOKEN_CALLBACK` for a token.

    Raises OSError for a file that cannot be read, ValueError for what has no translation.
    """
    if (reason := untranslated(client, given)) is not None:
        raise ValueError(f"{client} cannot receive {reason}")
    named = _canonical(given)
    protocol = named.get("security.protocol", "plaintext").upper()
    if protocol == "PLAINTEXT":
        return {}
    found = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        token = given[TOKEN_CALLBACK]("")[0] if TOKEN_CALLBACK in given else ""
        found |= _login(named, token)
    if protocol.endswith("SSL"):
        found |= _tls(client, named)
    return found


def _canonical(given: Mapping[str, object]) -> dict[str, str]:
    said = {name: value for name, value in given.items() if name != TOKEN_CALLBACK}
    return {_ALIASES.get(name, name): str(value) for name, value in said.items()}


def _login(named: Mapping[str, str], token: str) -> dict[str, str]:
    mechanism = named.get(_MECHANISM, "GSSAPI")
    if mechanism not in _LOGINS:
        raise ValueError(f"no program logs in by {mechanism}, but by one of {', '.join(_LOGINS)}")
    names = ("sasl.username", "sasl.password")
    said = {"token": token} if token else {one[5:]: named.get(one, "") for one in names}
    options = "".join(f' {name}="{_escaped(value)}"' for name, value in said.items())
    return {_MECHANISM: mechanism, "sasl.jaas.config": f"{_LOGINS[mechanism]} required{options};"}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _tls(client: str, named: Mapping[str, str]) -> dict[str, str]:
    found = {kafkas: _text(named, *names) for kafkas, names in _PEM.items()}
    key = found["ssl.keystore.key"]
    if client == "java" and key and not _PKCS8.search(key):
        raise ValueError(
            "java reads only keys in PKCS#8 (BEGIN PRIVATE KEY): openssl pkcs8 -topk8 makes one"
        )
    tls = {name: " ".join(text.split()) for name, text in found.items() if text}
    tls |= {f"{store}.type": "PEM" for store in sorted({".".join(n.split(".")[:2]) for n in tls})}
    if named.get(_IDENTIFICATION, "https").lower() == "none":
        tls[_IDENTIFICATION] = ""
    if key and _PASSPHRASE in named:
        tls[_PASSPHRASE] = named[_PASSPHRASE]
    return tls


def _text(named: Mapping[str, str], value: str, place: str) -> str:
    """Return the PEM blocks of a property, or of the file that another one names. What stands
    beside them in the file is a comment."""
    if value in named:
        text = named[value]
    elif place in named:
        text = Path(named[place]).read_text(encoding="ascii", errors="replace")
    else:
        return ""
    return "\n".join(_BLOCK.findall(text))
