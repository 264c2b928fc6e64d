"""The properties of a campaign's clients, checked by the client libraries before anything starts.
librdkafka judges its own properties. For other libraries, :mod:`workloads.foreign.properties` has
a table.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer

from ackproof.config.suggestions import closest
from ackproof.history.cell import LIBRDKAFKA, Cell, library_of
from ackproof.history.payload import bytes_min
from ackproof.infra.clients.programs import CLIENTS, client_of
from ackproof.workloads.configuration import (
    CONSUMER_RESERVED,
    RESERVED,
    canonical,
    joins_by_heartbeat,
    member_properties,
    producer_config,
    producer_properties,
    share_member_properties,
)
from ackproof.workloads.foreign import properties as foreign
from ackproof.workloads.interface import Delivery, Group, ShareGroup, Transactions
from ackproof.workloads.spec import (
    GroupMemberSpec,
    ProducerSpec,
    ShareMemberSpec,
    SpecificationError,
)
from ackproof.workloads.transactions.spec import TransactionalSpec, drawn, session_properties

# --- reasons of librdkafka ------------------------------------------------------------------------

_UNHEARD = logging.Logger("librdkafka", level=logging.CRITICAL + 1)

_TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_NOWHERE = "http://127.0.0.1:0/"


def refusal(make: Callable[..., Any], config: Mapping[str, str | bool | int | float]) -> str | None:
    """Return librdkafka's reason to refuse ``config``; None if it accepts it.

    The client exists for a moment and must have no effect. With ``debug``, librdkafka writes to
    standard error whatever its ``log_level`` is, unless it has a logger. With
    ``sasl.oauthbearer.method: oidc``, a client asks for a token as soon as it exists.

    Args:
        make: The class of the client.
        config: Its properties, without ``bootstrap.servers``: it connects to nothing.
    """
    endpoint = {_TOKEN_ENDPOINT: _NOWHERE} if _TOKEN_ENDPOINT in config else {}
    try:
        client = make({**config, **endpoint, "log_level": 0}, logger=_UNHEARD)
    except KafkaException as refused:
        return str(refused.args[0].str()).strip()
    except (TypeError, ValueError) as refused:
        return str(refused)
    client.close()
    return None


def meant(reason: str, name: str, often_set: Iterable[str]) -> str:
    """Return librdkafka's ``reason`` to refuse the property ``name``. If there is no property of
    that name, add the most similar one of ``often_set``."""
    close = closest(name, often_set) if reason.startswith("No such") else None
    return f"{reason}; did you mean {close}?" if close else reason


# --- producers ------------------------------------------------------------------------------------

Properties = Mapping[str, str | bool | int | float]

PRODUCER_PROPERTIES = (
    *("batch.num.messages", "batch.size", "client.dns.lookup", "client.rack"),
    *("compression.codec", "compression.level", "compression.type", "connections.max.idle.ms"),
    *("delivery.timeout.ms", "enable.gapless.guarantee", "enable.idempotence", "linger.ms"),
    *("max.in.flight", "max.in.flight.requests.per.connection", "message.copy.max.bytes"),
    *("message.max.bytes", "message.send.max.retries", "message.timeout.ms"),
    *("metadata.max.age.ms", "metadata.recovery.strategy", "partitioner"),
    *("queue.buffering.backpressure.threshold", "queue.buffering.max.kbytes"),
    *("queue.buffering.max.messages", "queue.buffering.max.ms", "queuing.strategy"),
    *("reconnect.backoff.max.ms", "reconnect.backoff.ms", "request.timeout.ms", "retries"),
    *("retry.backoff.max.ms", "retry.backoff.ms", "security.protocol", "sasl.mechanism"),
    *("sasl.username", "sasl.password", "socket.connection.setup.timeout.ms"),
    *("socket.keepalive.enable", "socket.nagle.disable", "socket.receive.buffer.bytes"),
    *("socket.send.buffer.bytes", "socket.timeout.ms", "ssl.ca.location"),
    *("topic.metadata.refresh.interval.ms", "topic.metadata.refresh.sparse"),
    *("transaction.timeout.ms",),
)
"""librdkafka's properties that are often set for a producer. They serve only for suggestions,
because librdkafka does not list its own."""

_MESSAGE_BYTES_MAX = 1_000_000
"""librdkafka's default (CONFIGURATION.md)."""
_OVERHEAD_BYTES = 512
"""The most bytes that librdkafka adds to a value: headers of message and batch, and the key."""


