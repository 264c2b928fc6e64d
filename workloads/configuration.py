"""The properties given to librdkafka: our defaults, and the ones that a campaign may not change.

The defaults suit runs whose faults last about ten seconds. A paused leader keeps its connections
open, so only a time-out tells the client. Therefore ``socket.timeout.ms`` is shorter than such a
fault, and ``message.timeout.ms`` leaves time for the retry at the next leader.

``request.timeout.ms``, how long a broker may wait for its followers, is shorter still. So the
broker answers before the client gives up.

``topic.metadata.refresh.interval.ms`` stays as it is. A client that looked for new leaders all the
time would never write to one that was deposed behind a partition.

``session.timeout.ms`` of a group's members is Kafka's default before KIP-735. With 45 seconds the
partitions of a killed member would have no reader for most of a run. With ``group.protocol:
consumer`` (KIP-848) the brokers decide: their ``group.consumer.session.timeout.ms`` is 45 seconds.

``queued.max.messages.kbytes`` limits what a consumer fetches ahead of being asked for it. By
default librdkafka stops fetching a partition for a second when it has more than it wants in
advance. It has shown that much long before the second is over, and ``fetch.queue.backoff.ms`` is
that second.
"""

import base64
import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ackproof.history.cell import Cell, Scope
from ackproof.workloads.interface import Delivery
from ackproof.workloads.spec import (
    Config,
    ConsumerSpec,
    GroupMemberSpec,
    ProducerSpec,
    ShareMemberSpec,
    SpecificationError,
)

_SOCKET_DEFAULTS: Mapping[str, str | bool | int] = {
    "socket.timeout.ms": 6_000,
    "socket.connection.setup.timeout.ms": 5_000,
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 1_000,
}

PRODUCER_DEFAULTS: Mapping[str, str | bool | int] = {
    **_SOCKET_DEFAULTS,
    "enable.idempotence": False,
    "linger.ms": 5,
    "message.timeout.ms": 20_000,
    "request.timeout.ms": 5_000,
    "queue.buffering.max.messages": 100_000,
}

CONSUMER_DEFAULTS: Mapping[str, str | bool | int] = {
    **_SOCKET_DEFAULTS,
    "session.timeout.ms": 10_000,
    "queued.max.messages.kbytes": 16_384,
    "fetch.queue.backoff.ms": 10,
}

_NOBODYS: Mapping[str, str] = {
    "bootstrap.servers": "the harness knows where the cluster is",
    "plugin.library.paths": "a campaign file must not make a reader load a program",
    "sasl.kerberos.kinit.cmd": "a campaign file must not make a reader run a program",
    "ssl.engine.location": "a campaign file must not make a reader load a program",
}

RESERVED: Mapping[str, str] = {
    **_NOBODYS,
    "acks": "it is what the cell is about: set the cell's acks",
    "delivery.report.only.error": "acknowledgements would not be recorded",
    "sticky.partitioning.linger.ms": "no record is sent without a key and a partition",
    "transactional.id": "sends are not transactional",
}
"""The properties that ``producer_config`` may not set, with the reason."""

CONSUMER_RESERVED: Mapping[str, str] = {
    **_NOBODYS,
    "client.id": "it is the client's name, by which the history knows it",
    "group.id": "it is made of the topic and of the group's name",
    "group.instance.id": "each member has one of its own: say that the group is static",
    "enable.auto.commit": "it is what the group is about: set its delivery",
    "enable.auto.offset.store": "only records that the history has as read may be committed",
    "offset.store.method": "committed offsets are the coordinator's to keep",
    "auto.offset.reset": "a group that begins at the end would read no earlier records",
    "isolation.level": "it is what the cell is about: set the cell's isolation.level",
    "enable.partition.eof": "by it a client knows that it has read everything",
    "check.crcs": "a record that was damaged in transit would count as read",
}
"""The properties that ``consumer_config`` may not set, with the reason."""

SHARE_RESERVED: Mapping[str, str] = {
    **_NOBODYS,
    "client.id": "it is the client's name, by which the history knows it",
    "group.id": "it is made of the topic and of the group's name",
    "share.acknowledgement.mode": "each record is acknowledged by itself",
    "check.crcs": "a record that was damaged in transit would count as delivered",
    "debug": "librdkafka would write to the terminal",
}
"""The properties that members of share groups may not set, with the reason."""

