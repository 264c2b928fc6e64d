"""What can happen in a plan: data, no deeds. :mod:`simulation.world.strike` carries them out.

A fault that lasts carries its own end (``for_ms``, ``down_ms``), so that a shrinker which drops
an action drops its heal with it. Whoever is struck is named by a role as well as by a number:
"the leader of t0-0" finds more than "broker 2", and still means something when the actions before
it are dropped. Roles are resolved when the action strikes; one that nobody has then strikes
nobody.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Discriminator

# --- roles ----------------------------------------------------------------------------------------
#
# Whom an action strikes.


@dataclass(frozen=True, slots=True, kw_only=True)
class Who:
    """A broker, by its number or by what it is at that moment."""

    role: Literal["broker", "controller", "leader", "follower", "straggler"] = "broker"
    broker: int = 0
    """With ``role="broker"``."""
    topic: str = ""
    partition: int = 0
    """Of which partition leader or follower; the follower is the first one that is in the ISR, the
    straggler the last one."""

    def __str__(self) -> str:
        match self.role:
            case "broker":
                return f"broker {self.broker}"
            case "controller":
                return "the controller"
            case role:
                return f"the {role} of {self.topic}-{self.partition}"


# --------------------------------------------------------------------------------------------------

# --- faults -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """SIGKILL; everything written stays (page cache), the session lives until its timeout."""

    kind: Literal["kill"] = "kill"
    who: Who
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LosePower:
    """The machine goes off: what was not synced may be gone."""

    kind: Literal["lose-power"] = "lose-power"
    who: Who
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LosePowerAfter:
    """The machine goes off in the middle of a step, right behind the ``nth`` operation of a kind
    on its disk; not at all if there are fewer within ``for_ms``."""

    kind: Literal["lose-power-after"] = "lose-power-after"
    who: Who
    operation: Literal["write", "cut", "names", "sync"]
    nth: int
    for_ms: int
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseDisk:
    """The machine goes off and comes back with an empty disk."""

    kind: Literal["lose-disk"] = "lose-disk"
    who: Who
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blackout:
    """All machines go off at once."""

    kind: Literal["blackout"] = "blackout"
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """SIGTERM: controlled shutdown."""

    kind: Literal["stop"] = "stop"
    who: Who
    down_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """SIGSTOP, and SIGCONT after a while."""

    kind: Literal["pause"] = "pause"
    who: Who
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolate:
    """Links are cut: from ``who``, to ``who`` or both; with one peer or, None, with all brokers.
    A leader that is cut from brokers and ZooKeeper and not from clients goes on serving them."""

    kind: Literal["isolate"] = "isolate"
    who: Who
    peer: Who | None
    direction: Literal["in", "out", "both"]
    clients: bool
    """From and to clients as well."""
    zookeeper: bool
    """And ZooKeeper."""
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFromClients:
    """``who`` hears nothing of clients, or they nothing of it; among servers all goes on. What is
    not answered is asked again, and was carried out if answers alone are lost (``out``)."""

    kind: Literal["cut-from-clients"] = "cut-from-clients"
    who: Who
    direction: Literal["in", "out", "both"]
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateFromZooKeeper:
    """No word between ``who`` and ZooKeeper; with other brokers and clients all goes on."""

    kind: Literal["isolate-from-zookeeper"] = "isolate-from-zookeeper"
    who: Who
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowZooKeeper:
    """Every word between ``who`` and ZooKeeper takes ``delay_ms`` for a while."""

    kind: Literal["slow-zookeeper"] = "slow-zookeeper"
    who: Who
    delay_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    """What ``who`` sends to ``peer`` in the next ``for_ms`` takes ``delay_ms``. A connection's
    later bytes wait for the earlier ones; other connections do not."""

    kind: Literal["slow-link"] = "slow-link"
    who: Who
    peer: Who
    delay_ms: int
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSession:
    """ZooKeeper ends the session of ``who``, as if it had not heard of it for long."""

    kind: Literal["expire-session"] = "expire-session"
    who: Who


@dataclass(frozen=True, slots=True, kw_only=True)
class DropZooKeeperConnection:
    """The connection breaks, and answers under way with it; the session lives."""

    kind: Literal["drop-zookeeper-connection"] = "drop-zookeeper-connection"
    who: Who


@dataclass(frozen=True, slots=True, kw_only=True)
class LoseAnswer:
    """The connection breaks before ZooKeeper answers the ``nth`` write of ``who`` to a node whose
    path begins with ``path``, which it has carried out, or has not; not at all if there are fewer
    within ``for_ms``. ``expires``: the session is over as well."""

    kind: Literal["lose-answer"] = "lose-answer"
    who: Who
    path: str
    nth: int
    expires: bool
    for_ms: int
    carried_out: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeposeController:
    """``/controller`` is deleted, as administrators do to have another one elected."""

    kind: Literal["depose-controller"] = "depose-controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class FillDisk:
    """No space left on the disk of ``who`` for a while; its broker halts when it needs some, and
    is started again when there is some."""

    kind: Literal["fill-disk"] = "fill-disk"
    who: Who
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakDisk:
    """``operation`` fails with EIO for a while on the disk of ``who``; or (garble) what is read of
    the files of a ``directory`` is not what is there."""

    kind: Literal["break-disk"] = "break-disk"
    who: Who
    operation: Literal["read", "write", "fsync", "garble"]
    for_ms: int
    directory: str | None = None
    """In a log directory; of what is to be garbled alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk:
    """What the broker of ``who`` does in the background (syncs, and what follows them) takes up to
    ``delay_ms`` for a while: other things happen meanwhile."""

    kind: Literal["slow-disk"] = "slow-disk"
    who: Who
    delay_ms: int
    for_ms: int


