"""A few brokers with leader coordination over an in-memory ZooKeeper: coordinators, real replicas,
logs, a network between them, and whatever may go wrong, by a seeded scheduler or by hand.
"""

import random
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from ackproof.broker.coordination import admin
from ackproof.broker.coordination.admin import Admin, Command, Outcome
from ackproof.broker.coordination.context import Settings
from ackproof.broker.coordination.coordinator import Coordinator
from ackproof.broker.coordination.events import (
    AssignmentsRead,
    Assume,
    BrokersRead,
    CreateQueue,
    Effect,
    Event,
    IsrAsked,
    Lifecycle,
    PartitionChanged,
    PartitionRead,
    Progress,
    QueueChanged,
    QueueRead,
    QueueSizeRead,
    ReadAssignments,
    ReadBrokers,
    ReadPartition,
    ReadQueue,
    ReadQueueSize,
    ReassignmentsRead,
    Refused,
    RegisterBroker,
    Result,
    SessionExpired,
    SessionStarted,
    StartReplica,
    StopReplica,
    Tell,
    Tick,
    WatchProgress,
    WatchReassignments,
    Write,
    Written,
)
from ackproof.broker.coordination.nodes import ABSENT, Kind, Node, PartitionView
from ackproof.broker.coordination.variants import Variant
from ackproof.broker.replication import events as replication
from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.replica import Replica, Role
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, TopicPartition, ZkVersion
from tests.support.fakes.memory_log import MemoryBatch, MemoryLog
from tests.support.fakes.tiny_zookeeper import REASSIGNED, Key, TinyZooKeeper, node_key, queue_key

from kio.schema.errors import ErrorCode  # isort: skip

T = TopicPartition("foo", 0)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
KEEP_IN_SYNC = 400
PREFERRED_WAIT = 100
LAG = 300
SETTLED = 1_500
"""Milliseconds after which nothing is under way any more, where nothing is held up."""


class Violation(AssertionError):
    """Something that must never be, by its name."""


