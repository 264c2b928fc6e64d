"""Properties of programs, and those that a campaign may not set."""

import pytest

from ackproof.workloads.foreign.properties import (
    contradiction,
    delivery_timeout_ms,
    producer_properties,
    record_bytes_max,
    refused,
)

FOREIGN = ("java", "aiokafka", "franz-go")
OWN = "./own"


@pytest.mark.parametrize("client", FOREIGN)
def test_given_properties_override_the_defaults(client: str) -> None:
    told = producer_properties(client, {"linger.ms": 7, "enable.idempotence": True})
    assert told["linger.ms"] == "7"
    assert told["enable.idempotence"] == "true"
    assert told["delivery.timeout.ms"] == "20000"
    assert ("request.timeout.ms" in told) == (client != "aiokafka")


def test_delivery_timeout_follows_its_property() -> None:
    assert delivery_timeout_ms({}) == 20_000
    assert delivery_timeout_ms({"delivery.timeout.ms": "300"}) == 300


@pytest.mark.parametrize(
    ("client", "name", "value", "reason"),
    [
        *[(client, "acks", 1, "set the cell's acks") for client in (*FOREIGN, OWN)],
        *[(client, "bootstrap.servers", "x", "harness knows") for client in (*FOREIGN, OWN)],
        *[(client, "client.id", "x", "the client's name") for client in (*FOREIGN, OWN)],
        *[(client, "linger.ms", "soon", "number from 0") for client in (*FOREIGN, OWN)],
        *[(client, "delivery.timeout.ms", 0, "from 1, not '0'") for client in (*FOREIGN, OWN)],
        *[(client, "compression.type", "zip", "zip") for client in (*FOREIGN, OWN)],
        *[(client, "message.timeout.ms", 1, "delivery.timeout.ms") for client in FOREIGN],
        *[(client, "sticky.partitioning", 1, "may be set: batch.size") for client in FOREIGN],
        ("aiokafka", "retries", 3, "retries until delivery.timeout.ms"),
        ("aiokafka", "request.timeout.ms", 3, "one time for both"),
        ("aiokafka", "compression.type", "lz4", "takes none, gzip"),
        ("aiokafka", "reconnect.backoff.ms", 5, "one time serves for all"),
        ("franz-go", "send.buffer.bytes", 5, "leaves connecting as the library has it"),
        ("franz-go", "socket.connection.setup.timeout.ms", 5, "as the library has it"),
        ("franz-go", "transaction.timeout.ms", 5, "does not support transactions"),
        ("java", "transactional.id", "x", "not transactional"),
    ],
)
def test_forbidden_producer_property_is_refused(
    client: str, name: str, value: str | int, reason: str
) -> None:
    assert reason in (refused(client, name, value) or "nothing")


@pytest.mark.parametrize("client", [*FOREIGN, OWN])
def test_common_properties_are_accepted(client: str) -> None:
    for name, value in {"linger.ms": 0, "batch.size": "1000", "compression.type": "gzip"}.items():
        assert refused(client, name, value) is None
    assert (refused(client, "of.its.own", 1) is None) == (client == OWN)


IDEMPOTENT = {"enable.idempotence": True, "max.in.flight.requests.per.connection": 5}


@pytest.mark.parametrize(
    ("clients", "acks", "config", "reason"),
    [
        (FOREIGN, "1", IDEMPOTENT, "needs acks=all"),
        (FOREIGN, "all", {**IDEMPOTENT, "retries": 0}, "needs retries"),
        (FOREIGN, "all", {**IDEMPOTENT, "max.in.flight.requests.per.connection": 6}, "at most 5"),
        (("franz-go",), "all", {**IDEMPOTENT, "max.in.flight.requests.per.connection": 1}, "to 5"),
        (("java",), "all", {"delivery.timeout.ms": 5004}, "must be at least"),
    ],
)
def test_contradictory_properties_are_refused(
    clients: tuple[str, ...], acks: str, config: dict[str, str | int | bool], reason: str
) -> None:
    for client in FOREIGN:
        told = contradiction(client, acks, config) or "nothing"
        assert (reason in told) == (client in clients), (client, told)


@pytest.mark.parametrize("client", FOREIGN)
def test_compatible_properties_are_accepted(client: str) -> None:
    assert contradiction(client, "all", IDEMPOTENT) is None
    assert contradiction(client, "0", {"delivery.timeout.ms": 5005}) is None


def test_a_record_fits_into_a_batch_of_franz_go() -> None:
    assert record_bytes_max("java", {"batch.size": 1000}) == record_bytes_max("java", {})
    assert record_bytes_max("franz-go", {"batch.size": 1000}) < 1000
