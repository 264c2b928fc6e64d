"""The interface of a workload: the clients of a cell, and the reading back.

A workload builds command lines with a JSON specification each, and does not know where they run.
The harness starts them on a client node, reads their progress files, and stops them with SIGTERM.

A client then stops sending, waits for what is under way (at most ``message.timeout.ms``), closes
its history and exits with 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, cast

from pydantic import BaseModel, ConfigDict

from ackproof.history.cell import LIBRDKAFKA, Cell
from ackproof.history.manifest import PlannedWriter
from ackproof.plugins.registration import common_problems, parameter_problems

# --- the interface --------------------------------------------------------------------------------


class Delivery(StrEnum):
    """The point at which a group member commits (*Design V2* and *Data reliability in depth*)."""

    AT_LEAST_ONCE = "at-least-once"
    """The member commits after it has processed (recorded) what a poll returned."""
    AT_MOST_ONCE = "at-most-once"
    """The member commits before it processes what a poll returned, and processes that only once the
    commit is answered."""
    AUTO_COMMIT = "auto-commit"
    """The client library commits by itself (``enable.auto.commit``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A consumer group of every cell; Kafka's ``group.id`` is ``<topic>-<name>``.

    Attributes:
        name: The name, such as ``at-least-once``.
        static: Whether its members have a ``group.instance.id`` each (KIP-345).
        client: The client library of its members, or the path of a program.
        config: Further properties of its members, by their client's names.
        replacement: The same for members that replace crashed ones; None for the same properties.
    """

    name: str
    members: int
    delivery: Delivery
    static: bool = False
    client: str = LIBRDKAFKA
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    replacement: Mapping[str, str | int | float | bool] | None = None

    def config_of(self, number: int) -> Mapping[str, str | int | float | bool]:
        """Return the properties of the member of that number; those from ``members`` on replace
        crashed ones."""
        is_first = number < self.members
        return self.config if is_first or self.replacement is None else self.replacement


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroup:
    """A share group of every cell (KIP-932); Kafka's ``group.id`` is ``<topic>-<name>``.

    Attributes:
        name: The name, such as ``queue``.
        releases: The share of deliveries that members release for another delivery.
        rejects: The share of deliveries that they reject.
        config: Further librdkafka properties of its members.
    """

    name: str
    members: int
    releases: float
    rejects: float
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """The behaviour of transactional clients; the run's seed draws what each does when.

    Attributes:
        records: The records of a transaction, on average.
        aborts: The share of transactions that are aborted and not committed.
        fences: The share in whose middle another session of the same ``transactional.id`` begins,
            while the one before goes on as a zombie.
        transformers: How many clients of each cell read it in a group. They write what they make of
            it in transactions, with the offsets of what they read.
    """

    records: int
    aborts: float
    fences: float
    transformers: int


class Parameters(BaseModel):
    """A workload's own settings, as the campaign file gives them (``workload.parameters``).

    Every field has a default and a description.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


NO_PARAMETERS = Parameters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The clients of every cell, and how hard they work.

    Attributes:
        rate: The records a second, of all producers of a cell together; None for as many as they
            take (flat out).
        record_bytes: The size of a value; the smallest where they differ.
        record_bytes_max: The largest size, where they differ.
        records: How many all producers together send at most; None for no limit.
        keys: How many keys the records have; None for records without.
        tombstones: The share of records that are tombstones: null values, which delete their keys.
        producers: How many producers send to each cell; 0 for a cell that shares those of another.
        shared_with: The cells that share the producers of this one.
        readers: The tail readers of each cell. Each reads all partitions from their beginning, as
            they grow, in no group.
        groups: The consumer groups of each cell.
        share_groups: The share groups of each cell.
        racks: The racks of its consumers (``client.rack``), in turn. The first of several readers
            is in the first rack, and so is the first member of a group. Without any, they are in no
            rack.
        transactions: The settings of the workload that writes in transactions; None for any other.
        parameters: The workload's own settings.
    """

    rate: float | None
    record_bytes: int
    record_bytes_max: int | None = None
    records: int | None = None
    keys: int | None = None
    tombstones: float = 0.0
    producers: int = 1
    shared_with: Sequence[Cell] = ()
    readers: int = 0
    groups: Sequence[Group] = ()
    share_groups: Sequence[ShareGroup] = ()
    racks: Sequence[str] = ()
    transactions: Transactions | None = None
    parameters: Parameters = NO_PARAMETERS

    def rack_of(self, number: int) -> Mapping[str, str]:
        """Return the property that names the rack of the consumer of that number, if any."""
        return {"client.rack": self.racks[number % len(self.racks)]} if self.racks else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientNode:
    """A node where clients run.

    Attributes:
        node: The name of the node.
        history: The directory there that tables go to.
        progress: The directory there of the files ``<client>.json`` that clients rewrite once a
            second, for the display.
    """

    node: str
    history: str
    progress: str


class ClientRole(StrEnum):
    """The role of a client, which decides what the harness waits for at the start and at the
    end."""

    PRODUCER = "producer"
    """A producer is ready when a record of it was acknowledged (``acked`` in its progress file)."""
    CONSUMER = "consumer"
    """A consumer is ready when it has partitions (``assigned``), or when its group is full without
    it.

    It is stopped when the producers have ended and it has had time to read what they wrote. It goes
    on until it has read to the end of what it has, or :data:`CATCH_UP_S` after it was asked to
    stop.
    """


CATCH_UP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client process to start: ``python -m <module> <file with specification as JSON>``.

    Attributes:
        name: The name, unique in a run; it also names the writer of its tables.
        cell: The name of its cell; None for the final read.
        node: The node where it runs.
        successor: The client that replaces it if a fault crashes it, or None.
        library: The library whose program it starts, as in :data:`history.cell.LIBRARIES`, or the
            path of one. The starter of the client adds its command line to the specification, as
            ``program``. It is None where the client is its own.
    """

    name: str
    module: str
    role: ClientRole
    cell: str | None
    node: str
    specification: Mapping[str, object]
    library: str | None = None
    successor: "Client | None" = None


NO_REPLACEMENTS: Mapping[ClientRole, int] = {}
"""How often a client may have to be replaced, by its role: never."""


class Workload(Protocol):
    """A kind of traffic.

    Clients are spread over the given places (or their nodes). The first client of each cell runs at
    the first, the next at the next, and so on in turn. So every cell has the same clients there,
    and a cut node affects all cells alike.

    ``replacements`` says how often a client may have to be replaced, by its role. The replacement
    is a client and a writer of its own, at the same place.
    """

    name: str
    summary: str
    transactional: bool
    """Whether it writes only in transactions."""
    parameters: type[Parameters]
    """The class of its own settings; :class:`Parameters` itself where it has none."""

    def writers(
        self,
        loads: Sequence[tuple[Cell, Load]],
        nodes: Sequence[str],
        replacements: Mapping[ClientRole, int] = NO_REPLACEMENTS,
    ) -> Sequence[PlannedWriter]:
        """Return every file that its clients and the final read will write; the final read is on
        the first node.

        ``loads`` holds each cell with what its clients do.
        """

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
        """Return the clients of a cell; ``seed`` is for whatever they draw."""

    def final_read(
        self,
        cells: Sequence[Cell],
        *,
        bootstrap_servers: str,
        place: ClientNode,
        deadline_s: float,
    ) -> Client: ...


# --- conditions that a plug-in's workload must meet -----------------------------------------------

_VALUES = ("name", "summary", "transactional", "parameters")
_METHODS = ("writers", "clients", "final_read")


def as_workload(found: object, name: str) -> Workload:
    """Return a registered object as the workload called ``name``.

    Raise a ValueError that says what is wrong with it.
    """
    for problem in _problems(found, name):
        raise ValueError(problem)
    return cast(Workload, found)


def _problems(found: object, name: str) -> Iterator[str]:
    if isinstance(found, type):
        yield f"{found.__name__} is a class; register an instance of it"
    missing = [one for one in (*_VALUES, *_METHODS) if not hasattr(found, one)]
    if missing:
        yield f"it has no {', '.join(missing)}; see ackproof.workloads.interface.Workload"
    workload = cast(Workload, found)
    uncallable = [one for one in _METHODS if not callable(getattr(workload, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a method"
    yield from common_problems(workload, name)
    if not isinstance(workload.transactional, bool):
        yield "its transactional must be True or False"
    yield from parameter_problems(workload.parameters, Parameters)
