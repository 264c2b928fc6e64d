"""The properties of a system's brokers and topics, and their values, as far as known in advance.

Those of the bundled broker are in ``bundled.json``, made of its own configuration and
documentation. Those of a release of Apache Kafka are in ``kafka/<version>.json``, made of that
release.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Self

from ackproof.config.schemas import Schema
from ackproof.config.suggestions import hint

Value = str | int | float | bool

_OWNED = "is set for each broker by the harness"
_PLAINTEXT = "the harness deploys brokers with one listener, PLAINTEXT, or by cluster.security"

RESERVED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("broker.id", "node.id", "process.roles", "log.dir", "log.dirs", "metadata.log.dir"),
            *("listeners", "advertised.listeners", "zookeeper.connect"),
            *("host.name", "port", "advertised.host.name", "advertised.port"),
            *("controller.quorum.voters", "controller.quorum.bootstrap.servers"),
            "controller.listener.names",
        ),
        _OWNED,
    ),
    **dict.fromkeys(
        (
            *("listener.security.protocol.map", "inter.broker.listener.name"),
            *("control.plane.listener.name", "early.start.listeners"),
        ),
        f"{_OWNED}: {_PLAINTEXT}",
    ),
}
"""The broker properties that a campaign may not set, and why."""

_FIXED: Mapping[str, tuple[str, str]] = {
    "security.inter.broker.protocol": ("PLAINTEXT", _PLAINTEXT),
    "zookeeper.ssl.client.enable": ("false", "the harness deploys ZooKeeper without TLS"),
    "zookeeper.set.acl": ("false", "the harness deploys ZooKeeper without authentication"),
    "zookeeper.metadata.migration.enable": ("false", "the harness deploys one metadata quorum"),
}
"""The broker properties that a campaign may only set to the value in force, and why."""

_PLUG_INS = (
    *("super.users", "allow.everyone.if.no.acl.found", "authorizer.zookeeper."),
    *("listener.name.", "rsm.config.", "rlmm.config.", "metrics.jmx.", "config.providers"),
    *("client.quota.callback.", "kafka.csv.metrics.", "external.kafka.csv.metrics."),
)
"""The beginnings of the names that Kafka's own plug-ins read, which ``ConfigDef`` does not list.

