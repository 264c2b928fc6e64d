"""The workload ``produce``: each cell has a producer of its own that sends at a steady rate."""

from collections.abc import Mapping, Sequence

from history.cell import Cell
from history.manifest import PlannedWriter
from workloads.configuration import connection_properties, producer_config
from workloads.interface import Client, Load
from workloads.spec import FINAL_READ, writer_of

_PRODUCER = 0
"""The number of a cell's only producer."""


class Produce:
    """One producer a cell, and the final read of all cells."""

    name = "produce"
    summary = "one producer a cell, at a steady rate, its partitions in turn; then reads all back"

    def writers(self, cells: Sequence[Cell], node: str) -> Sequence[PlannedWriter]:
        """The sends of each cell, a file a partition; the logs of all; the final reads."""
        sends = [
            PlannedWriter(
                table="sends",
                writer=writer_of(cell.name, _PRODUCER),
                node=node,
                cell=cell.name,
                client=_client_of(cell),
                partitions=cell.topic_partitions,
            )
            for cell in cells
        ]
        partitions = tuple(partition for cell in cells for partition in cell.topic_partitions)
        log = PlannedWriter(table="log", writer=FINAL_READ, node=node, partitions=partitions)
        return (*sends, log, PlannedWriter(table="reads", writer=FINAL_READ, node=node))

    def clients(
        self, cell: Cell, load: Load, *, bootstrap_servers: str, history: str, progress: str
    ) -> Sequence[Client]:
        """The producer of a cell; see :class:`workloads.spec.ProducerSpec`."""
        specification = {
            "cell": cell.name,
            "topic": cell.topic,
            "partitions": cell.partitions,
            "acks": cell.acks,
            "producer": _PRODUCER,
            "rate": load.rate,
            "record_bytes": load.record_bytes,
            "bootstrap_servers": bootstrap_servers,
            "producer_config": producer_config(cell),
            "history": history,
            "progress": progress,
        }
        return (
            Client(
                name=_client_of(cell),
                module="workloads.producer",
                specification=specification,
            ),
        )

    def final_read(
        self,
        cells: Sequence[Cell],
        *,
        bootstrap_servers: str,
        history: str,
        progress: str,
        deadline_s: float,
    ) -> Client:
        """The reader of all cells; see :class:`workloads.spec.FinalReadSpec`."""
        specification = {
            "topics": [{"topic": cell.topic, "partitions": cell.partitions} for cell in cells],
            "bootstrap_servers": bootstrap_servers,
            "client_config": _connection(cells),
            "history": history,
            "progress": progress,
            "deadline_s": deadline_s,
        }
        return Client(name=FINAL_READ, module="workloads.final_read", specification=specification)


def _client_of(cell: Cell) -> str:
    return f"producer-{cell.topic}"


def _connection(cells: Sequence[Cell]) -> Mapping[str, object]:
    merged: dict[str, object] = {}
    for cell in cells:
        merged |= connection_properties(producer_config(cell))
    return merged
