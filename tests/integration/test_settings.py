"""Settings that change while brokers run, and take effect everywhere without a restart."""

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource

from tests.support.clients.admin import (
    BROKER,
    TOPIC,
    configs,
    error_of,
    read,
    set_configs,
    set_defaults,
)
from tests.support.clients.confluent import create_topic, produce, read_all, refused, watermarks
from tests.support.clusters.bundled import PATIENT, Cluster, running_cluster, until

pytestmark = pytest.mark.integration

DYNAMIC_TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG
DYNAMIC_DEFAULT = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three brokers that look for old segments each 100 ms."""
    overrides = PATIENT | {"log.retention.check.interval.ms": "100", "log.roll.hours": "5"}
    directory = tmp_path_factory.mktemp("settings")
    with running_cluster(directory, overrides=overrides) as cluster:
        yield cluster


def refusal(cluster: Cluster, topic: str, value: bytes = b"x", **config: object) -> int | None:
    (error,) = produce(cluster, topic, [value], **config).values()
    return None if error is None else int(error.code())


def test_max_message_bytes(cluster: Cluster) -> None:
    create_topic(cluster, "large")
    large = b"x" * 5000
    assert refusal(cluster, "large", large) is None
    assert set_configs(cluster, TOPIC, "large", {"max.message.bytes": "1000"}) is None
    until(
        "it is too large now",
        lambda: refusal(cluster, "large", large) == KafkaError.MSG_SIZE_TOO_LARGE,
    )
    assert configs(cluster, TOPIC, "large")["max.message.bytes"] == ("1000", DYNAMIC_TOPIC)
    assert set_configs(cluster, TOPIC, "large", {"max.message.bytes": None}) is None
    until("it is not any more", lambda: refusal(cluster, "large", large) is None)


def test_min_insync_replicas(cluster: Cluster) -> None:
    create_topic(cluster, "demanding", replication_factor=2)
    assert refusal(cluster, "demanding") is None
    assert set_configs(cluster, TOPIC, "demanding", {"min.insync.replicas": "3"}) is None
    until("two are too few", lambda: refused(cluster, "demanding", b"x"))
    assert set_configs(cluster, TOPIC, "demanding", {"min.insync.replicas": "2"}) is None
    until("two are enough", lambda: refusal(cluster, "demanding", retries=0) is None)


def test_retention(cluster: Cluster) -> None:
    create_topic(cluster, "short", config={"segment.bytes": "1000"})
    produce(cluster, "short", [b"x" * 400 for _ in range(20)], linger_ms=0, batch_num_messages=1)
    assert watermarks(cluster, "short") == (0, 20)
    assert set_configs(cluster, TOPIC, "short", {"retention.bytes": "2000"}) is None
    until("the first segments are gone", lambda: watermarks(cluster, "short")[0] > 10)
    assert len(read_all(cluster, "short")) < 10
    for broker in cluster.brokers.values():
        until(
            f"broker {broker.id} has deleted them too",
            lambda broker=broker: len(list((broker.logs / "short-0").glob("*.log"))) < 5,
        )


def test_all_brokers_defaults_change_at_run_time(cluster: Cluster) -> None:
    create_topic(cluster, "plain", replication_factor=2)
    create_topic(cluster, "own", replication_factor=2, config={"min.insync.replicas": "1"})
    set_defaults(cluster, {"min.insync.replicas": "3"})
    try:
        until("two are too few", lambda: refused(cluster, "plain", b"x"))
        assert refusal(cluster, "own") is None, "a topic's own setting wins"
        until(
            "each broker says so",
            lambda: all(
                configs(cluster, BROKER, str(b))["min.insync.replicas"] == ("3", DYNAMIC_DEFAULT)
                for b in cluster.brokers
            ),
        )
        assert configs(cluster, TOPIC, "plain")["min.insync.replicas"] == ("3", DYNAMIC_DEFAULT)
    finally:
        set_defaults(cluster, {"min.insync.replicas": None})
    until("two are enough again", lambda: refusal(cluster, "plain", retries=0) is None)


def test_a_brokers_own_setting_is_its_own(cluster: Cluster) -> None:
    assert set_configs(cluster, BROKER, "2", {"log.retention.ms": "123456"}) is None
    own = ("123456", ConfigSource.DYNAMIC_BROKER_CONFIG)
    until("2 says so", lambda: configs(cluster, BROKER, "2")["log.retention.ms"] == own)
    assert configs(cluster, BROKER, "1")["log.retention.ms"][0] is None
    assert set_configs(cluster, BROKER, "2", {"log.retention.ms": None}) is None


def test_config_sources_are_reported(cluster: Cluster) -> None:
    create_topic(cluster, "told", config={"retention.ms": "1000000"})
    found = configs(cluster, TOPIC, "told")
    assert found["retention.ms"] == ("1000000", DYNAMIC_TOPIC)
    assert found["segment.ms"] == ("5", ConfigSource.STATIC_BROKER_CONFIG)
    assert found["flush.ms"] == (str(2**63 - 1), ConfigSource.DEFAULT_CONFIG)
    broker = configs(cluster, BROKER, "1")
    assert broker["log.roll.hours"] == ("5", ConfigSource.STATIC_BROKER_CONFIG)
    assert broker["num.partitions"] == ("1", ConfigSource.DEFAULT_CONFIG)


def test_alter_configs_replaces_everything(cluster: Cluster) -> None:
    create_topic(cluster, "replaced", config={"retention.ms": "5000000", "flush.ms": "5"})
    resource = ConfigResource(TOPIC, "replaced", set_config={"retention.ms": "6000000"})
    with pytest.warns(DeprecationWarning, match="incremental_alter_configs"):
        refused = error_of(cluster, lambda admin: admin.alter_configs([resource])[resource])
    assert refused is None
    assert read(cluster, "/config/topics/replaced") == {
        "version": 1,
        "config": {"retention.ms": "6000000"},
    }


@pytest.mark.parametrize(
    ("kind", "name", "config", "code"),
    [
        (TOPIC, "no-such", {"retention.ms": "1"}, KafkaError.UNKNOWN_TOPIC_OR_PART),
        (TOPIC, "sensible", {"retention.ms": "long"}, KafkaError.INVALID_CONFIG),
        (TOPIC, "sensible", {"no.such.thing": "1"}, KafkaError.INVALID_CONFIG),
        (BROKER, "1", {"broker.id": "2"}, KafkaError.INVALID_REQUEST),
        (BROKER, "1", {"min.insync.replicas": "0"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_impossible_settings_are_refused(cluster: Cluster, kind, name, config, code) -> None:
    if cluster.topic("sensible") is None:
        create_topic(cluster, "sensible")
    assert set_configs(cluster, kind, name, config) == code


def test_validation_only_request_changes_no_config(cluster: Cluster) -> None:
    create_topic(cluster, "validated")
    entry = ConfigEntry("flush.ms", "7", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(TOPIC, "validated", incremental_configs=[entry])
    refused = error_of(
        cluster,
        lambda admin: admin.incremental_alter_configs([resource], validate_only=True)[resource],
    )
    assert refused is None
    assert read(cluster, "/config/topics/validated")["config"] == {}