The plug-ins are ``AclAuthorizer``, ``StandardAuthorizer``, ``JmxReporter``, and KIP-405's managers.
"""

_IS_PLUG_IN = re.compile(
    r"\.class(\.name)?$|(^|\.)metrics?\.reporters$|^(kafka\.)?metrics\.reporters$"
    r"|\.classes$|^security\.providers$|^config\.providers$"
)
"""The names of properties that load classes, which may read any names."""
_FORMS: Mapping[str, str] = {
    "inter.broker.protocol.version": "a version such as 3.9",
    "max.connections.per.ip.overrides": "ADDRESS:COUNT, several of them with commas between",
    "metrics.listener": "http://HOST:PORT",
}
"""Descriptions of those texts for which the bundled broker has a pattern."""
_SLIP = 0.93
"""The similarity from which a name counts as a misspelt one beside plug-ins."""

TIMINGS: Mapping[str, str] = {
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
}
"""The properties from which waits are derived, with the defaults of Kafka 3.x."""

_LONG_MAX = 2**63 - 1
_OURS = "ackproof."
_GENERATION = "ackproof.generation"
_COORDINATION = "ackproof.coordination"
_BY_ISR_ORDER = "ackproof.leader.by.isr.order"
UNCLEAN = "unclean.leader.election.enable"
NO_UNCLEAN = f"has no effect with {_COORDINATION}=leader, which allows only the ISR to lead"
_OF_ZOOKEEPER = "zookeeper."


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProperties:
    """The properties of one system, by name, each with the JSON Schema of its value.

    Attributes:
        kraft: Whether it keeps its metadata with KRaft.
        loads_classes: Whether its brokers load classes that properties name, as Apache Kafka's do.
            Such classes may read properties of their own.
        page: The hint for a name that resembles none of them.
        generations: The settings of each value of ``ackproof.generation``.
        preset: The settings of every broker that a campaign does not set.
    """

    system: str
    kraft: bool
    page: str
    broker: Mapping[str, Schema]
    topic: Mapping[str, Schema]
    loads_classes: bool = False
    generations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    preset: Mapping[str, str] = field(default_factory=dict)

    def with_defaults(self, defaults: Mapping[str, str]) -> Self:
        """Return the same properties with other defaults, which are set for every broker.

        Names that are not among the properties are added as text.
        """
        others: Mapping[str, Schema] = {
            name: {**self.broker.get(name, {"type": "string"}), "default": value}
            for name, value in defaults.items()
        }
        return replace(self, broker={**self.broker, **others}, preset=defaults)

    def unknown(self, kind: str, name: str, beside: Collection[str] = ()) -> str | None:
        """Return why there is no property ``name`` of a ``kind``, broker or topic; None if there
        is.

        ``beside`` has the names of all properties that are set. If they name a plug-in of Apache
        Kafka, it may read names that only it knows.
        """
        known = self._of(kind)
        if name in known:
            return None
        if kind == "broker" and self.loads_classes and self._of_plug_in(name, beside):
            return None
        if name.startswith(_OURS) and not any(one.startswith(_OURS) for one in self.broker):
            return f"is a property of the bundled broker, not of {self.system}"
        if name.startswith(_OF_ZOOKEEPER) and self.kraft:
            return f"is a property of brokers on ZooKeeper, not of {self.system} with KRaft"
        return f"unknown {kind} property; {hint(name, known, otherwise=self.page)}"

    def wrong(self, kind: str, name: str, value: Value) -> str | None:
        """Return what is wrong with the value of a property; None for a plug-in's own."""
        schema = self._of(kind).get(name)
        return None if schema is None else _wrong(name, value, schema)

    def _of_plug_in(self, name: str, beside: Collection[str]) -> bool:
        if name.startswith(_PLUG_INS):
            return True
        if name.startswith((_OURS, _OF_ZOOKEEPER)) or not any(map(_IS_PLUG_IN.search, beside)):
            return False
        return not difflib.get_close_matches(name, self.broker, n=1, cutoff=_SLIP)

    def in_force(self, properties: Mapping[str, Value]) -> Mapping[str, Any]:
        """Return the values in force in brokers with ``properties``.

        These come first, then the preset, then those of their generation, then the defaults (None
        without one).
        """
        defaults = {name: one.get("default") for name, one in self.broker.items()}
        said = {**self.preset, **properties}
        generation = self.generations.get(str(said.get(_GENERATION)), {})
        return {**defaults, **generation, **said}

    def led_by_leaders(self, properties: Mapping[str, Value]) -> bool:
        """Return whether there is no controller: each partition's leader coordinates it."""
        return self.in_force(properties).get(_COORDINATION) == "leader"

    def by_isr_order(self, properties: Mapping[str, Value]) -> bool:
        """Return whether a dead leader is succeeded by the first in the order of the ISR."""
        return _is_true(self.in_force(properties).get(_BY_ISR_ORDER))

    def contradictions(self, properties: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
        """Yield contradictions between valid values with which brokers would not start.

        Each has the name of a property and the reason.
        """
        values = self.in_force(properties)
        limit = "replica.lag.time.max.ms"
        keep = "ackproof.keep.in.sync.ms"
        if self.led_by_leaders(properties) and values[keep]:
            limit = keep
        name = "replica.fetch.wait.max.ms"
        # The system of a plug-in may have neither.
        wait_ms, limit_ms = int(values.get(name, 0)), int(values.get(limit, _LONG_MAX))
        if wait_ms > limit_ms:
            named = limit if limit in properties else name
            yield named, f"{name} ({wait_ms}) is above {limit} ({limit_ms})"
        if self.led_by_leaders(properties) and _is_true(values[UNCLEAN]):
            generation = f"{UNCLEAN}=true, which this sets, {NO_UNCLEAN}; also set {UNCLEAN}: false"
            given = UNCLEAN in properties
            yield (UNCLEAN, NO_UNCLEAN) if given else (_GENERATION, generation)

    def _of(self, kind: str) -> Mapping[str, Schema]:
        return self.broker if kind == "broker" else self.topic


def fixed(name: str, value: Value) -> str | None:
    """Return why the broker property ``name`` cannot have this value on any deployed cluster."""
    right, reason = _FIXED.get(name, (None, ""))
    if right is None or str(value).lower() == right.lower():
        return None
    return f"{right}, not {value!r}: {reason}"


def timing_ms(name: str, properties: Mapping[str, Value], one: KnownProperties | None) -> int:
    """Return the milliseconds of one of :data:`TIMINGS` in brokers with ``properties``.

    ``one`` has the properties of their system; None if its defaults are unknown.
    """
    values = properties if one is None else one.in_force(properties)
    return int(values.get(name) or TIMINGS[name])


def _wrong(name: str, value: Value, schema: Schema) -> str | None:
    kind = schema["type"]
    if kind == "integer":
        return _wrong_number(value, schema)
    if kind == "number":
        return None if _is_number(value) else f"a number, not {value!r}"
    if kind == "boolean":
        right = str(value).lower() in ("true", "false")
        return None if right else f"true or false, not {value!r}"
    if isinstance(value, float):
        return f"must be text in quotes, because YAML reads 0.10 as 0.1 (here: {value!r})"
    text = str(value)
    if (choices := schema.get("enum")) and text not in choices:
        return f"one of {', '.join(choices)}, not {value!r}"
    if isinstance(value, bool) or not re.search(schema.get("pattern", "."), text):
        return f"{_FORMS.get(name, 'text that is not empty')}, not {value!r}"
    return None


def _is_true(value: object) -> bool:
    return str(value).lower() == "true"


def _is_number(value: Value) -> bool:
    try:
        return not isinstance(value, bool) and isfinite(float(value))
    except ValueError:
        return False


def _wrong_number(value: Value, schema: Mapping[str, Any]) -> str | None:
    least, most = schema.get("minimum", -_LONG_MAX - 1), schema.get("maximum", _LONG_MAX)
    plain = type(value) is int or (isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value))
    if plain and least <= int(value) <= most:
        return None
    bounds = f" from {least:,}" if "minimum" in schema else ""
    bounds += f" to {most:,}" if "maximum" in schema or (plain and int(value) > most) else ""
    return f"a whole number{bounds}, not {value!r}"