@dataclass
class Broker:
    """A process: what it forgets when it dies is in here, what it keeps is in the world."""

    id: BrokerId
    world: "World"
    coordinator: Coordinator
    replicas: dict[TopicPartition, Replica] = field(default_factory=dict)
    inbox: deque[Event] = field(default_factory=deque)
    requests: deque[Effect] = field(default_factory=deque)
    watches: set[tuple[Key, Event]] = field(default_factory=set)
    watching: set[TopicPartition] = field(default_factory=set)
    listening: bool = False
    session: int = 0
    at: int = 0
    registered: bool = False
    log: list[Lifecycle | Refused] = field(default_factory=list)

    # --- ZooKeeper -----------------------------------------------------------------------------

    def connect(self) -> None:
        """A new session. The client has seen nothing older than before."""
        self.session = self.world.zookeeper.new_session()
        self.watches.clear()
        self.listening = self.registered = False
        self.world.live_sessions[self.session] = self.id
        self.inbox.append(SessionStarted(session=self.session))

    @property
    def expired(self) -> bool:
        return self.session not in self.world.live_sessions

    def notice_expiry(self) -> None:
        """Drop the writes of the old session. In the printed variant they are sent in the next
        one."""
        kept: deque[Effect] = deque()
        for request in self.requests:
            if isinstance(request, Write):
                if request.session is None:
                    kept.append(request)
                else:
                    self.inbox.append(Written(token=request.token, result=Result.UNKNOWN))
        self.requests = kept
        self.inbox = deque(e for e in self.inbox if isinstance(e, Written | IsrAsked))
        self.inbox.append(SessionExpired())
        self.connect()

    def lose_connection(self, applied: bool) -> None:
        """The first request's answer is lost; reads are asked again, watches fire."""
        if self.requests and isinstance(self.requests[0], Write):
            write = self.requests.popleft()
            assert isinstance(write, Write)
            if applied and write.session in (None, self.session):
                self.world.write(write.ops, self)
            self.inbox.append(Written(token=write.token, result=Result.UNKNOWN))
        for _, event in sorted(self.watches, key=str):
            self.inbox.append(event)
        self.watches.clear()
        if self.listening:
            self.requests.append(WatchReassignments())

    def catch_up(self, steps: int) -> None:
        """See further transactions; watches fire on their way."""
        zookeeper = self.world.zookeeper
        for _ in range(min(steps, zookeeper.head - self.at)):
            self.at += 1
            changed = zookeeper.changed[self.at]
            if self.listening and REASSIGNED in changed:
                self.requests.append(WatchReassignments())
            news = any(key[0] == "id" for key in changed)
            if news and ReadBrokers() not in self.requests:
                self.requests.append(ReadBrokers())
            for watch in sorted((w for w in self.watches if w[0] in changed), key=str):
                self.watches.discard(watch)
                self.inbox.append(watch[1])

    def serve_request(self) -> None:
        """ZooKeeper answers the oldest request."""
        if self.expired:
            self.notice_expiry()
            return
        answer = self._answer(self.requests.popleft())
        if answer is not None:
            self.inbox.append(answer)

    def _answer(self, request: Effect) -> Event | None:  # noqa: C901
        zookeeper = self.world.zookeeper
        match request:
            case Write():
                if request.session not in (None, self.session) or self.world.loses(request):
                    return Written(token=request.token, result=Result.UNKNOWN)
                result, versions, _ = self.world.write(request.ops, self)
                self.catch_up(zookeeper.head)
                return Written(token=request.token, result=result, versions=versions)
            case CreateQueue():
                if ("queue", self.id) not in zookeeper.state:
                    zookeeper.put(("queue", self.id), None)
                self.catch_up(zookeeper.head)
            case ReadQueue(token=token, broker=broker):
                if broker == self.id:
                    self.watches.add((queue_key(broker), QueueChanged()))
                return QueueRead(token=token, entries=zookeeper.queue(broker, self.at))
            case ReadQueueSize(broker=broker):
                return QueueSizeRead(broker=broker, size=len(zookeeper.queue(broker, self.at)))
            case ReadAssignments():
                mine = (
                    tp
                    for tp in zookeeper.partitions(self.at)
                    if zookeeper.view(tp, self.at).hosts(self.id)
                )
                return AssignmentsRead(mine=frozenset(mine))
            case ReadPartition(partition=tp, token=token):
                return PartitionRead(token=token, view=self._read(tp))
            case ReadBrokers():
                return BrokersRead(live=zookeeper.brokers(self.at))
            case WatchReassignments():
                self.listening = True
                return ReassignmentsRead(orders=zookeeper.orders(self.at))
            case RegisterBroker():
                if ("id", self.id) in zookeeper.state:
                    self.requests.append(request)
                else:
                    zookeeper.put(("id", self.id), None, self.session)
                    self.registered = True
        return None

    def _read(self, tp: TopicPartition) -> PartitionView:
        """``leader`` first; what is read after it may be newer."""
        zookeeper = self.world.zookeeper
        changed = PartitionChanged(partition=tp)
        leader = zookeeper.view(tp, self.at).leader
        self.watches.add((node_key(Node(Kind.LEADER, tp)), changed))
        self.catch_up(self.world.random.choice((0, 0, 0, 1, 5)))
        view = zookeeper.view(tp, self.at)
        if view.replicas is None:
            self.watches.add((node_key(Node(Kind.REPLICAS, tp)), changed))
        return PartitionView(
            leader=leader, replicas=view.replicas, isr=view.isr, reassigned=view.reassigned
        )

    # --- the coordinator -------------------------------------------------------------------------

    def feed(self) -> None:
        """The coordinator hears the oldest event, and its effects are begun."""
        self.step(self.inbox.popleft())

    def step(self, event: Event) -> tuple[Effect, ...]:
        effects = self.coordinator.step(event, self.world.now)
        for effect in effects:
            self.world.on_effect(self, effect)
            self._carry_out(effect)
        return effects

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case StartReplica(partition=tp):
                self._start(tp)
            case Assume(partition=tp, state=word):
                self._start(tp)
                self.world.check_role(self, tp, word)
                self.replica_step(tp, word)
            case Tell(partition=tp, event=event):
                if tp in self.replicas:
                    self.replica_step(tp, event)
            case StopReplica(partition=tp):
                self.world.check_deletion(self, tp)
                self.replicas.pop(tp, None)
                self.world.logs.pop((self.id, tp), None)
            case WatchProgress(partition=tp, wanted=wanted):
                (self.watching.add if wanted else self.watching.discard)(tp)
                self.report_progress(tp)
            case Lifecycle() | Refused():
                self.log.append(effect)
            case _:
                self.requests.append(effect)

    def _start(self, tp: TopicPartition) -> None:
        if tp not in self.replicas:
            log = self.world.logs.setdefault((self.id, tp), MemoryLog())
            self.replicas[tp] = Replica(self.id, self.world.config, log.state())

    def replica_step(self, tp: TopicPartition, event: replication.Event) -> None:
        log = self.world.logs[self.id, tp]
        for effect in self.replicas[tp].step(event):
            log.carry_out(effect)
            if isinstance(effect, replication.WriteIsr):
                self.inbox.append(IsrAsked(partition=tp, asked=effect))
            elif isinstance(effect, replication.Respond):
                self.world.responded(tp, effect)

    def report_progress(self, tp: TopicPartition) -> None:
        replica = self.replicas.get(tp)
        if tp in self.watching and replica is not None and replica.role is Role.LEADER:
            progress = Progress(
                partition=tp,
                leader_epoch=replica.leader_epoch,
                log_end=replica.log_end_offset,
                high_watermark=replica.high_watermark,
                ends={b: remote.log_end_offset for b, remote in replica._remotes.items()},
            )
            if progress not in self.inbox:
                self.inbox.append(progress)


