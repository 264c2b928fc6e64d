"""The interface of a fault.

A fault is pure: from its resolved target it makes a :class:`Plan`, a tuple of effects. One executor
(``nemesis.execution``) applies the effects of any plan and undoes them. The fault itself changes
nothing. It names the looks that prove that it took effect, or is healed (``nemesis.proofs``). They
are repeated until they show it or the time is up.
"""

import random
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict

from ackproof.infra.api.capabilities import LogDirectory
from ackproof.infra.api.interface import (
    Backend,
    Capability,
    Node,
    PodPlace,
    Process,
    Server,
    System,
    Timings,
)
from ackproof.infra.api.metadata import CONTROLLER_IDS
from ackproof.infra.machine.own_commands import OwnCommands
from ackproof.plugins.registration import common_problems, parameter_problems

# --- rhythms --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """A rhythm of on and off. Each length is drawn from ``seed``, in milliseconds, between the
    shortest and the longest."""

    seed: int
    on_ms: tuple[int, int]
    off_ms: tuple[int, int]

    def beats(self) -> Iterator[tuple[int, int]]:
        """Yield the lengths of on and off, without end, and the same each time."""
        rng = random.Random(self.seed)
        while True:
            yield rng.randint(*self.on_ms), rng.randint(*self.off_ms)


# --- servers that join and leave ------------------------------------------------------------------


class ServerObserver(Protocol):
    """An observer of servers that join and leave. It is told once of each, or again if the same
    step was repeated."""

    def joins(self, server: Server) -> None:
        """Note a server that is about to be started for the first time."""

    def leaves(self, server: Server) -> None:
        """Note a server that is about to be told to end, and does not come back: its end is no
        failure."""

    def left(self, server: Server) -> None:
        """Note a server that has ended, whose node is about to be removed, and fetch its files.
        Raise InfraError when they cannot be fetched."""


@dataclass(frozen=True, slots=True)
class ServerObservers:
    """Several observers, or none, as one :class:`ServerObserver`."""

    present: list[ServerObserver] = field(default_factory=list)

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
    """A client of the workload that was started.

    ``node`` is the name of its node, and ``role`` is ``producer`` or ``consumer``. ``runs`` says
    whether it is not known to have ended, and ``begun`` whether it does its work. ``instead_of`` is
    the client that it replaces.
    """

    name: str
    node: str
    process: Process
    role: str = "producer"
    runs: bool = True
    instead_of: str | None = None
    begun: bool = True


def nobody_comes_back(client: str) -> None:
    """Raise LookupError, because no successor of the client was planned."""
    raise LookupError(f"no replacement for {client} is available")


# --- faults ---------------------------------------------------------------------------------------

OWN_TOPICS = "ackproof-"
"""The beginning of the names of the faults' own topics, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The members of the cluster, by name. Pure code knows no more of a cluster than this.

    Attributes:
        zookeepers: The servers that keep the metadata: ZooKeeper's, or KRaft's controllers, or both
            while a cluster migrates.
        clients: The nodes where clients run.
        workload: The clients that run now, and the node of each.
        roles: The role of each of these.
        prefix: The beginning of the names of the faults' own topics.
        added: Brokers that a fault has added. No target names them, and only that fault uses them.
        next_id: The lowest unused ``broker.id``; None: the one after ``brokers``.
        racks: The rack of each broker that is known to be in one.
        controller_ids: The ``node.id`` of each of KRaft's controllers that is no broker; empty if
            they are those of the harness's own, behind :data:`infra.api.metadata.CONTROLLER_IDS`.
        keepers_with_disks: Those of ``zookeepers`` that are no brokers, and can have disks of their
            own.
    """

    brokers: tuple[str, ...]
    zookeepers: tuple[str, ...]
    clients: tuple[str, ...] = ()
    workload: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    prefix: str = OWN_TOPICS
    added: tuple[str, ...] = ()
    next_id: int | None = None
    racks: Mapping[str, str] = field(default_factory=dict)
    controller_ids: Mapping[str, int] = field(default_factory=dict)
    keepers_with_disks: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.zookeepers, *self.brokers)))

    def newcomers(self, count: int) -> tuple[int, ...]:
        """Return so many ids that no broker ever had."""
        first = self.next_id or max(map(_number, self.brokers), default=0) + 1
        return tuple(range(first, first + count))

    @property
    def ensembles(self) -> tuple[tuple[str, ...], ...]:
        """The servers that keep the metadata, by the quorum in which they vote.

        There are two while a cluster migrates: ZooKeeper's servers, then KRaft's controllers.
        """
        keepers = self.zookeepers
        of_zookeeper = tuple(name for name in keepers if name.startswith("zookeeper-"))
        others = tuple(name for name in keepers if name not in of_zookeeper)
        return tuple(one for one in (of_zookeeper, others) if one)

    @property
    def quorum(self) -> tuple[str, ...]:
        """The servers of the metadata quorum; while a cluster migrates, KRaft's controllers."""
        return self.ensembles[-1] if self.ensembles else ()

    @property
    def migrates(self) -> bool:
        """Whether the cluster migrates from ZooKeeper to KRaft."""
        return len(self.ensembles) > 1

    @property
    def kraft(self) -> bool:
        """Whether KRaft's controllers keep the metadata, or will keep them."""
        return self.combined or any(name.startswith("controller-") for name in self.zookeepers)

    @property
    def combined(self) -> bool:
        """Whether these are brokers, too."""
        return not set(self.zookeepers).isdisjoint(self.brokers)

    @property
    def by_id(self) -> Mapping[int, str]:
        """The servers of a view, by their ids in it."""
        brokers = {_number(name): name for name in (*self.brokers, *self.added)}
        if self.kraft and self.controller_ids:
            return brokers | {number: name for name, number in self.controller_ids.items()}
        apart = self.quorum if self.kraft and not self.combined else ()
        return brokers | dict(enumerate(apart, start=CONTROLLER_IDS + 1))


