"""The properties for programs under test, by Kafka's names, which are the Java client's.

Libraries of different kinds have few properties in common, and a campaign may set only these. A
property that one library has and another leaves out would make two cells differ by more than by
their client. Each program translates them in its own source.

Where a campaign sets nothing, the value is librdkafka's
(:data:`workloads.configuration.PRODUCER_DEFAULTS`), so that a sweep over ``client`` compares
libraries and not defaults. The limit of requests under way, a setting of the cell, is then the
library's own.

A program of the user, or of a plug-in, is given whatever the campaign sets, and judges for itself
what it does not know.
"""

from collections.abc import Callable, Mapping

from ackproof.history.cell import LIBRARIES, Value, as_text
from ackproof.workloads.configuration import (
    CONSUMER_DEFAULTS,
    CONSUMER_RESERVED,
    GROUP_PROTOCOL,
    PARTITIONER,
    PRODUCER_DEFAULTS,
    RESERVED,
    joins_by_heartbeat,
)
from ackproof.workloads.spec import ConsumerSpec

DELIVERY_TIMEOUT = "delivery.timeout.ms"

DEFAULTS: Mapping[str, Value] = {
    DELIVERY_TIMEOUT: PRODUCER_DEFAULTS["message.timeout.ms"],
    **{
        name: PRODUCER_DEFAULTS[name]
        for name in ("enable.idempotence", "linger.ms", "request.timeout.ms")
    },
}

_IN_FLIGHT = "max.in.flight.requests.per.connection"
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CODECS_OF: Mapping[str, tuple[str, ...]] = {"aiokafka": ("none", "gzip")}
"""The codecs of a library that lacks some: aiokafka needs a package for the others that it does not
require (cramjam)."""
_MURMUR2 = ("murmur2", "murmur2_random")
"""librdkafka's names for the default partitioner of the other libraries. They differ only for
records without a key."""
_IN_FLIGHT_IDEMPOTENT = 5
_MESSAGE_BYTES_MAX = 1_000_000
_OVERHEAD_BYTES = 512
"""The most bytes that a client adds to a value: headers of message and batch, and the key."""


def _at_least(least: int) -> Callable[[str], str | None]:
    def check(text: str) -> str | None:
        right = text.isdecimal() and int(text) >= least
        return None if right else f"a whole number from {least}, not {text!r}"

    return check


def _flag(text: str) -> str | None:
    return None if text in ("true", "false") else f"true or false, not {text!r}"


def _codec(text: str) -> str | None:
    return None if text in _CODECS else f"one of {', '.join(_CODECS)}, not {text!r}"


def _anything(_text: str) -> str | None:
    return None


KNOWN: Mapping[str, Callable[[str], str | None]] = {
    "batch.size": _at_least(1),
    "compression.type": _codec,
    DELIVERY_TIMEOUT: _at_least(1),
    "enable.idempotence": _flag,
    "linger.ms": _at_least(0),
    _IN_FLIGHT: _at_least(1),
    PARTITIONER: _anything,
    "receive.buffer.bytes": _at_least(1),
    "reconnect.backoff.max.ms": _at_least(0),
    "reconnect.backoff.ms": _at_least(0),
    "request.timeout.ms": _at_least(1),
    "retries": _at_least(0),
    "send.buffer.bytes": _at_least(1),
    "socket.connection.setup.timeout.max.ms": _at_least(1),
    "socket.connection.setup.timeout.ms": _at_least(1),
    "transaction.timeout.ms": _at_least(1),
}
"""Every property that programs know, with a function that says what is wrong with a value."""


def _assignor(text: str) -> str | None:
    return None if "." in text else f"names of classes, such as {_ASSIGNOR}, not {text!r}"


def _group_protocol(text: str) -> str | None:
    right = text.lower() in ("classic", "consumer")
    return None if right else f"classic or consumer, not {text!r}"


_SESSION = "session.timeout.ms"
_ASSIGNMENT = "partition.assignment.strategy"
_ASSIGNOR = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
_ASSIGNORS_OF: Mapping[str, tuple[str, ...]] = {
    "aiokafka": ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor"),
    "franz-go": (
        *("RangeAssignor", "RoundRobinAssignor", "StickyAssignor"),
        "CooperativeStickyAssignor",
    ),
}
"""The last words of the names of the assignors that a library has; Java's client loads any."""
_OF_CLASSIC = ("heartbeat.interval.ms", _ASSIGNMENT, _SESSION)
"""The properties that the Java client refuses with ``group.protocol=consumer`` (ConsumerConfig)."""