CONNECTION = "ACKPROOF_CONNECTION"
"""The environment variable with librdkafka's properties as JSON, as :func:`connected` reads
them."""

GROUP_PROTOCOL = "group.protocol"
"""The property for how members join their group: ``classic``, or ``consumer`` (KIP-848)."""

BROKERS_SESSION = "group.consumer.session.timeout.ms"
"""The brokers' property for the session timeout of members with ``group.protocol: consumer``."""

TOKEN_CALLBACK = "oauth_cb"
"""confluent-kafka's property for a function that returns a token and when it expires."""
_TOKEN = "sasl.oauthbearer.token"

PARTITIONER = "partitioner"
"""librdkafka's property for how it picks the partition of a record."""

_ALIASES = {
    "metadata.broker.list": "bootstrap.servers",
    "auto.commit.enable": "enable.auto.commit",
    "request.required.acks": "acks",
    "delivery.timeout.ms": "message.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
}
_SESSION = "session.timeout.ms"
_SESSION_MS = 45_000
"""librdkafka's default of ``session.timeout.ms``, and Kafka's of :data:`BROKERS_SESSION`."""
_MAX_POLL_MS = 300_000
"""librdkafka's default of ``max.poll.interval.ms``."""
_SOCKET_TIMES = 6
"""The number of times that librdkafka sends a commit, approximately."""
_POSITIVE = ("message.timeout.ms", "queue.buffering.max.messages")
_CONNECTION = ("security.protocol", "sasl.", "ssl.", "enable.ssl.", "broker.address.family")


def canonical(name: str) -> str:
    """Return the name of a property that librdkafka knows under several names."""
    return _ALIASES.get(name, name)


def producer_config(cell: Cell) -> Config:
    """Return what the cell sets for its producer, except acks, which a specification holds
    separately."""
    return {name: value for name, value in cell.of(Scope.PRODUCER) if name != "acks"}


def producer_properties(spec: ProducerSpec) -> Config:
    """Return the properties of a producer.

    Raise SpecificationError for what may not be set.
    """
    given = {canonical(name): value for name, value in spec.producer_config.items()}
    for name in RESERVED.keys() & given.keys():
        raise SpecificationError(f"producer_config may not set {name}: {RESERVED[name]}")
    properties: Config = {
        **PRODUCER_DEFAULTS,
        **connection_of_environment(),
        **given,
        "client.id": spec.client,
        "bootstrap.servers": spec.bootstrap_servers,
        "acks": spec.acks,
    }
    for name in _POSITIVE:
        if not _is_positive(properties[name]):
            raise SpecificationError(f"{name} must be a number above 0: no limit is no option")
    return properties


def reader_properties(spec: ConsumerSpec) -> Config:
    """Return the properties of a tail reader.

    confluent-kafka requires a ``group.id``, but nothing is ever committed to it. Raise
    SpecificationError for what may not be set.
    """
    return {
        **consumer_properties(spec),
        "group.id": spec.client,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }


def member_properties(spec: GroupMemberSpec) -> Config:
    """Return the properties of a group's member; raise as :func:`reader_properties`."""
    automatic = spec.delivery is Delivery.AUTO_COMMIT
    return {
        **consumer_properties(spec),
        **({} if spec.instance is None else {"group.instance.id": spec.instance}),
        "group.id": spec.group,
        "enable.auto.commit": automatic,
        "enable.auto.offset.store": automatic,
        "auto.offset.reset": "earliest",
    }


def joins_by_heartbeat(properties: Mapping[str, object]) -> bool:
    """Return whether a consumer with these properties is a member by heartbeats (``group.protocol:
    consumer``, KIP-848), and not by the classic protocol."""
    return str(properties.get(GROUP_PROTOCOL, "")).lower() == "consumer"


def share_member_properties(spec: ShareMemberSpec) -> Config:
    """Return the properties of a share group's member; raise as :func:`reader_properties`."""
    given = {canonical(name): value for name, value in spec.consumer_config.items()}
    for name in SHARE_RESERVED.keys() & given.keys():
        raise SpecificationError(f"consumer_config may not set {name}: {SHARE_RESERVED[name]}")
    return {
        **_SOCKET_DEFAULTS,
        **connection_of_environment(),
        **given,
        "client.id": spec.client,
        "bootstrap.servers": spec.bootstrap_servers,
        "group.id": spec.group,
        "share.acknowledgement.mode": "explicit",
        "check.crcs": True,
    }