@dataclass(frozen=True)
class Ask:
    """A follower's question under way to its leader."""

    follower: BrokerId
    partition: TopicPartition
    what: replication.FetchFrom | replication.AskEpoch


@dataclass(frozen=True)
class Answer:
    """The leader's answer under way, to the process that asked."""

    process: Broker
    partition: TopicPartition
    event: replication.Event


class World:
    """Brokers 1 to ``size`` under ``variant``; nothing has happened yet."""

    def __init__(
        self,
        size: int = 3,
        variant: Callable[[], Variant] | str = "fenced",
        *,
        seed: int = 0,
        truncation: Truncation | None = None,
        min_insync_replicas: int = 1,
        queue_max: int = 1_000,
        load_balancing: bool = True,
    ) -> None:
        self.random = random.Random(seed)
        self.now = Millis(1_000)
        self.zookeeper = TinyZooKeeper()
        self.variant = variant
        printed = variant == "printed"
        by_hw = Truncation.HIGH_WATERMARK if printed else Truncation.LEADER_EPOCH
        self.config = ReplicaConfig(
            replica_lag_time_max_ms=LAG,
            truncation=truncation or by_hw,
            min_insync_replicas=min_insync_replicas,
        )
        self.settings = {
            "preferred_replica_wait_ms": PREFERRED_WAIT,
            "keep_in_sync_ms": KEEP_IN_SYNC,
            "state_change_queue_max": queue_max,
            "load_balancing": load_balancing,
        }
        self.queue_max = queue_max
        self.logs: dict[tuple[BrokerId, TopicPartition], MemoryLog] = {}
        self.live_sessions: dict[int, BrokerId] = {}
        self.brokers: dict[BrokerId, Broker] = {}
        self.ids = tuple(BrokerId(number) for number in range(1, size + 1))
        self.messages: list[Ask | Answer] = []
        self.leaders: dict[tuple[TopicPartition, LeaderEpoch], BrokerId] = {}
        self.produced: dict[int, tuple[BrokerId, TopicPartition, int]] = {}
        self.acked: dict[TopicPartition, dict[int, int]] = {}
        self.crashed: set[BrokerId] = set()
        self.lost: set[BrokerId] = set()
        """Brokers that lost records and have not been back and out of the ISR since. (Who is let
        into the ISR at the moment of its death is in it with what it has lost, as in Kafka before
        KIP-841.)"""
        self.deleting: set[TopicPartition] = set()
        self.commands: list[CommandRun] = []
        self.watch_isr = not printed
        self.cut_off: set[BrokerId] = set()
        """Brokers that ``settle`` leaves without ZooKeeper."""
        self.holds: Callable[[BrokerId, Effect], bool] = lambda _broker, _request: False
        """Whether ``settle`` leaves a broker without ZooKeeper from this request on."""
        self.loses: Callable[[Write], bool] = lambda _write: False
        """Whether a write is lost on its way."""
        self.on_effect: Callable[[Broker, Effect], None] = lambda _broker, _effect: None
        """Hears of each effect before it is carried out."""
        self.lingering: list[int] = []
        """Sessions of processes that are gone; they end sometime."""
        for broker in self.ids:
            self.start(broker)

    # --- processes -------------------------------------------------------------------------------

    def start(self, broker: BrokerId) -> Broker:
        settings = Settings(
            broker=broker,
            unclean_start=broker in self.crashed,
            **self.settings,  # type: ignore[arg-type]
        )
        variant = self.variant if isinstance(self.variant, str) else self.variant()
        process = Broker(broker, self, Coordinator(settings, variant))
        process.at = self.zookeeper.head
        self.brokers[broker] = process
        process.connect()
        return process

    def crash(self, broker: BrokerId, lost: int = 0) -> None:
        """The process dies; ``lost`` of the last records of each log with it (power)."""
        self.brokers.pop(broker)
        self.crashed.add(broker)
        if lost:
            self.lost.add(broker)
            for (owner, _), log in self.logs.items():
                if owner == broker:
                    del log.slots[max(0, len(log.slots) - lost) :]
                    log.epochs = log.epochs.truncate_from_end(log.end)

    def expire(self, session: int) -> None:
        """ZooKeeper gives a session up; its client hears of it when it asks next."""
        self.live_sessions.pop(session, None)
        self.zookeeper.expire(session)

    def write(self, ops: Any, broker: Broker) -> Any:
        outcome = self.zookeeper.write(ops, broker.id, broker.session)
        self.check_isr()
        return outcome

    # --- clients ---------------------------------------------------------------------------------

    def produce(self, broker: BrokerId, tp: TopicPartition = T, timeout: int = 5_000) -> int:
        """One record with acks=all; returns its value."""
        value = len(self.produced) + 1
        self.produced[value] = (broker, tp, self.brokers[broker].replicas[tp].log_end_offset)
        event = replication.Produce(
            request=value,
            batches=(MemoryBatch.to_send(value, 1),),
            acks=-1,
            deadline=Millis(self.now + timeout),
            now=self.now,
        )
        self.brokers[broker].replica_step(tp, event)
        return value

    def responded(self, tp: TopicPartition, answer: replication.Respond) -> None:
        if answer.error is ErrorCode.none:
            self.acked.setdefault(tp, {})[answer.base_offset] = answer.request

    def is_acked(self, value: int, tp: TopicPartition = T) -> bool:
        return value in self.acked.get(tp, {}).values()

    # --- the network -----------------------------------------------------------------------------

    def ask(self, broker: BrokerId, tp: TopicPartition = T) -> None:
        """A follower's fetcher asks its leader, unless a question is under way."""
        replica = self.brokers[broker].replicas.get(tp)
        what = replica.fetching() if replica else None
        asking = any(
            (isinstance(m, Ask) and m.follower == broker and m.partition == tp)
            or (isinstance(m, Answer) and m.process.id == broker and m.partition == tp)
            for m in self.messages
        )
        if what is not None and not asking:
            self.messages.append(Ask(broker, tp, what))

    def deliver(self, message: Ask | Answer) -> None:
        self.messages.remove(message)
        if isinstance(message, Answer):
            process = message.process
            if self.brokers.get(process.id) is process and message.partition in process.replicas:
                process.replica_step(message.partition, message.event)
            return
        leader, asker = self.brokers.get(message.what.leader), self.brokers.get(message.follower)
        if leader is None or asker is None or message.partition not in leader.replicas:
            return
        event = self._served(leader, message)
        if event is not None:
            self.messages.append(Answer(asker, message.partition, event))
        leader.report_progress(message.partition)

    def _served(self, leader: Broker, ask: Ask) -> replication.Event | None:
        what, tp = ask.what, ask.partition
        replica, log = leader.replicas[tp], self.logs[leader.id, tp]
        error = replica.check_leader(what.leader_epoch, ask.follower)
        if error is not ErrorCode.none:
            return None
        if isinstance(what, replication.AskEpoch):
            epoch, end = replica.end_offset_for_epoch(what.epoch)
            return replication.EpochEndOffset(
                current_leader_epoch=what.leader_epoch, leader_epoch=epoch, end_offset=end
            )
        if ask.follower not in replica.replicas:
            return None
        if not log.start <= what.offset <= log.end:
            return replication.FetchOutOfRange(
                leader_epoch=what.leader_epoch, log_start_offset=log.start, log_end_offset=log.end
            )
        batches = log.read(what.offset, 2)
        leader.replica_step(
            tp,
            replication.FollowerFetch(
                replica=ask.follower,
                offset=what.offset,
                log_start_offset=what.log_start_offset,
                now=self.now,
            ),
        )
        return replication.Fetched(
            leader_epoch=what.leader_epoch,
            fetch_offset=what.offset,
            batches=batches,
            high_watermark=replica.high_watermark,
            log_start_offset=log.start,
        )

    # --- time ------------------------------------------------------------------------------------

    def pass_time(self, milliseconds: int) -> None:
        self.now = Millis(self.now + milliseconds)
        for process in list(self.brokers.values()):
            due = process.coordinator.next_tick
            if due is not None and due <= self.now:
                process.step(Tick())
            for tp in sorted(process.replicas):
                process.replica_step(tp, replication.Tick(now=self.now))
                process.report_progress(tp)

    def checkpoint(self, broker: BrokerId) -> None:
        for tp, replica in self.brokers[broker].replicas.items():
            self.logs[broker, tp].checkpoint = replica.high_watermark

    # --- going on by itself, without faults ------------------------------------------------------

    def settle(self, milliseconds: int = 0, *, network: bool = True) -> None:
        """Everything that can happen happens, in the order of brokers, for this long."""
        until = self.now + milliseconds
        for session in self.lingering:
            self.expire(session)
        self.lingering.clear()
        while True:
            for _ in range(2_000):
                if not self._go_on():
                    break
            else:
                raise Violation("it never comes to rest")
            if network:
                self._exchange()
            if self.now >= until and not any(self._busy()):
                return
            self.pass_time(20)
            if self.now > until + 20_000:
                raise Violation("it never comes to rest")

    def _busy(self) -> list[bool]:
        """Progress is made as long as a request waits for it, and who may not join the
        ISR yet asks with every fetch."""
        again = (Progress, IsrAsked)
        return [
            self._waiting(process) or any(not isinstance(e, again) for e in process.inbox)
            for process in self.brokers.values()
        ]

    def _waiting(self, process: Broker) -> bool:
        if self._is_cut_off(process):
            return False
        return any(not isinstance(r, RegisterBroker) for r in process.requests)

    def _go_on(self) -> bool:
        moved = False
        for broker in self.ids:
            process = self.brokers.get(broker)
            if process is None:
                continue
            moved = self._talk_to_zookeeper(process) or moved
            while process.inbox:
                process.feed()
                moved = True
        for command in list(self.commands):
            moved = command.go_on() or moved
        return moved

    def _talk_to_zookeeper(self, process: Broker) -> bool:
        if self._is_cut_off(process):
            return False
        process.catch_up(self.zookeeper.head)
        if process.expired:
            process.notice_expiry()
        moved = False
        for _ in range(len(process.requests)):
            if self._is_cut_off(process):
                break
            process.serve_request()
            moved = moved or self._waiting(process)
        return moved

    def _is_cut_off(self, process: Broker) -> bool:
        held = bool(process.requests) and self.holds(process.id, process.requests[0])
        return process.id in self.cut_off or held

    def _exchange(self) -> None:
        for broker in self.ids:
            if broker in self.brokers:
                for tp in sorted(self.brokers[broker].replicas):
                    self.ask(broker, tp)
        for _ in range(2):
            for message in list(self.messages):
                self.deliver(message)

    # --- commands --------------------------------------------------------------------------------

    def command(self, command: Command) -> "CommandRun":
        run = CommandRun(self, command)
        self.commands.append(run)
        return run

    @property
    def admin(self) -> Admin:
        return Admin(fenced=self.variant != "printed", queue_max=self.queue_max)

    def create(self, replicas: tuple[int, ...], tp: TopicPartition = T) -> None:
        """The topic, created and led."""
        run = self.command(
            self.admin.create_topic(tp.topic, {tp.partition: tuple(map(BrokerId, replicas))})
        )
        self.settle(3 * KEEP_IN_SYNC)
        assert run.outcome is Outcome.DONE, run.outcome

    # --- looking ---------------------------------------------------------------------------------

    def view(self, tp: TopicPartition = T) -> PartitionView:
        return self.zookeeper.view(tp, self.zookeeper.head)

    def leader(self, tp: TopicPartition = T) -> BrokerId | None:
        """Return the leader in ZooKeeper."""
        node = self.view(tp).leader
        return node.broker if node else None

    def isr(self, tp: TopicPartition = T) -> tuple[BrokerId, ...]:
        node = self.view(tp).isr
        return node.isr if node else ()

    def values(self, broker: int, tp: TopicPartition = T) -> list[int]:
        return [batch.value for batch in self.logs[BrokerId(broker), tp].slots]

    # --- what must never be ----------------------------------------------------------------------

    def check_role(
        self, broker: Broker, tp: TopicPartition, word: replication.LeaderAndIsr
    ) -> None:
        if word.leader != broker.id:
            return
        leader = self.leaders.setdefault((tp, word.leader_epoch), broker.id)
        if leader != broker.id:
            raise Violation(f"two leaders of epoch {word.leader_epoch}: {leader} and {broker.id}")
        self.check_log(broker.id, tp)

    def check_log(self, broker: BrokerId, tp: TopicPartition) -> None:
        """Check that the leader has the acknowledged records."""
        values = self.values(broker, tp)
        for offset, value in sorted(self.acked.get(tp, {}).items()):
            if offset >= len(values) or values[offset] != value:
                raise Violation(f"acked record {value} at offset {offset} is lost on {broker}")

    def check_isr(self) -> None:
        isr = self.isr()
        self.lost = {b for b in self.lost if b in isr or not self.is_looked_at(b)}
        if not self.watch_isr:
            return
        for tp in self.zookeeper.partitions(self.zookeeper.head):
            isr = self.view(tp).isr
            if isr is not None and not isr.isr:
                raise Violation(f"the ISR of {tp} is empty")

    def is_looked_at(self, broker: BrokerId) -> bool:
        """Up, and no longer suspect of having lost something."""
        process = self.brokers.get(broker)
        hosted = process.coordinator._hosted.get(T) if process else None
        return hosted is not None and not hosted.is_suspect

    def check_deletion(self, broker: Broker, tp: TopicPartition) -> None:
        view = self.view(tp)
        if view.moving_to == () or view.replicas is None:
            return
        if self.variant == "printed" and broker.id not in (view.moving_to or (broker.id,)):
            return  # it closes the old replicas of a move while they are in AR
        in_isr = view.isr is not None and broker.id in view.isr.isr
        if in_isr or broker.id in view.assigned:
            raise Violation(f"{broker.id} deletes {tp}, which is assigned to it")


