"""What the producer of a cell will be like: its properties, asked of the workload's room.
librdkafka's are librdkafka's to judge; of others, :mod:`workloads.foreign.properties` has a table.
"""

from collections.abc import Mapping

from confluent_kafka import Producer

from ackproof.harness.campaign.clients.refusals import meant, refusal
from ackproof.history.cell import LIBRDKAFKA, Cell
from ackproof.history.payload import bytes_min
from ackproof.infra.clients.programs import client_of
from ackproof.workloads.configuration import (
    RESERVED,
    canonical,
    producer_config,
    producer_properties,
)
from ackproof.workloads.foreign import properties as foreign
from ackproof.workloads.interface import Transactions
from ackproof.workloads.spec import ProducerSpec, SpecificationError
from ackproof.workloads.transactions.spec import TransactionalSpec, drawn, session_properties

Properties = Mapping[str, str | bool | int | float]

OFTEN_SET = (
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
"""Of librdkafka's properties those that a producer is often told: librdkafka does not list its own.
For suggestions alone."""

_MESSAGE_BYTES_MAX = 1_000_000
"""librdkafka's default (CONFIGURATION.md)."""
_OVERHEAD_BYTES = 512
"""At most what librdkafka adds to a value: headers of message and batch, and the key."""


def properties(cell: Cell) -> Properties:
    """librdkafka's properties of the cell's producer, defaults filled in.

    Raises workloads.spec.SpecificationError for what a campaign may not set.
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
    """No record of the size can be sent."""


def refused(name: str, value: str | float, client: str = LIBRDKAFKA) -> str | None:
    """Why no producer of that client may have this property, whatever else it has; None where it
    may."""
    if client != LIBRDKAFKA:
        lacking = client_of(client).lacks.get(name)
        reason = foreign.refused(client, name, value)
        return reason if lacking is None else f"{client} has no such property: {lacking}"
    if canonical(name) in RESERVED:
        return f"may not be set: {RESERVED[canonical(name)]}"
    told = refusal(Producer, {name: value})
    return None if told is None else meant(told, name, OFTEN_SET)


def try_out(cell: Cell, record_bytes: int) -> None:
    """Make the cell's producer, connected to nowhere, and see whether it can send its records; of a
    program under test, whether the table says that it could.

    Raises workloads.spec.SpecificationError with librdkafka's reason, or ours; RecordRefused where
    that is the record's size.
    """
    if cell.client == LIBRDKAFKA:
        limit, most = "message.max.bytes", _try_out_librdkafka(cell)
    else:
        config = producer_config(cell)
        if cell.enable_idempotence and not client_of(cell.client).idempotence:
            raise SpecificationError(f"{cell.client} has no idempotent producer")
        if reason := foreign.contradiction(cell.client, cell.acks, config):
            raise SpecificationError(reason)
        limit, most = "largest request", foreign.record_bytes_max(cell.client, config)
    least = bytes_min(cell.name)
    if not least <= record_bytes <= most:
        raise RecordRefused(
            f"{record_bytes} bytes cannot be: {least} are needed to say whose a record is, and the "
            f"producer's {limit} has room for {most}"
        )


def try_out_transactional(cell: Cell, asked: Transactions) -> None:
    """As :func:`try_out`, of a producer that writes in transactions. Of programs under test all is
    said there."""
    if cell.client != LIBRDKAFKA:
        return
    specification = {**_specification(cell), **drawn(asked, seed=0)}
    _made(session_properties(TransactionalSpec.model_validate(specification)))


def _try_out_librdkafka(cell: Cell) -> int:
    """Make the cell's producer, connected to nowhere; the size of the largest value that it can
    send."""
    config = properties(cell)
    _made(config)
    return int(config.get("message.max.bytes", _MESSAGE_BYTES_MAX)) - _OVERHEAD_BYTES


def _made(properties: Properties) -> None:
    config = {**properties}
    del config["bootstrap.servers"]
    if (told := refusal(Producer, config)) is not None:
        raise SpecificationError(told)


def message_timeout_ms(cell: Cell) -> int:
    """How long a send of the cell's producer can be under way."""
    if cell.client != LIBRDKAFKA:
        return foreign.delivery_timeout_ms(producer_config(cell))
    return int(properties(cell)["message.timeout.ms"])
