"""Reads ZooKeeper for :mod:`broker.coordination`, and converts the nodes into its values."""

import asyncio
import logging
import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ackproof.broker.coordination.admin_steps import TopicNodes
from ackproof.broker.coordination.nodes import (
    ABSENT,
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
from ackproof.broker.server.zk.session import Callback, ZkSession
from ackproof.broker.server.zk.znodes import understood
from ackproof.broker.types import BrokerId, TopicPartition, ZkVersion

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
