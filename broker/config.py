"""The broker's configuration: ``server.properties`` in, one frozen :class:`BrokerConfig` out."""

import enum
import logging
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from jproperties import Properties, PropertyError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from ackproof.broker.log.config import LogConfig
from ackproof.broker.replication.config import Truncation
from ackproof.broker.replication.leader import ReplicaSelector
from ackproof.broker.types import BrokerId

logger = logging.getLogger(__name__)


# --- values ---------------------------------------------------------------------------------------
#
# Values of properties: how each kind is read, and the message when it is wrong.


class Listener(NamedTuple):
    """An address to listen on or to advertise, written ``PLAINTEXT://host:port`` in the file."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"PLAINTEXT://{self.host}:{self.port}"


class HttpListener(NamedTuple):
    """An address that serves HTTP, written ``http://host:port`` in the file."""

    host: str
    port: int


def _listener(value: object) -> Listener:
    if isinstance(value, Listener):
        return value
    return Listener(*_address(value, "one listener such as PLAINTEXT://host:9092"))


def _http_listener(value: object) -> HttpListener | None:
    if value is None or isinstance(value, HttpListener):
        return value
    return HttpListener(*_address(value, "an address such as http://host:9308"))


def _address(value: object, example: str) -> tuple[str, int]:
    """Return host and port of a URL with the scheme of ``example`` and nothing after the port."""
    expected = f"Input should be {example}"
    try:
        url = urlsplit(str(value))
        port = url.port
    except ValueError as error:
        raise ValueError(expected) from error
    scheme_fits = f" {url.scheme.lower()}://" in example.lower()
    if not scheme_fits or port is None or "," in str(value) or url.path.strip("/"):
        raise ValueError(expected)
    return url.hostname or "", port


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).strip().lower() not in {"true", "false"}:
        raise ValueError("Input should be true or false")
    return str(value).strip().lower() == "true"


def _paths(value: object) -> tuple[Path, ...]:
    if isinstance(value, tuple):
        return value
    paths = tuple(Path(part.strip()) for part in str(value).split(",") if part.strip())
    if not paths:
        raise ValueError("Input should be one or more directories, separated by commas")
    return paths


def _version(value: object) -> tuple[int, ...]:
    if isinstance(value, tuple):
        return value
    numbers = str(value).split("-")[0].split(".")
    if not all(number.isdigit() for number in numbers) or len(numbers) < 2:
        raise ValueError("Input should be a version such as 3.4 or 0.10.2")
    return tuple(map(int, numbers))


def _count_by_address(value: object) -> object:
    if isinstance(value, tuple):
        return value
    entries = [entry.rpartition(":") for entry in str(value).split(",") if entry.strip()]
    if not all(address.strip() and count.strip().isdigit() for address, _, count in entries):
        raise ValueError("Input should be a list such as 10.0.0.1:100,10.0.0.2:200")
    return tuple((address.strip(), int(count)) for address, _, count in entries)


_PORT = r"([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"


def _written(pattern: str) -> object:
    """Return the type, in ``server.properties``, of a value that is read from text."""
    return Annotated[str, Field(pattern=pattern)]


MessageTimestampType = Literal["CreateTime", "LogAppendTime"]
Version = Annotated[
    tuple[int, ...],
    BeforeValidator(_version, json_schema_input_type=_written(r"^[0-9]+(\.[0-9]+)+(-.*)?$")),
]
Bool = Annotated[bool, BeforeValidator(_boolean)]
Paths = Annotated[
    tuple[Path, ...], BeforeValidator(_paths, json_schema_input_type=_written(r"[^,\s]"))
]
CountByAddress = Annotated[
    tuple[tuple[str, int], ...],
    BeforeValidator(
        _count_by_address,
        json_schema_input_type=_written(r"^([^,\s]+:[0-9]+(,[^,\s]+:[0-9]+)*)?$"),
    ),
]
MetricsListener = Annotated[
    HttpListener | None,
    BeforeValidator(
        _http_listener, json_schema_input_type=_written(rf"^http://[A-Za-z0-9.-]+:{_PORT}$")
    ),
]
OneListener = Annotated[
    Listener,
    BeforeValidator(
        _listener, json_schema_input_type=_written(rf"^PLAINTEXT://[A-Za-z0-9.-]*:{_PORT}$")
    ),
]
NotNegative = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
MinusOneOrMore = Annotated[int, Field(ge=-1)]


