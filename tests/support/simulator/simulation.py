"""The scheduler: one seed, one history.

``run`` is the safety phase, in which anything may happen; ``settle`` is the liveness phase: every
link heals, every broker comes back, and the partitions must be led, with full ISRs and equal logs,
within ``SETTLE_ROUNDS_MAX`` rounds.
"""

import random
from collections.abc import Callable
from itertools import accumulate, count

from ackproof.broker.replication.config import Truncation
from ackproof.broker.replication.events import (
    Effect,
    Event,
    IsrWriteFailed,
    LogStartMoved,
    Produce,
    Tick,
    WriteIsr,
)
from ackproof.broker.replication.replica import Role
from ackproof.broker.types import BrokerId, LeaderEpoch, Millis, Offset, ZkVersion
from simulator.broker_process import BrokerProcess
from simulator.controller import Controller
from simulator.invariants import Invariants, Violation
from simulator.log import MemoryBatch
from simulator.network import CONTROLLER, ZOOKEEPER, Message, Network
from simulator.shape import Shape
from simulator.zookeeper import PartitionState, ZooKeeper

UNDER_WAY_MAX = 60
SETTLE_ROUNDS_MAX = 200

Trace = Callable[[str], None]


class SimulationFailed(AssertionError):
    """A violation, and how to see it again."""

    def __init__(self, seed: int, steps: int, step: int, cause: BaseException) -> None:
        super().__init__(
            f"seed {seed}, step {step}: {cause!r}\nreplay: PYTHONPATH=tests/support "
            f"python -m simulator --seed {seed} --steps {steps} --trace"
        )
        self.seed = seed
        self.step = step