KNOWN_OF_CONSUMERS: Mapping[str, Callable[[str], str | None]] = {
    "fetch.max.bytes": _at_least(0),
    "fetch.max.wait.ms": _at_least(0),
    "fetch.min.bytes": _at_least(0),
    GROUP_PROTOCOL: _group_protocol,
    "group.remote.assignor": _anything,
    "heartbeat.interval.ms": _at_least(1),
    "max.partition.fetch.bytes": _at_least(0),
    "max.poll.interval.ms": _at_least(1),
    "max.poll.records": _at_least(1),
    _ASSIGNMENT: _assignor,
    "reconnect.backoff.max.ms": _at_least(0),
    "reconnect.backoff.ms": _at_least(0),
    "request.timeout.ms": _at_least(1),
    _SESSION: _at_least(1),
}
"""Every property of members that programs know, with a function that says what is wrong with a
value."""

_CONNECTING = (
    *("reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("receive.buffer.bytes", "send.buffer.bytes"),
    *("socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms"),
)

_NO_TRANSACTIONS = {"transaction.timeout.ms": "its program does not support transactions"}

LACKING: Mapping[str, Mapping[str, str]] = {
    "franz-go": {
        **dict.fromkeys(_CONNECTING, "its program leaves connecting as the library has it"),
        **_NO_TRANSACTIONS,
    },
    "aiokafka": {
        **dict.fromkeys(_CONNECTING, "one time serves for all that it waits for"),
        **_NO_TRANSACTIONS,
        "request.timeout.ms": "it has one time for both (request_timeout_ms): set "
        f"{DELIVERY_TIMEOUT}",
        "retries": f"it retries until {DELIVERY_TIMEOUT} is over",
    },
}
"""The properties that each library lacks, with the reason."""


_CLASSIC_ALONE = "its program is a member by the classic protocol"
LACKING_OF_CONSUMERS: Mapping[str, Mapping[str, str]] = {
    "aiokafka": {
        **dict.fromkeys(_CONNECTING[:2], "it connects again in its own way"),
        GROUP_PROTOCOL: "it knows the classic protocol alone",
        "group.remote.assignor": "it knows the classic protocol alone",
    },
    "franz-go": {
        **dict.fromkeys(_CONNECTING[:2], "its program leaves connecting as the library has it"),
        GROUP_PROTOCOL: _CLASSIC_ALONE,
        "group.remote.assignor": _CLASSIC_ALONE,
        "max.poll.records": "its program polls at most 500",
        "request.timeout.ms": "its program leaves requests as the library has them",
    },
}
"""The properties of members that each library lacks, with the reason."""


def refused(client: str, name: str, value: Value) -> str | None:
    """Return why a producer of that client may not have this property, whatever else it has.

    The result is None where it may. ``client`` is any but librdkafka.
    """
    reserved = {**RESERVED, "client.id": "it is the client's name"}
    reason = _barred(client, name, reserved, KNOWN, LACKING)
    if reason is not None or name not in KNOWN:
        return reason
    text = as_text(value)
    if name == "compression.type" and text not in (codecs := _CODECS_OF.get(client, _CODECS)):
        return f"{client} takes {', '.join(codecs)}, not {text!r}"
    if name == PARTITIONER and client in LIBRARIES and text not in _MURMUR2:
        return f"{' or '.join(_MURMUR2)}, the default partitioner of {client}, not {text!r}"
    return KNOWN[name](text)


def contradiction(client: str, acks: str, config: Mapping[str, Value]) -> str | None:
    """Return which properties contradict each other, or None where all fit together.

    Each property may be right by itself. ``config`` holds those of the cell, without defaults.
    """
    filled = producer_properties(client, config)
    idempotent = filled["enable.idempotence"] == "true"
    if idempotent and acks != "all":
        return "enable.idempotence needs acks=all"
    if idempotent and filled.get("retries") == "0":
        return "enable.idempotence needs retries"
    if idempotent and int(filled.get(_IN_FLIGHT, 1)) > _IN_FLIGHT_IDEMPOTENT:
        return f"enable.idempotence needs {_IN_FLIGHT} of at most {_IN_FLIGHT_IDEMPOTENT}"
    if (
        client == "franz-go"
        and idempotent
        and int(filled.get(_IN_FLIGHT, 5)) < _IN_FLIGHT_IDEMPOTENT
    ):
        return f"franz-go has up to {_IN_FLIGHT_IDEMPOTENT} requests under way with idempotence"
    least = int(filled["linger.ms"]) + int(filled.get("request.timeout.ms", 0))
    if client == "java" and int(filled[DELIVERY_TIMEOUT]) < least:
        return f"{DELIVERY_TIMEOUT} must be at least linger.ms and request.timeout.ms together"
    return None


def record_bytes_max(client: str, config: Mapping[str, Value]) -> int:
    """Return the size of the largest value that can be sent."""
    most = _MESSAGE_BYTES_MAX
    if client == "franz-go":  # a record fits into one batch
        most = min(most, int(config.get("batch.size", most)))
    return most - _OVERHEAD_BYTES


def producer_properties(client: str, config: Mapping[str, Value]) -> dict[str, str]:
    """Return what the program is told, except servers, name and acks.

    The result is ``config`` over the defaults, as Kafka writes values. The partitioner is no
    property of a library that has it by default: records without a stated partition are for it.
    """
    lacking = LACKING.get(client, {})
    properties = {name: value for name, value in DEFAULTS.items() if name not in lacking} | dict(
        config
    )
    if client in LIBRARIES:
        properties.pop(PARTITIONER, None)
    return {name: as_text(value) for name, value in properties.items()}


def member_refused(client: str, name: str, value: Value) -> str | None:
    """Return why a member of that client may not have this property, as :func:`refused`."""
    known = KNOWN_OF_CONSUMERS
    reason = _barred(client, name, CONSUMER_RESERVED, known, LACKING_OF_CONSUMERS)
    if reason is not None or name not in known:
        return reason
    if name == _ASSIGNMENT and (lacking := _lacking_assignors(client, as_text(value))):
        return f"{client} has no {lacking}, but {', '.join(_ASSIGNORS_OF[client])}"
    return known[name](as_text(value))


def _lacking_assignors(client: str, classes: str) -> str:
    """Return those of the named assignors that the client's library does not have."""
    has = _ASSIGNORS_OF.get(client)
    names = (name.strip().rpartition(".")[2] for name in classes.split(",") if "." in name)
    return "" if has is None else ", ".join(name for name in names if name not in has)


def _barred(
    client: str,
    name: str,
    reserved: Mapping[str, str],
    known: Mapping[str, Callable[[str], str | None]],
    lacking: Mapping[str, Mapping[str, str]],
) -> str | None:
    """Return why a client may not have a property, whatever its value is, or None if it may."""
    if (why := reserved.get(name)) is not None:
        return f"may not be set: {why}"
    if name not in known and client in LIBRARIES:
        return f"of {client}'s, these may be set: {', '.join(known)}"
    if name in known and (why := lacking.get(client, {}).get(name)) is not None:
        return f"{client} has no such property: {why}"
    return None


def member_contradiction(client: str, config: Mapping[str, Value]) -> str | None:
    """Return which properties of a member contradict each other, as :func:`contradiction`."""
    if client in LIBRARIES and joins_by_heartbeat(config):
        for name in _OF_CLASSIC:
            if name in config:
                return f"{name} is for {GROUP_PROTOCOL}: classic"
    return None


def member_properties(config: Mapping[str, Value]) -> dict[str, str]:
    """Return what the program of a member is told, except servers, names and the kind of its
    commits: ``config`` over the defaults, as Kafka writes values."""
    defaults = {} if joins_by_heartbeat(config) else {_SESSION: CONSUMER_DEFAULTS[_SESSION]}
    return {name: as_text(value) for name, value in {**defaults, **config}.items()}


def consumer_properties(spec: ConsumerSpec, group: str) -> dict[str, str]:
    """Return what the program of a member of ``group`` is told."""
    return {
        **member_properties(spec.consumer_config),
        "bootstrap.servers": spec.bootstrap_servers,
        "client.id": spec.client,
        "group.id": group,
        "enable.auto.commit": "false",
        "auto.offset.reset": "earliest",
        "isolation.level": spec.isolation,
    }


def delivery_timeout_ms(config: Mapping[str, Value]) -> int:
    """Return how long a send can be under way, in milliseconds."""
    return int({**DEFAULTS, **config}[DELIVERY_TIMEOUT])
