"""The writes of brokers to ZooKeeper, as its leader commits them.

- **ZooKeeper/unconditional-write**: a write that was computed from a node names the version that
  was read. Suppose the controller takes 3 out of an ISR of which its leader has just taken 2.
  Written unconditionally, 2 would be in the ISR again, and acks=all would not wait for it.
- **TopicConfig/change-not-announced**: settings are changed and announced in ``/config/changes`` in
  one transaction. Brokers read them again only after an announcement.
- **Reassignment/ended-before-target**: without a controller, a reassignment ends only when the
  partition is at its target, or another reassignment replaces it.
- **Reassignment/started-replica-forgotten**: a reassignment that replaces another one names every
  broker of the other that it does not keep, because such a broker may have started a replica.
"""

import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from kazoo.protocol.serialization import CheckVersion, Create, Create2, SetData, Transaction

from ackproof.broker.controller.cluster import PartitionState, ReplicaAssignment, TopicAssignment
from ackproof.broker.server.coordination import nodes
from ackproof.broker.types import (
    NO_LEADER,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
)
from simulation.model.observer import ClusterObserver
from simulation.model.partition import TopicModel
from simulation.violation import Violation
from simulation.zookeeper.ensemble import SimulatedZooKeeper
from simulation.zookeeper.znodes import Txn

ANY_VERSION: Final = -1
NO_CONTROLLER: Final = ControllerEpoch(0)

Change = tuple[str, bytes | None, int]
"""The path, the data (None if the node was deleted) and the version."""


def watch_commits(
    zookeeper: SimulatedZooKeeper,
    observer: ClusterObserver,
    translator: "LeaderCoordinatedTree | None",
) -> None:
    """Report ZooKeeper's commits to the observer.

    ``translator``: translates the nodes of a cluster without a controller.
    """
    leader = zookeeper.leader
    tree = leader.tree

    def before(request: Any) -> None:
        with observer.violations_end_run():
            check_conditional(request)
            check_announced(request, tree.peek)

    def after(changes: Iterable[tuple[int, str]], txn: Txn) -> None:
        seen: list[Change] = [(path, *tree.peek(path)) for _, path in changes]
        for path, data, _ in seen:
            observer.settings.written(path, data)
        if translator is not None:
            translator.changed(seen, txn.zxid)
            return
        for path, data, version in seen:
            observer.znode_changed(path, data, version, txn.zxid)

    leader.before_write = before
    leader.after_write.append(after)


# --- requests -----------------------------------------------------------------------------------


def _operations(request: Any) -> tuple[Any, ...]:
    return tuple(request.operations) if type(request) is Transaction else (request,)


def check_conditional(request: Any) -> None:
    """Judge a write before it is carried out; raises Violation."""
    for operation in _operations(request):
        if type(operation) in (SetData, CheckVersion) and operation.version == ANY_VERSION:
            match operation.path.split("/")[1:]:
                case ["brokers", "topics", _, "partitions", _, "state"]:
                    name = "is written"
                case ["brokers", "topics", _, _, "replicas"] if type(operation) is CheckVersion:
                    name = "is relied on"
                case _:
                    continue
            raise Violation(
                "ZooKeeper/unconditional-write", f"{operation.path} {name} without its version"
            )


def check_announced(request: Any, peek: Callable[[str], tuple[bytes | None, int]]) -> None:
    """Judge a write before it is carried out. Raises Violation.

    The settings of a topic need no announcement if the topic is created in the same transaction or
    does not exist. ``peek`` returns a node's data (None if there is no node) and version.
    """
    written = [e.path for e in _operations(request) if type(e) in (Create, Create2, SetData)]
    if any(path.startswith("/config/changes/") for path in written):
        return
    for path in written:
        match path.split("/")[1:]:
            case ["config", "topics", topic]:
                home = f"/brokers/topics/{topic}"
                if home in written or peek(home)[0] is None:
                    continue
                what = f"the settings of topic {topic} are written"
            case ["config", "brokers", broker]:
                what = f"the settings of broker {broker} are written"
            case _:
                continue
        raise Violation(
            "TopicConfig/change-not-announced", f"{what} without an announcement of the change"
        )


# --- a cluster without a controller ---------------------------------------------------------------


class ReassignmentNode(NamedTuple):
    """The ``partitions_reassigned`` node of a partition."""

    target: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def check_replacement(
    partition: object, former: ReassignmentNode, now: ReassignmentNode, assigned: Iterable[BrokerId]
) -> None:
    """Judge an order that replaces another one in one transaction. Raises Violation."""
    named = {*former.target, *former.removing} - {*assigned, *now.target}
    forgotten = sorted(named - {*now.removing})
    if forgotten:
        what = f"{partition} is to move to {list(now.target)} instead of {list(former.target)}"
        raise Violation(
            "Reassignment/started-replica-forgotten",
            f"{what}, and the order does not name {forgotten}",
        )


def check_removal(tp: TopicPartition, target: tuple[int, ...], replicas: tuple[int, ...]) -> None:
    """Judge a reassignment that was removed and not replaced. Raises Violation."""
    if target != replicas:
        what = f"{tp} is no longer to move to {list(target)}, and is on {list(replicas)}"
        raise Violation("Reassignment/ended-before-target", what)


