"""The settings that may change while the broker runs, and the source of each value.

A topic's setting comes from the topic, or from the broker property behind it. A broker property
comes from ``/config/brokers/<id>``, or ``/config/brokers/<default>``, or ``server.properties``, or
is Kafka's default (KIP-226). Only properties that are defaults of topic settings are dynamic here.
Not handled: Kafka's other dynamic ones (thread pools, listeners, quotas).
"""

import enum
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ackproof.broker.config import BrokerConfig, TopicConfig

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "min.insync.replicas": ("min.insync.replicas",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "max.message.bytes": ("message.max.bytes",),
    "segment.bytes": ("log.segment.bytes",),
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
}
"""The broker properties behind each topic setting, the most exact one first."""

DYNAMIC = frozenset(names[0] for names in SYNONYMS.values())
"""The broker properties that may change at run time."""


class Source(enum.IntEnum):
    """The source of a value, numbered as in DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Value(NamedTuple):
    """A value under one of its names."""

    name: str
    value: Any
    source: Source


class Described(NamedTuple):
    """A setting. ``synonyms`` are all places that give it a value, and the first one counts."""

    name: str
    value: Any
    source: Source
    read_only: bool
    synonyms: tuple[Value, ...]


class Layers(NamedTuple):
    """The configuration with which a broker was started, and its overrides."""

    static: BrokerConfig
    default: Mapping[str, str]
    """The content of ``/config/brokers/<default>``."""
    own: Mapping[str, str]
    """The content of ``/config/brokers/<id>``."""

    def effective(self) -> BrokerConfig:
        """Return the configuration with all overrides."""
        return self.static.overridden({**self.default, **self.own})


def describe_broker(layers: Layers) -> list[Described]:
    """Return every property of the broker."""
    return [
        _described(name, name not in DYNAMIC, tuple(_broker_values(name, layers)))
        for name in sorted(BrokerConfig.names())
    ]


def describe_topic(layers: Layers, overrides: Mapping[str, str]) -> list[Described]:
    """Return every setting of a topic that has ``overrides`` of its own."""
    effective = layers.effective().topic_defaults()
    return [
        _described(name, False, tuple(_topic_values(name, layers, overrides, effective)))
        for name in sorted(TopicConfig.names())
    ]


def _described(name: str, read_only: bool, values: tuple[Value, ...]) -> Described:
    return Described(name, values[0].value, values[0].source, read_only, values)


def _broker_values(name: str, layers: Layers) -> Iterator[Value]:
    if name in layers.own:
        yield Value(name, layers.own[name], Source.DYNAMIC_BROKER)
    if name in layers.default:
        yield Value(name, layers.default[name], Source.DYNAMIC_DEFAULT_BROKER)
    field = name.replace(".", "_")
    if field in layers.static.model_fields_set:
        yield Value(name, getattr(layers.static, field), Source.STATIC_BROKER)
    else:
        yield Value(name, getattr(layers.static, field), Source.DEFAULT)


def _topic_values(
    name: str, layers: Layers, overrides: Mapping[str, str], effective: TopicConfig
) -> Iterator[Value]:
    if name in overrides:
        yield Value(name, overrides[name], Source.TOPIC)
    given = [
        value
        for synonym in SYNONYMS[name]
        for value in _broker_values(synonym, layers)
        if value.source is not Source.DEFAULT and value.value is not None
    ]
    yield from given
    if not given:
        yield Value(name, getattr(effective, name.replace(".", "_")), Source.DEFAULT)


def text(value: Any) -> str | None:
    """Return a value as it is written in ``server.properties``."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if type(value) is tuple:
        numbers = all(isinstance(part, int) for part in value)
        return ("." if numbers else ",").join(map(_part, value))
    return str(value)


def _part(value: Any) -> str:
    return ":".join(map(str, value)) if isinstance(value, tuple) else str(value)
