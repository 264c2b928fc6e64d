"""Real replicas of one partition over logs in memory. A test says each step and each message.

The simulation leaves to chance what happens next; a test here says it, one line a step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    AskEpoch,
    Effect,
    EpochEndOffset,
    Event,
    Fetched,
    FetchFrom,
    FetchOutOfRange,
    FollowerFetch,
    IsrWritten,
    LeaderAndIsr,
    Produce,
    Respond,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, ZkVersion
from tests.support.fakes.memory_log import MemoryBatch, MemoryLog

A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)
BATCHES_PER_FETCH_MAX = 3


@dataclass(frozen=True, slots=True)
class Message:
    """A request of a follower on its way to the leader, or the answer on its way back."""

    source: BrokerId
    target: BrokerId
    body: AskEpoch | FetchFrom | Fetched | FetchOutOfRange | EpochEndOffset


class IsrWrite(NamedTuple):
    """A write of the ISR that ZooKeeper has not taken yet."""

    broker: BrokerId
    write: WriteIsr


class BrokerProcess:
    """A broker with one replica: the log outlives a crash, the replica does not."""

    def __init__(
        self,
        broker: BrokerId,
        config: ReplicaConfig,
        observe: Callable[[BrokerId, tuple[Effect, ...]], None],
    ) -> None:
        self.broker = broker
        self.log = MemoryLog()
        self.replica: Replica | None = None
        self._config = config
        self._observe = observe

    def start(self) -> None:
        self.replica = Replica(self.broker, self._config, self.log.state())

    def insert_disk(self, log: MemoryLog) -> None:
        """Start with this log, of which even an epoch without records is known."""
        epochs, state = log.epochs, log.state()
        log.epochs = epochs
        self.log = log
        self.replica = Replica(self.broker, self._config, replace(state, epochs=epochs.entries))

    def crash(self) -> None:
        self.replica = None

    @property
    def running(self) -> Replica:
        assert self.replica is not None, f"broker {self.broker} is down"
        return self.replica

    def step(self, event: Event) -> None:
        """Pass an event to the replica, and carry out its effects in order."""
        effects = self.running.step(event)
        for effect in effects:
            self.log.carry_out(effect)
        self._observe(self.broker, effects)

    def ask(self) -> Message:
        """Return the next request of this follower to its leader."""
        asked = self.running.fetching()
        assert asked is not None, f"broker {self.broker} does not fetch"
        return Message(self.broker, asked.leader, asked)

    def answer(self, question: Message, now: Millis) -> Message:
        """Return the answer of this leader."""
        body = question.body
        assert isinstance(body, AskEpoch | FetchFrom)
        assert self.running.check_leader(body.leader_epoch) is ErrorCode.none
        if isinstance(body, AskEpoch):
            told = self._end_of_epoch(body)
        else:
            told = self._records(question.source, body, now)
        return Message(self.broker, question.source, told)

    def _end_of_epoch(self, asked: AskEpoch) -> EpochEndOffset:
        epoch, end = self.running.end_offset_for_epoch(asked.epoch)
        return EpochEndOffset(
            current_leader_epoch=asked.leader_epoch, leader_epoch=epoch, end_offset=end
        )

    def _records(
        self, follower: BrokerId, asked: FetchFrom, now: Millis
    ) -> Fetched | FetchOutOfRange:
        replica = self.running
        if not replica.log_start_offset <= asked.offset <= replica.log_end_offset:
            return FetchOutOfRange(
                leader_epoch=asked.leader_epoch,
                log_start_offset=replica.log_start_offset,
                log_end_offset=replica.log_end_offset,
            )
        self.step(
            FollowerFetch(
                replica=follower,
                offset=asked.offset,
                log_start_offset=asked.log_start_offset,
                now=now,
            )
        )
        return Fetched(
            leader_epoch=asked.leader_epoch,
            fetch_offset=asked.offset,
            batches=self.log.read(asked.offset, BATCHES_PER_FETCH_MAX),
            high_watermark=replica.high_watermark,
            log_start_offset=replica.log_start_offset,
        )


class Lab:
    """Brokers A, B, ... hold one partition; there is no leader until ``elect``."""

    def __init__(self, brokers: int = 2, **config: int | Truncation | None) -> None:
        self.replicas = tuple(BrokerId(b) for b in range(brokers))
        self.config = ReplicaConfig(**config)  # type: ignore[arg-type]
        self.isr_writes: list[IsrWrite] = []
        self.answers: dict[int, Respond] = {}
        self.effects: tuple[Effect, ...] = ()
        self.steps: list[tuple[BrokerId, tuple[Effect, ...]]] = []
        self.isr = self.replicas
        self.epoch = -1
        self.version = -1
        self.now = Millis(0)
        self._requests = 0
        self._processes = {b: BrokerProcess(b, self.config, self._observe) for b in self.replicas}
        for process in self._processes.values():
            process.start()

    def __getitem__(self, broker: BrokerId) -> Replica:
        return self._processes[broker].running

    def _observe(self, broker: BrokerId, effects: tuple[Effect, ...]) -> None:
        self.effects = effects
        self.steps.append((broker, effects))
        self.isr_writes += [IsrWrite(broker, e) for e in effects if isinstance(e, WriteIsr)]
        self.answers.update({e.request: e for e in effects if isinstance(e, Respond)})

    # --- the controller ---------------------------------------------------------------------

    def elect(self, leader: BrokerId, isr: tuple[BrokerId, ...], to: tuple[BrokerId, ...]) -> None:
        """A new epoch, of which only ``to`` hear (or ``tell`` later)."""
        self.epoch += 1
        self.version += 1
        self.isr, self.leader = isr, leader
        for broker in to:
            self.tell(broker)

    def tell(self, broker: BrokerId) -> None:
        self.step(broker, self.word())

    def word(self) -> LeaderAndIsr:
        return LeaderAndIsr(
            controller_epoch=ControllerEpoch(0),
            leader=self.leader,
            leader_epoch=LeaderEpoch(self.epoch),
            isr=self.isr,
            replicas=self.replicas,
            zk_version=ZkVersion(self.version),
            now=self.now,
        )

    def write_isr(self) -> tuple[BrokerId, ...]:
        """ZooKeeper takes the ISR write that is under way."""
        broker, write = self.isr_writes.pop(0)
        self.version += 1
        self.isr = write.isr
        written = IsrWritten(
            leader_epoch=write.leader_epoch, isr=self.isr, zk_version=ZkVersion(self.version)
        )
        self.step(broker, written)
        return self.isr

    # --- brokers and clients ----------------------------------------------------------------

    def step(self, broker: BrokerId, event: Event) -> tuple[Effect, ...]:
        self._processes[broker].step(event)
        return self.effects

    def produce(
        self, leader: BrokerId, count: int = 1, acks: int = 1, timeout: int = 30_000
    ) -> int:
        """Send one batch; returns the request, whose number is also the batch's value."""
        self._requests += 1
        event = Produce(
            request=self._requests,
            batches=(MemoryBatch.to_send(self._requests, count),),
            acks=acks,
            deadline=Millis(self.now + timeout),
            now=self.now,
        )
        self.step(leader, event)
        return self._requests

    def error(self, request: int) -> ErrorCode | None:
        """Return the error that the producer received; None while it waits."""
        answer = self.answers.get(request)
        return None if answer is None else answer.error

    def ask(self, follower: BrokerId) -> Message:
        """A follower's request reaches its leader; the answer stays under way."""
        question = self._processes[follower].ask()
        return self._processes[question.target].answer(question, self.now)

    def deliver(self, answer: Message) -> None:
        assert isinstance(answer.body, Fetched | FetchOutOfRange | EpochEndOffset)
        self.step(answer.target, answer.body)

    def exchange(self, follower: BrokerId, times: int = 1) -> None:
        """A follower asks its leader, and hears the answer."""
        for _ in range(times):
            self.deliver(self.ask(follower))

    def pass_time(self, milliseconds: int) -> None:
        self.now = Millis(self.now + milliseconds)
        for broker, process in self._processes.items():
            if process.replica is not None:
                self.step(broker, Tick(now=self.now))

    def insert_disk(self, broker: BrokerId, log: MemoryLog) -> None:
        """Start a broker with this log."""
        self._processes[broker].insert_disk(log)

    def crash(self, broker: BrokerId, unsynced: int = 0) -> None:
        """Kill a broker; with ``unsynced``, cut its power: as many records were on no disk yet."""
        process = self._processes[broker]
        process.crash()
        if unsynced:
            del process.log.slots[-unsynced:]

    def checkpoint(self, broker: BrokerId) -> None:
        """Write the high watermark checkpoint."""
        self._processes[broker].log.checkpoint = self[broker].high_watermark

    def start(self, broker: BrokerId) -> None:
        self._processes[broker].start()

    # --- looking ----------------------------------------------------------------------------

    def log(self, broker: BrokerId) -> list[int]:
        """The log as one value per offset."""
        return [batch.value for batch in self._processes[broker].log.slots]

    def ends(self, broker: BrokerId) -> tuple[int, int]:
        """(LEO, HW)."""
        return self[broker].log_end_offset, self[broker].high_watermark
