"""The workload ``produce``: producers that send at a steady rate or flat out, and consumers.

Each cell has producers of its own, and the consumers that a campaign asks for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from typing import NamedTuple

from ackproof.history.cell import LIBRDKAFKA, SYNC, Cell, Value, library_of
from ackproof.history.manifest import PlannedWriter
from ackproof.history.names import PARTITIONED
from ackproof.workloads.configuration import connection_properties, producer_config
from ackproof.workloads.interface import (
    NO_REPLACEMENTS,
    Client,
    ClientNode,
    ClientRole,
    Group,
    Load,
    Parameters,
    ShareGroup,
)
from ackproof.workloads.spec import FINAL_READ, Config, member_of, producer_of, reader_of


class Produce:
    """The producers, tail readers and groups of each cell, and the final read of all cells."""

    name = "produce"
    transactional = False
    parameters = Parameters
    summary = (
        "producers at a steady rate or flat out, a cell's partitions in turn; tail readers and "
        "consumer groups that read beside them; then reads all back"
    )

    def writers(
        self,
        loads: Sequence[tuple[Cell, Load]],
        nodes: Sequence[str],
        replacements: Mapping[ClientRole, int] = NO_REPLACEMENTS,
    ) -> Sequence[PlannedWriter]:
        """Return the tables of each client, the logs of all, and the final reads.

        ``sends`` and ``polls`` have a file a partition. A member of a group may be given any
        partition.
        """
        of_clients = [
            PlannedWriter(
                table=table,
                writer=writer,
                node=node,
                cell=about.name,
                client=client,
                instead_of=before,
                partitions=about.topic_partitions if table in PARTITIONED else (),
            )
            for cell, load in loads
            for line, node in zip(_lines(cell, load, replacements), cycle(nodes), strict=False)
            for about, writers in line.writers
            for before, client, writer in zip(
                (None, *line.names), line.names, writers, strict=False
            )
            for table in line.tables
        ]
        partitions = tuple(partition for cell, _ in loads for partition in cell.topic_partitions)
        first = nodes[0]
        log = PlannedWriter(table="log", writer=FINAL_READ, node=first, partitions=partitions)
        return (*of_clients, log, PlannedWriter(table="reads", writer=FINAL_READ, node=first))

    def clients(
        self,
        cell: Cell,
        load: Load,
        *,
        bootstrap_servers: str,
        places: Sequence[ClientNode],
        replacements: Mapping[ClientRole, int] = NO_REPLACEMENTS,
        seed: int = 0,
    ) -> Sequence[Client]:
        """Return the clients of a cell, producers first; see :mod:`workloads.spec`."""
        make = _Clients(cell, load, bootstrap_servers, cycle(places), replacements)
        return (
            *make.producers(seed),
            *make.readers(),
            *make.members(),
            *make.share_members(seed),
        )

    def final_read(
        self,
        cells: Sequence[Cell],
        *,
        bootstrap_servers: str,
        place: ClientNode,
        deadline_s: float,
    ) -> Client:
        """Return the reader of all cells; see :class:`workloads.spec.FinalReadSpec`."""
        specification = {
            "topics": [{"topic": cell.topic, "partitions": cell.partitions} for cell in cells],
            "bootstrap_servers": bootstrap_servers,
            "client_config": _connection(cells),
            **written_at(place, FINAL_READ),
            "deadline_s": deadline_s,
        }
        return Client(
            name=FINAL_READ,
            module="ackproof.workloads.reading_back.final_read",
            role=ClientRole.CONSUMER,
            cell=None,
            node=place.node,
            specification=specification,
        )


@dataclass(frozen=True, slots=True)
class _Clients:
    """A maker of the clients of a cell, each at the next of the places."""

    cell: Cell
    load: Load
    bootstrap_servers: str
    places: Iterator[ClientNode]
    replacements: Mapping[ClientRole, int]

    def producers(self, seed: int) -> Iterator[Client]:
        many, make = self.load.producers, partial(self._producer, seed)
        for number in range(many):
            yield self._line(ClientRole.PRODUCER, number, many, make)

    def readers(self) -> Iterator[Client]:
        many = self.load.readers
        for number in range(many):
            yield self._line(ClientRole.CONSUMER, number, many, self._reader)

    def members(self) -> Iterator[Client]:
        for group in self.load.groups:
            for number in range(group.members):
                make = partial(self._member, group)
                yield self._line(ClientRole.CONSUMER, number, group.members, make)

    def share_members(self, seed: int) -> Iterator[Client]:
        for group in self.load.share_groups:
            for number in range(group.members):
                make = partial(self._share_member, group, seed)
                yield self._line(ClientRole.CONSUMER, number, group.members, make)

    def _line(
        self, role: ClientRole, number: int, many: int, make: Callable[[int, ClientNode], Client]
    ) -> Client:
        """Return a client, with those that may replace it."""
        place, successor = next(self.places), None
        for one in reversed(_numbers(number, many, self.replacements.get(role, 0))):
            successor = replace(make(one, place), successor=successor)
        assert successor is not None
        return successor

    def _producer(self, seed: int, number: int, place: ClientNode) -> Client:
        name, many = producer_of(self.cell.topic, number), self.load.producers
        specification = {
            "cell": self.cell.name,
            "acks": self.cell.acks,
            "producer": number,
            "rate": None if self.load.rate is None else self.load.rate / many,
            "records": _share(self.load.records, number % many, many),
            "sync": self.cell.producer_type == SYNC,
            "record_bytes": self.load.record_bytes,
            "record_bytes_max": self.load.record_bytes_max,
            "keys": self.load.keys,
            "tombstones": self.load.tombstones,
            "seed": seed,
            "producer_config": producer_config(self.cell),
            "further": [
                {"cell": one.name, "topic": one.topic, "partitions": one.partitions}
                for one in self.load.shared_with
            ],
        }
        if (library := library_of(self.cell.client)) == LIBRDKAFKA:
            return self._client(
                name,
                "ackproof.workloads.producing.producer",
                ClientRole.PRODUCER,
                specification,
                place,
            )
        specification["library"] = library
        module = "ackproof.workloads.foreign.producer"
        client = self._client(name, module, ClientRole.PRODUCER, specification, place)
        return replace(client, library=self.cell.client)

    def _reader(self, number: int, place: ClientNode) -> Client:
        name = reader_of(self.cell.topic, number)
        rack = self.load.rack_of(number % self.load.readers)
        return self._consumer(name, "ackproof.workloads.consuming.tail_reader", {}, rack, place)

    def _member(self, group: Group, number: int, place: ClientNode) -> Client:
        """Return a member of a group.

        A static member that replaces another has the other's instance, because its partitions wait
        for that. It is in the same rack in any case.
        """
        of_first = number % group.members
        first = member_of(group_id(self.cell, group), of_first)
        of_group: dict[str, object] = {
            "group": group_id(self.cell, group),
            "delivery": group.delivery,
            "instance": first if group.static else None,
        }
        name = member_of(group_id(self.cell, group), number)
        config = {**self.load.rack_of(of_first), **group.config_of(number)}
        if group.client == LIBRDKAFKA:
            module = "ackproof.workloads.consuming.group_member"
            return self._consumer(name, module, of_group, config, place)
        of_group["library"] = library_of(group.client)
        of_group["tombstones"] = self.load.tombstones > 0
        further = {"client": name, "consumer_config": config, **of_group}
        module = "ackproof.workloads.foreign.member"
        client = self._client(name, module, ClientRole.CONSUMER, further, place)
        return replace(client, library=group.client)

    def _share_member(self, group: ShareGroup, seed: int, number: int, place: ClientNode) -> Client:
        of_group = {
            "group": group_id(self.cell, group),
            "releases": group.releases,
            "rejects": group.rejects,
            "seed": seed,
        }
        name = member_of(group_id(self.cell, group), number)
        module = "ackproof.workloads.consuming.share_member"
        config = {**self.load.rack_of(number % group.members), **group.config}
        return self._consumer(name, module, of_group, config, place)

    def _consumer(
        self,
        name: str,
        module: str,
        further: Mapping[str, object],
        config: Mapping[str, Value],
        place: ClientNode,
    ) -> Client:
        consumer_config = {**connection_properties(producer_config(self.cell)), **config}
        specification = {"client": name, "consumer_config": consumer_config, **further}
        return self._client(name, module, ClientRole.CONSUMER, specification, place)

    def _client(
        self,
        name: str,
        module: str,
        role: ClientRole,
        further: Mapping[str, object],
        place: ClientNode,
    ) -> Client:
        specification = {
            "topic": self.cell.topic,
            "partitions": self.cell.partitions,
            "bootstrap_servers": self.bootstrap_servers,
            **written_at(place, name),
            **further,
        }
        return Client(
            name=name,
            module=module,
            role=role,
            cell=self.cell.name,
            node=place.node,
            specification=specification,
        )


def _share(records: int | None, number: int, producers: int) -> int | None:
    """Return how many of a cell's records that producer sends: the first ones send the
    remainder."""
    return None if records is None else records // producers + (number < records % producers)


def group_id(cell: Cell, group: Group | ShareGroup) -> str:
    """Return Kafka's ``group.id``: each cell has a group of its own."""
    return f"{cell.topic}-{group.name}"