# --- generations ----------------------------------------------------------------------------------
#
# Generations of Kafka's replication, as presets of ordinary properties.
#
# The differences are in *Reliability* (sections 1.1 and 1.4) and *Data reliability in depth* (3.3,
# 3.6):
#
# - 0.8 also removes a follower from the ISR when it is many messages behind, not only when it is
#   late. It truncates followers to their high watermark, prefers availability to consistency, and
#   elects the first in the order of the ISR.
# - 0.10 has no limit of messages (KIP-16), and elects by assignment order (KAFKA-1502).
# - 0.11 truncates by leader epochs (KIP-101) and prefers consistency (KIP-106), as every Kafka
#   since. It is the default and leaves all other defaults as they are in Kafka 3.x. A follower may
#   therefore be late for 30 s, as since 2.5 (KIP-537). Before that, and in the older generations,
#   it was 10 s.
#
# An explicit property overrides the preset's.


Generation = Literal["0.8", "0.10", "0.11"]

PRESETS: Mapping[str, Mapping[str, str]] = {
    "0.8": {
        "inter.broker.protocol.version": "0.8.2",
        "unclean.leader.election.enable": "true",
        "replica.lag.max.messages": "4000",
        "replica.lag.time.max.ms": "10000",
        "ackproof.leader.by.isr.order": "true",
    },
    "0.10": {
        "inter.broker.protocol.version": "0.10.2",
        "unclean.leader.election.enable": "true",
        "replica.lag.time.max.ms": "10000",
    },
    "0.11": {},
}
"""The properties by the value of ``ackproof.generation``."""


# --- configuration --------------------------------------------------------------------------------
#
# The broker's configuration: ``server.properties`` in, one frozen :class:`BrokerConfig` out.
#
# Names and defaults are Apache Kafka's (broker configuration reference, 3.x with ZooKeeper). The
# field ``replica_lag_time_max_ms`` is the property ``replica.lag.time.max.ms``, and so on. Unknown
# properties are ignored with a warning, as in Kafka, because files are shared between versions.
# Exactly one listener, without encryption, is supported.


__all__ = ["BrokerConfig", "ConfigError", "Listener", "TopicConfig", "load"]


_HOUR_MS = 3_600_000
_MAX_LONG = 2**63 - 1


class ConfigError(Exception):
    """A configuration that the broker cannot start with. The text has the file, the key and the
    remedy."""


class _Properties(BaseModel):
    """A model whose fields are named like properties, with underscores for dots."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=lambda name: name.replace("_", "."),
        populate_by_name=True,
    )

    @classmethod
    def names(cls) -> frozenset[str]:
        """Return every property name of this model, in Kafka's spelling."""
        return frozenset(str(field.alias) for field in cls.model_fields.values())


class TopicConfig(_Properties):
    """A topic's settings: the broker's defaults, overridden in ``/config/topics/<topic>``."""

    min_insync_replicas: Positive = 1
    unclean_leader_election_enable: Bool = False
    max_message_bytes: NotNegative = 1_048_588
    segment_bytes: Annotated[int, Field(ge=14, lt=2**31)] = 2**30
    segment_ms: Positive = 168 * _HOUR_MS
    segment_index_bytes: Annotated[int, Field(ge=4)] = 10 * 2**20
    index_interval_bytes: NotNegative = 4096
    retention_bytes: MinusOneOrMore = -1
    retention_ms: MinusOneOrMore = 168 * _HOUR_MS
    flush_messages: Positive = _MAX_LONG
    flush_ms: NotNegative = _MAX_LONG
    message_timestamp_type: MessageTimestampType = "CreateTime"
    message_timestamp_difference_max_ms: NotNegative = _MAX_LONG
    """The limit in both directions, if the two below are not set (KIP-937)."""
    message_timestamp_before_max_ms: NotNegative = _MAX_LONG
    message_timestamp_after_max_ms: NotNegative = _MAX_LONG

    def log_config(self) -> LogConfig:
        """Return the settings of the logs."""
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            segment_index_bytes=self.segment_index_bytes,
            index_interval_bytes=self.index_interval_bytes,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            flush_messages=self.flush_messages,
            flush_ms=self.flush_ms,
            message_timestamp_type=self.message_timestamp_type,
            message_timestamp_before_max_ms=self._or_difference(
                self.message_timestamp_before_max_ms
            ),
            message_timestamp_after_max_ms=self._or_difference(self.message_timestamp_after_max_ms),
        )

    def _or_difference(self, limit_ms: int) -> int:
        return self.message_timestamp_difference_max_ms if limit_ms == _MAX_LONG else limit_ms

    def overridden(self, overrides: Mapping[str, str]) -> "TopicConfig":
        """Return this configuration with a topic's own settings on top.

        Raises:
            ConfigError: a setting that does not exist here, or a value that it cannot have.
        """
        try:
            return TopicConfig.model_validate(self.model_dump(by_alias=True) | dict(overrides))
        except ValidationError as error:
            raise ConfigError("; ".join(_faults(error))) from error


