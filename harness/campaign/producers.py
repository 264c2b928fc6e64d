"""What the producer of a cell will be like: its properties, asked of the workload's room."""

from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer

from workloads.configuration import producer_properties
from workloads.interface import Cell
from workloads.payload import Encoder
from workloads.spec import ProducerSpec, SpecificationError

_IN_FLIGHT = "max.in.flight.requests.per.connection"
_IN_FLIGHT_ALIAS = "max.in.flight"
_IN_FLIGHT_DEFAULT = 1_000_000
_IN_FLIGHT_IDEMPOTENT = 5

Properties = Mapping[str, str | bool | int | float]


def properties(cell: Cell) -> Properties:
    """librdkafka's properties of the cell's producer, defaults filled in.

    Raises workloads.spec.SpecificationError for what a campaign may not set.
    """
    specification = ProducerSpec.model_validate(
        {
            "cell": cell.name,
            "topic": cell.topic,
            "partitions": cell.partitions,
            "acks": cell.acks,
            "producer": 0,
            "rate": 1,
            "record_bytes": 1,
            "bootstrap_servers": "not-connected:0",
            "producer_config": dict(cell.producer_config),
            "history": ".",
            "progress": ".",
        }
    )
    return producer_properties(specification)


def try_out(cell: Cell, record_bytes: int) -> None:
    """Make the cell's producer, connected to nowhere, and the smallest of its records.

    Raises workloads.spec.SpecificationError with librdkafka's reason, or ours.
    """
    config = {**properties(cell), "log_level": 0}
    del config["bootstrap.servers"]
    try:
        Producer(config)
        Encoder(cell.name, 0, record_bytes)
    except KafkaException as refusal:
        raise SpecificationError(refusal.args[0].str()) from None
    except (TypeError, ValueError) as refusal:
        raise SpecificationError(str(refusal)) from None


def message_timeout_ms(cell: Cell) -> int:
    """How long a send of the cell's producer can be under way."""
    return int(properties(cell)["message.timeout.ms"])


def idempotent(cell: Cell) -> bool:
    """Whether the cell's producer is."""
    return str(properties(cell)["enable.idempotence"]).lower() in ("true", "1", "t", "yes", "on")


def max_in_flight(cell: Cell) -> int:
    """Requests that the cell's producer may have under way on one connection (librdkafka's
    default, which is lower for an idempotent producer)."""
    given = properties(cell)
    default = _IN_FLIGHT_IDEMPOTENT if idempotent(cell) else _IN_FLIGHT_DEFAULT
    return int(given.get(_IN_FLIGHT, given.get(_IN_FLIGHT_ALIAS, default)))