class CommandRun:
    """An admin command on its way; its reads are of the newest there is."""

    def __init__(self, world: World, command: Generator[Any, Any, Outcome]) -> None:
        self._world = world
        self._command = command
        self._step: Any = None
        self._seen = -1
        self._deadline = world.now + 5_000
        self.outcome: Outcome | None = None
        self.said: list[Lifecycle | Refused] = []
        self._send(None)

    def go_on(self) -> bool:
        """One step; False: it waits, or is done."""
        if self.outcome is not None:
            return False
        if isinstance(self._step, admin.AwaitChange):
            timed_out = self._world.now >= self._deadline
            if not timed_out and self._world.zookeeper.head == self._seen:
                return False
            waited = admin.Waited
            self._send(waited.TIME_IS_UP if timed_out else waited.CHANGED)
        else:
            self._send(self._answer(self._step))
        return True

    def _send(self, answer: Any) -> None:
        try:
            self._step = self._command.send(answer)
        except StopIteration as stop:
            self.outcome = stop.value
            self._world.commands = [c for c in self._world.commands if c is not self]

    def _answer(self, step: Any) -> Any:
        zookeeper, head = self._world.zookeeper, self._world.zookeeper.head
        self._seen = head
        match step:
            case admin.ReadTopic(topic=topic):
                tps = [tp for tp in zookeeper.partitions(head) if tp.topic == topic]
                home = zookeeper.state.get(("topic", topic))
                return admin.TopicNodes(
                    version=ABSENT if home is None else ZkVersion(home.version),
                    topic_id=None if home is None else home.value,
                    partitions={tp.partition: zookeeper.view(tp, head) for tp in tps},
                )
            case admin.ReadNodes(partition=tp):
                return zookeeper.view(tp, head)
            case admin.ReadReassigned():
                return tuple(sorted({tp.topic for tp in zookeeper.orders(head)}))
            case admin.ReadQueues(brokers=brokers):
                return {broker: zookeeper.queue(broker, head) for broker in brokers}
            case admin.AdminWrite(ops=ops):
                result, _, queued = zookeeper.write(ops, BrokerId(-1), 0)
                self._world.check_isr()
                return admin.AdminWritten(result=result, queued=queued)
            case Lifecycle() | Refused():
                self.said.append(step)
        return None
