"""Connections of our own over TLS, logged in by SASL, to a broker that requires both."""

import struct
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ackproof.infra.api.capabilities import OrderRefused
from ackproof.infra.systems.admin import KafkaAdmin
from ackproof.infra.systems.wire import connector
from tests.support.fakes.tls_listener import ANSWER, ListeningTls, listening_tls
from tests.support.processes.deadlines import PATIENCE_S

USER, PASSWORD, PASSPHRASE = "ackproof", "hunter2, = and more", "its-key-is-locked-by-this"


def told(broker: ListeningTls, mechanism: str) -> Mapping[str, str]:
    """Return the properties for librdkafka."""
    certificate, key = broker.authority.issue(USER, PASSPHRASE)
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(broker.authority.certificate),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(key),
        "ssl.key.password": PASSPHRASE,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_client_with_certificate_and_password_is_accepted(tmp_path: Path, mechanism: str) -> None:
    with listening_tls(tmp_path, mechanism, USER, PASSWORD) as broker:
        connect = connector(told(broker, mechanism))
        with connect(broker.address, time.monotonic() + PATIENCE_S) as connection:
            connection.sendall(struct.pack(">i", 2) + b"go")
            assert connection.recv(100).endswith(ANSWER)
    assert broker.reasons == []


@pytest.mark.parametrize(
    ("mechanism", "change", "reason"),
    [
        ("PLAIN", {"sasl.password": "wrong"}, "invalid credentials"),
        ("SCRAM-SHA-512", {"sasl.password": "wrong"}, "invalid credentials"),
        ("SCRAM-SHA-512", {"sasl.username": "nobody"}, "invalid credentials"),
        ("SCRAM-SHA-256", {"sasl.mechanism": "PLAIN"}, "does not accept PLAIN, only SCRAM-SHA-256"),
        ("PLAIN", {"ssl.ca.location": "probe"}, "certificate verify failed"),
    ],
)
def test_rejected_client_receives_the_reason(
    tmp_path: Path, mechanism: str, change: Mapping[str, str], reason: str
) -> None:
    with listening_tls(tmp_path, mechanism, USER, PASSWORD) as broker:
        connect = connector({**told(broker, mechanism), **change})
        with pytest.raises(OSError, match=reason):
            connect(broker.address, time.monotonic() + PATIENCE_S)


def test_a_broker_of_another_name_is_not_believed(tmp_path: Path) -> None:
    """Its certificate is valid, for localhost and 127.0.0.1: this is the same place by a name that
    is in no certificate."""
    with listening_tls(tmp_path, "PLAIN", USER, PASSWORD) as broker:
        given = told(broker, "PLAIN")
        there = ("127.1", broker.address[1])
        with pytest.raises(OSError, match="Hostname mismatch"):
            connector(given)(there, time.monotonic() + PATIENCE_S)


def test_an_order_says_that_there_is_no_connection_for_it(tmp_path: Path) -> None:
    with listening_tls(tmp_path, "PLAIN", USER, PASSWORD) as broker:
        given = told(broker, "PLAIN")
    for change in ({"ssl.key.password": "wrong"}, {"ssl.crl.location": "crl.pem"}):
        admin = KafkaAdmin(list, lambda _topic: {}, {**given, **change})
        with pytest.raises(OrderRefused, match="own connection failed"):
            admin.reassign("t", 0, [1], 1.0)
