"""What a fault is.

A fault is pure: from its resolved target it makes a :class:`Plan`, a tuple of effects. One executor
(``nemesis.execution``) applies the effects of any plan and undoes them. The fault itself touches
nothing. It names the looks that prove that it bit, or is healed (``nemesis.proofs``).
They are taken until they show it or the time is up (``nemesis.proofs``).
"""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.interface import Backend, Capability, Node, Process, Server, System, Timings
from ackproof.infra.api.metadata import CONTROLLER_IDS
from ackproof.infra.machine.own_commands import OwnCommands
from ackproof.plugins.registration import common_problems, parameter_problems

# --- rhythms --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """Now on, now off. How long each time is drawn from ``seed``, in milliseconds: shortest and
    longest."""

    seed: int
    on_ms: tuple[int, int]
    off_ms: tuple[int, int]

    def beats(self) -> Iterator[tuple[int, int]]:
        """How long it is on, and then off; without end, the same each time."""
        rng = random.Random(self.seed)
        while True:
            yield rng.randint(*self.on_ms), rng.randint(*self.off_ms)


# --- servers that join and leave ------------------------------------------------------------------


class Attendant(Protocol):
    """Told once of each, or again where the same was tried again."""

    def joins(self, server: Server) -> None:
        """It is about to be started for the first time."""

    def leaves(self, server: Server) -> None:
        """It is about to be asked to end, and does not come back: its end is no failure."""

    def left(self, server: Server) -> None:
        """It has ended, and its node is about to be removed: what is to be kept of it is fetched.
        Raises InfraError when it cannot be."""


@dataclass(frozen=True, slots=True)
class Attendants:
    """Implements :class:`Attendant`: several, or nobody."""

    present: list[Attendant] = field(default_factory=list)

    def joins(self, server: Server) -> None:
        for one in self.present:
            one.joins(server)

    def leaves(self, server: Server) -> None:
        for one in self.present:
            one.leaves(server)

    def left(self, server: Server) -> None:
        for one in self.present:
            one.left(server)


# --- clients of the workload ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadClient:
    """A client of the workload that was started. ``node``: the name of the node that it runs on;
    ``role``: ``producer`` or ``consumer``; ``runs``: whether it is not known to have ended;
    ``instead_of``: the client in whose place it has come; ``begun``: whether it does its work."""

    name: str
    node: str
    process: Process
    role: str = "producer"
    runs: bool = True
    instead_of: str | None = None
    begun: bool = True


def nobody_comes_back(client: str) -> None:
    """Where nobody was planned to. Raises LookupError."""
    raise LookupError(f"nobody comes in the place of {client} here")


# --- faults ---------------------------------------------------------------------------------------

OWN_TOPICS = "ackproof-"
"""What the names of topics of the faults' own begin with, where nobody says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Who there is, by name. What is pure knows no more of a cluster than this.

    Attributes:
        zookeepers: Those that keep the metadata: ZooKeeper's servers, or KRaft's controllers.
        clients: The nodes where clients run.
        workload: The clients that run now, and the node of each.
        roles: What each of these does.
        prefix: What the names of topics of the faults' own begin with.
        added: Brokers that a fault has added. No target names them; that fault alone touches them.
        next_id: The lowest ``broker.id`` that is new; None: that after ``brokers``.
    """

    brokers: tuple[str, ...]
    zookeepers: tuple[str, ...]
    clients: tuple[str, ...] = ()
    workload: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    prefix: str = OWN_TOPICS
    added: tuple[str, ...] = ()
    next_id: int | None = None

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.zookeepers, *self.brokers)))

    def newcomers(self, count: int) -> tuple[int, ...]:
        """So many ids that no broker ever had."""
        first = self.next_id or max(map(_number, self.brokers), default=0) + 1
        return tuple(range(first, first + count))

    @property
    def kraft(self) -> bool:
        """Whether the metadata are with KRaft's controllers."""
        return self.combined or any(name.startswith("controller-") for name in self.zookeepers)

    @property
    def combined(self) -> bool:
        """Whether these are brokers, too."""
        return not set(self.zookeepers).isdisjoint(self.brokers)

    @property
    def by_id(self) -> Mapping[int, str]:
        """The servers of a view, by their ids in it."""
        apart = self.zookeepers if self.kraft and not self.combined else ()
        brokers = {_number(name): name for name in (*self.brokers, *self.added)}
        return brokers | dict(enumerate(apart, start=CONTROLLER_IDS + 1))


def _number(broker: str) -> int:
    return int(broker.rpartition("-")[2])


