"""TLS and SASL for connections of our own, said in librdkafka's words.

Not all of them: whoever asks for more is told so (:func:`unspoken`) before anything is connected.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass

from ackproof.infra.systems.scram import HASHES

PLAIN = "PLAIN"
MECHANISMS = (PLAIN, *HASHES)
"""Of SASL."""
_PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
_ALIASES = {"sasl.mechanisms": "sasl.mechanism"}
_SASL = frozenset({"sasl.mechanism", "sasl.username", "sasl.password"})
_TLS = frozenset(
    {
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
        *("enable.ssl.certificate.verification", "ssl.endpoint.identification.algorithm"),
    }
)
_NO_MATTER = frozenset({"bootstrap.servers", "broker.address.family", "security.protocol"})
_DEFAULT_MECHANISM = "GSSAPI"
PROBE = "probe"
"""librdkafka's word for: wherever the system has them."""
_FALSE = frozenset({"false", "f", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How a connection is secured.

    Attributes:
        tls: None: it is not encrypted.
        mechanism: Of SASL; None: nobody logs in.
    """

    tls: ssl.SSLContext | None = None
    mechanism: str | None = None
    user: str = ""
    password: str = ""


def unspoken(given: Mapping[str, str], secrets: frozenset[str] = frozenset()) -> str | None:
    """What of these properties a connection of our own does not speak; None where it speaks all.
    ``secrets``: names of further ones, whose values are not needed for that."""
    said = _canonical(given)
    encrypted, logs_in = _uses(said)
    names = {_ALIASES.get(name, name) for name in secrets | said.keys()}
    # librdkafka ignores what the protocol has no use for.
    known = _NO_MATTER | _SASL | _TLS
    needless = {n for n in names if _needless(n, encrypted=encrypted, logs_in=logs_in)}
    if unknown := sorted(names - known - needless):
        return ", ".join(unknown)
    mechanism = said.get("sasl.mechanism", _DEFAULT_MECHANISM)
    return f"sasl.mechanism {mechanism}" if logs_in and mechanism not in MECHANISMS else None


def security(given: Mapping[str, str]) -> Security:
    """Of librdkafka's properties that connecting takes, secrets among them. Raises ValueError for
    what is not spoken, OSError for files that cannot be read or are no certificates."""
    if (reason := unspoken(given)) is not None:
        raise ValueError(f"a connection of our own does not speak {reason}")
    said = _canonical(given)
    encrypted, logs_in = _uses(said)
    return Security(
        tls=_context(said) if encrypted else None,
        mechanism=said["sasl.mechanism"] if logs_in else None,
        user=said.get("sasl.username", ""),
        password=said.get("sasl.password", ""),
    )


def _canonical(given: Mapping[str, str]) -> Mapping[str, str]:
    return {_ALIASES.get(name, name): value for name, value in given.items()}


def _uses(said: Mapping[str, str]) -> tuple[bool, bool]:
    """Whether there is TLS, and whether there is SASL."""
    protocol = said.get("security.protocol", _PROTOCOLS[0]).lower()
    return protocol.endswith("ssl"), protocol.startswith("sasl")


def _needless(name: str, *, encrypted: bool, logs_in: bool) -> bool:
    of_sasl = name.startswith("sasl.")
    return (of_sasl and not logs_in) or (not of_sasl and "ssl." in name and not encrypted)


def _context(said: Mapping[str, str]) -> ssl.SSLContext:
    context = ssl.create_default_context()
    location = said.get("ssl.ca.location", PROBE)
    if location != PROBE:
        # Those of the system would vouch for others than librdkafka believes.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _trust(context, location)
    if said.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        context.check_hostname = False
    if said.get("enable.ssl.certificate.verification", "true").lower() in _FALSE:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate := said.get("ssl.certificate.location"):
        # Without a password OpenSSL would ask the terminal for one.
        password = said.get("ssl.key.password", "")
        context.load_cert_chain(certificate, said.get("ssl.key.location"), lambda: password)
    return context


def _trust(context: ssl.SSLContext, location: str) -> None:
    try:
        context.load_verify_locations(cafile=location)
    except IsADirectoryError:
        context.load_verify_locations(capath=location)