# --- racks ------------------------------------------------------------------------------------


RACK = "broker.rack"
SELECTOR = "replica.selector.class"
RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def rack_of(broker: str, properties: Mapping[str, object], racks: Sequence[str] = ()) -> str | None:
    """Return the rack of a broker that is deployed, or None if it is in none.

    Brokers take ``racks`` in turn, by number. Otherwise it is the rack that ``properties``, those
    of all brokers, name. If they name none, and consumers read from the replica in their rack, each
    broker has a rack of its own name.
    """
    if racks:
        return racks[(int(broker.rpartition("-")[2]) - 1) % len(racks)]
    if RACK in properties:
        return str(properties[RACK])
    return broker if properties.get(SELECTOR) == RACK_AWARE else None


def racks_of(
    brokers: Sequence[str], properties: Mapping[str, object], racks: Sequence[str] = ()
) -> Mapping[str, str]:
    """Return the rack of each of ``brokers`` that is in one, by :func:`rack_of`."""
    found = {broker: rack_of(broker, properties, racks) for broker in brokers}
    return {broker: rack for broker, rack in found.items() if rack is not None}


def racks_of_consumers(racks: Mapping[str, str], properties: Mapping[str, object]) -> Sequence[str]:
    """Return the racks that consumers take in turn, given those of the brokers: each once, if they
    read from the replica in their rack; else none."""
    return tuple(dict.fromkeys(racks.values())) if properties.get(SELECTOR) == RACK_AWARE else ()


# --- the remote tier --------------------------------------------------------------------------


TIERED = "remote.log.storage.system.enable"
TIER_CLASS = "remote.log.storage.manager.class.name"


def needs_tier(properties: Mapping[str, object]) -> bool:
    """Return whether brokers with these properties need the remote tier that Ackproof supplies:
    they use tiered storage (KIP-405), and no class of the user's own keeps their segments."""
    return str(properties.get(TIERED)).lower() == "true" and TIER_CLASS not in properties