class BrokerConfig(_Properties):
    """The properties with which a broker starts."""

    broker_id: Annotated[int, Field(ge=0, lt=2**31)]
    broker_rack: str | None = None
    listeners: OneListener = Listener("", 9092)
    advertised_listeners: OneListener = Listener("", 0)
    metrics_listener: MetricsListener = None
    """The address of the metrics for Prometheus, for example ``http://127.0.0.1:9308`` (page
    ``/metrics``). It is not a property of Kafka, which has JMX. None means that there are no
    metrics."""
    log_dirs: Paths = (Path("/tmp/kafka-logs"),)

    zookeeper_connect: Annotated[str, Field(min_length=1)]
    zookeeper_session_timeout_ms: Positive = 18_000
    zookeeper_connection_timeout_ms: Positive | None = None

    ackproof_generation: Generation = "0.11"
    """The generation of replication, which sets what :mod:`broker.config` lists, unless given
    explicitly."""
    ackproof_coordination: Literal["controller", "leader"] = "controller"
    """The coordination of partitions: one controller for all (*Reliability*), or each partition's
    own leader (*Design V2*). All brokers of a cluster need the same."""
    ackproof_coordination_variant: Literal["fenced", "printed"] = "fenced"
    """The variant of coordination by leaders: *Design V2* as it is printed, with its holes, or with
    these closed."""
    ackproof_preferred_replica_wait_ms: NotNegative = 200
    """The time (in ms) for which other replicas wait for the preferred replica in an election by
    leaders, PreferredReplicaTime. *Design V2* gives no figure."""
    ackproof_keep_in_sync_ms: Positive | None = None
    """The time (in ms) for which a leader waits for a follower before it removes it from the ISR,
    and for all of them before it begins to serve, KeepInSyncTime of coordination by leaders. None
    means ``replica.lag.time.max.ms``, as in Kafka."""
    ackproof_state_change_queue_max: Positive = 10_000
    """The number of state change requests that may wait in ``/brokers/state/N``, in coordination by
    leaders. A list of some 60,000 would be more than ZooKeeper returns (``jute.maxbuffer``)."""
    ackproof_wait_for_isr: Bool = False
    """Whether the controller waits for the whole ISR if all of it that is online has bounced (in
    the spirit of KIP-966). If not, the first member that is back leads, as in *Reliability* and in
    Kafka 3.9."""
    ackproof_leader_by_isr_order: Bool = False
    """Whether the controller elects the first online replica in the order of the ISR, as Kafka did
    before 0.8.2 (KAFKA-1502). If not, it elects the first in assignment order that is in the ISR.
    """
    inter_broker_protocol_version: Version = (3, 4)
    """The version that decides how followers truncate: before 0.11 to their high watermark, since
    then by leader epochs (KIP-101). Nothing else depends on it here."""
    socket_request_max_bytes: Positive = 100 * 2**20
    socket_listen_backlog_size: Positive = 50
    connections_max_idle_ms: int = 600_000
    max_connections: NotNegative = 2**31 - 1
    max_connections_per_ip: NotNegative = 2**31 - 1
    max_connections_per_ip_overrides: CountByAddress = ()
    message_max_bytes: NotNegative = 1_048_588
    fetch_max_bytes: Annotated[int, Field(ge=1024)] = 55 * 2**20
    max_incremental_fetch_session_cache_slots: NotNegative = 1000

    num_partitions: Positive = 1
    default_replication_factor: Positive = 1
    min_insync_replicas: Positive = 1
    unclean_leader_election_enable: Bool = False
    auto_create_topics_enable: Bool = True
    delete_topic_enable: Bool = True
    auto_leader_rebalance_enable: Bool = True
    leader_imbalance_check_interval_seconds: Positive = 300
    leader_imbalance_per_broker_percentage: NotNegative = 10
    controller_socket_timeout_ms: Positive = 30_000
    controlled_shutdown_enable: Bool = True
    controlled_shutdown_max_retries: NotNegative = 3
    controlled_shutdown_retry_backoff_ms: NotNegative = 5_000

    replica_lag_time_max_ms: Positive = 30_000
    replica_lag_max_messages: Positive | None = None
    """Removed from Kafka in 0.9, and kept here to study the reason (*Reliability*, section 1.1).
    None means that there is no such rule."""
    replica_fetch_wait_max_ms: NotNegative = 500
    replica_fetch_min_bytes: NotNegative = 1
    replica_fetch_max_bytes: NotNegative = 2**20
    replica_fetch_response_max_bytes: NotNegative = 10 * 2**20
    replica_fetch_backoff_ms: NotNegative = 1_000
    replica_socket_timeout_ms: Positive = 30_000
    replica_selector_class: ReplicaSelector | None = None
    replica_high_watermark_checkpoint_interval_ms: Positive = 5_000

    log_segment_bytes: Annotated[int, Field(ge=14, lt=2**31)] = 2**30
    log_roll_ms: Positive | None = None
    log_roll_hours: Positive = 168
    log_index_size_max_bytes: Annotated[int, Field(ge=4)] = 10 * 2**20
    log_index_interval_bytes: NotNegative = 4096
    log_retention_ms: MinusOneOrMore | None = None
    log_retention_minutes: MinusOneOrMore | None = None
    log_retention_hours: MinusOneOrMore = 168
    log_retention_bytes: MinusOneOrMore = -1
    log_retention_check_interval_ms: Positive = 300_000
    log_flush_interval_messages: Positive = _MAX_LONG
    log_flush_interval_ms: NotNegative | None = None
    log_flush_scheduler_interval_ms: Positive | None = None
    """The interval at which the logs are checked for ``flush.ms``. None means each second; in Kafka
    it means never, so that ``log.flush.interval.ms`` alone has no effect there."""
    log_flush_offset_checkpoint_interval_ms: NotNegative = 60_000
    log_flush_start_offset_checkpoint_interval_ms: NotNegative = 60_000
    log_message_timestamp_type: MessageTimestampType = "CreateTime"
    log_message_timestamp_difference_max_ms: NotNegative = _MAX_LONG
    log_message_timestamp_before_max_ms: NotNegative = _MAX_LONG
    log_message_timestamp_after_max_ms: NotNegative = _MAX_LONG

    offsets_topic_num_partitions: Positive = 50
    offsets_topic_replication_factor: Positive = 3
    """The number of live brokers below which there is no topic and no coordinator."""
    offsets_topic_segment_bytes: Positive = 100 * 2**20
    offsets_commit_required_acks: Annotated[int, Field(ge=-1, le=1)] = -1
    offsets_commit_timeout_ms: Positive = 5_000
    offsets_retention_minutes: Positive = 7 * 24 * 60
    offsets_retention_check_interval_ms: Positive = 600_000
    offset_metadata_max_bytes: NotNegative = 4_096
    group_min_session_timeout_ms: Positive = 6_000
    group_max_session_timeout_ms: Positive = 1_800_000
    group_initial_rebalance_delay_ms: NotNegative = 3_000
    group_max_size: Positive = 2**31 - 1

    producer_id_expiration_ms: Positive = 24 * _HOUR_MS
    producer_id_expiration_check_interval_ms: Positive = 600_000

    @model_validator(mode="before")
    @classmethod
    def _generation_fills_gaps(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        given = {name.replace("_", "."): value for name, value in values.items()}
        return {**PRESETS.get(str(given.get("ackproof.generation")), {}), **given}

    @model_validator(mode="after")
    def _settings_fit_each_other(self) -> Self:
        if self.replica_fetch_wait_max_ms > self.keep_in_sync_ms:
            raise ValueError(
                "replica.fetch.wait.max.ms should not be above replica.lag.time.max.ms "
                "(ackproof.keep.in.sync.ms), or in-sync replicas come and go"
            )
        if self.advertised_listeners.host in {"0.0.0.0", "::"}:
            raise ValueError("advertised.listeners should be an address that clients can reach")
        return self

    @property
    def id(self) -> BrokerId:
        """``broker.id``."""
        return BrokerId(self.broker_id)

    @property
    def led_by_leaders(self) -> bool:
        """Whether each partition's leader coordinates it, and there is no controller."""
        return self.ackproof_coordination == "leader"

    @property
    def keep_in_sync_ms(self) -> int:
        """The time (in ms) that a follower may be late before it leaves the ISR."""
        if self.led_by_leaders and self.ackproof_keep_in_sync_ms is not None:
            return self.ackproof_keep_in_sync_ms
        return self.replica_lag_time_max_ms

    @property
    def advertised(self) -> Listener:
        """The address for clients and brokers, by default ``listeners``."""
        if self.advertised_listeners.port:
            return self.advertised_listeners
        return Listener(self.listeners.host or socket.getfqdn(), self.listeners.port)

    @property
    def retention_ms(self) -> int:
        """``log.retention.ms``, or ``.minutes``, or ``.hours``, in ms. -1 means no limit."""
        if self.log_retention_ms is not None:
            return self.log_retention_ms
        if self.log_retention_minutes is not None:
            return max(-1, self.log_retention_minutes * 60_000)
        return max(-1, self.log_retention_hours * _HOUR_MS)

    @property
    def flush_ms(self) -> int:
        """``log.flush.interval.ms``, or ``log.flush.scheduler.interval.ms``, or never, in ms."""
        if self.log_flush_interval_ms is not None:
            return self.log_flush_interval_ms
        return self.log_flush_scheduler_interval_ms or _MAX_LONG

    @property
    def truncation(self) -> Truncation:
        """The way in which followers truncate, by ``inter.broker.protocol.version``. *Design V2* as
        printed knows only the high watermark ("truncate the log to r.hw")."""
        printed = self.led_by_leaders and self.ackproof_coordination_variant == "printed"
        old = printed or self.inter_broker_protocol_version < (0, 11)
        return Truncation.HIGH_WATERMARK if old else Truncation.LEADER_EPOCH

    def topic_defaults(self) -> TopicConfig:
        """Return the settings of a topic without settings of its own."""
        return TopicConfig(
            min_insync_replicas=self.min_insync_replicas,
            unclean_leader_election_enable=self.unclean_leader_election_enable,
            max_message_bytes=self.message_max_bytes,
            segment_bytes=self.log_segment_bytes,
            segment_ms=self.log_roll_ms or self.log_roll_hours * _HOUR_MS,
            segment_index_bytes=self.log_index_size_max_bytes,
            index_interval_bytes=self.log_index_interval_bytes,
            retention_bytes=self.log_retention_bytes,
            retention_ms=self.retention_ms,
            flush_messages=self.log_flush_interval_messages,
            flush_ms=self.flush_ms,
            message_timestamp_type=self.log_message_timestamp_type,
            message_timestamp_difference_max_ms=self.log_message_timestamp_difference_max_ms,
            message_timestamp_before_max_ms=self.log_message_timestamp_before_max_ms,
            message_timestamp_after_max_ms=self.log_message_timestamp_after_max_ms,
        )

    def overridden(self, overrides: Mapping[str, str]) -> "BrokerConfig":
        """Return this configuration with other values of some properties.

        Raises:
            ConfigError: a property that does not exist here, or a value that it cannot have.
        """
        given = {name.replace("_", "."): getattr(self, name) for name in self.model_fields_set}
        try:
            return BrokerConfig.model_validate({**given, **overrides})
        except ValidationError as error:
            raise ConfigError("; ".join(_faults(error))) from error


def load(path: Path) -> BrokerConfig:
    """Read ``server.properties``.

    Raises:
        ConfigError: the file cannot be read, or a property is missing or has a wrong value.
    """
    properties = Properties()
    try:
        properties.load(path.read_bytes(), "utf-8")
    except (OSError, UnicodeDecodeError, PropertyError) as error:
        raise ConfigError(f"{path}: {error}") from error
    values: dict[str, Any] = dict(properties.properties)
    if "log.dir" in values:
        values.setdefault("log.dirs", values.pop("log.dir"))
    for unknown in sorted(values.keys() - BrokerConfig.names()):
        logger.warning("%s: %s is not a known configuration, ignored", path, unknown)
        del values[unknown]
    try:
        return BrokerConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError("; ".join(f"{path}: {fault}" for fault in _faults(error))) from error


def _faults(error: ValidationError) -> list[str]:
    """Return one ``key=value: what is right`` for each error that pydantic found."""
    faults = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            faults.append(f"{key}: unknown setting")
        elif item["type"] == "missing":
            faults.append(f"{key} is missing")
        else:
            faults.append(f"{key}={item['input']}: {message}" if key else message)
    return faults


# --- dynamic settings -----------------------------------------------------------------------------
#
# The settings that may change while the broker runs, and the source of each value.
#
# A topic's setting comes from the topic, or from the broker property behind it. A broker property
# comes from ``/config/brokers/<id>``, or ``/config/brokers/<default>``, or ``server.properties``,
# or is Kafka's default (KIP-226). Only properties that are defaults of topic settings are dynamic
# here. Not handled: Kafka's other dynamic ones (thread pools, listeners, quotas).


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
