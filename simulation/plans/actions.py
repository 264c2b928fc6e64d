"""The actions of a plan, as data. :mod:`simulation.world.injection` carries them out.

A fault that lasts carries its own end (``for_ms``, ``down_ms``). A shrinker that drops an action
therefore drops its heal, too. The target of a fault is a number or a role. "The leader of t0-0"
finds more than "broker 2", and still means something when the actions before it are dropped. A role
is resolved when the action is injected. If no broker has the role then, nothing happens.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator

# --- roles ----------------------------------------------------------------------------------------
#
# The targets of actions.


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A broker, by its number or by its role at the moment of the action."""

    role: Literal["broker", "controller", "leader", "follower", "straggler"] = "broker"
    broker: int = 0
    """The broker's number, if the role is "broker"."""
    topic: str = ""
    partition: int = 0
    """The partition of a leader, follower or straggler. The follower is the first follower in the
    ISR, and the straggler the last one."""

    def __str__(self) -> str:
        match self.role:
            case "broker":
                return f"broker {self.broker}"
            case "controller":
                return "the controller"
            case role:
                return f"the {role} of {self.topic}-{self.partition}"


# --- faults -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class KillBroker:
    """SIGKILL. Everything written stays (page cache), and the session lasts until its timeout."""

    kind: Literal["kill"] = "kill"
    target: Target
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseBrokerPower:
    """The machine is switched off, and unsynced data may be lost."""

    kind: Literal["lose-power"] = "lose-power"
    target: Target
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LosePowerAfter:
    """The machine is switched off in the middle of a step, directly after the ``nth`` operation of
    a kind on its disk. Nothing happens if there are fewer within ``for_ms``."""

    kind: Literal["lose-power-after"] = "lose-power-after"
    target: Target
    operation: Literal["write", "cut", "names", "sync"]
    nth: int
    for_ms: int
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseDisk:
    """The machine is switched off and returns with an empty disk."""

    kind: Literal["lose-disk"] = "lose-disk"
    target: Target
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """All machines are switched off at once."""

    kind: Literal["blackout"] = "blackout"
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StopBroker:
    """SIGTERM, a controlled shutdown."""

    kind: Literal["stop"] = "stop"
    target: Target
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker:
    """SIGSTOP, and SIGCONT after a while."""

    kind: Literal["pause"] = "pause"
    target: Target
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate:
    """Cut links from ``target``, to ``target`` or both, with one peer or (None) with all brokers.

    A leader that is cut from brokers and ZooKeeper but not from clients continues to serve them.
    """

    kind: Literal["isolate"] = "isolate"
    target: Target
    peer: Target | None
    direction: Literal["in", "out", "both"]
    clients: bool
    """Whether the links with clients are cut as well."""
    zookeeper: bool
    """Whether the links with ZooKeeper are cut as well."""
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFromClients:
    """Cut links between ``target`` and the clients, while the servers reach each other.

    Clients repeat unanswered requests. These were carried out if only answers are lost (``out``).
    """

    kind: Literal["cut-from-clients"] = "cut-from-clients"
    target: Target
    direction: Literal["in", "out", "both"]
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateFromZooKeeper:
    """Cut links between ``target`` and ZooKeeper, while brokers and clients reach each other."""

    kind: Literal["isolate-from-zookeeper"] = "isolate-from-zookeeper"
    target: Target
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowZooKeeper:
    """A delay of ``delay_ms`` for every message between ``target`` and ZooKeeper for a while."""

    kind: Literal["slow-zookeeper"] = "slow-zookeeper"
    target: Target
    delay_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    """A delay of ``delay_ms`` for everything that ``target`` sends to ``peer`` for a while.

    Later bytes of a connection wait for the earlier ones. Other connections do not.
    """

    kind: Literal["slow-link"] = "slow-link"
    target: Target
    peer: Target
    delay_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSession:
    """The end of the ZooKeeper session of ``target``, as if it had been silent for long."""

    kind: Literal["expire-session"] = "expire-session"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class DropZooKeeperConnection:
    """A broken connection to ZooKeeper, with lost answers. The session stays."""

    kind: Literal["drop-zookeeper-connection"] = "drop-zookeeper-connection"
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """A connection that breaks before ZooKeeper answers the ``nth`` write of ``target`` to a node
    whose path begins with ``path``.

    The write is carried out or not. Nothing happens if there are fewer writes within ``for_ms``.
    With ``expires`` the session ends, too.
    """

    kind: Literal["lose-answer"] = "lose-answer"
    target: Target
    path: str
    nth: int
    expires: bool
    for_ms: int
    carried_out: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeposeController:
    """The deletion of ``/controller``, by which administrators have another controller elected."""

    kind: Literal["depose-controller"] = "depose-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk:
    """A full disk of ``target`` for a while. Its broker halts when it needs space, and is started
    again."""

    kind: Literal["fill-disk"] = "fill-disk"
    target: Target
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakDisk:
    """A disk of ``target`` on which ``operation`` fails with EIO for a while.

    With "garble", reads of the files of a ``directory`` return wrong bytes instead.
    """

    kind: Literal["break-disk"] = "break-disk"
    target: Target
    operation: Literal["read", "write", "fsync", "garble"]
    for_ms: int
    directory: str | None = None
    """A directory in the log directories. It is used only with "garble"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk:
    """A disk on which the background work of the broker (syncs and what follows them) takes up to
    ``delay_ms`` for a while. Other work continues meanwhile."""

    kind: Literal["slow-disk"] = "slow-disk"
    target: Target
    delay_ms: int
    for_ms: int


Fault = (
    KillBroker
    | LoseBrokerPower
    | LosePowerAfter
    | LoseDisk
    | Blackout
    | StopBroker
    | PauseBroker
    | Isolate
    | CutFromClients
    | IsolateFromZooKeeper
    | SlowZooKeeper
    | SlowLink
    | ExpireSession
    | DropZooKeeperConnection
    | LoseAnswer
    | DeposeController
    | FillDisk
    | BreakDisk
    | SlowDisk
)


# --- administration -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicOrder:
    """An order for a topic with these replicas. The first replica of each partition is the
    preferred leader."""

    kind: Literal["create-topic"] = "create-topic"
    topic: str
    replicas: tuple[tuple[int, ...], ...]
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicOrder:
    kind: Literal["delete-topic"] = "delete-topic"
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitionsOrder:
    """An order for as many more partitions of the topic as there are ``replicas``."""

    kind: Literal["add-partitions"] = "add-partitions"
    topic: str
    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignOrder:
    """An order to move a partition to other replicas. None cancels a reassignment."""

    kind: Literal["reassign"] = "reassign"
    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectPreferredOrder:
    """An order to elect all preferred leaders."""

    kind: Literal["elect-preferred"] = "elect-preferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicOrder:
    """An order to change a setting of a topic."""

    kind: Literal["alter-topic"] = "alter-topic"
    topic: str
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsOrder:
    """An order to delete the records below the high watermark."""

    kind: Literal["delete-records"] = "delete-records"
    topic: str
    partition: int


Order = (
    CreateTopicOrder
    | DeleteTopicOrder
    | AddPartitionsOrder
    | ReassignOrder
    | ElectPreferredOrder
    | AlterTopicOrder
    | DeleteRecordsOrder
)


# --- clients ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceBatches:
    """A burst of ``batches`` batches with ``records`` records each, one after the other,
    ``pause_ms`` apart."""

    kind: Literal["produce"] = "produce"
    producer: int
    topic: str
    partition: int
    acks: Literal[-1, 0, 1]
    batches: int
    records: int
    pause_ms: int
    in_flight: int = 1
    """The number of batches that an idempotent producer may have unanswered on this partition
    (``max.in.flight.requests.per.connection``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    """A member that joins the group, reads its partitions of the topic, commits, and leaves after a
    while.

    Without ``leaves`` it disappears silently, as a member that was killed.
    """

    kind: Literal["consume"] = "consume"
    group: str
    topic: str
    for_ms: int
    leaves: bool
    pause_once_ms: int = 0
    """The length of one pause between reading and committing, such as a garbage collection."""
    instance: str | None = None
    """The instance id of a static member (KIP-345)."""
    rejoin_ms: tuple[int, ...] = ()
    """The times at which it joins again. It alternates between a restarted member that has
    forgotten its id and a member whose topics have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMany:
    """Commits of ``groups`` groups without members, ``rounds`` times each, with ``metadata_bytes``
    of metadata."""

    kind: Literal["commit-many"] = "commit-many"
    topic: str
    groups: int
    rounds: int
    metadata_bytes: int


ClientWork = ProduceBatches | Consume | CommitMany

Action = Annotated[Fault | Order | ClientWork, Discriminator("kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An action and its time, in virtual milliseconds since the plan began."""

    at_ms: int
    action: Action
