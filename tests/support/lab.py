"""Replicas of one partition on a bench: real replicas, in-memory logs, every message by hand.

Where the simulator leaves to chance what happens next, a test here says it, one line a step.
"""

from kio.schema.errors import ErrorCode
from simulator.broker_process import BrokerProcess
from simulator.log import MemoryBatch
from simulator.network import ZOOKEEPER, Message

from ackproof.broker.replication.config import ReplicaConfig, Truncation
from ackproof.broker.replication.events import (
    Effect,
    Event,
    IsrWritten,
    LeaderAndIsr,
    Produce,
    Respond,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.replica import Replica
from ackproof.broker.types import BrokerId, ControllerEpoch, LeaderEpoch, Millis, ZkVersion

P = 0
A, B, C = BrokerId(0), BrokerId(1), BrokerId(2)


class Lab:
    """Brokers A, B, ... hold one partition; nobody leads until ``elect``."""

    def __init__(self, brokers: int = 2, **config: int | Truncation | None) -> None:
        self.replicas = tuple(BrokerId(b) for b in range(brokers))
        self.config = ReplicaConfig(**config)  # type: ignore[arg-type]
        self.outbox: list[Message] = []
        self.answers: dict[int, Respond] = {}
        self.effects: tuple[Effect, ...] = ()
        self.isr = self.replicas
        self.epoch = -1
        self.version = -1
        self.now = Millis(0)
        self._requests = 0
        self._processes = {
            b: BrokerProcess(b, self.config, [P], self.outbox.append, self._observe)
            for b in self.replicas
        }
        for process in self._processes.values():
            process.start()

    def __getitem__(self, broker: BrokerId) -> Replica:
        return self._processes[broker].replicas[P]

    def _observe(
        self, _process: BrokerProcess, _partition: int, _event: Event, effects: tuple[Effect, ...]
    ) -> None:
        self.effects = effects
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
        message = next(m for m in self.outbox if m.target == ZOOKEEPER)
        self.outbox.remove(message)
        assert isinstance(message.body, WriteIsr)
        self.version += 1
        self.isr = message.body.isr
        written = IsrWritten(
            leader_epoch=message.body.leader_epoch,
            isr=self.isr,
            zk_version=ZkVersion(self.version),
        )
        self.step(message.source, written)
        return self.isr

    # --- brokers and clients ----------------------------------------------------------------

    def step(self, broker: BrokerId, event: Event) -> tuple[Effect, ...]:
        self._processes[broker].step(P, event)
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
        """What the producer was told; None while it waits."""
        answer = self.answers.get(request)
        return None if answer is None else answer.error

    def ask(self, follower: BrokerId) -> Message:
        """A follower's request reaches its leader; the answer stays under way."""
        self._processes[follower].poll(P)
        question = self.outbox.pop()
        self._processes[question.target].receive(question, self.now)
        return self.outbox.pop()

    def deliver(self, answer: Message) -> None:
        self._processes[answer.target].receive(answer, self.now)

    def exchange(self, follower: BrokerId, times: int = 1) -> None:
        """A follower asks its leader, and hears the answer."""
        for _ in range(times):
            self.deliver(self.ask(follower))

    def pass_time(self, milliseconds: int) -> None:
        self.now = Millis(self.now + milliseconds)
        for broker, process in self._processes.items():
            if process.alive:
                self.step(broker, Tick(now=self.now))

    def crash(self, broker: BrokerId, unsynced: int = 0) -> None:
        """Kill a broker; with ``unsynced``, cut its power: as many records were on no disk yet."""
        process = self._processes[broker]
        process.crash()
        if unsynced:
            del process.logs[P].slots[-unsynced:]

    def checkpoint(self, broker: BrokerId) -> None:
        """Write the high watermark checkpoint."""
        self._processes[broker].checkpoint()

    def start(self, broker: BrokerId) -> None:
        self._processes[broker].start()

    # --- looking ----------------------------------------------------------------------------

    def log(self, broker: BrokerId) -> list[int]:
        """The log as one value per offset."""
        return [batch.value for batch in self._processes[broker].logs[P].slots]

    def ends(self, broker: BrokerId) -> tuple[int, int]:
        """(LEO, HW)."""
        return self[broker].log_end_offset, self[broker].high_watermark
