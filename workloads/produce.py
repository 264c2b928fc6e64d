"""The workload ``produce``: each cell has a producer of its own that sends at a steady rate."""

from collections.abc import Mapping, Sequence

from workloads.configuration import connection_properties
from workloads.interface import Cell, Client, Load


class Produce:
    """One producer a cell, and the final read of all cells."""

    name = "produce"
    summary = "one producer a cell, at a steady rate, its partitions in turn; then reads all back"

    def clients(
        self, cell: Cell, load: Load, *, bootstrap_servers: str, history: str, progress: str
    ) -> Sequence[Client]:
        """The producer of a cell; see :class:`workloads.spec.ProducerSpec`."""
        specification = {
            "cell": cell.name,
            "topic": cell.topic,
            "partitions": cell.partitions,
            "acks": cell.acks,
            "producer": 0,
            "rate": load.rate,
            "record_bytes": load.record_bytes,
            "bootstrap_servers": bootstrap_servers,
            "producer_config": dict(cell.producer_config),
            "history": history,
            "progress": progress,
        }
        return (
            Client(
                name=f"producer-{cell.topic}",
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
        return Client(name="final-read", module="workloads.final_read", specification=specification)


def _connection(cells: Sequence[Cell]) -> Mapping[str, object]:
    merged: dict[str, object] = {}
    for cell in cells:
        merged |= connection_properties(cell.producer_config)
    return merged
