"""A controller of the least kind: clean elections from the ISR, in the order of the assignment."""

from collections.abc import Callable
from dataclasses import replace

from ackproof.broker.replication.events import LeaderAndIsr
from ackproof.broker.types import NO_LEADER, BrokerId, ControllerEpoch, LeaderEpoch, Millis
from simulator.network import CONTROLLER, Message
from simulator.zookeeper import PartitionState, ZooKeeper


class Controller:
    """``send`` takes messages to brokers; ``assignment`` is the replicas of each partition."""

    def __init__(
        self,
        zookeeper: ZooKeeper,
        assignment: list[tuple[BrokerId, ...]],
        send: Callable[[Message], None],
    ) -> None:
        self._zookeeper = zookeeper
        self._assignment = assignment
        self._send = send
        self._known: dict[BrokerId, int] = {}

    def notice(self, now: Millis) -> None:
        """Act on who came and went since last time; a new registration is both."""
        registered = self._zookeeper.registrations
        gone = [b for b, life in self._known.items() if registered.get(b) != life]
        came = [b for b, life in registered.items() if self._known.get(b) != life]
        self._known = {b: life for b, life in self._known.items() if b not in gone}
        for broker in gone:
            self._failed(broker, now)
        for broker in came:
            self._known[broker] = registered[broker]
        for broker in came:
            self._started(broker, now)

    def _failed(self, broker: BrokerId, now: Millis) -> None:
        for partition, state in enumerate(self._zookeeper.states):
            if state.leader == broker:
                self.elect(partition, now)
            elif broker in state.isr and state.leader != NO_LEADER:
                rest = tuple(member for member in state.isr if member != broker)
                self._write(partition, replace(state, isr=rest), now)

    def _started(self, broker: BrokerId, now: Millis) -> None:
        for partition, replicas in enumerate(self._assignment):
            if self._zookeeper.states[partition].leader == NO_LEADER:
                self.elect(partition, now)
            elif broker in replicas:
                self.tell(partition, broker, now)

    def elect(self, partition: int, now: Millis) -> None:
        """Another leader; none, with the ISR kept, while no member of the ISR lives."""
        state = self._zookeeper.states[partition]
        leader = self.choose(state, self._assignment[partition])
        alive = tuple(member for member in state.isr if member in self._known)
        isr = alive if leader in alive else (state.isr if leader == NO_LEADER else (leader,))
        self._write(partition, replace(state, leader=leader, isr=isr), now)

    def choose(self, state: PartitionState, replicas: tuple[BrokerId, ...]) -> BrokerId:
        """First of the assignment that is in the ISR and alive."""
        able = (b for b in replicas if b in state.isr and b in self._known)
        return next(able, NO_LEADER)

    def move(self, partition: int, broker: BrokerId, now: Millis) -> None:
        """Make ``broker`` the leader if it could be (as a preferred replica election does)."""
        state = self._zookeeper.states[partition]
        if broker in state.isr and broker in self._known and state.leader != broker:
            self._write(partition, replace(state, leader=broker), now)

    def _write(self, partition: int, state: PartitionState, now: Millis) -> None:
        epoch = LeaderEpoch(state.leader_epoch + 1)
        self._zookeeper.write(partition, replace(state, leader_epoch=epoch))
        for broker in self._assignment[partition]:
            self.tell(partition, broker, now)

    def tell(self, partition: int, broker: BrokerId, now: Millis) -> None:
        """Send the partition's state to one of its replicas, if it is registered."""
        life = self._known.get(broker)
        if life is None:
            return
        state = self._zookeeper.states[partition]
        word = LeaderAndIsr(
            controller_epoch=ControllerEpoch(1),
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.isr,
            replicas=self._assignment[partition],
            zk_version=state.zk_version,
            now=now,
        )
        self._send(Message(CONTROLLER, broker, partition, word, life))
