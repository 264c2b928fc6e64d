"""The nodes of a cluster without a controller, as the observer wants them: states of partitions.

Seed 001 has a node for the leader and one for the ISR; together they say what the one state node
of a controller's tree says. What one transaction changes is taken in as a whole: between a claim
and the ISR that is written with it nothing holds.
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

from ackproof.broker.controller.cluster import (
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from ackproof.broker.server.coordination import nodes
from ackproof.broker.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)
from simulation.observer.leadership import orders_done
from simulation.observer.observer import Observer
from simulation.observer.orders import named
from simulation.observer.orders.named import Order
from simulation.partition.topic import Topic

NO_CONTROLLER = ControllerEpoch(0)

Change = tuple[str, bytes | None, int]
"""Path, data (None: it was deleted), version."""


class LedTree:
    """Tells the observer what becomes of partitions.

    ``life_of``: in which life a broker is. A ``leader`` that was written in a former one names
    nobody who leads: its session has not ended yet, and the broker itself waits for that.
    """

    def __init__(self, observer: Observer, life_of: Callable[[int], int]) -> None:
        self._observer = observer
        self._life_of = life_of
        self._ids: dict[str, uuid.UUID | None] = {}
        self._leaders: dict[TopicPartition, tuple[BrokerId, LeaderEpoch, int]] = {}
        self._isrs: dict[TopicPartition, tuple[bytes, int]] = {}
        self._orders: dict[TopicPartition, Order] = {}

    def changed(self, changes: Iterable[Change], zxid: int) -> None:
        """Transaction ``zxid`` was committed."""
        touched: dict[TopicPartition, None] = {}
        orders = dict(self._orders)
        for path, data, version in changes:
            tp = self._take_in(path, data, version, zxid)
            if tp is not None:
                touched[tp] = None
        with self._observer.failing():
            for tp in touched:
                self._tell(tp)
            for tp, order in orders.items():
                self._was_ordered(tp, order)

    def _take_in(
        self, path: str, data: bytes | None, version: int, zxid: int
    ) -> TopicPartition | None:
        match path.split("/")[1:]:
            case ["brokers", "topics", topic]:
                if data is None:
                    self._observer.topics.pop(topic, None)
                else:
                    self._ids[topic] = nodes.decode_topic_id(path, data)
            case ["brokers", "topics", topic, number, "replicas"]:
                self._placed(TopicPartition(topic, int(number)), path, data)
            case ["brokers", "partitions_reassigned", topic, number]:
                self._moved(TopicPartition(topic, int(number)), path, data)
            case ["brokers", "topics", topic, number, "leader"]:
                return self._led(TopicPartition(topic, int(number)), data)
            case ["brokers", "topics", topic, number, "ISR"]:
                tp = TopicPartition(topic, int(number))
                if data is None:
                    self._isrs.pop(tp, None)
                else:
                    self._isrs[tp] = data, version
                return tp
            case _:
                self._observer.znode_changed(path, data, version, zxid)
        return None

    def _led(self, tp: TopicPartition, data: bytes | None) -> TopicPartition:
        if data is None:
            self._leaders.pop(tp, None)
        else:
            leader, epoch = nodes.decode_leader(f"leader of {tp}", data)
            self._leaders[tp] = leader, epoch, self._life_of(leader)
            self._observer.ever_led.add((tp, leader, epoch))
        return tp

    # --- where replicas are -------------------------------------------------------------------

    def _topic(self, name: str) -> Topic:
        known = self._observer.topics.get(name)
        if known is None:
            topic_id = self._ids.get(name)
            nothing = TopicAssignment(topic_id=topic_id, partitions={})
            known = self._observer.topics[name] = Topic(topic_id, nothing)
        return known

    def _placed(self, tp: TopicPartition, path: str, data: bytes | None) -> None:
        if data is None:
            known = self._observer.topics.get(tp.topic)
            if known is not None:
                known.partitions.pop(tp.partition, None)
            return
        replicas = nodes.decode_ids(path, data)
        order = self._orders.get(tp)
        self._assign(tp, replicas, None if order is None else order.target)
        self._observer.add_partition(self._topic(tp.topic), tp)

    def _moved(self, tp: TopicPartition, path: str, data: bytes | None) -> None:
        """``partitions_reassigned``: also the first thing that is written of a new partition."""
        target = None if data is None else nodes.decode_ids(path, data)
        if data is None or target is None:
            self._orders.pop(tp, None)
        else:
            self._orders[tp] = Order(target, nodes.decode_removing(path, data))
        known = self._observer.topics.get(tp.topic)
        if known is None or tp.partition not in known.partitions:
            return
        replicas = known.assignment.partitions[tp.partition].replicas
        if target == ():
            known.is_doomed = True
        self._assign(tp, replicas, target)

    def _was_ordered(self, tp: TopicPartition, order: Order) -> None:
        """Before the transaction."""
        topic = self._observer.topics.get(tp.topic)
        if topic is None or topic.is_doomed or tp.partition not in topic.partitions:
            return
        now, assigned = self._orders.get(tp), topic.assignment.partitions[tp.partition].replicas
        if now is not None:
            named.replaced(tp, order, now, assigned)
        elif order.target:
            orders_done.ended(tp, order.target, assigned)

    def _assign(
        self,
        tp: TopicPartition,
        replicas: tuple[BrokerId, ...],
        target: tuple[BrokerId, ...] | None = None,
    ) -> None:
        topic = self._topic(tp.topic)
        moving = () if target is None else target
        assignment = ReplicaAssignment(replicas=replicas, adding=moving)
        before = topic.assignment
        topic.assignment = replace(
            before, partitions={**before.partitions, tp.partition: assignment}
        )

    # --- who leads ----------------------------------------------------------------------------

    def _tell(self, tp: TopicPartition) -> None:
        partition = self._observer.find(tp)
        stored = self._isrs.get(tp)
        if partition is None or stored is None:
            return
        isr, epoch = nodes.decode_isr(f"ISR of {tp}", stored[0])
        leader = NO_LEADER
        if tp in self._leaders:
            claimant, claimed, life = self._leaders[tp]
            if life == self._life_of(claimant):
                leader = claimant
            epoch = max(epoch, claimed)
        self._observer.state_is(
            tp,
            partition,
            PartitionState(
                leader=leader,
                leader_epoch=epoch,
                isr=isr,
                controller_epoch=NO_CONTROLLER,
                zk_version=ZkVersion(stored[1]),
            ),
        )