def majority(count: int) -> int:
    """The smallest majority of ``count``."""
    return count // 2 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What a fault may touch.

    Attributes:
        clients: The nodes where workload clients run.
        workload: The workload's clients that were started until now.
        bring_back: Starts the successor of a client that has ended, by the client's name;
            idempotent. Raises LookupError where none was planned.
        attendant: Is told of servers that join and leave.
        prefix: See :class:`Members`.
        commands: Runs the commands of the user's own.
    """

    backend: Backend
    system: System
    clients: Sequence[Node]
    workload: Callable[[], Sequence[WorkloadClient]] = tuple
    bring_back: Callable[[str], None] = nobody_comes_back
    attendant: Attendant = field(default_factory=Attendants)
    prefix: str = OWN_TOPICS
    commands: OwnCommands = field(default_factory=OwnCommands)

    @property
    def members(self) -> Members:
        running = [client for client in self.workload() if client.runs]
        return Members(
            brokers=tuple(server.name for server in self.system.brokers),
            zookeepers=tuple(server.name for server in self.system.zookeepers),
            clients=tuple(node.name for node in self.clients),
            workload={client.name: client.node for client in running},
            roles={client.name: client.role for client in running},
            prefix=self.prefix,
            added=tuple(server.name for server in self.system.added.there),
            next_id=self.system.added.next_id,
        )

    def server(self, name: str) -> Server:
        """Raises LookupError for a name that is no server's."""
        servers = (*self.system.zookeepers, *self.system.brokers, *self.system.added.there)
        for server in servers:
            if server.name == name:
                return server
        raise LookupError(f"no server {name!r}; there are {', '.join(s.name for s in servers)}")

    def client(self, name: str) -> WorkloadClient:
        """Raises LookupError for a name that is no client's."""
        found = next((client for client in self.workload() if client.name == name), None)
        if found is None:
            raise LookupError(f"no client {name!r} of the workload")
        return found

    def node(self, name: str) -> Node:
        """A server's node, or a client's."""
        clients = {node.name: node for node in self.clients}
        return clients[name] if name in clients else self.server(name).node


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """The packets from one node to another, in that direction alone."""

    source: str
    target: str

    @property
    def back(self) -> "Link":
        return Link(self.target, self.source)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Aim(StrEnum):
    """What a fault can be aimed at."""

    SERVERS = "servers"
    BROKERS = "brokers"
    CLIENTS = "clients"
    """The nodes where clients run."""
    NODES = "nodes"
    """Servers, and the nodes where clients run."""
    LINKS = "links"
    PARTITIONS = "partitions"
    """Partitions of the workload's topics, by orders: it befalls no server."""
    TOPICS = "topics"
    """Whole topics of the workload, likewise."""
    PLACES = "places for topics"
    """Brokers that are to hold a topic of the fault's own: none of them suffers."""

    @property
    def befalls_servers(self) -> bool:
        """Whether servers may suffer from it, and count among those that do."""
        return self not in (Aim.PARTITIONS, Aim.TOPICS, Aim.PLACES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A partition, and who had it at the moment; brokers by name.

    Attributes:
        replicas: The preferred one first.
        leader: None without one.
    """

    topic: str
    number: int
    replicas: tuple[str, ...]
    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a target expression named when it was resolved.

    Attributes:
        expression: As written in the campaign, e.g. ``leader(acks-1-minisr-1, 0)``.
        nodes: The nodes it stood for, in no particular order of importance; of links, their ends.
        links: Of an expression with an arrow.
        servers: The servers that a fault on it befalls: those among ``nodes``.
        clients: Likewise the nodes of clients, except the ends of links.
        partitions: ``topic-partition`` of all that these servers led, followed or coordinated
            then, or that the fault is aimed at; None where ZooKeeper did not answer.
        placed: The partitions that it is aimed at; of servers, those of which one had a replica.
        configs: Of the topics that the fault is aimed at, their own settings.
        fault_id: The number of the fault that it was resolved for; 0 where it was for none.
        facts: What was read to resolve it (leader, ISR, epochs, sessions), for the history.
    """

    expression: str
    nodes: tuple[str, ...]
    links: tuple[Link, ...] = ()
    servers: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    partitions: tuple[str, ...] | None = None
    placed: tuple[Placed, ...] = ()
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    fault_id: int = 0


@dataclass(frozen=True, slots=True)
class Resource:
    """What an effect takes hold of, such as the process of one server. The holders are counted over
    all faults: the last one to let go undoes the effects."""

    kind: str
    at: tuple[str, ...]
    """The nodes that it belongs to; of a client's process, that client; of a topic or a partition,
    its name."""
    part: Hashable = None
    """What of it, where parts are not shared: a cut and a loss of the same link are separate."""


class Effect(Protocol):
    """One thing done to one resource. Pure data; names are looked up when it is applied."""

    @property
    def resource(self) -> Resource: ...

    @property
    def ends(self) -> str | None:
        """The server or client whose process may end of it, by name; None where none should: one
        that ends all the same has ended by itself."""

    def apply(self, cluster: Cluster) -> bool:
        """Do it. False when there was nothing to be done, because it was so already."""

    def undo(self, cluster: Cluster) -> None:
        """Undo it. Idempotent; also when ``apply`` failed half-way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a fault will do.

    Attributes:
        effects: In the order in which they are applied; undone in the opposite one.
        spares: Links that stay open: without them it would be another fault.
        rhythm: In which the effects come and go while it is held; None: they stay.
        destroys: What it takes from disks, where that depends on the fault's parameters.
    """

    effects: tuple[Effect, ...]
    spares: tuple[Link, ...] = ()
    rhythm: Rhythm | None = None
    destroys: Literal["unsynced", "all"] | None = None


class Unplannable(ValueError):
    """The fault cannot be made of this target; the message says what would be right."""


def brokers_alone(fault: str, members: Members, targeted: Iterable[str]) -> None:
    """Raise Unplannable where there is one among the ``targeted`` nodes that is no broker."""
    if others := sorted(set(targeted) - set(members.brokers)):
        raise Unplannable(f"{fault} is for brokers, not for {', '.join(others)}")


class Parameters(BaseModel):
    """A fault's own settings, as the campaign file gives them. Every field has a description."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """An effect of another fault that is open. ``label``: that fault, e.g. ``kill#2``."""

    label: str
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A fault that was injected, as its proofs see it.

    Attributes:
        hold_ms: For how long it is held. A proof asks for nothing that takes longer.
        done: The effects of its plan that changed something, or may have, so far.
        others: What other open faults do to the cluster at this moment. Open is what is not
            proven to be healed: a broker on its way back is still that fault's.
    """

    cluster: Cluster
    target: Target
    plan: Plan
    hold_ms: int
    done: Callable[[], Sequence[Effect]]
    others: Callable[[], Sequence[Other]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was looked at for one claim.

    Attributes:
        claim: E.g. ``registration expired``.
        seen: What was seen, by subject (a server, a link).
        missing: The subjects of which the claim is not true, or not yet.
        left_out: The subjects that were not looked at, and why.
        owed: Whether it is for the system to make it true, once nothing of the fault is left: a
            broker that runs again is to register.
    """

    claim: str
    seen: Mapping[str, object]
    missing: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    owed: bool = False


Look = Callable[[], Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether something is proven, and by which observations. A fault that was not proven to bite
    did not happen.

    Attributes:
        owed: Whether all that is missing is owed by the system.
    """

    proven: bool
    observations: Mapping[str, object]
    owed: bool = False


class Fault(Protocol):
    """One way of breaking a cluster. Instances carry no state."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """One line for the catalogue: what it does."""

    @property
    def aim(self) -> Aim: ...

    @property
    def parameters(self) -> type[Parameters]: ...

    @property
    def needs(self) -> frozenset[Capability]: ...

    @property
    def destroys(self) -> Literal["unsynced", "all", "bits", "unclean"] | None:
        """What it takes from the disks of the servers that it befalls, ``bits`` where nobody is
        told; ``unclean``: nothing, and it lets somebody outside the ISR lead the partitions that it
        is aimed at; None: nothing."""

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        """Pure. Raises Unplannable."""

    def bitten(self, injection: Injection) -> Sequence[Look]:
        """What must be seen for it to have bitten. Of the first look at least one subject must
        have been seen, by this fault's own doing."""

    def healed(self, injection: Injection) -> Sequence[Look]:
        """What must be seen for it to be healed."""

    def hold_ms_min(self, timings: Timings) -> int:
        """The shortest hold with the full effect, derived from the cluster's settings (session
        timeout, replica lag). A shorter hold is no mistake: it proves less."""


# --- conditions that a plug-in's fault must meet --------------------------------------------------

_VALUES = ("name", "summary", "aim", "parameters", "needs", "destroys")
_METHODS = ("plan", "bitten", "healed", "hold_ms_min")
_DESTROYS = (None, "unsynced", "all", "bits", "unclean")
_MEANT = {"min_insync_replicas": "alter-min-isr", "before_offset": "delete-records"}
"""Parameters by which the checkers judge a fault, whatever its name, and whose they are."""


def as_fault(found: object, name: str) -> Fault:
    """Return a registered object as the fault called ``name``. Raises ValueError that says what is
    wrong with it."""
    for problem in _problems(found, name):
        raise ValueError(problem)
    return cast(Fault, found)


def _problems(found: object, name: str) -> Iterator[str]:
    if isinstance(found, type):
        yield f"{found.__name__} is a class; register an instance of it"
    missing = [one for one in (*_VALUES, *_METHODS) if not hasattr(found, one)]
    if missing:
        yield f"it has no {', '.join(missing)}; see ackproof.nemesis.interface.Fault"
    fault = cast(Fault, found)
    uncallable = [one for one in _METHODS if not callable(getattr(fault, one))]
    if uncallable:
        yield f"{', '.join(uncallable)}: must be a method"
    yield from common_problems(fault, name)
    if not isinstance(fault.aim, Aim):
        yield f"its aim must be one of {', '.join(f'Aim.{one.name}' for one in Aim)}"
    if fault.destroys not in _DESTROYS:
        words = ", ".join(map(repr, _DESTROYS))
        yield f"it destroys {fault.destroys!r}, which is not one of {words}"
    if not isinstance(fault.needs, frozenset) or fault.needs - set(Capability):
        yield "its needs must be a frozenset of Capability"
    yield from parameter_problems(fault.parameters, Parameters, _MEANT)