class _Line(NamedTuple):
    """A client and its replacements.

    Attributes:
        tables: The tables that they write.
        names: The names of the client and of its replacements.
        writers: The cells that they write about, each with their names as writers of its tables.
    """

    tables: Sequence[str]
    names: Sequence[str]
    writers: Sequence[tuple[Cell, Sequence[str]]]


def _lines(cell: Cell, load: Load, replacements: Mapping[ClientRole, int]) -> Iterator[_Line]:
    """Yield the clients of a cell in the order in which they are made."""

    def consumer(number: int, many: int, name: Callable[[int], str], *tables: str) -> _Line:
        numbers = _numbers(number, many, replacements.get(ClientRole.CONSUMER, 0))
        names = list(map(name, numbers))
        return _Line(tables, names, [(cell, names)])

    for number in range(load.producers):
        numbers = _numbers(number, load.producers, replacements.get(ClientRole.PRODUCER, 0))
        writers = [
            (about, [producer_of(about.topic, one) for one in numbers])
            for about in (cell, *load.shared_with)
        ]
        yield _Line(("sends",), writers[0][1], writers)
    for number in range(load.readers):
        of_readers = partial(reader_of, cell.topic)
        yield consumer(number, load.readers, of_readers, "polls", "assignments")
    for group in load.groups:
        of_members = partial(member_of, group_id(cell, group))
        for number in range(group.members):
            tables = ("polls", "assignments", "commits")
            yield consumer(number, group.members, of_members, *tables)
    for share_group in load.share_groups:
        of_members = partial(member_of, group_id(cell, share_group))
        for number in range(share_group.members):
            yield consumer(number, share_group.members, of_members, "deliveries")


def _numbers(number: int, many: int, replacements: int) -> Sequence[int]:
    """Return the number of a client, one of so ``many`` of its kind, and those of its replacements.

    Replacements are clients of their own. What a producer had under way when it died may be
    appended behind the first records of its replacement.
    """
    return range(number, number + many * replacements + 1, many)


def written_at(place: ClientNode, client: str) -> Mapping[str, str]:
    """Return where the client writes, for its specification."""
    return {"history": place.history, "progress": f"{place.progress}/{client}.json"}


def _connection(cells: Sequence[Cell]) -> Config:
    merged: Config = {}
    for cell in cells:
        merged |= connection_properties(producer_config(cell))
    return merged
