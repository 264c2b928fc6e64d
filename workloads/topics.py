"""The creation of the topics of the cells."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import MappingProxyType

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from ackproof.history.cell import Cell, Scope, as_text
from ackproof.workloads.configuration import connection_properties, producer_config

_LOOK_EVERY_S = 0.1


class TopicsRefused(Exception):
    """The error of topics that could not be created.

    Attributes:
        reasons: The reason for each topic.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(
            "cannot create " + "; ".join(f"{topic}: {why}" for topic, why in reasons.items())
        )
        self.reasons = dict(reasons)


def topic_properties(cell: Cell) -> dict[str, str]:
    """Return the cell's topic configuration, in Kafka's names and as Kafka writes values."""
    return {name: as_text(value) for name, value in cell.of(Scope.TOPIC)}


def create_topics(
    bootstrap_servers: str,
    cells: Sequence[Cell],
    deadline_s: float,
    connection: Mapping[str, str] = MappingProxyType({}),
    kept: Mapping[str, str] = MappingProxyType({}),
    *,
    tried: bool = False,
) -> None:
    """Create each cell's topic, within ``deadline_s`` seconds.

    Raise TopicsRefused with each topic that was not created and the broker's reason. A topic that
    exists already is one of them, because its configuration may be different.

    Args:
        bootstrap_servers: The brokers to connect to.
        cells: The cells.
        deadline_s: The time limit, in seconds.
        connection: Further properties that librdkafka needs to connect.
        kept: Further properties of all topics, under their own.
        tried: Whether the brokers are only asked if they would, and create nothing.
    """
    security = {
        name: value
        for cell in cells
        for name, value in connection_properties(producer_config(cell)).items()
    }
    quiet = {"log_level": 0}  # what matters is raised
    connect = {**connection, **security, **quiet, "bootstrap.servers": bootstrap_servers}
    reasons = {}
    with AdminClient(connect) as admin:
        _await_controller(admin, deadline_s)
        created: Mapping[str, Future[None]] = admin.create_topics(
            [_new_topic(cell, kept) for cell in cells],
            request_timeout=deadline_s,
            operation_timeout=deadline_s,
            validate_only=tried,
        )
        for topic, future in created.items():
            try:
                future.result()
            except KafkaException as error:
                reasons[topic] = f"{error.args[0].name()}: {error.args[0].str()}"
    if reasons:
        raise TopicsRefused(reasons)


def _await_controller(admin: AdminClient, deadline_s: float) -> None:
    """Return when a broker names the controller, or when the time is up.

    librdkafka asks once, and a broker that has just started knows no controller, and no broker.
    Without this, creating would wait for the next refresh of metadata, minutes later.
    """
    end = time.monotonic() + deadline_s
    while (left := end - time.monotonic()) > 0:
        with suppress(KafkaException):  # when the time is up, what is refused will say why
            if admin.list_topics(timeout=left).controller_id != -1:
                return
        time.sleep(_LOOK_EVERY_S)


def _new_topic(cell: Cell, kept: Mapping[str, str]) -> NewTopic:
    return NewTopic(
        cell.topic,
        num_partitions=cell.partitions,
        replication_factor=cell.replication_factor,
        config={**kept, **topic_properties(cell)},
    )
