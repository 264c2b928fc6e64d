"""What a workload is: the clients of a cell, and the reading back.

A workload builds command lines with a JSON specification each; it does not know where they run.
The harness starts them on a client node, reads their progress files, and stops them with SIGTERM:
a client then stops sending, waits for what is under way (at most ``message.timeout.ms``), closes
its history and exits with 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, cast

from pydantic import BaseModel, ConfigDict

from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedWriter
from ackproof.plugins.registration import common_problems, parameter_problems

# --- the interface --------------------------------------------------------------------------------


class Delivery(StrEnum):
    """When a member of a group commits (seeds 002 and 004)."""

    AT_LEAST_ONCE = "at-least-once"
    """After it has processed (recorded) what a poll returned."""
    AT_MOST_ONCE = "at-most-once"
    """Before it processes what a poll returned, and processes that only once the commit is
    answered."""
    AUTO_COMMIT = "auto-commit"
    """The client library commits by itself (``enable.auto.commit``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A consumer group of every cell; Kafka's ``group.id`` is ``<topic>-<name>``.

    Attributes:
        name: E.g. ``at-least-once``.
        static: Whether its members have a ``group.instance.id`` each (KIP-345).
        config: Further librdkafka properties of its members.
    """

    name: str
    members: int
    delivery: Delivery
    static: bool = False
    config: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transactions:
    """What transactional clients do; what each does when is drawn by the run's seed.

    Attributes:
        records: Of a transaction, on average.
        aborts: The share of transactions that are aborted and not committed.
        fences: The share in whose middle another session of the same ``transactional.id`` begins,
            while the one before goes on: a zombie.
        transformers: How many clients of each cell read it in a group, and write what they make of
            it in transactions, with the offsets of what they read.
    """

    records: int
    aborts: float
    fences: float
    transformers: int


class Parameters(BaseModel):
    """A workload's own settings, as the campaign file gives them (``workload.parameters``). Every
    field has a default and a description."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


NO_PARAMETERS = Parameters()


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The clients of every cell, and how hard they work.

    Attributes:
        rate: Records a second, of all producers of a cell together; None for as many as they take
            (flat out).
        record_bytes: Size of a value; the least where they differ.
        record_bytes_max: The largest, where they do.
        records: How many are sent at the most, likewise of all producers; None for no limit.
        keys: How many keys the records have; None for records without.
        producers: How many send to each cell.
        readers: Tail readers of each cell: each reads all partitions from their beginning, as they
            grow, in no group.
        groups: Consumer groups of each cell.
        racks: Where its consumers stand (``client.rack``), in turn: of several readers, and of the
            members of a group, the first stands in the first. Nowhere, if empty.
        transactions: Of the workload that writes in transactions; None of any other.
        parameters: The workload's own settings.
    """

    rate: float | None
    record_bytes: int
    record_bytes_max: int | None = None
    records: int | None = None
    keys: int | None = None
    producers: int = 1
    readers: int = 0
    groups: Sequence[Group] = ()
    racks: Sequence[str] = ()
    transactions: Transactions | None = None
    parameters: Parameters = NO_PARAMETERS

    def rack_of(self, number: int) -> Mapping[str, str]:
        """The property that says where the consumer of that number stands, if anywhere."""
        return {"client.rack": self.racks[number % len(self.racks)]} if self.racks else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node where clients run.

    Attributes:
        node: Its name.
        history: The directory there that tables go to.
        progress: The directory there of the files ``<client>.json`` that clients rewrite once a
            second, for the display.
    """

    node: str
    history: str
    progress: str


class Role(StrEnum):
    """What a client does; decides what it is waited for at the start and at the end."""

    PRODUCER = "producer"
    """Ready when something was acknowledged to it (``acked`` in its progress file)."""
    CONSUMER = "consumer"
    """Ready when it has partitions (``assigned``), or a group that is full without it. Stopped when
    the producers have ended, and there is time to read what they wrote: it goes on until it has
    read to the end of what it has, or :data:`CATCH_UP_S` after it was asked to stop."""


CATCH_UP_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client process to start: ``python -m <module> <file with specification as JSON>``.

    Attributes:
        name: Unique in a run; the writer of its tables, too.
        cell: The name of the cell that it is of; None for the final read.
        node: Where it is to run.
        successor: Who comes in its place, should a fault crash it; None for nobody.
        library: Whose program it has to start, as in :data:`history.cell.LIBRARIES`, or the path of
            one; whoever starts the client adds its command line to the specification, as
            ``program``. None where the client is its own.
    """

    name: str
    module: str
    role: Role
    cell: str | None
    node: str
    specification: Mapping[str, object]
    library: str | None = None
    successor: "Client | None" = None


NO_COMEBACKS: Mapping[Role, int] = {}
"""How often somebody may have to come in the place of a client, by its role: never."""


class Workload(Protocol):
    """A kind of traffic. Clients are spread over the places (or their nodes) that are given: the
    first client of each cell runs at the first, the next at the next, and so on in turn. So every
    cell has the same clients there, and all cells live through it alike when a node is cut off.

    ``comebacks``: how often somebody may have to come in the place of a client, by its role. Who
    does is a client and a writer of its own, at the same place."""

    name: str
    summary: str
    transactional: bool
    """Whether it writes in transactions alone."""
    parameters: type[Parameters]
    """Its own settings; :class:`Parameters` itself where it has none."""

    def writers(
        self,
        loads: Sequence[tuple[Cell, Load]],
        nodes: Sequence[str],
        comebacks: Mapping[Role, int] = NO_COMEBACKS,
    ) -> Sequence[PlannedWriter]:
        """Every file that its clients and the final read will write, which is on the first of the
        ``nodes``. ``loads``: each cell with what its clients do."""

    def clients(
        self,
        cell: Cell,
        load: Load,
        *,
        bootstrap_servers: str,
        places: Sequence[Place],
        comebacks: Mapping[Role, int] = NO_COMEBACKS,
        seed: int = 0,
    ) -> Sequence[Client]:
        """The clients of a cell. ``seed``: for whatever they draw."""

    def final_read(
        self,
        cells: Sequence[Cell],
        *,
        bootstrap_servers: str,
        place: Place,
        deadline_s: float,
    ) -> Client: ...


# --- conditions that a plug-in's workload must meet -----------------------------------------------

_VALUES = ("name", "summary", "transactional", "parameters")
_METHODS = ("writers", "clients", "final_read")


def as_workload(found: object, name: str) -> Workload:
    """Return a registered object as the workload called ``name``. Raises ValueError that says what
    is wrong with it."""
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