class LeaderCoordinatedTree:
    """A translator of the nodes of a cluster without a controller into states of partitions.

    There is one node for the leader and one for the ISR. Together they say what the one state node
    of a controller says. A transaction is processed as a whole, because no invariant holds between
    a claim and the ISR that is written with it.

    ``incarnation_of`` returns the number of a broker's present process. A ``leader`` node that was
    written by a former process counts as none. Its session has not ended yet, and the broker itself
    waits for that.
    """

    def __init__(self, observer: ClusterObserver, incarnation_of: Callable[[int], int]) -> None:
        self._observer = observer
        self._incarnation_of = incarnation_of
        self._ids: dict[str, uuid.UUID | None] = {}
        self._leaders: dict[TopicPartition, tuple[BrokerId, LeaderEpoch, int]] = {}
        self._isrs: dict[TopicPartition, tuple[bytes, int]] = {}
        self._orders: dict[TopicPartition, ReassignmentNode] = {}

    def changed(self, changes: Iterable[Change], zxid: int) -> None:
        """Process the changes of transaction ``zxid``."""
        touched: dict[TopicPartition, None] = {}
        orders = dict(self._orders)
        for path, data, version in changes:
            tp = self._process(path, data, version, zxid)
            if tp is not None:
                touched[tp] = None
        with self._observer.violations_end_run():
            for tp in touched:
                self._report(tp)
            for tp, order in orders.items():
                self._check_order(tp, order)

    def _process(
        self, path: str, data: bytes | None, version: int, zxid: int
    ) -> TopicPartition | None:
        match path.split("/")[1:]:
            case ["brokers", "topics", topic]:
                if data is None:
                    self._observer.topics.pop(topic, None)
                else:
                    self._ids[topic] = nodes.decode_topic_id(path, data)
            case ["brokers", "topics", topic, number, "replicas"]:
                self._replicas_changed(TopicPartition(topic, int(number)), path, data)
            case ["brokers", "partitions_reassigned", topic, number]:
                self._order_changed(TopicPartition(topic, int(number)), path, data)
            case ["brokers", "topics", topic, number, "leader"]:
                return self._leader_changed(TopicPartition(topic, int(number)), data)
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

    def _leader_changed(self, tp: TopicPartition, data: bytes | None) -> TopicPartition:
        if data is None:
            self._leaders.pop(tp, None)
        else:
            leader, epoch = nodes.decode_leader(f"leader of {tp}", data)
            self._leaders[tp] = leader, epoch, self._incarnation_of(leader)
            self._observer.ever_led.add((tp, leader, epoch))
        return tp

    def _topic(self, name: str) -> TopicModel:
        known = self._observer.topics.get(name)
        if known is None:
            topic_id = self._ids.get(name)
            nothing = TopicAssignment(topic_id=topic_id, partitions={})
            known = self._observer.topics[name] = TopicModel(topic_id, nothing)
        return known

    def _replicas_changed(self, tp: TopicPartition, path: str, data: bytes | None) -> None:
        if data is None:
            known = self._observer.topics.get(tp.topic)
            if known is not None:
                known.partitions.pop(tp.partition, None)
            return
        replicas = nodes.decode_ids(path, data)
        order = self._orders.get(tp)
        self._assign(tp, replicas, None if order is None else order.target)
        self._observer.add_partition(self._topic(tp.topic), tp)

    def _order_changed(self, tp: TopicPartition, path: str, data: bytes | None) -> None:
        """Process ``partitions_reassigned``, which is also the first node written of a new
        partition."""
        target = None if data is None else nodes.decode_ids(path, data)
        if data is None or target is None:
            self._orders.pop(tp, None)
        else:
            self._orders[tp] = ReassignmentNode(target, nodes.decode_removing(path, data))
        known = self._observer.topics.get(tp.topic)
        if known is None or tp.partition not in known.partitions:
            return
        replicas = known.assignment.partitions[tp.partition].replicas
        if target == ():
            known.is_being_deleted = True
        self._assign(tp, replicas, target)

    def _check_order(self, tp: TopicPartition, order: ReassignmentNode) -> None:
        topic = self._observer.topics.get(tp.topic)
        if topic is None or topic.is_being_deleted or tp.partition not in topic.partitions:
            return
        now, assigned = self._orders.get(tp), topic.assignment.partitions[tp.partition].replicas
        if now is not None:
            check_replacement(tp, order, now, assigned)
        elif order.target:
            check_removal(tp, order.target, assigned)

    def _assign(
        self,
        tp: TopicPartition,
        replicas: tuple[BrokerId, ...],
        target: tuple[BrokerId, ...] | None = None,
    ) -> None:
        topic = self._topic(tp.topic)
        assignment = ReplicaAssignment(replicas=replicas, adding=target or ())
        before = topic.assignment
        topic.assignment = replace(
            before, partitions={**before.partitions, tp.partition: assignment}
        )

    def _report(self, tp: TopicPartition) -> None:
        partition = self._observer.find(tp)
        stored = self._isrs.get(tp)
        if partition is None or stored is None:
            return
        isr, epoch = nodes.decode_isr(f"ISR of {tp}", stored[0])
        leader = NO_LEADER
        if tp in self._leaders:
            claimant, claimed, incarnation = self._leaders[tp]
            if incarnation == self._incarnation_of(claimant):
                leader = claimant
            epoch = max(epoch, claimed)
        self._observer.state_changed(
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
