"""ZooKeeper's nodes as values of :mod:`broker.coordination`: reads, and writes of several nodes."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from ackproof.broker.coordination import events
from ackproof.broker.coordination.admin import TopicNodes
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
from ackproof.broker.server.coordination import nodes
from ackproof.broker.server.topic_names import is_legal
from ackproof.broker.server.zk import znodes
from ackproof.broker.server.zk.session import (
    Callback,
    OutcomeUnknown,
    SessionExpired,
    SessionNumber,
    ZkSession,
)
from ackproof.broker.server.zk.znodes import understood
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

# --- reads ----------------------------------------------------------------------------------------


logger = logging.getLogger(__name__)


Stored = tuple[bytes, Any] | None
"""The data and stat of a node."""


class Reader:
    """Reads in the current session, and repeats a read until it is answered."""

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._queued: dict[BrokerId, tuple[int, dict[str, QueuedRequest]]] = {}
        """The content of the queues when they were last read, with the transaction that created
        each queue. An entry never changes. If a queue is created again, its names begin again."""

    # --- partitions -------------------------------------------------------------------------

    async def partition(self, tp: TopicPartition, watch: Callback | None = None) -> PartitionView:
        """Return a partition's nodes.

        ``watch`` is called when ``leader`` is created, changed or deleted. Without ``replicas`` it
        is also called when these are created. If they appear at that moment, it is called once more
        when they change: ZooKeeper has no watch for absence alone. The requests are sent at once
        and answered in their order, the watch before the rest. A change after the watch was set is
        thus noticed.
        """
        leader, replicas, reassigned, isr = (
            nodes.path(Node(kind, tp))
            for kind in (Kind.LEADER, Kind.REPLICAS, Kind.REASSIGNED, Kind.ISR)
        )
        watched = () if watch is None else (self.exists(leader, watch),)
        topic = znodes.topic(tp.topic)
        paths = (leader, replicas, reassigned, isr, topic)
        *_, led, assigned, moving, in_sync, home = await asyncio.gather(
            *watched, *(self._session.get(path) for path in paths)
        )
        if assigned is None and watch is not None and await self.exists(replicas, watch):
            # Read the id, too. It exists before the replicas, but may not have existed when it was
            # read. A broker that hosts the partition without it would be asked by others for an id
            # that it does not know.
            assigned, home = await asyncio.gather(
                self._session.get(replicas), self._session.get(topic)
            )
        return PartitionView(
            replicas=understood(_assigned, replicas, assigned),
            leader=understood(_leader, leader, led),
            isr=understood(_isr, isr, in_sync),
            reassigned=understood(_assigned, reassigned, moving),
            topic_id=_topic_id(topic, home),
        )

    async def topic(self, name: str) -> TopicNodes:
        """Return a topic, with all of its partitions that have any node."""
        where = znodes.topic(name)
        home, moving, there = await asyncio.gather(  # in this order: see naming
            self._session.get(where), self.reassigned(name), self.partitions(name)
        )
        numbers = sorted({*there, *moving})
        views = await asyncio.gather(
            *(self.partition(TopicPartition(name, number)) for number in numbers)
        )
        found = dict(zip(numbers, views, strict=True))
        return TopicNodes(
            version=ABSENT if home is None else ZkVersion(home[1].version),
            topic_id=_topic_id(where, home),
            partitions=found,
        )

    async def topics(self, watch: Callback | None = None) -> list[str]:
        """Return the names of all topics, in order."""
        return sorted(filter(is_legal, await self._session.children(znodes.TOPICS, watch)))

    async def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions, in order."""
        return _numbers(await self._session.children(znodes.topic(topic)))

    async def reassigned(self, topic: str, watch: Callback | None = None) -> list[int]:
        """Return the numbers of the partitions that are being created, moved or deleted."""
        return _numbers(await self._session.children(nodes.reassigned(topic), watch))

    async def reassigned_topics(self, watch: Callback | None = None) -> tuple[str, ...]:
        """Return the topics that have, or had, such partitions."""
        names = await self._session.children(nodes.REASSIGNED, watch)
        return tuple(sorted(filter(is_legal, names)))

    async def reassignments(self, watch: Callback | None = None) -> dict[TopicPartition, Assigned]:
        """Return the content of ``/brokers/partitions_reassigned``. ``watch`` is called when that
        changes."""
        found = {}
        for topic in await self.reassigned_topics(watch):
            for number in await self.reassigned(topic, watch):
                tp = TopicPartition(topic, number)
                where = nodes.path(Node(Kind.REASSIGNED, tp))
                order = understood(_assigned, where, await self._session.get(where))
                if order is not None:
                    found[tp] = order
        return found

    async def assigned(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """Return the replicas of all partitions of these topics."""
        named = list(topics)
        numbers = await asyncio.gather(*(self.partitions(topic) for topic in named))
        tps = [
            TopicPartition(topic, number)
            for topic, its in zip(named, numbers, strict=True)
            for number in its
        ]
        paths = [nodes.path(Node(Kind.REPLICAS, tp)) for tp in tps]
        stored = await asyncio.gather(*map(self._session.get, paths))
        found = {
            tp: understood(_assigned, path, node)
            for tp, path, node in zip(tps, paths, stored, strict=True)
        }
        return {tp: assigned.replicas for tp, assigned in found.items() if assigned is not None}

    async def naming(
        self, broker: BrokerId, *, removing: bool = False
    ) -> frozenset[TopicPartition]:
        """Return the partitions of which this broker has, or will have, a replica.

        With ``removing``, include those of which it will lose one when a reassignment ends.
        """
        # In this order: a creation that completes between the two reads moves a partition from
        # there to here. In the other order, a broker that starts at that moment would not host it.
        # It would not be told to again: it had taken that out of its queue before it was killed.
        orders = await self.reassignments()
        moving = {
            tp: (*order.replicas, *(order.removing if removing else ()))
            for tp, order in orders.items()
        }
        assigned = await self.assigned(await self.topics())
        return frozenset(
            tp for found in (assigned, moving) for tp, ids in found.items() if broker in ids
        )

    async def sync(self) -> None:
        """Ensure that later reads are no older than any earlier answer."""
        await self._session.sync(znodes.BROKER_IDS)

    # --- brokers ----------------------------------------------------------------------------

    async def live(self, watch: Callback | None = None) -> frozenset[BrokerId]:
        """Return the registered brokers. ``watch`` is called when some come or go."""
        names = await self._session.children(znodes.BROKER_IDS, watch)
        ids = (understood(znodes.decode_broker_id, name) for name in names)
        return frozenset(broker for broker in ids if broker is not None)

    async def queue(
        self, broker: BrokerId, watch: Callback | None = None
    ) -> tuple[QueuedRequest, ...]:
        """Return a broker's queue, and remove malformed entries. ``watch`` is called when an entry
        is put in or taken out."""
        where = nodes.queue(broker)
        # In one request: with two, a long queue far from ZooKeeper is read half as fast.
        unordered, czxid = await self._session.children_of(where, watch)
        names, made = sorted(unordered), czxid or 0
        former, entries = self._queued.get(broker, (made, {}))
        known = entries if former == made else {}
        new = [name for name in names if name not in known]
        read = await asyncio.gather(*(self._queued_request(where, name) for name in new))
        found = known | {entry.name: entry for entry in read if entry is not None}
        listed = {name: found[name] for name in names if name in found}
        self._queued[broker] = made, listed
        return tuple(listed.values())

    async def _queued_request(self, where: str, name: str) -> QueuedRequest | None:
        path = f"{where}/{name}"
        node = await self._session.get(path)
        if node is None:
            return None
        request = understood(nodes.decode_request, path, node[0])
        if request is None:
            await self._remove(path)
            return None
        return QueuedRequest(name=name, request=request)

    async def queue_size(self, broker: BrokerId) -> int:
        """Return how many requests wait in a broker's queue."""
        stat = await self.exists(nodes.queue(broker))
        return 0 if stat is None else int(stat.numChildren)

    async def depths(self) -> Mapping[BrokerId, int]:
        """Return how many requests wait, by broker."""
        names = sorted(await self._session.children(nodes.STATE), key=lambda n: (len(n), n))
        brokers = [BrokerId(int(name)) for name in names if name.isascii() and name.isdigit()]
        stats = await asyncio.gather(*(self.exists(nodes.queue(broker)) for broker in brokers))
        return {
            broker: stat.numChildren
            for broker, stat in zip(brokers, stats, strict=True)
            if stat is not None
        }

    async def exists(self, path: str, watch: Callback | None = None) -> Any:
        """Return the node's stat, or None when it does not exist. ``watch`` is called when it is
        created, too."""
        armed = self._session.watch(watch)
        return await self._session.request(lambda client: client.exists_async(path, armed))

    async def changed(self, paths: Iterable[str], watch: Callback) -> None:
        """Set ``watch`` on the children of those of these nodes that exist."""
        await asyncio.gather(*(self._session.children(path, watch) for path in paths))

    async def _remove(self, path: str) -> None:
        try:
            await self._session.request(partial(_delete, path))
        except NoNodeError:
            return


def _delete(path: str, client: KazooClient) -> Any:
    return client.delete_async(path)


def _numbers(names: Iterable[str]) -> list[int]:
    numbers = map(nodes.partition_number, names)
    return sorted(number for number in numbers if number is not None)


def _topic_id(path: str, node: Stored) -> uuid.UUID | None:
    return None if node is None else understood(nodes.decode_topic_id, path, node[0])


def _assigned(path: str, node: Stored) -> Assigned | None:
    if node is None:
        return None
    data, stat = node
    return Assigned(
        replicas=nodes.decode_ids(path, data),
        version=ZkVersion(stat.version),
        removing=nodes.decode_removing(path, data),
        created=stat.czxid,
    )


def _leader(path: str, node: Stored) -> LeaderNode | None:
    if node is None:
        return None
    broker, epoch = nodes.decode_leader(path, node[0])
    stat = node[1]
    return LeaderNode(
        broker=broker, epoch=epoch, owner=stat.ephemeralOwner, version=ZkVersion(stat.version)
    )


def _isr(path: str, node: Stored) -> IsrNode | None:
    if node is None:
        return None
    isr, epoch = nodes.decode_isr(path, node[0])
    return IsrNode(isr=isr, epoch=epoch, version=ZkVersion(node[1].version))


# --- writes ---------------------------------------------------------------------------------------
#
# Writes of several nodes, all or none.
#
# The operations of :mod:`broker.coordination` do not always describe the tree: "parents are created
# as needed", "with all that is in it". ZooKeeper's transactions do: each operation creates, sets,
# deletes or checks one node. The tree is therefore read first, and a transaction is built on that
# guess. If it fails at a guess, another write was faster, and the transaction is built again.


GUESSES_MAX: Final = 100
"""The number of faster other writes after which a write is rejected. Its author can handle that."""

Settings = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The outcome of a write. ``queued`` has the names that requests got in their queues."""

    result: events.Result
    versions: Mapping[Node, ZkVersion]
    queued: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation of a transaction. If it is ``guessed``, its author does not claim that it
    fits."""

    apply: Callable[[Any], None]
    guessed: bool = False
    put: Node | None = None
    queued: bool = False
    makes: str | None = None
    """A parent node, which several operations of a write may need."""


NOTHING_DONE: Final = WriteOutcome(events.Result.REFUSED, {})
UNKNOWN: Final = WriteOutcome(events.Result.UNKNOWN, {})


class Writer:
    """Carries out writes in one broker's sessions. ``broker`` is the broker whose leaderships they
    claim, and ``new_uuid`` the source of topic ids."""

    def __init__(
        self,
        session: ZkSession,
        broker: BrokerId,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._session = session
        self._broker = broker
        self._new_uuid = new_uuid

    async def write(
        self,
        ops: Sequence[events.Op],
        session: SessionNumber | None,
        settings: Settings | None = None,
    ) -> WriteOutcome:
        """Write everything or nothing, in ``session`` (None: whichever is current when it is sent).

        ``settings`` are those of topics that the write creates. Raise nothing but ZkClosed.
        """
        try:
            if all(isinstance(op, events.Dequeue) for op in ops):
                return await self._dequeue(ops, session)
            for _ in range(GUESSES_MAX):
                steps = [step for op in ops for step in await self._steps(op, settings or {})]
                outcome = await self._commit(_once_each(steps), session)
                if outcome is not None:
                    await self._tidy(ops)
                    return outcome
        except OutcomeUnknown:
            return UNKNOWN
        return NOTHING_DONE

    async def give_id(self, topic: str) -> None:
        """Give an id to a topic that is older than topic ids. Several brokers that do so get the
        same id. Raise ZkClosed alone."""
        where = znodes.topic(topic)
        while (node := await self._session.get(where)) is not None and not node[0]:
            with contextlib.suppress(BadVersionError, NoNodeError, SessionExpired):
                session, version = self._session.number, node[1].version
                await self._session.set(where, self._new_id(), version, session)

    async def _commit(
        self, steps: Sequence[_Step], session: SessionNumber | None
    ) -> WriteOutcome | None:
        """Commit a transaction. Return None if a guess was wrong."""
        if not steps:
            return WriteOutcome(events.Result.DONE, {})

        def submit(client: KazooClient) -> Any:
            transaction = client.transaction()
            for step in steps:
                step.apply(transaction)
            return transaction.commit_async()

        results = await self._session.once(submit, session)
        for step, result in zip(steps, results, strict=True):
            if isinstance(result, RolledBackError | RuntimeInconsistency):
                continue
            if isinstance(result, KazooException):
                return None if step.guessed else NOTHING_DONE
        return WriteOutcome(
            events.Result.DONE,
            {
                step.put: ZkVersion(getattr(result, "version", 0))
                for step, result in zip(steps, results, strict=True)
                if step.put is not None
            },
            tuple(
                str(result).rpartition("/")[2]
                for step, result in zip(steps, results, strict=True)
                if step.queued
            ),
        )

    async def _dequeue(
        self, ops: Iterable[events.Op], session: SessionNumber | None
    ) -> WriteOutcome:
        """Remove entries one after the other: one that is gone already must not keep the others."""
        for op in ops:
            assert isinstance(op, events.Dequeue)
            where = f"{nodes.queue(op.broker)}/{op.name}"
            try:
                await self._session.once(partial(_delete_node, where), session)
            except NoNodeError:
                continue
        return WriteOutcome(events.Result.DONE, {})

    async def _tidy(self, ops: Iterable[events.Op]) -> None:
        """Remove topics from ``partitions_reassigned`` that have no partition left there."""
        topics = {
            op.node.partition.topic
            for op in ops
            if isinstance(op, events.Delete) and op.node.kind is Kind.REASSIGNED
        }
        for topic in sorted(topics):
            try:
                await self._session.once(partial(_delete_node, nodes.reassigned(topic)), None)
            except (KazooException, OutcomeUnknown):
                continue

    # --- what a write comes to --------------------------------------------------------------

    async def _steps(self, op: events.Op, settings: Settings) -> list[_Step]:
        match op:
            case events.PutIsr():
                data = nodes.encode_isr(op.isr, op.epoch)
                return await self._put(Node(Kind.ISR, op.partition), data, op.expected)
            case events.PutAssigned():
                data = nodes.encode_ids(op.replicas, op.removing)
                return await self._put(op.node, data, op.expected)
            case events.CreateTopic():
                where, data = znodes.topic(op.topic), self._new_id()
                new = op.expected == ABSENT
                return [
                    _Step(_create(where, data) if new else _set(where, data, op.expected)),
                    *await self._configure(op.topic, settings.get(op.topic, {})),
                ]
            case events.DeletePartition():
                return await self._remove_all(nodes.partition(op.partition))
            case events.RemoveBroker():
                # A transaction cannot require that a node be absent. Creating and deleting it has
                # the same effect.
                registered = znodes.broker_id(op.broker)
                absent = [
                    _Step(_create(registered, b"")),
                    _Step(_remove(registered, ANY_VERSION)),
                ]
                return [*absent, *await self._remove_all(nodes.queue(op.broker))]
            case events.DeleteTopic():
                home = znodes.topic(op.topic)
                steps = [_Step(_remove(home, op.expected))]
                if op.expected == ANY_VERSION:
                    steps = await self._remove_empty(home)
                for further in (znodes.topic_config, nodes.reassigned):
                    steps += await self._remove_empty(further(op.topic))
                return steps
            case _:
                return [self._step(op)]

    def _step(self, op: events.Op) -> _Step:
        """Return the step of an operation that describes the tree itself."""
        match op:
            case events.Check():
                return _Step(_check(nodes.path(op.node), op.expected))
            case events.TakeTopic():
                data = b"" if op.topic_id is None else nodes.encode_topic_id(op.topic_id)
                return _Step(_set(znodes.topic(op.topic), data, op.expected))
            case events.CreateLeader():
                node = Node(Kind.LEADER, op.partition)
                data = nodes.encode_leader(self._broker, op.epoch)
                return _Step(_create(nodes.path(node), data, ephemeral=True), put=node)
            case events.SetLeader():
                node = Node(Kind.LEADER, op.partition)
                data = nodes.encode_leader(self._broker, op.epoch)
                return _Step(_set(nodes.path(node), data, ANY_VERSION), put=node)
            case events.Delete():
                return _Step(_remove(nodes.path(op.node), op.expected))
            case events.Enqueue():
                where = f"{nodes.queue(op.broker)}/{nodes.REQUEST}"
                data = nodes.encode_request(op.request)
                return _Step(_create(where, data, sequence=True), queued=True)
            case events.Dequeue():
                return _Step(_remove(f"{nodes.queue(op.broker)}/{op.name}", ANY_VERSION))
            case _:
                raise TypeError(f"unknown operation {op!r}")

    async def _put(self, node: Node, data: bytes, expected: ZkVersion) -> list[_Step]:
        where, above = nodes.path(node), nodes.parent(node)
        if expected not in (ABSENT, ANY_VERSION):
            return [_Step(_set(where, data, expected), put=node)]
        if expected == ANY_VERSION and await self._exists(where):
            return [_Step(_set(where, data, ANY_VERSION), guessed=True, put=node)]
        missing = [_Step(_create(above, b""), guessed=True, makes=above)]
        if await self._exists(above):
            missing = []
        taken = expected == ANY_VERSION
        return [*missing, _Step(_create(where, data), guessed=taken, put=node)]

    def _new_id(self) -> bytes:
        return nodes.encode_topic_id(self._new_uuid())

    async def _configure(self, topic: str, settings: Mapping[str, str]) -> list[_Step]:
        """Return the steps for a topic's settings. Those of a former topic of that name are
        replaced."""
        where, data = znodes.topic_config(topic), znodes.encode_config(settings)
        if await self._exists(where):
            return [_Step(_set(where, data, ANY_VERSION), guessed=True)]
        return [_Step(_create(where, data), guessed=True)]

    async def _remove_all(self, where: str) -> list[_Step]:
        if not await self._exists(where):
            return []
        below = sorted(await self._session.children(where))
        return [
            _Step(_remove(each, ANY_VERSION), guessed=True)
            for each in (*(f"{where}/{name}" for name in below), where)
        ]

    async def _remove_empty(self, where: str) -> list[_Step]:
        stat = await self._exists(where)
        if stat is None or stat.numChildren:
            return []
        return [_Step(_remove(where, ANY_VERSION), guessed=True)]

    async def _exists(self, where: str) -> Any:
        return await self._session.request(lambda client: client.exists_async(where))


def _once_each(steps: Iterable[_Step]) -> list[_Step]:
    """Return the steps without those that create what an earlier one creates."""
    made: set[str] = set()
    kept = []
    for step in steps:
        if step.makes is None or step.makes not in made:
            kept.append(step)
        if step.makes is not None:
            made.add(step.makes)
    return kept


def _check(where: str, version: int) -> Callable[[Any], None]:
    return lambda transaction: transaction.check(where, version)


def _create(
    where: str, data: bytes, *, ephemeral: bool = False, sequence: bool = False
) -> Callable[[Any], None]:
    return lambda transaction: transaction.create(
        where, data, ephemeral=ephemeral, sequence=sequence
    )


def _set(where: str, data: bytes, version: int) -> Callable[[Any], None]:
    return lambda transaction: transaction.set_data(where, data, version=version)


def _remove(where: str, version: int) -> Callable[[Any], None]:
    return lambda transaction: transaction.delete(where, version=version)


def _delete_node(where: str, client: KazooClient) -> Any:
    return client.delete_async(where)
