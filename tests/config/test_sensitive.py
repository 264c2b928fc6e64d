"""Sensitive properties are those of librdkafka and of Kafka, and no others."""

import re
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException, Producer

from ackproof.config.sensitive import HIDDEN, holds_secret, is_sensitive, redacted, secrets_in

OF_KAFKA = (
    *("delegation.token.master.key", "delegation.token.secret.key", "password.encoder.secret"),
    *("password.encoder.old.secret", "sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"),
    *("sasl.oauthbearer.assertion.private.key.passphrase", "ssl.keystore.certificate.chain"),
    *("sasl.oauthbearer.client.credentials.client.secret", "ssl.keystore.password"),
    *("ssl.truststore.certificates", "ssl.truststore.password"),
    *("zookeeper.ssl.keystore.password", "zookeeper.ssl.truststore.password"),
)
"""``ConfigDef.Type.PASSWORD`` in the brokers of Apache Kafka 2.0 to 4.1."""
OF_PLUG_INS = (
    *("rsm.config.storage.aws.secret.access.key", "rsm.config.storage.azure.account.key"),
    *("rsm.config.storage.azure.connection.string", "rsm.config.gcs.credentials.json"),
    *("basic.auth.user.info", "confluent.metrics.reporter.sasl.jaas.config", "auth.token"),
)
OPEN = (
    *("password.encoder.iterations", "password.encoder.key.length", "ssl.keystore.location"),
    *("password.encoder.cipher.algorithm", "password.encoder.keyfactory.algorithm"),
    *("sasl.oauthbearer.token.endpoint.url", "delegation.token.max.lifetime.ms", "sasl.username"),
    *("sasl.oauthbearer.client.credentials.client.id", "ssl.key.location", "sasl.mechanism"),
    *("sasl.oauthbearer.assertion.private.key.file", "message.key", "ssl.certificate.location"),
    *("ssl.client.auth", "client.id", "delegation.token.expiry.time.ms", "super.users"),
)
OF_LIBRDKAFKA = (
    *("sasl.password", "sasl.oauthbearer.client.secret", "ssl.key.password", "ssl.key.pem"),
    *("sasl.oauthbearer.client.credentials.client.secret", "ssl.keystore.password", "ssl_key"),
    *("sasl.oauthbearer.assertion.private.key.pem", "sasl.oauthbearer.config", "sasl.jaas.config"),
    "sasl.oauthbearer.assertion.private.key.passphrase",
)


@pytest.mark.parametrize("name", [*OF_KAFKA, *OF_PLUG_INS, *OF_LIBRDKAFKA])
@pytest.mark.parametrize("prefix", ["", "listener.name.internal.", "producer.", "RSM_"])
def test_secret_property_is_sensitive(prefix: str, name: str) -> None:
    assert is_sensitive(prefix + name)


@pytest.mark.parametrize("name", OPEN)
def test_property_without_a_secret_is_not_sensitive(name: str) -> None:
    assert not is_sensitive(name)


def test_property_hidden_by_librdkafka_is_sensitive(capfd: pytest.CaptureFixture[str]) -> None:
    for name in (*OF_LIBRDKAFKA, *OPEN):
        with suppress(KafkaException):  # for a value that it can tell to be wrong
            Producer({name: "not-shown", "debug": "conf"}).poll(0)
    printed = capfd.readouterr().err
    hidden = set(re.findall(r" ([a-z_.]+) = \[redacted\]", printed))
    assert {"sasl.password", "ssl.key.password"} <= hidden
    # librdkafka hides these, too, but a user name and a path are no secrets.
    assert {name for name in hidden if not is_sensitive(name)} == {
        *("sasl.username", "ssl.key.location", "sasl.oauthbearer.assertion.private.key.file"),
    }


@pytest.mark.parametrize(
    "value",
    [
        'org.apache.kafka.X required username="u" password="hunter2";',
        "-----BEGIN ENCRYPTED PRIVATE KEY----- MII",
        "https://user:hunter2@idp.example.org/token",
        "-Djavax.net.ssl.keyStorePassword=hunter2",
        'OAuthBearerLoginModule required clientId="c" clientSecret="hunter2";',
    ],
)
def test_text_with_a_secret_is_recognised_under_any_name(value: str) -> None:
    assert holds_secret(value)
    assert redacted({"x": [value]}) == {"x": [HIDDEN]}


@pytest.mark.parametrize("value", ["https://idp.example.org:443/token", "User:admin;User:b", 3])
def test_text_without_a_secret_is_not_hidden(value: object) -> None:
    assert not holds_secret(value)


def test_secrets_are_found_wherever_they_are() -> None:
    content = {
        "a": {"sasl.password": "p", "secrets": {"sasl.password": {"env": "P"}}},
        "b": [{"ssl.key.pem": ["x", "y"]}, ["curl", "--password", "p", "--user", "u"]],
    }
    assert list(secrets_in(content)) == [
        ("a", "sasl.password"),
        ("b", 0, "ssl.key.pem"),
        ("b", 1, 2),
    ]
    hidden = redacted(content)
    assert hidden == {
        "a": {"sasl.password": HIDDEN, "secrets": {"sasl.password": {"env": "P"}}},
        "b": [{"ssl.key.pem": HIDDEN}, ["curl", "--password", HIDDEN, "--user", "u"]],
    }