def _number(broker: str) -> int:
    return int(broker.rpartition("-")[2])


def majority(count: int) -> int:
    """Return the smallest majority of ``count``."""
    return count // 2 + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The objects that a fault may use.

    Attributes:
        clients: The nodes where workload clients run.
        workload: The workload's clients that were started until now.
        bring_back: Starts the successor of a client that has ended, by the client's name;
            idempotent. Raises LookupError if none was planned.
        attendant: The observer of servers that join and leave.
        prefix, racks: See :class:`Members`.
        commands: Runs the commands of the user's own.
    """

    backend: Backend
    system: System
    clients: Sequence[Node]
    workload: Callable[[], Sequence[WorkloadClient]] = tuple
    bring_back: Callable[[str], None] = nobody_comes_back
    attendant: ServerObserver = field(default_factory=ServerObservers)
    prefix: str = OWN_TOPICS
    racks: Mapping[str, str] = field(default_factory=dict)
    commands: OwnCommands = field(default_factory=OwnCommands)

    @property
    def members(self) -> Members:
        running = [client for client in self.workload() if client.runs]
        brokers = tuple(server.name for server in self.system.brokers)
        return Members(
            brokers=brokers,
            zookeepers=tuple(server.name for server in self.system.zookeepers),
            clients=tuple(node.name for node in self.clients),
            workload={client.name: client.node for client in running},
            roles={client.name: client.role for client in running},
            prefix=self.prefix,
            added=tuple(server.name for server in self.system.added.there),
            next_id=self.system.added.next_id,
            racks=self.racks,
            controller_ids={
                keeper.name: keeper.id
                for keeper in self.system.zookeepers
                if keeper.distant is not None and keeper.name not in brokers
            },
            keepers_with_disks=tuple(one.name for one in self.system.zookeepers if one.disks),
        )

    def server(self, name: str) -> Server:
        """Return a server by name. Raise LookupError if there is none."""
        there = (*self.system.zookeepers, *self.system.brokers, *self.system.added.there)
        servers = (*there, *self.system.removed)
        for server in servers:
            if server.name == name:
                return server
        raise LookupError(f"no server {name!r}; there are {', '.join(s.name for s in servers)}")

    def client(self, name: str) -> WorkloadClient:
        """Return a client by name. Raise LookupError if there is none."""
        found = next((client for client in self.workload() if client.name == name), None)
        if found is None:
            raise LookupError(f"no client {name!r} of the workload")
        return found

    def node(self, name: str) -> Node:
        """Return a server's node, or a client's."""
        clients = {node.name: node for node in self.clients}
        return clients[name] if name in clients else self.server(name).node


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """The packets from one node to another, in that direction only."""

    source: str
    target: str

    @property
    def back(self) -> "Link":
        return Link(self.target, self.source)

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Aim(StrEnum):
    """The kind of target that a fault can be aimed at."""

    SERVERS = "servers"
    BROKERS = "brokers"
    CLIENTS = "clients"
    """The nodes where clients run."""
    NODES = "nodes"
    """Servers, and the nodes where clients run."""
    LINKS = "links"
    PARTITIONS = "partitions"
    """Partitions of the workload's topics, by orders, without affected servers."""
    TOPICS = "topics"
    """Whole topics of the workload, by orders, without affected servers."""
    REPLICAS = "replicas of partitions"
    """Replicas of the workload's partitions, by orders to their brokers, without affected
    servers."""
    KUBERNETES_NODES = "brokers and their Kubernetes nodes"
    """Brokers in pods, with all other brokers on the same nodes of Kubernetes."""
    PODS = "brokers in pods"
    """Brokers in pods of Kubernetes, on whichever nodes."""
    PLACES = "places for topics"
    """Brokers that will hold a topic of the fault's own. None of them is affected."""

    @property
    def affects_servers(self) -> bool:
        """Whether servers may be affected, and count among the affected ones."""
        return self not in (*BY_PARTITION, Aim.PLACES)