def properties_of_producer(cell: Cell) -> Properties:
    """Return librdkafka's properties of the cell's producer, with defaults filled in.

    Raises workloads.spec.SpecificationError for a property that a campaign may not set.
    """
    return producer_properties(ProducerSpec.model_validate(_specification(cell)))


def _specification(cell: Cell) -> Mapping[str, object]:
    return {
        "cell": cell.name,
        "topic": cell.topic,
        "partitions": cell.partitions,
        "acks": cell.acks,
        "producer": 0,
        "rate": 1,
        "record_bytes": 1,
        "bootstrap_servers": "not-connected:0",
        "producer_config": producer_config(cell),
        "history": ".",
        "progress": ".",
    }


class RecordRefused(SpecificationError):
    """A record size that the producer cannot send."""


def producer_refusal(name: str, value: str | float, client: str = LIBRDKAFKA) -> str | None:
    """Return the reason why no producer of that client may have this property, whatever its other
    properties are, or None if it may."""
    if client != LIBRDKAFKA:
        lacking = client_of(client).lacks.get(name)
        reason = foreign.refused(library_of(client), name, value)
        return reason if lacking is None else f"{client} has no such property: {lacking}"
    if canonical(name) in RESERVED:
        return f"must not be set: {RESERVED[canonical(name)]}"
    reason = refusal(Producer, {name: value})
    return None if reason is None else meant(reason, name, PRODUCER_PROPERTIES)


def try_out_producer(cell: Cell, record_bytes: int) -> None:
    """Make the cell's producer, without a connection, and check that it can send its records. For a
    program under test, check this by the table of its properties.

    Raises workloads.spec.SpecificationError with a reason of librdkafka or the harness, and
    RecordRefused if the reason is the record's size.
    """
    if cell.client == LIBRDKAFKA:
        limit, most = "message.max.bytes", _try_out_librdkafka(cell)
    else:
        config = producer_config(cell)
        if cell.enable_idempotence and not client_of(cell.client).idempotence:
            raise SpecificationError(f"{cell.client} has no idempotent producer")
        if reason := foreign.contradiction(library_of(cell.client), cell.acks, config):
            raise SpecificationError(reason)
        limit, most = "largest request", foreign.record_bytes_max(library_of(cell.client), config)
    least = bytes_min(cell.name)
    if not least <= record_bytes <= most:
        raise RecordRefused(
            f"{record_bytes} bytes is not possible: at least {least} are needed to identify a "
            f"record, and the producer's {limit} has room for {most}"
        )


def try_out_transactional(cell: Cell, asked: Transactions) -> None:
    """Try out a producer that writes in transactions, as :func:`try_out_producer` does. For
    programs under test that function has checked everything."""
    if cell.client != LIBRDKAFKA:
        return
    specification = {**_specification(cell), **drawn(asked, seed=0)}
    _made(session_properties(TransactionalSpec.model_validate(specification)))


def _try_out_librdkafka(cell: Cell) -> int:
    """Make the cell's producer, without a connection, and return the size of the largest value that
    it can send, in bytes."""
    config = properties_of_producer(cell)
    _made(config)
    return int(config.get("message.max.bytes", _MESSAGE_BYTES_MAX)) - _OVERHEAD_BYTES


def _made(properties: Properties) -> None:
    config = {**properties}
    del config["bootstrap.servers"]
    if (reason := refusal(Producer, config)) is not None:
        raise SpecificationError(reason)


def message_timeout_ms(cell: Cell) -> int:
    """Return the longest time that a send of the cell's producer can take, in milliseconds."""
    if cell.client != LIBRDKAFKA:
        return foreign.delivery_timeout_ms(producer_config(cell))
    return int(properties_of_producer(cell)["message.timeout.ms"])


# --- members of consumer groups -------------------------------------------------------------------