class Simulation:
    """``truncation`` is the one setting that the seed does not choose."""

    def __init__(
        self,
        seed: int,
        truncation: Truncation = Truncation.LEADER_EPOCH,
        trace: Trace | None = None,
    ) -> None:
        self.seed = seed
        self.step = 0
        self._steps = 0
        self._rng = random.Random(seed)
        self._trace = trace
        self.shape = shape = Shape.choose(self._rng, truncation)
        self.now = Millis(0)
        self.network = Network(self._rng)
        self.zookeeper = ZooKeeper([_new_partition(replicas) for replicas in shape.assignment])
        self.controller = Controller(self.zookeeper, list(shape.assignment), self.network.send)
        self.invariants = [Invariants(partition) for partition in range(len(shape.assignment))]
        assigned = sorted({broker for replicas in shape.assignment for broker in replicas})
        self.processes = {broker: self._process(broker) for broker in assigned}
        self._requests = count()
        self._actions = [getattr(self, f"_{name}") for name in shape.weights]
        self._odds = list(accumulate(shape.weights.values()))
        for process in self.processes.values():
            self._boot(process)
        self.controller.notice(self.now)

    def _process(self, broker: BrokerId) -> BrokerProcess:
        partitions = [p for p, replicas in enumerate(self.shape.assignment) if broker in replicas]
        return BrokerProcess(
            broker, self.shape.config, partitions, self.network.send, self._observe
        )

    def _observe(
        self, process: BrokerProcess, partition: int, event: Event, effects: tuple[Effect, ...]
    ) -> None:
        if self._trace is not None:
            self._trace(f"{self.step}: broker {process.broker} p{partition} {event} -> {effects}")
        state = self.zookeeper.states[partition]
        self.invariants[partition].observe(state, process, event, effects)

    # --- the two phases ---------------------------------------------------------------------

    def run(self, steps: int) -> "Simulation":
        """Take ``steps`` random steps. Raises SimulationFailed, from the violation."""
        self._steps = steps
        self._guarded(lambda: self._random_steps(steps))
        return self

    def settle(self) -> "Simulation":
        """Heal everything and wait for what must follow. Raises SimulationFailed."""
        self._guarded(self._settle)
        return self

    def _guarded(self, phase: Callable[[], None]) -> None:
        try:
            phase()
        except (AssertionError, ValueError, LookupError) as error:
            raise SimulationFailed(self.seed, self._steps, self.step, error) from error

    def _random_steps(self, steps: int) -> None:
        for _ in range(steps):
            self.step += 1
            self._rng.choices(self._actions, cum_weights=self._odds)[0]()
            self._check()

    def _check(self) -> None:
        for invariants, state in zip(self.invariants, self.zookeeper.states, strict=True):
            invariants.check(state, self.processes)

    def _settle(self) -> None:
        self.network.cut.clear()
        for _ in range(SETTLE_ROUNDS_MAX):
            self.step += 1
            self._revive()
            self.controller.notice(self.now)
            self._everyone_works()
            while self.network.under_way:
                self._deliver()
                self._check()
            if all(self._is_settled(partition) for partition in range(len(self.invariants))):
                return
        raise Violation(f"not settled: {self.zookeeper.states}")

    def _revive(self) -> None:
        for process in self.processes.values():
            if not process.alive:
                self._boot(process)
            elif process.broker not in self.zookeeper.registrations:
                process.registration = self.zookeeper.register(process.broker)

    def _everyone_works(self) -> None:
        self.now = Millis(self.now + self.shape.config.replica_lag_time_max_ms // 4)
        for process in self.processes.values():
            for partition in process.replicas:
                self.controller.tell(partition, process.broker, self.now)
                process.step(partition, Tick(now=self.now))
                process.poll(partition)

    def _is_settled(self, partition: int) -> bool:
        state = self.zookeeper.states[partition]
        replicas = self.shape.assignment[partition]
        everyone = [self.processes[b].replicas[partition] for b in replicas]
        if set(state.isr) != set(replicas) or not any(r.role is Role.LEADER for r in everyone):
            return False
        ends = {offset for r in everyone for offset in (r.log_end_offset, r.high_watermark)}
        return len(ends) == 1

    # --- actions; each name is a weight of the shape ------------------------------------------

    def _deliver(self) -> None:
        if not self.network.under_way:
            return
        message = self.network.take()
        if self.network.reaches(message):
            self._hand_over(message)
        else:
            self._is_lost(message)

    def _hand_over(self, message: Message) -> None:
        if message.target == ZOOKEEPER:
            assert isinstance(message.body, WriteIsr)
            result = self.zookeeper.write_isr(message.partition, message.source, message.body)
            self.network.send(
                Message(ZOOKEEPER, message.source, message.partition, result, message.life)
            )
        elif (target := self.processes[message.target]).alive:
            target.receive(message, self.now)

    def _is_lost(self, message: Message) -> None:
        """A writer whose session breaks knows that it does not know."""
        if not message.is_isr_write:
            return
        broker = message.target if message.source == ZOOKEEPER else message.source
        writer = self.processes[broker]
        epoch = message.body.leader_epoch
        if writer.alive and writer.life == message.life:
            writer.step(message.partition, IsrWriteFailed(leader_epoch=epoch, conflict=False))

    def _lose(self) -> None:
        if self.network.under_way:
            self._is_lost(self.network.take())

    def _double(self) -> None:
        if self.network.under_way:
            message = self.network.take()
            self.network.send(message)
            if not message.is_isr_write:
                self.network.send(message)

    def _poll(self) -> None:
        process = self._any_alive()
        if process is None:
            return
        for partition in process.replicas:
            process.poll(partition)
        while len(self.network.under_way) > UNDER_WAY_MAX:
            self._lose()

    def _produce(self) -> None:
        """Mostly to the leader, as clients with fresh metadata do; else to anybody."""
        partition, broker = self._any_replica()
        leader = self.zookeeper.states[partition].leader
        process = self.processes[leader if leader >= 0 and self._rng.random() < 0.8 else broker]
        if not process.alive:
            return
        request = next(self._requests)
        batch = MemoryBatch.to_send(value=request, count=self._rng.randint(1, 3))
        event = Produce(
            request=request,
            batches=(batch,),
            acks=self._rng.choice((0, 1, -1, -1)),
            deadline=Millis(self.now + self._rng.randint(1, 30_000)),
            now=self.now,
        )
        process.step(partition, event)

    def _tick(self) -> None:
        lag = self.shape.config.replica_lag_time_max_ms
        self.now = Millis(self.now + self._rng.randint(0, lag // 2))
        process = self._any_alive()
        if process is None:
            return
        for partition in process.replicas:
            process.step(partition, Tick(now=self.now))

    def _notice(self) -> None:
        self.controller.notice(self.now)

    def _crash(self) -> None:
        """The process dies; its session may end at once or be noticed much later."""
        process = self._any_alive()
        if process is None:
            return
        process.crash()
        if self._rng.random() < 0.5:
            self.zookeeper.expire(process.broker)

    def _start(self) -> None:
        dead = [p for p in self.processes.values() if not p.alive]
        if dead:
            self._boot(self._rng.choice(dead))

    def _boot(self, process: BrokerProcess) -> None:
        process.start()
        process.registration = self.zookeeper.register(process.broker)

    def _checkpoint(self) -> None:
        process = self._any_alive()
        if process is not None:
            process.checkpoint()

    def _cut_link(self) -> None:
        ends = [*self.processes, ZOOKEEPER, CONTROLLER]
        source, target = self._rng.sample(ends, 2)
        self.network.cut.add((source, target))

    def _heal_link(self) -> None:
        if self.network.cut:
            self.network.cut.remove(self._rng.choice(sorted(self.network.cut)))

    def _expire_session(self) -> None:
        """The cluster gives a broker up that serves on, and may take itself for a leader."""
        process = self._any_alive()
        if process is not None:
            self.zookeeper.expire(process.broker)

    def _register(self) -> None:
        for process in self.processes.values():
            if process.alive and process.broker not in self.zookeeper.registrations:
                process.registration = self.zookeeper.register(process.broker)
                return

    def _tell_again(self) -> None:
        partition, broker = self._any_replica()
        self.controller.tell(partition, broker, self.now)

    def _move_leader(self) -> None:
        partition, broker = self._any_replica()
        self.controller.move(partition, broker, self.now)

    def _retain(self) -> None:
        """Retention on a leader, below its high watermark."""
        partition, broker = self._any_replica()
        process = self.processes[broker]
        replica = process.replicas.get(partition)
        if replica is None or replica.role is not Role.LEADER:
            return
        start = Offset(self._rng.randint(replica.log_start_offset, replica.high_watermark))
        known = self.invariants[partition]
        known.retained_from = max(known.retained_from, start)
        process.logs[partition].advance_start(start)
        process.step(partition, LogStartMoved(offset=start))

    def _any_alive(self) -> BrokerProcess | None:
        alive = [process for process in self.processes.values() if process.alive]
        return self._rng.choice(alive) if alive else None

    def _any_replica(self) -> tuple[int, BrokerId]:
        partition = self._rng.randrange(len(self.shape.assignment))
        return partition, self._rng.choice(self.shape.assignment[partition])


def _new_partition(replicas: tuple[BrokerId, ...]) -> PartitionState:
    return PartitionState(
        leader=replicas[0], leader_epoch=LeaderEpoch(0), isr=replicas, zk_version=ZkVersion(0)
    )