Fault = (
    Kill
    | LosePower
    | LosePowerAfter
    | LoseDisk
    | Blackout
    | Stop
    | Pause
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
class CreateTopic:
    """A topic with these replicas; the first of each is the preferred leader."""

    kind: Literal["create-topic"] = "create-topic"
    topic: str
    replicas: tuple[tuple[int, ...], ...]
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    kind: Literal["delete-topic"] = "delete-topic"
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """The topic gets as many partitions as there are ``replicas`` more."""

    kind: Literal["add-partitions"] = "add-partitions"
    topic: str
    replicas: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """Move a partition to other replicas; None takes a reassignment back."""

    kind: Literal["reassign"] = "reassign"
    topic: str
    partition: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectPreferred:
    """Elect preferred leaders everywhere."""

    kind: Literal["elect-preferred"] = "elect-preferred"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopic:
    """Change a topic's setting."""

    kind: Literal["alter-topic"] = "alter-topic"
    topic: str
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """Delete the records below the high watermark."""

    kind: Literal["delete-records"] = "delete-records"
    topic: str
    partition: int


Order = (
    CreateTopic
    | DeleteTopic
    | AddPartitions
    | Reassign
    | ElectPreferred
    | AlterTopic
    | DeleteRecords
)


# --- clients ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """``batches`` batches of ``records`` records each, one after the other, ``pause_ms`` apart."""

    kind: Literal["produce"] = "produce"
    producer: int
    topic: str
    partition: int
    acks: Literal[-1, 0, 1]
    batches: int
    records: int
    pause_ms: int
    in_flight: int = 1
    """How many batches an idempotent producer has under way to this partition
    (``max.in.flight.requests.per.connection``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    """A member joins the group, reads its part of the topic, commits, and leaves after a while;
    without a word (as one that was killed) unless ``leaves``."""

    kind: Literal["consume"] = "consume"
    group: str
    topic: str
    for_ms: int
    leaves: bool
    sleeps_ms: int = 0
    """How long it is silent once, between reading and committing: a garbage collection, say."""
    instance: str | None = None
    """Under which it is a static member (KIP-345)."""
    again_ms: tuple[int, ...] = ()
    """When it joins again: as one that was restarted and has forgotten its id, and by turns as one
    whose topics have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitALot:
    """Each of ``groups`` groups without members commits ``rounds`` times, with ``metadata_bytes``
    of metadata."""

    kind: Literal["commit-a-lot"] = "commit-a-lot"
    topic: str
    groups: int
    rounds: int
    metadata_bytes: int


ClientWork = Produce | Consume | CommitALot

Action = Annotated[Fault | Order | ClientWork, Discriminator("kind")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """An action and its time: virtual ms since the cluster was started."""

    at_ms: int
    action: Action