CONSUMER_PROPERTIES = (
    *("allow.auto.create.topics", "auto.commit.interval.ms", "check.crcs", "client.rack"),
    *("connections.max.idle.ms", "coordinator.query.interval.ms", "fetch.error.backoff.ms"),
    *("fetch.max.bytes", "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms"),
    *("fetch.wait.max.ms", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms"),
    *("max.partition.fetch.bytes", "max.poll.interval.ms", "metadata.max.age.ms"),
    *("partition.assignment.strategy", "queued.max.messages.kbytes", "queued.min.messages"),
    *("receive.message.max.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms"),
    *("retry.backoff.max.ms", "retry.backoff.ms", "security.protocol", "sasl.mechanism"),
    *("sasl.password", "sasl.username", "session.timeout.ms"),
    *("socket.connection.setup.timeout.ms", "socket.keepalive.enable", "socket.timeout.ms"),
    *("ssl.ca.location", "topic.metadata.refresh.interval.ms"),
)
"""librdkafka's properties that are often set for a consumer. They serve only for suggestions,
because librdkafka does not list its own."""

_TOGETHER = "Failed to create consumer: "
"""The beginning of librdkafka's message about properties that contradict each other, each of which
may be valid."""

_SESSION = "session.timeout.ms"
_ANY_GROUP = {"group.id": "not-connected"}
"""A group for the trial: confluent-kafka makes no consumer without one."""


def consumer_refusal(name: str, value: str | float, client: str = LIBRDKAFKA) -> str | None:
    """Return the reason why no member of that client may have this property, whatever its other
    properties are, or None if it may."""
    if client != LIBRDKAFKA:
        return foreign.member_refused(library_of(client), name, value)
    if canonical(name) in CONSUMER_RESERVED:
        return f"must not be set: {CONSUMER_RESERVED[canonical(name)]}"
    reason = refusal(Consumer, {**_ANY_GROUP, name: value})
    if reason is None or reason.startswith(_TOGETHER):
        return None
    return meant(reason, name, CONSUMER_PROPERTIES)


def properties_of_member(group: Group, config: Properties) -> Properties:
    """Return librdkafka's properties of a member of the group, with defaults filled in. ``config``
    has those of the campaign.

    Raises workloads.spec.SpecificationError for a property that a campaign may not set.
    """
    specification = GroupMemberSpec(
        client="member",
        topic="topic",
        partitions=1,
        bootstrap_servers="not-connected:0",
        consumer_config=dict(config),
        history=Path(),
        progress=Path(),
        group=group.name,
        delivery=group.delivery,
        instance="member" if group.static else None,
    )
    return member_properties(specification)


def try_out_share_member(group: ShareGroup) -> None:
    """Make a member of a share group as :func:`try_out_member` does."""
    specification = ShareMemberSpec(
        client="member",
        topic="topic",
        partitions=1,
        bootstrap_servers="not-connected:0",
        consumer_config=dict(group.config),
        history=Path(),
        progress=Path(),
        group=group.name,
        releases=group.releases,
        rejects=group.rejects,
        seed=0,
    )
    config = {**share_member_properties(specification)}
    del config["bootstrap.servers"]
    if (reason := refusal(_share_consumer, config)) is not None:
        raise SpecificationError(reason.removeprefix("Failed to create share consumer: "))


def _share_consumer(config: dict[str, Any], logger: logging.Logger) -> ShareConsumer:
    """Return a share consumer, which takes its logger with its properties."""
    return ShareConsumer({**config, "logger": logger})


def session_ms(group: Group, config: Properties) -> int | None:
    """Return the session timeout of a member of the group, in milliseconds; None if the brokers
    decide it. ``config`` has the properties of the campaign."""
    if joins_by_heartbeat(config):
        return None
    if group.client != LIBRDKAFKA:
        return int(foreign.member_properties(config)[_SESSION])
    return int(properties_of_member(group, config)[_SESSION])


def try_out_member(group: Group, config: Properties) -> None:
    """Make a member of the group, without a connection. ``config`` has the properties of the
    campaign. For a program under test, check this by the table of its properties.

    Raises workloads.spec.SpecificationError with a reason of librdkafka or the harness.
    """
    if group.client != LIBRDKAFKA:
        _check_program(group, config)
        return
    properties = {**properties_of_member(group, config)}
    del properties["bootstrap.servers"]
    if (reason := refusal(Consumer, properties)) is not None:
        raise SpecificationError(reason.removeprefix(_TOGETHER))


def _check_program(group: Group, config: Properties) -> None:
    if not client_of(group.client).groups:
        able = ", ".join(name for name, one in CLIENTS.items() if one.groups)
        raise SpecificationError(
            f"the program of {group.client} cannot be a member of a group; those of {able} can"
        )
    if group.delivery is Delivery.AUTO_COMMIT:
        raise SpecificationError(
            f"only {LIBRDKAFKA} reports what it commits by itself (delivery: auto-commit)"
        )
    if reason := foreign.member_contradiction(library_of(group.client), config):
        raise SpecificationError(reason)
