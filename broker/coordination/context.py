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
# What one broker's coordination is told once.


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The document's configuration parameters, by the properties of ``server.properties``."""

    broker: BrokerId
    preferred_replica_wait_ms: int = 200
    """``ackproof.preferred.replica.wait.ms``, PreferredReplicaTime: how long a replica that is not
    the preferred one waits before it claims the leadership."""
    keep_in_sync_ms: int = 10_000
    """``ackproof.keep.in.sync.ms``, KeepInSyncTime: how long a new leader waits at most for live
    replicas to catch up before it serves."""
    state_change_queue_max: int = 1_000
    """``ackproof.state.change.queue.max``: entries from which on a queue is full."""
    load_balancing: bool = True
    """``auto.leader.rebalance.enable``: whether ``checkLoadBalancing`` is done."""
    unclean_start: bool = False
    """The broker was not shut down in an orderly way before this start: the ends of its logs may
    be gone."""

    def __post_init__(self) -> None:
        for name in ("preferred_replica_wait_ms", "keep_in_sync_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is negative: {getattr(self, name)}")
        if self.state_change_queue_max < 1:
            raise ValueError("a state change queue must have room for one request")


# --- effects --------------------------------------------------------------------------------------
#
# Collects the effects of a step, and knows who waits for which write or read.


Then = Callable[[Written], None]
Seen = Callable[[PartitionView], None]
Listed = Callable[[tuple[QueuedRequest, ...]], None]


class Outbox:
    """``forget`` when the session is over: what was begun in it concerns nobody any more."""

    def __init__(self) -> None:
        self._effects: list[Effect] = []
        self._tokens = itertools.count()
        self._waiting: dict[int, Then] = {}
        self._reading: dict[int, Seen] = {}
        self._listing: dict[int, Listed] = {}

    def put(self, *effects: Effect) -> None:
        """Have these carried out."""
        self._effects += effects

    def write(self, ops: tuple[Op, ...], session: int | None, then: Then | None = None) -> None:
        """Have ``ops`` written, and ``then`` called with the result."""
        token = next(self._tokens)
        if then is not None:
            self._waiting[token] = then
        self.put(Write(token=token, ops=ops, session=session))

    def written(self, event: Written) -> None:
        """Take the answer to a write, which may have no caller any more."""
        then = self._waiting.pop(event.token, None)
        if then is not None:
            then(event)

    def read(self, tp: TopicPartition, then: Seen) -> None:
        """Have the partition read, and ``then`` called with what there is."""
        token = next(self._tokens)
        self._reading[token] = then
        self.put(ReadPartition(token=token, partition=tp))

    def partition_read(self, event: PartitionRead) -> None:
        """The answer to a read."""
        then = self._reading.pop(event.token, None)
        if then is not None:
            then(event.view)

    def read_queue(self, broker: BrokerId, then: Listed) -> None:
        """Have a broker's queue read, and ``then`` called with its entries."""
        token = next(self._tokens)
        self._listing[token] = then
        self.put(ReadQueue(token=token, broker=broker))

    def queue_read(self, event: QueueRead) -> None:
        """The answer to such a read."""
        then = self._listing.pop(event.token, None)
        if then is not None:
            then(event.entries)

    def forget(self) -> None:
        """Drop the callers of all writes begun so far."""
        self._waiting.clear()
        self._reading.clear()
        self._listing.clear()

    def drain(self) -> tuple[Effect, ...]:
        """The effects since the last time."""
        effects, self._effects = tuple(self._effects), []
        return effects


# --- context --------------------------------------------------------------------------------------
#
# What the parts of one broker's coordination share.


NO_SESSION = 0
NEVER = Millis(0)


@dataclass(slots=True, kw_only=True)
class Context:
    """``now`` is set at the beginning of each step."""

    settings: Settings
    variant: Variant
    outbox: Outbox = field(default_factory=Outbox)
    now: Millis = NEVER
    session: int = NO_SESSION
    stopping: bool = False
    orders: dict[TopicPartition, Assigned] = field(default_factory=dict)
    """``partitions_reassigned``, as last read."""
    _reading_brokers: bool = False
    _listens: bool = False

    @property
    def me(self) -> BrokerId:
        """This broker's id."""
        return self.settings.broker

    def write(self, ops: tuple[Op, ...], then: Then | None = None) -> None:
        """Have ``ops`` written in the session that the variant says."""
        self.outbox.write(ops, self.variant.session(self.session), then)

    def ask_for_brokers(self) -> None:
        """Have the live brokers read, once for all who want to know."""
        if not self._reading_brokers:
            self._reading_brokers = True
            self.outbox.put(ReadBrokers())

    def brokers_read(self) -> None:
        """Who asks from now on wants a newer answer."""
        self._reading_brokers = False

    def listen_to_reassignments(self) -> None:
        """ "Zookeeper listeners ONLY on the leader"."""
        if not self._listens:
            self._listens = True
            self.outbox.put(WatchReassignments())

    def begin_session(self, session: int) -> None:
        """Watches and reads of the last one are gone."""
        self.session = session
        self._reading_brokers = self._listens = False

    def end_session(self) -> None:
        """Nobody waits any more for what was begun in it."""
        self.session = NO_SESSION
        self.outbox.forget()
