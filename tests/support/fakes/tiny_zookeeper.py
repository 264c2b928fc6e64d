"""ZooKeeper in memory, as far as leader coordination uses it: every write is a transaction with a
number, and each client sees them in order, but as late as its server lags (seed 001's nodes alone).
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ackproof.broker.coordination.events import (
    Check,
    CreateLeader,
    CreateTopic,
    Delete,
    DeletePartition,
    DeleteTopic,
    Dequeue,
    Enqueue,
    Op,
    PutAssigned,
    PutIsr,
    Result,
    SetLeader,
    TakeTopic,
)
from ackproof.broker.coordination.nodes import (
    ABSENT,
    ANY_VERSION,
    Assigned,
    IsrNode,
    Kind,
    LeaderNode,
    Node,
    PartitionView,
    QueuedRequest,
)
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

Key = tuple[Any, ...]
REASSIGNED = ("children", Kind.REASSIGNED)


def node_key(node: Node) -> Key:
    return ("node", node.kind, node.partition)


def queue_key(broker: BrokerId) -> Key:
    return ("children", "queue", broker)


class Refused(Exception):
    pass


@dataclass(frozen=True)
class Entry:
    value: Any
    version: int = 0
    owner: int = 0
    created: int = 0


State = dict[Key, Entry]


def _order(entry: Entry) -> Assigned:
    replicas, removing = entry.value
    return Assigned(
        replicas=replicas,
        version=ZkVersion(entry.version),
        removing=removing,
        created=entry.created,
    )


@dataclass
class TinyZooKeeper:
    """``history[n]`` is the state after n transactions, ``changed[n]`` what the n-th changed."""

    history: list[State] = field(default_factory=lambda: [{}])
    changed: list[frozenset[Key]] = field(default_factory=lambda: [frozenset()])
    sessions: int = 100
    sequence: int = 0

    @property
    def head(self) -> int:
        return len(self.history) - 1

    @property
    def state(self) -> State:
        return self.history[-1]

    def new_session(self) -> int:
        self.sessions += 1
        return self.sessions

    def expire(self, session: int) -> None:
        """Its ephemeral nodes go in one transaction."""
        gone = {key for key, entry in self.state.items() if entry.owner == session}
        if gone:
            state = {key: entry for key, entry in self.state.items() if key not in gone}
            self._commit(state, gone)

    def write(
        self, ops: Iterable[Op], broker: BrokerId, session: int
    ) -> tuple[Result, dict[Node, ZkVersion], tuple[str, ...]]:
        """All of it or nothing."""
        ops = tuple(ops)
        lenient = all(isinstance(op, Dequeue) for op in ops)
        transaction = _Transaction(self, dict(self.state), broker, session, lenient)
        try:
            for op in ops:
                transaction.carry_out(op)
        except Refused:
            return Result.REFUSED, {}, ()
        self._commit(transaction.state, transaction.changed)
        return Result.DONE, transaction.versions, tuple(transaction.queued)

    def _commit(self, state: State, changed: set[Key]) -> None:
        self.history.append(state)
        self.changed.append(frozenset(changed))

    # --- reading, at some moment of history ----------------------------------------------------

    def view(self, tp: TopicPartition, at: int) -> PartitionView:
        def get(kind: Kind) -> Entry | None:
            return self.history[at].get(("node", kind, tp))

        replicas, leader = get(Kind.REPLICAS), get(Kind.LEADER)
        isr, moving = get(Kind.ISR), get(Kind.REASSIGNED)
        return PartitionView(
            replicas=replicas and Assigned(replicas=replicas.value[0], version=replicas.version),
            leader=leader
            and LeaderNode(
                broker=leader.value[0],
                epoch=leader.value[1],
                owner=leader.owner,
                version=leader.version,
            ),
            isr=isr and IsrNode(isr=isr.value[0], epoch=isr.value[1], version=isr.version),
            reassigned=moving and _order(moving),
        )

    def partitions(self, at: int) -> list[TopicPartition]:
        return sorted({key[2] for key in self.history[at] if key[0] == "node"})

    def queue(self, broker: BrokerId, at: int) -> tuple[QueuedRequest, ...]:
        return tuple(
            QueuedRequest(name=key[2], request=entry.value)
            for key, entry in sorted(
                (item for item in self.history[at].items() if item[0][:2] == ("entry", broker)),
                key=lambda item: item[0][2],
            )
        )

    def brokers(self, at: int) -> frozenset[BrokerId]:
        return frozenset(key[1] for key in self.history[at] if key[0] == "id")

    def orders(self, at: int) -> dict[TopicPartition, Assigned]:
        return {
            key[2]: _order(entry)
            for key, entry in sorted(self.history[at].items(), key=str)
            if key[:2] == ("node", Kind.REASSIGNED)
        }

    # --- by hand ---------------------------------------------------------------------------------

    def put(self, key: Key, value: Any, owner: int = 0) -> None:
        self._commit({**self.state, key: Entry(value, 0, owner)}, {key})


@dataclass
class _Transaction:
    zookeeper: TinyZooKeeper
    state: State
    broker: BrokerId
    session: int
    lenient: bool
    changed: set[Key] = field(default_factory=set)
    versions: dict[Node, ZkVersion] = field(default_factory=dict)
    queued: list[str] = field(default_factory=list)

    def carry_out(self, op: Op) -> None:
        match op:
            case Check(node=node, expected=expected):
                self._expect(node_key(node), expected)
            case CreateLeader(partition=tp, epoch=epoch):
                node = Node(Kind.LEADER, tp)
                self._put(node, (self.broker, epoch), ABSENT, self.session)
            case SetLeader(partition=tp, epoch=epoch):
                key = node_key(Node(Kind.LEADER, tp))
                self._expect(key, ANY_VERSION)
                owner = self.state[key].owner
                self._put(Node(Kind.LEADER, tp), (self.broker, epoch), ANY_VERSION, owner)
            case PutIsr(partition=tp, isr=isr, epoch=epoch, expected=expected):
                self._put(Node(Kind.ISR, tp), (isr, epoch), expected)
            case PutAssigned(node=node, replicas=replicas, removing=removing, expected=expected):
                self._put(node, (replicas, removing), expected)
            case Delete(node=node, expected=expected):
                self._expect(node_key(node), expected)
                self._remove(node_key(node))
            case _:
                self._carry_out_others(op)

    def _carry_out_others(self, op: Op) -> None:  # noqa: C901
        match op:
            case Enqueue(broker=broker, request=request):
                if ("queue", broker) not in self.state:
                    raise Refused
                self.zookeeper.sequence += 1
                name = f"request-{self.zookeeper.sequence:010}"
                self.state[("entry", broker, name)] = Entry(request)
                self.queued.append(name)
                self.changed.add(queue_key(broker))
            case Dequeue(broker=broker, name=name):
                if self.state.pop(("entry", broker, name), None) is None and not self.lenient:
                    raise Refused
                self.changed.add(queue_key(broker))
            case CreateTopic(topic=topic, expected=expected):
                self.zookeeper.sequence += 1
                self._put_topic(topic, uuid.UUID(int=self.zookeeper.sequence), expected)
            case TakeTopic(topic=topic, topic_id=topic_id, expected=expected):
                self._put_topic(topic, topic_id, expected)
            case DeletePartition(partition=tp):
                for kind in (Kind.REPLICAS, Kind.LEADER, Kind.ISR):
                    if ("node", kind, tp) in self.state:
                        self._remove(("node", kind, tp))
            case DeleteTopic(topic=topic, expected=expected):
                if expected != ANY_VERSION:
                    self._expect(("topic", topic), expected)
                self.state.pop(("topic", topic), None)

    def _put_topic(self, topic: str, topic_id: uuid.UUID | None, expected: int) -> None:
        entry = self.state.get(("topic", topic))
        if expected == ABSENT and entry is not None:
            raise Refused
        if expected != ABSENT:
            self._expect(("topic", topic), expected)
        version = 0 if entry is None else entry.version + 1
        self.state[("topic", topic)] = Entry(topic_id, version)

    def _expect(self, key: Key, expected: int) -> None:
        entry = self.state.get(key)
        if entry is None or expected not in (ANY_VERSION, entry.version):
            raise Refused

    def _put(self, node: Node, value: Any, expected: int, owner: int = 0) -> None:
        key = node_key(node)
        entry = self.state.get(key)
        if expected == ABSENT:
            if entry is not None:
                raise Refused
        elif expected != ANY_VERSION or entry is not None:
            self._expect(key, expected)
        version = 0 if entry is None else entry.version + 1
        created = len(self.zookeeper.history) if entry is None else entry.created
        self.state[key] = Entry(value, version, owner, created)
        self.versions[node] = ZkVersion(version)
        self.changed.add(key)
        if node.kind is Kind.REASSIGNED and entry is None:
            self.changed.add(REASSIGNED)

    def _remove(self, key: Key) -> None:
        del self.state[key]
        self.changed.add(key)
        if key[1] is Kind.REASSIGNED:
            self.changed.add(REASSIGNED)
