"""What the producer of a cell will be like: its properties, asked of the workload's room."""

from collections.abc import Mapping

from confluent_kafka import KafkaException, Producer

from history.cell import Cell
from workloads.configuration import producer_config, producer_properties
from workloads.payload import Encoder
from workloads.spec import ProducerSpec, SpecificationError

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
            "producer_config": producer_config(cell),
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