def commit_s(properties: Mapping[str, object]) -> float:
    """Return how long librdkafka may take to give up an unanswered commit, in seconds.

    The properties are those of a member.
    """
    given = {**_defaults(properties), **{canonical(name): one for name, one in properties.items()}}
    session_ms, socket_ms = int(str(given.get(_SESSION, _SESSION_MS))), given["socket.timeout.ms"]
    return (session_ms + _SOCKET_TIMES * int(str(socket_ms))) / 1000


def rejoin_s(properties: Mapping[str, object], brokers: Mapping[str, object]) -> float:
    """Return how long a group may wait for a member with these properties, in seconds.

    The group waits until the session is over. In a rebalance it then waits as long as the member
    may take between two polls, which is its rebalance timeout (KIP-62, KIP-848). With
    ``group.protocol: consumer`` the session is that of the ``brokers``' properties.

    librdkafka waits as long for the answer to a JoinGroup. Its connection may be half open, because
    the broker was killed while it was cut off. Then it hears nothing before that time.
    """
    given = {**_defaults(properties), **{canonical(name): one for name, one in properties.items()}}
    session_ms = (
        brokers.get(BROKERS_SESSION, _SESSION_MS)
        if joins_by_heartbeat(properties)
        else given[_SESSION]
    )
    return (int(str(session_ms)) + int(str(given.get("max.poll.interval.ms", _MAX_POLL_MS)))) / 1000


def is_cooperative(properties: Config) -> bool:
    """Return whether a member is told of changes to what it has (KIP-429, KIP-848), instead of all
    that it has."""
    strategy = str(properties.get("partition.assignment.strategy", ""))
    return joins_by_heartbeat(properties) or "cooperative" in strategy


def _defaults(properties: Mapping[str, object]) -> Config:
    """Return the defaults of a consumer with these properties. With ``group.protocol: consumer``
    librdkafka refuses a session timeout."""
    left_out = _SESSION if joins_by_heartbeat(properties) else None
    return {name: value for name, value in CONSUMER_DEFAULTS.items() if name != left_out}


def consumer_properties(spec: ConsumerSpec) -> Config:
    """Return the properties that all consumers have in common; raise as
    :func:`reader_properties`."""
    given = {canonical(name): value for name, value in spec.consumer_config.items()}
    for name in CONSUMER_RESERVED.keys() & given.keys():
        raise SpecificationError(f"consumer_config may not set {name}: {CONSUMER_RESERVED[name]}")
    return {
        **_defaults(given),
        **connection_of_environment(),
        **given,
        "client.id": spec.client,
        "bootstrap.servers": spec.bootstrap_servers,
        "isolation.level": spec.isolation,
        "enable.partition.eof": True,
        "check.crcs": True,
    }


def connection_of_environment() -> dict[str, Any]:
    """Return the connection properties that the starter of this client has given it.

    They are in the environment variable :data:`CONNECTION`, because no file that is kept may hold
    secrets. Raise OSError for a file that cannot be read.
    """
    return connected(json.loads(os.environ.get(CONNECTION, "{}")))


def connected(properties: Mapping[str, str | Mapping[str, str]]) -> dict[str, Any]:
    """Return properties by name, with ``{"file": PATH}`` replaced by that file's content.

    The line break at the end is dropped. A secret that is in a file is in no environment, which
    ``ps`` shows. A token for OAUTHBEARER becomes :data:`TOKEN_CALLBACK`, because librdkafka has no
    property for one.
    """
    found = {
        name: value
        if isinstance(value, str)
        else Path(value["file"]).read_text(encoding="utf-8").rstrip("\r\n")
        for name, value in properties.items()
    }
    token = found.pop(_TOKEN, None)
    return found if token is None else {**found, TOKEN_CALLBACK: partial(_with_expiry, token)}


def _with_expiry(token: str, _config: str) -> tuple[str, float]:
    """Return the token, and when it expires, in seconds of the Unix epoch."""
    claims = token.split(".")[1]
    return token, json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"]


def connection_properties(producer_config: Mapping[str, str | int | float | bool]) -> Config:
    """Return those of a producer's properties that any client needs to connect (security)."""
    return {name: value for name, value in producer_config.items() if name.startswith(_CONNECTION)}


def _is_positive(value: str | float) -> bool:
    try:
        return int(value) > 0
    except ValueError:
        return False
