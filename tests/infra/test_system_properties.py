"""Validation of properties before a deployment: it equals the bundled broker's, whose configuration
is asked."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from ackproof.broker.config import BrokerConfig, ConfigError, TopicConfig
from ackproof.infra.systems import known
from ackproof.infra.systems.properties import RESERVED
from tests.support.builders.examples import examples

BUNDLED = known("bundled")
assert BUNDLED is not None
BROKER = sorted(BUNDLED.broker.keys() - RESERVED.keys())
TOPIC = sorted(BUNDLED.topic)
REQUIRED = {"broker.id": "1", "zookeeper.connect": "zookeeper-1:2181"}

ANY_VALUE = st.one_of(
    st.booleans(),
    st.integers(-3, 600),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([2**31 - 1, 2**31, 13, 14, 1023, 1024]),
    st.floats(),
    st.sampled_from(
        ["controller", "leader", "fenced", "0.8", "0.10", "CreateTime", "3.4", "3.4-IV0", "3", ""]
    ),
    st.sampled_from(["true", "TRUE", " true", "yes", "7", "-1", "007", "1_0", "+7", "7.0", " 7"]),
    st.sampled_from(["10.0.0.1:5", "10.0.0.1:x", "a:1,b:2", "http://x:93", "http://x:99999"]),
    st.text(max_size=5),
)


def as_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def broker_takes(given: dict[str, object]) -> bool:
    try:
        BrokerConfig.model_validate(REQUIRED | {name: as_text(v) for name, v in given.items()})
    except ValidationError:
        return False
    return True


def topic_takes(name: str, value: object) -> bool:
    try:
        TopicConfig().overridden({name: as_text(value)})
    except ConfigError:
        return False
    return True


def test_all_of_the_brokers_properties_are_known() -> None:
    assert set(BUNDLED.broker) == BrokerConfig.names()
    assert set(BUNDLED.topic) == TopicConfig.names()
    assert BUNDLED.unknown("broker", "broker.id") is None
    assert BUNDLED.unknown("topic", "broker.id") is not None


@settings(max_examples=examples(300))
@given(st.sampled_from(BROKER), ANY_VALUE)
def test_value_that_the_broker_rejects_is_wrong(name: str, value: object) -> None:
    wrong = BUNDLED.wrong("broker", name, value)
    wrong = wrong or next(BUNDLED.contradictions({name: value}), None)
    if wrong is None:
        assert broker_takes({name: value})
    elif isinstance(value, int) and (
        type(value) is int or "boolean" in BUNDLED.broker[name].values()
    ):
        assert not broker_takes({name: value}), "it is strict with text, and with text alone"


@given(st.sampled_from(TOPIC), ANY_VALUE)
def test_value_that_topic_creation_rejects_is_wrong(name: str, value: object) -> None:
    if BUNDLED.wrong("topic", name, value) is None:
        assert topic_takes(name, value)
    elif type(value) is int:
        assert not topic_takes(name, value)


@given(
    wait_ms=st.integers(0, 40_000),
    lag_ms=st.integers(1, 40_000),
    keep_ms=st.none() | st.integers(1, 40_000),
    coordination=st.sampled_from(["controller", "leader"]),
)
def test_contradictory_properties_are_reported(
    wait_ms: int, lag_ms: int, keep_ms: int | None, coordination: str
) -> None:
    given = {
        "replica.fetch.wait.max.ms": wait_ms,
        "replica.lag.time.max.ms": lag_ms,
        "ackproof.coordination": coordination,
        **({} if keep_ms is None else {"ackproof.keep.in.sync.ms": keep_ms}),
    }
    assert broker_takes(given) is not any(BUNDLED.contradictions(given))


@pytest.mark.parametrize(
    ("given", "by_isr_order"),
    [
        ({}, False),
        ({"ackproof.generation": "0.8"}, True),
        ({"ackproof.generation": "0.10"}, False),
        ({"ackproof.generation": "0.8", "ackproof.leader.by.isr.order": False}, False),
        ({"ackproof.leader.by.isr.order": "true"}, True),
    ],
)
def test_property_is_the_generations_unless_it_is_given(
    given: dict[str, str | bool], by_isr_order: bool
) -> None:
    assert BUNDLED.by_isr_order(given) is by_isr_order


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("inter.broker.protocol.version", 0.10, "must be text in quotes"),
        ("ackproof.generation", 0.8, "must be text in quotes"),
        ("log.segment.bytes", 2**31, "a whole number from 14 to 2,147,483,647, not 2147483648"),
        ("replica.lag.time.max.ms", 0, "a whole number from 1, not 0"),
        ("replica.lag.time.max.ms", "5s", "a whole number from 1, not '5s'"),
        ("delete.topic.enable", 1, "true or false, not 1"),
        ("log.message.timestamp.type", "Create", "one of CreateTime, LogAppendTime, not 'Create'"),
    ],
)
def test_wrong_property_is_reported_with_the_permitted_values(
    name: str, value: object, told: str
) -> None:
    assert told in (BUNDLED.wrong("broker", name, value) or "")


@pytest.mark.parametrize(
    ("kind", "name", "value", "told"),
    [
        ("broker", "log.cleaner.min.cleanable.ratio", "x", "a number, not 'x'"),
        ("broker", "log.cleaner.min.cleanable.ratio", "nan", "a number, not 'nan'"),
        ("broker", "log.cleaner.min.cleanable.ratio", True, "a number, not True"),
        ("broker", "log.cleaner.min.cleanable.ratio", 0.2, None),
        ("broker", "num.network.threads", 0, "a whole number from 1"),
        ("broker", "num.network.threads", 8, None),
        ("broker", "replica.lag.time.max.ms", 0, "a whole number from 1"),
        ("broker", "compression.type", "zip", "one of uncompressed, zstd, lz4"),
        ("broker", "inter.broker.protocol.version", "3.9", None),
        ("topic", "compression.gzip.level", -1, None),
        ("topic", "min.insync.replicas", 0, "a whole number from 1"),
    ],
)
def test_apache_kafka_properties_are_validated_by_its_own_configuration(
    kind: str, name: str, value: object, told: str | None
) -> None:
    kafka = known("kafka:3.9.1")
    assert kafka is not None
    found = kafka.wrong(kind, name, value)
    assert found is None if told is None else told in (found or "")


def test_names_of_the_one_are_none_of_the_other() -> None:
    kafka = known("kafka:3.9.1")
    assert kafka is not None
    assert "bundled broker, not of kafka:3.9.1" in (
        kafka.unknown("broker", "ackproof.generation") or ""
    )
    assert kafka.unknown("broker", "num.network.threads") is None
    assert BUNDLED.unknown("broker", "num.network.threads") is not None
    assert "did you mean num.network.threads?" in (
        kafka.unknown("broker", "num.network.thread") or ""
    )
    assert "Apache Kafka 3.9.1's own documentation" in (kafka.unknown("topic", "colour") or "")
    waits = {"replica.lag.time.max.ms": 400}
    assert [name for name, _ in kafka.contradictions(waits)] == ["replica.lag.time.max.ms"]
    assert not list(kafka.contradictions({"replica.lag.time.max.ms": 4000}))


def test_of_other_systems_nothing_is_known(tmp_path: Path) -> None:
    assert known("kafka") is None
    assert known("../bundled") is None
    (tmp_path / "libs").mkdir()
    jar = tmp_path / "libs" / "kafka_2.13-3.8.1.jar"
    jar.touch()
    assert known(f"kafka:{tmp_path}") is None, "its jars and its properties are not listed"
