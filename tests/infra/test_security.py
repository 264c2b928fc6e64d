"""TLS and SASL of connections of our own: what is spoken of librdkafka's properties, and SCRAM as
RFC 5802 and RFC 7677 have it."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ackproof.infra.systems.security import HASHES, Scram, ScramError, security, unspoken
from tests.support.fakes.scram_server import Server

SASL_SSL = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
PRINTABLE = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


def test_the_conversation_of_rfc_7677() -> None:
    """Its chapter 3, word by word."""
    scram = Scram("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    challenge = f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert scram.final(challenge.encode()).decode() == (
        f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    scram.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@given(mechanism=st.sampled_from(sorted(HASHES)), user=PRINTABLE, password=PRINTABLE)
def test_any_name_and_password_are_understood(mechanism: str, user: str, password: str) -> None:
    """Commas and equals signs in a name would otherwise be fields of their own."""
    scram, server = Scram(mechanism, user, password, "n0nce"), Server(mechanism, password)
    scram.check(server.verdict(scram.final(server.challenge(scram.first()))))
    assert server.user == user


def test_wrong_password_is_reported() -> None:
    scram, server = Scram("SCRAM-SHA-512", "u", "wrong", "n0nce"), Server("SCRAM-SHA-512", "right")
    with pytest.raises(ScramError, match="the server says invalid-proof"):
        scram.check(server.verdict(scram.final(server.challenge(scram.first()))))


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=theirs,s=c2FsdA==,i=4096", "belongs to another exchange"),
        (b"r=n0nce,s=c2FsdA==,i=4096", "belongs to another exchange"),
        (b"r=n0nce-more,s=c2FsdA==,i=1", "asks for 1 rounds"),
        (b"r=n0nce-more,s=c2FsdA==,i=99999999", "asks for 99999999 rounds"),
        (b"r=n0nce-more,s=?,i=4096", "not base64"),
        (b"r=n0nce-more,i=4096", "has no s"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_challenge_that_cannot_be_is_refused(challenge: bytes, reason: str) -> None:
    scram = Scram("SCRAM-SHA-256", "u", "p", "n0nce")
    with pytest.raises(ScramError, match=reason):
        scram.final(challenge)


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    scram, server = Scram("SCRAM-SHA-256", "u", "p", "n0nce"), Server("SCRAM-SHA-256", "p")
    scram.final(server.challenge(scram.first()))
    with pytest.raises(ScramError, match="does not know the password"):
        scram.check(b"v=" + base64.b64encode(bytes(32)))


@pytest.mark.parametrize(
    ("given", "secrets", "reason"),
    [
        ({}, set(), None),
        (SASL_SSL, {"sasl.password", "ssl.key.password"}, None),
        ({**SASL_SSL, "sasl.mechanism": "OAUTHBEARER"}, set(), "sasl.mechanism OAUTHBEARER"),
        ({"security.protocol": "sasl_plaintext"}, set(), "sasl.mechanism GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN"}, {"sasl.password"}, None),
        (
            {"security.protocol": "ssl", "ssl.keystore.location": "k"},
            set(),
            "ssl.keystore.location",
        ),
        ({"security.protocol": "ssl"}, {"ssl.keystore.password"}, "ssl.keystore.password"),
        # Of what the protocol has no use for, librdkafka takes no notice either.
        ({"ssl.keystore.location": "k", "sasl.mechanism": "GSSAPI"}, set(), None),
    ],
)
def test_unsupported_security_setting_is_named(given, secrets, reason: str | None) -> None:
    assert unspoken(given, frozenset(secrets)) == reason


def test_certificate_checks_follow_the_librdkafka_settings() -> None:
    tls = {"security.protocol": "ssl"}
    assert security({}).tls is None
    strict = security(tls).tls
    assert strict is not None
    assert strict.check_hostname
    unnamed = security({**tls, "ssl.endpoint.identification.algorithm": "none"}).tls
    assert unnamed is not None
    assert not unnamed.check_hostname
    assert unnamed.verify_mode == strict.verify_mode
    anybody = security({**tls, "enable.ssl.certificate.verification": "false"}).tls
    assert anybody is not None
    assert anybody.verify_mode != strict.verify_mode
    with pytest.raises(OSError, match="No such file"):
        security({**tls, "ssl.ca.location": "/nowhere/ca.pem"})
