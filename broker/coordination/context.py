"""The state shared by the parts of one broker's coordination: settings, new effects, the clock."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from ackproof.broker.coordination.events import (
    Effect,
    Op,
    PartitionRead,
    QueueRead,
    ReadBrokers,
    ReadPartition,
    ReadQueue,
    WatchReassignments,
    Write,
    Written,
)
from ackproof.broker.coordination.nodes import Assigned, PartitionView, QueuedRequest
from ackproof.broker.coordination.variants import Variant
from ackproof.broker.types import BrokerId, Millis, TopicPartition

# --- settings -------------------------------------------------------------------------------------
#
# The fixed settings of one broker's coordination.


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The document's configuration parameters, with their properties in ``server.properties``."""

    broker: BrokerId
    preferred_replica_wait_ms: int = 200
    """``ackproof.preferred.replica.wait.ms``, PreferredReplicaTime: how long a replica that is not
    the preferred one waits before it claims the leadership."""
    keep_in_sync_ms: int = 10_000
    """``ackproof.keep.in.sync.ms``, KeepInSyncTime: how long a new leader waits at most for live
    replicas to catch up before it serves."""
    state_change_queue_max: int = 1_000
    """``ackproof.state.change.queue.max``: the number of entries from which on a queue is full."""
    load_balancing: bool = True
    """``auto.leader.rebalance.enable``: whether ``checkLoadBalancing`` is done."""
    unclean_start: bool = False
    """Whether the broker was not shut down cleanly before this start. The ends of its logs may then
    be gone."""

    def __post_init__(self) -> None:
        for name in ("preferred_replica_wait_ms", "keep_in_sync_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is negative: {getattr(self, name)}")
        if self.state_change_queue_max < 1:
            raise ValueError("a state change queue must have room for one request")


# --- effects --------------------------------------------------------------------------------------
#
# Collects the effects of a step, and keeps the callbacks of pending writes and reads.


Then = Callable[[Written], None]
Seen = Callable[[PartitionView], None]
Listed = Callable[[tuple[QueuedRequest, ...]], None]


class Outbox:
    """The new effects, and the callbacks of pending operations. Call ``forget`` when the session is
    over, because its operations no longer matter."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._tokens = itertools.count()
        self._waiting: dict[int, Then] = {}
        self._reading: dict[int, Seen] = {}
        self._listing: dict[int, Listed] = {}

    def put(self, *effects: Effect) -> None:
        """Have these effects carried out."""
        self._effects += effects

    def write(self, ops: tuple[Op, ...], session: int | None, then: Then | None = None) -> None:
        """Have ``ops`` written, and ``then`` called with the result."""
        token = next(self._tokens)
        if then is not None:
            self._waiting[token] = then
        self.put(Write(token=token, ops=ops, session=session))

    def written(self, event: Written) -> None:
        """Pass on the answer to a write, which may have no callback any more."""
        then = self._waiting.pop(event.token, None)
        if then is not None:
            then(event)

    def read(self, tp: TopicPartition, then: Seen) -> None:
        """Have the partition read, and ``then`` called with its view."""
        token = next(self._tokens)
        self._reading[token] = then
        self.put(ReadPartition(token=token, partition=tp))

    def partition_read(self, event: PartitionRead) -> None:
        """Pass on the answer to a read."""
        then = self._reading.pop(event.token, None)
        if then is not None:
            then(event.view)

    def read_queue(self, broker: BrokerId, then: Listed) -> None:
        """Have a broker's queue read, and ``then`` called with its entries."""
        token = next(self._tokens)
        self._listing[token] = then
        self.put(ReadQueue(token=token, broker=broker))

    def queue_read(self, event: QueueRead) -> None:
        """Pass on the entries of a queue."""
        then = self._listing.pop(event.token, None)
        if then is not None:
            then(event.entries)

    def forget(self) -> None:
        """Drop the callbacks of all pending operations."""
        self._waiting.clear()
        self._reading.clear()
        self._listing.clear()

    def drain(self) -> tuple[Effect, ...]:
        """Return the effects since the last call."""
        effects, self._effects = tuple(self._effects), []
        return effects


# --- context --------------------------------------------------------------------------------------
#
# The state shared by the parts of one broker's coordination.


NO_SESSION = 0
NEVER = Millis(0)


@dataclass(slots=True, kw_only=True)
class Context:
    """The shared state. ``now`` is set at the beginning of each step."""

    settings: Settings
    variant: Variant
    outbox: Outbox = field(default_factory=Outbox)
    now: Millis = NEVER
    session: int = NO_SESSION
    stopping: bool = False
    orders: dict[TopicPartition, Assigned] = field(default_factory=dict)
    """The content of ``partitions_reassigned``, as last read."""
    _reading_brokers: bool = False
    _listens: bool = False

    @property
    def me(self) -> BrokerId:
        """This broker's id."""
        return self.settings.broker

    def write(self, ops: tuple[Op, ...], then: Then | None = None) -> None:
        """Have ``ops`` written in the session that the variant requires."""
        self.outbox.write(ops, self.variant.session(self.session), then)

    def ask_for_brokers(self) -> None:
        """Have the live brokers read, once for all partitions that request it."""
        if not self._reading_brokers:
            self._reading_brokers = True
            self.outbox.put(ReadBrokers())

    def brokers_read(self) -> None:
        """Note that the brokers were read. Later requests cause a new read."""
        self._reading_brokers = False

    def listen_to_reassignments(self) -> None:
        """Watch the reassignments ("Zookeeper listeners ONLY on the leader")."""
        if not self._listens:
            self._listens = True
            self.outbox.put(WatchReassignments())

    def begin_session(self, session: int) -> None:
        """Begin a session. Watches and reads of the last one are gone."""
        self.session = session
        self._reading_brokers = self._listens = False

    def end_session(self) -> None:
        """End the session, and drop the callbacks of what was begun in it."""
        self.session = NO_SESSION
        self.outbox.forget()
