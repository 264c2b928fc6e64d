"""The clients of the workload ``transactions``, and what they write."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice

from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedWriter
from ackproof.history.names import PARTITIONED
from ackproof.workloads.configuration import connection_properties, producer_config
from ackproof.workloads.interface import (
    NO_REPLACEMENTS,
    Client,
    ClientNode,
    ClientRole,
    Load,
    Parameters,
)
from ackproof.workloads.produce import Produce, written_at
from ackproof.workloads.spec import FINAL_READ, producer_of, reader_of
from ackproof.workloads.transactions.spec import (
    READ_TABLES,
    drawn,
    transformer_of,
    transformers_group,
)

_SENT = ("sends", "transactions")


class TransactionsWorkload:
    """The producers, transformers and tail readers of each cell, and the final reads of all."""

    name = "transactions"
    transactional = True
    parameters = Parameters
    summary = (
        "producers and transformers that write in transactions over all partitions, commit, abort "
        "and fence each other; tail readers beside them; then reads all back, committed or not"
    )

    def __init__(self) -> None:
        self._plain = Produce()

    def writers(
        self,
        loads: Sequence[tuple[Cell, Load]],
        nodes: Sequence[str],
        replacements: Mapping[ClientRole, int] = NO_REPLACEMENTS,  # noqa: ARG002 - no client is replaced
    ) -> Sequence[PlannedWriter]:
        """Return the tables of each client, and of the final reads."""
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
            for (client, tables), node in zip(_tables(cell, load), cycle(nodes), strict=False)
            for table in tables
        ]
        partitions = tuple(partition for cell, _ in loads for partition in cell.topic_partitions)
        of_reads = [
            PlannedWriter(
                table=table,
                writer=FINAL_READ,
                node=nodes[0],
                partitions=partitions if table in PARTITIONED else (),
            )
            for table in READ_TABLES
        ]
        return (*of_clients, *of_reads)

    def clients(
        self,
        cell: Cell,
        load: Load,
        *,
        bootstrap_servers: str,
        places: Sequence[ClientNode],
        replacements: Mapping[ClientRole, int] = NO_REPLACEMENTS,  # noqa: ARG002 - no client is replaced
        seed: int = 0,
    ) -> Sequence[Client]:
        """Return the clients of a cell, producers first; see :mod:`workloads.transactions.spec`."""
        plain = self._plain.clients(
            cell, load, bootstrap_servers=bootstrap_servers, places=places, seed=seed
        )
        left = islice(cycle(places), len(plain), None)
        producers = [one for one in plain if one.role is ClientRole.PRODUCER]
        readers = [one for one in plain if one.role is ClientRole.CONSUMER]
        assert load.transactions is not None, "the campaign has filled it in"
        draws = drawn(load.transactions, seed)
        connection = connection_properties(producer_config(cell))

        def reading(number: int) -> Mapping[str, object]:
            return {
                "consumer_config": {**connection, **load.rack_of(number)},
                "isolation": cell.isolation,
            }

        return (
            *(_transactional(one, draws) for one in producers),
            *(
                replace(one, specification={**one.specification, "isolation": cell.isolation})
                for one in readers
            ),
            *(
                _transformer(producers[0], cell, number, next(left), draws, reading(number))
                for number in range(_transformers(load))
            ),
        )

    def final_read(
        self,
        cells: Sequence[Cell],
        *,
        bootstrap_servers: str,
        place: ClientNode,
        deadline_s: float,
    ) -> Client:
        """Return the reader of all cells; see
        :class:`workloads.transactions.spec.TransactionalReadSpec`."""
        plain = self._plain.final_read(
            cells,
            bootstrap_servers=bootstrap_servers,
            place=place,
            deadline_s=deadline_s,
        )
        groups = {cell.topic: transformers_group(cell.topic) for cell in cells}
        return replace(
            plain,
            module="ackproof.workloads.transactions.final_read",
            specification={**plain.specification, "groups": groups},
        )


def _transformers(load: Load) -> int:
    return load.transactions.transformers if load.transactions is not None else 0


def _transactional(producer: Client, draws: Mapping[str, object]) -> Client:
    return replace(
        producer,
        module="ackproof.workloads.transactions.producer",
        specification={**producer.specification, **draws},
    )


def _transformer(
    producer: Client,
    cell: Cell,
    number: int,
    place: ClientNode,
    draws: Mapping[str, object],
    reading: Mapping[str, object],
) -> Client:
    """Return a transformer, made from a producer's specification.

    Only its own next session fences a transformer.
    """
    name = transformer_of(cell.topic, number)
    own = {"producer": number, **written_at(place, name), **draws, "fences": 0.0}
    given = {**producer.specification, **own}
    shared = ("topic", "partitions", "bootstrap_servers", "history", "progress")
    reader = {"client": name, **{key: given[key] for key in shared}, **reading}
    return replace(
        producer,
        name=name,
        node=place.node,
        module="ackproof.workloads.transactions.transformer",
        specification={**given, "group": transformers_group(cell.topic), "reader": reader},
    )


def _tables(cell: Cell, load: Load) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each client of a cell, with the tables that it writes, in the order in which they are
    made."""
    for number in range(load.producers):
        yield producer_of(cell.topic, number), _SENT
    for number in range(load.readers):
        yield reader_of(cell.topic, number), ("polls", "assignments")
    for number in range(_transformers(load)):
        name = transformer_of(cell.topic, number)
        yield name, (*_SENT, "inputs", "transaction_offsets")
