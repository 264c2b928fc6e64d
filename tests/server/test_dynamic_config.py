"""Generations, and where a setting's value comes from."""

import pytest

from ackproof.broker.config import (
    DYNAMIC,
    SYNONYMS,
    BrokerConfig,
    ConfigError,
    Layers,
    Source,
    TopicConfig,
    describe_broker,
    describe_topic,
    text,
)
from ackproof.broker.replication.config import Truncation


def config(**given: object) -> BrokerConfig:
    return BrokerConfig(broker_id=1, zookeeper_connect="127.0.0.1:2181", **given)


@pytest.mark.parametrize(
    ("generation", "truncation", "unclean", "lag_max_messages", "lag_time_ms", "by_isr_order"),
    [
        ("0.8", Truncation.HIGH_WATERMARK, True, 4000, 10_000, True),
        ("0.10", Truncation.HIGH_WATERMARK, True, None, 10_000, False),
        ("0.11", Truncation.LEADER_EPOCH, False, None, 30_000, False),
    ],
)
def test_a_generation_is_a_preset(
    generation, truncation, unclean, lag_max_messages, lag_time_ms, by_isr_order
) -> None:
    made = config(ackproof_generation=generation)
    assert made.truncation is truncation
    assert made.unclean_leader_election_enable is unclean
    assert made.topic_defaults().unclean_leader_election_enable is unclean
    assert made.replica_lag_max_messages == lag_max_messages
    assert made.replica_lag_time_max_ms == lag_time_ms
    assert made.ackproof_leader_by_isr_order is by_isr_order


def test_given_property_overrides_the_generation() -> None:
    made = config(ackproof_generation="0.8", unclean_leader_election_enable="false")
    assert not made.unclean_leader_election_enable
    assert made.replica_lag_max_messages == 4000


def test_the_default_generation_is_0_11() -> None:
    assert config().ackproof_generation == "0.11"
    with pytest.raises(ValueError, match=r"ackproof\.generation"):
        config(ackproof_generation="0.9")


def test_every_topic_setting_has_a_broker_property_behind_it() -> None:
    assert SYNONYMS.keys() == TopicConfig.names()
    assert {name for names in SYNONYMS.values() for name in names} <= BrokerConfig.names()


def test_dynamic_properties_change_the_topics_defaults() -> None:
    layers = Layers(
        config(min_insync_replicas=2),
        {"min.insync.replicas": "3", "log.retention.ms": "4"},
        {"log.retention.ms": "5"},
    )
    defaults = layers.effective().topic_defaults()
    assert (defaults.min_insync_replicas, defaults.retention_ms) == (3, 5)
    with pytest.raises(ConfigError, match=r"min\.insync\.replicas=0"):
        Layers(config(), {}, {"min.insync.replicas": "0"}).effective()


def test_a_topics_setting_is_described_with_all_its_sources() -> None:
    layers = Layers(
        config(log_retention_hours=1), {"log.retention.ms": "20"}, {"log.retention.ms": "10"}
    )
    found = {s.name: s for s in describe_topic(layers, {"retention.ms": "5"})}
    assert found.keys() == TopicConfig.names()
    assert [tuple(value) for value in found["retention.ms"].synonyms] == [
        ("retention.ms", "5", Source.TOPIC),
        ("log.retention.ms", "10", Source.DYNAMIC_BROKER),
        ("log.retention.ms", "20", Source.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.hours", 1, Source.STATIC_BROKER),
    ]
    assert found["retention.ms"].source is Source.TOPIC
    assert found["flush.ms"].source is Source.DEFAULT
    assert found["max.message.bytes"].value == 1_048_588


def test_a_brokers_property_is_described_with_its_sources() -> None:
    layers = Layers(config(min_insync_replicas=2), {"min.insync.replicas": "3"}, {})
    found = {s.name: s for s in describe_broker(layers)}
    assert found.keys() == BrokerConfig.names()
    assert {name for name, s in found.items() if not s.read_only} == DYNAMIC
    minimum = found["min.insync.replicas"]
    assert (minimum.value, minimum.source) == ("3", Source.DYNAMIC_DEFAULT_BROKER)
    assert [value.source for value in minimum.synonyms] == [
        Source.DYNAMIC_DEFAULT_BROKER,
        Source.STATIC_BROKER,
    ]
    assert found["num.partitions"].source is Source.DEFAULT


def test_values_are_written_as_in_the_file() -> None:
    made = config(inter_broker_protocol_version="0.10.2", log_dirs="/a,/b")
    assert text(made.inter_broker_protocol_version) == "0.10.2"
    assert text(made.log_dirs) == "/a,/b"
    assert text(made.auto_create_topics_enable) == "true"
    assert text(made.broker_rack) is None
    assert text(made.num_partitions) == "1"
    assert text(config(listeners="PLAINTEXT://h:1").listeners) == "PLAINTEXT://h:1"
    limits = config(max_connections_per_ip_overrides="a:1, b:2").max_connections_per_ip_overrides
    assert text(limits) == "a:1,b:2"