BY_PARTITION = (Aim.PARTITIONS, Aim.TOPICS, Aim.REPLICAS)
"""The aims at partitions, whichever servers have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """A partition, and its brokers at that moment, by name.

    Attributes:
        replicas: The preferred one first.
        leader: None without one.
        elr: The eligible leader replicas (KIP-966).
    """

    topic: str
    number: int
    replicas: tuple[str, ...]
    leader: str | None
    leader_epoch: int
    isr: tuple[str, ...]
    elr: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.topic}-{self.number}"


_NAMES_MAX = 4
"""The most names of a target in a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The servers, links or partitions that a target expression named when it was resolved.

    Attributes:
        expression: As written in the campaign, for example ``leader(acks-1-minisr-1, 0)``.
        nodes: The nodes it stood for, in no particular order; of links, their ends.
        links: The links of an expression with an arrow.
        servers: The servers that a fault on it affects: those among ``nodes``.
        clients: The nodes of clients among ``nodes``, except the ends of links.
        partitions: ``topic-partition`` of all that these servers led, followed or coordinated then,
            or that the fault is aimed at; None if ZooKeeper did not answer.
        placed: The partitions that it is aimed at; of servers, those of which one had a replica.
        configs: The own settings of the topics that the fault is aimed at.
        directories: The log directories of the brokers of ``placed`` that answered, for faults on
            replicas; None if no broker was asked, as for a plan without a cluster.
        pods: The pods of its brokers, for faults on pods or nodes of Kubernetes; empty for a plan
            without a cluster.
        fault_id: The number of the fault that it was resolved for; 0 if it was for none.
        facts: What was read to resolve it (leader, ISR, epochs, sessions), for the history.
    """

    expression: str
    nodes: tuple[str, ...]
    links: tuple[Link, ...] = ()
    servers: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    partitions: tuple[str, ...] | None = None
    placed: tuple[PlacedPartition, ...] = ()
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    directories: Mapping[str, Sequence[LogDirectory]] | None = None
    pods: Mapping[str, PodPlace] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)
    fault_id: int = 0

    def __str__(self) -> str:
        """Return the names of what a fault on it affects, at most four of them: links, else servers
        and nodes of clients, else the chosen nodes, else partitions."""
        affected = [*map(str, self.links)] or [*self.servers, *self.clients]
        names = affected or [*self.nodes] or [*map(str, self.placed)]
        more = len(names) - _NAMES_MAX
        return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class Resource:
    """An object that an effect holds, such as the process of one server. The holders are counted
    over all faults, and the last one to end undoes the effects."""

    kind: str
    at: tuple[str, ...]
    """The nodes that it belongs to. Of a client's process it is that client, and of a topic or a
    partition its name."""
    part: Hashable = None
    """The part of it, if parts are not shared: a cut and a loss of the same link are separate."""


class Effect(Protocol):
    """One change of one resource. Pure data; names are looked up when it is applied."""

    @property
    def resource(self) -> Resource: ...

    @property
    def ends(self) -> str | None:
        """The server or client whose process may end because of it, by name. None if none should: a
        process that ends all the same has ended by itself."""

    def apply(self, cluster: Cluster) -> bool:
        """Apply it. Return False when there was nothing to do, because the state was already so."""

    def undo(self, cluster: Cluster) -> None:
        """Undo it. Idempotent, even when ``apply`` failed half-way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a fault.

    Attributes:
        effects: In the order in which they are applied; undone in the opposite one.
        spares: Links that stay open: without them it would be another fault.
        rhythm: The rhythm in which the effects come and go while it is held; None: they stay.
        destroys: What it takes from disks, if that depends on the fault's parameters, or on the
            cluster.
    """

    effects: tuple[Effect, ...]
    spares: tuple[Link, ...] = ()
    rhythm: Rhythm | None = None
    destroys: Literal["unsynced", "all"] | None = None


class Unplannable(ValueError):
    """A target that the fault cannot be made of. The message says what would be right."""


def brokers_alone(fault: str, members: Members, targeted: Iterable[str]) -> None:
    """Raise Unplannable if one of the ``targeted`` nodes is no broker."""
    if others := sorted(set(targeted) - set(members.brokers)):
        raise Unplannable(f"{fault} is for brokers, not for {', '.join(others)}")


class Parameters(BaseModel):
    """A fault's own settings, as in the campaign file. Every field has a description."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEffect:
    """An effect of another open fault. ``label`` names that fault, for example ``kill#2``."""

    label: str
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """A fault that was injected, as its proofs see it.

    Attributes:
        hold_ms: How long it is held. A proof requires nothing that takes longer.
        done: The effects of its plan that changed something, or may have, so far.
        others: The present effects of other open faults. A fault is open until it is proven to be
            healed: a broker on its way back is still that fault's.
    """

    cluster: Cluster
    target: Target
    plan: Plan
    hold_ms: int
    done: Callable[[], Sequence[Effect]]
    others: Callable[[], Sequence[OpenEffect]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The result of a look for one claim.

    Attributes:
        claim: For example ``registration expired``.
        seen: What was seen, by subject (a server, a link).
        missing: The subjects of which the claim is not true, or not yet.
        left_out: The subjects that were not looked at, with the reason.
        owed: Whether the system must make it true, once nothing of the fault is left: a broker that
            runs again must register.
    """

    claim: str
    seen: Mapping[str, object]
    missing: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    owed: bool = False


Look = Callable[[], Observation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether something is proven, and by which observations. A fault that was not proven to take
    effect did not happen.

    Attributes:
        owed: Whether the system owes everything that is missing.
    """

    proven: bool
    observations: Mapping[str, object]
    owed: bool = False


def headline(summary: str) -> str:
    """Return the short form of a summary of a fault or story: what precedes its first semicolon."""
    return summary.partition(";")[0]


class Fault(Protocol):
    """One way of breaking a cluster. Instances carry no state."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str:
        """The line in the catalogue, which says what it does (:func:`headline` is its short
        form)."""

    @property
    def aim(self) -> Aim: ...

    @property
    def parameters(self) -> type[Parameters]: ...

    @property
    def needs(self) -> frozenset[Capability]: ...

    @property
    def destroys(self) -> Literal["unsynced", "all", "bits", "unclean"] | None:
        """The loss on the disks of the affected servers, or None. ``bits`` is damage that no
        server is told of. ``unclean`` takes nothing, but lets a broker outside the ISR lead the
        target partitions."""

    def plan(
        self, members: Members, target: Target, parameters: Parameters, rng: random.Random
    ) -> Plan:
        """Return the plan. Pure. Raise Unplannable."""

    def bitten(self, injection: Injection) -> Sequence[Look]:
        """Return the looks that prove its effect. The first look must have seen at least one
        subject, by this fault's own effect."""

    def healed(self, injection: Injection) -> Sequence[Look]:
        """Return the looks that prove that it is healed."""

    def hold_ms_min(self, timings: Timings) -> int:
        """Return the shortest hold (in ms) with the full effect, derived from the cluster's
        settings (session timeout, replica lag). A shorter hold is no mistake: it proves less."""


# --- conditions that a plug-in's fault must meet --------------------------------------------------

_VALUES = ("name", "summary", "aim", "parameters", "needs", "destroys")
_METHODS = ("plan", "bitten", "healed", "hold_ms_min")
_DESTROYS = (None, "unsynced", "all", "bits", "unclean")
_MEANT = {"min_insync_replicas": "alter-min-isr", "before_offset": "delete-records"}
"""The parameters by which the checkers judge a fault, whatever its name, with the faults that they
belong to."""


def as_fault(found: object, name: str) -> Fault:
    """Return a registered object as the fault called ``name``. Raise ValueError that says what is
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
