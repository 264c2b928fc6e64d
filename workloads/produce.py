"""The workload ``produce``: each cell has producers of its own that send at a steady rate, and the
consumers that a campaign asks for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from history.cell import LIBRDKAFKA, Cell, Value
from history.manifest import PlannedWriter
from history.names import PARTITIONED
from workloads.configuration import connection_properties, producer_config
from workloads.interface import Client, Group, Load, Role
from workloads.spec import FINAL_READ, Config, member_of, producer_of, reader_of


class Produce:
    """The producers, tail readers and groups of each cell, and the final read of all cells."""

    name = "produce"
    transactional = False
    summary = (
        "producers at a steady rate, a cell's partitions in turn; tail readers and consumer groups "
        "that read beside them; then reads all back"
    )

    def writers(self, loads: Sequence[tuple[Cell, Load]], node: str) -> Sequence[PlannedWriter]:
        """The tables of each client, ``sends`` and ``polls`` in a file a partition; the logs of
        all; the final reads. A member of a group may be given any partition."""
        of_clients = [
            PlannedWriter(
                table=table,
                writer=client,
                node=node,
                cell=cell.name,
                client=client,
                partitions=cell.topic_partitions if table in PARTITIONED else (),
            )
            for cell, load in loads
            for client, tables in _tables(cell, load)
            for table in tables
        ]
        partitions = tuple(partition for cell, _ in loads for partition in cell.topic_partitions)
        log = PlannedWriter(table="log", writer=FINAL_READ, node=node, partitions=partitions)
        return (*of_clients, log, PlannedWriter(table="reads", writer=FINAL_READ, node=node))

    def clients(
        self,
        cell: Cell,
        load: Load,
        *,
        bootstrap_servers: str,
        history: str,
        progress: str,
        seed: int = 0,  # noqa: ARG002 - they draw nothing
    ) -> Sequence[Client]:
        """The clients of a cell, producers first; see :mod:`workloads.spec`."""
        make = _Clients(cell, load, bootstrap_servers, history, progress)
        return (*make.producers(), *make.readers(), *make.members())

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
            "progress": _progress_file(progress, FINAL_READ),
            "deadline_s": deadline_s,
        }
        return Client(
            name=FINAL_READ,
            module="workloads.final_read",
            role=Role.CONSUMER,
            cell=None,
            specification=specification,
        )


@dataclass(frozen=True, slots=True)
class _Clients:
    """Makes the clients of a cell."""

    cell: Cell
    load: Load
    bootstrap_servers: str
    history: str
    progress: str

    def producers(self) -> Iterator[Client]:
        for number in range(self.load.producers):
            name = producer_of(self.cell.topic, number)
            specification = {
                "cell": self.cell.name,
                "acks": self.cell.acks,
                "producer": number,
                "rate": self.load.rate / self.load.producers,
                "record_bytes": self.load.record_bytes,
                "producer_config": producer_config(self.cell),
            }
            if (library := self.cell.client) == LIBRDKAFKA:
                yield self._client(name, "workloads.producer", Role.PRODUCER, specification)
            else:
                specification["library"] = library
                module = "workloads.foreign.producer"
                client = self._client(name, module, Role.PRODUCER, specification)
                yield replace(client, library=library)

    def readers(self) -> Iterator[Client]:
        for number in range(self.load.readers):
            yield self._consumer(reader_of(self.cell.topic, number), "workloads.tail_reader", {})

    def members(self) -> Iterator[Client]:
        for group in self.load.groups:
            for number in range(group.members):
                name = member_of(group_id(self.cell, group), number)
                of_group = {
                    "group": group_id(self.cell, group),
                    "delivery": group.delivery,
                    "instance": name if group.static else None,
                }
                yield self._consumer(name, "workloads.group_member", of_group, group.config)

    def _consumer(
        self,
        name: str,
        module: str,
        further: Mapping[str, object],
        config: Mapping[str, Value] | None = None,
    ) -> Client:
        consumer_config = {**connection_properties(producer_config(self.cell)), **(config or {})}
        specification = {"client": name, "consumer_config": consumer_config, **further}
        return self._client(name, module, Role.CONSUMER, specification)

    def _client(self, name: str, module: str, role: Role, further: Mapping[str, object]) -> Client:
        specification = {
            "topic": self.cell.topic,
            "partitions": self.cell.partitions,
            "bootstrap_servers": self.bootstrap_servers,
            "history": self.history,
            "progress": _progress_file(self.progress, name),
            **further,
        }
        return Client(
            name=name,
            module=module,
            role=role,
            cell=self.cell.name,
            specification=specification,
        )


def group_id(cell: Cell, group: Group) -> str:
    """Kafka's ``group.id``: each cell has a group of its own."""
    return f"{cell.topic}-{group.name}"


def _tables(cell: Cell, load: Load) -> Iterator[tuple[str, Sequence[str]]]:
    """Each client of a cell, and the tables that it writes."""
    for number in range(load.producers):
        yield producer_of(cell.topic, number), ("sends",)
    for number in range(load.readers):
        yield reader_of(cell.topic, number), ("polls", "assignments")
    for group in load.groups:
        for number in range(group.members):
            yield member_of(group_id(cell, group), number), ("polls", "assignments", "commits")


def _progress_file(directory: str, client: str) -> str:
    return f"{directory}/{client}.json"


def _connection(cells: Sequence[Cell]) -> Config:
    merged: Config = {}
    for cell in cells:
        merged |= connection_properties(producer_config(cell))
    return merged
