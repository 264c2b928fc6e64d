"""What :mod:`broker.coordination` wants to know of ZooKeeper, read and put into its words."""

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
"""A node's data and stat."""


class Reader:
    """Reads in whichever session there is, again and again until it is answered."""

    def __init__(self, session: ZkSession) -> None:
        self._session = session
        self._queued: dict[BrokerId, tuple[int, dict[str, QueuedRequest]]] = {}
        """What was in the queues when they were last read, by the transaction that made the queue:
        an entry never changes. The names of a queue that is made again begin anew."""

    # --- partitions -------------------------------------------------------------------------

    async def partition(self, tp: TopicPartition, watch: Callback | None = None) -> PartitionView:
        """A partition's nodes. ``watch`` is called when ``leader`` comes, changes or goes; where
        there are no ``replicas``, when these come, too. Where these come just then, once more when
        they change: ZooKeeper has no watch on what is not there alone.

        The requests are sent at once and answered in their order, the watch before the rest: what
        changes after it was set is heard of.
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
            # The id, too: it was there before them, and may not have been when it was read. Who
            # hosts the partition without it is asked by others for an id that it does not know.
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
        """A topic, with all of its partitions that have a node somewhere."""
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
        """The names of all topics, in order."""
        return sorted(filter(is_legal, await self._session.children(znodes.TOPICS, watch)))

    async def partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions, in order."""
        return _numbers(await self._session.children(znodes.topic(topic)))

    async def reassigned(self, topic: str, watch: Callback | None = None) -> list[int]:
        """The numbers of those that are being created, moved or deleted."""
        return _numbers(await self._session.children(nodes.reassigned(topic), watch))

    async def reassigned_topics(self, watch: Callback | None = None) -> tuple[str, ...]:
        """The topics of which there are such, or were."""
        names = await self._session.children(nodes.REASSIGNED, watch)
        return tuple(sorted(filter(is_legal, names)))

    async def reassignments(self, watch: Callback | None = None) -> dict[TopicPartition, Assigned]:
        """All of ``/brokers/partitions_reassigned``; ``watch`` is called when there are others."""
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
        """The replicas of all partitions of these topics."""
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
        """The partitions that this broker has, or is about to have, a replica of.

        ``removing``: and those of which it is to lose one when a reassignment ends.
        """
        # In this order: a creation that is completed between the two readings takes a partition
        # from there to here. The other way round a broker that starts just then hosts it not, nor
        # is it told to again: it had taken that out of its queue before it was killed.
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
        """Make sure that later reads are no older than any answer that was given before."""
        await self._session.sync(znodes.BROKER_IDS)

    # --- brokers ----------------------------------------------------------------------------

    async def live(self, watch: Callback | None = None) -> frozenset[BrokerId]:
        """Who is registered; ``watch`` is called when some come or go."""
        names = await self._session.children(znodes.BROKER_IDS, watch)
        ids = (understood(znodes.decode_broker_id, name) for name in names)
        return frozenset(broker for broker in ids if broker is not None)

    async def queue(
        self, broker: BrokerId, watch: Callback | None = None
    ) -> tuple[QueuedRequest, ...]:
        """A broker's queue; what in it makes no sense is removed. ``watch`` is called when
        something is put in or taken out."""
        where = nodes.queue(broker)
        # In one request: with two, a queue of many entries is read half as fast far from ZooKeeper.
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
        """How many requests wait in a broker's queue."""
        stat = await self.exists(nodes.queue(broker))
        return 0 if stat is None else int(stat.numChildren)

    async def depths(self) -> Mapping[BrokerId, int]:
        """How many requests wait, by broker."""
        names = sorted(await self._session.children(nodes.STATE), key=lambda n: (len(n), n))
        brokers = [BrokerId(int(name)) for name in names if name.isascii() and name.isdigit()]
        stats = await asyncio.gather(*(self.exists(nodes.queue(broker)) for broker in brokers))
        return {
            broker: stat.numChildren
            for broker, stat in zip(brokers, stats, strict=True)
            if stat is not None
        }

    async def exists(self, path: str, watch: Callback | None = None) -> Any:
        """The node's stat; None when it is not there. ``watch`` is called when it comes, too."""
        armed = self._session.watch(watch)
        return await self._session.request(lambda client: client.exists_async(path, armed))

    async def changed(self, paths: Iterable[str], watch: Callback) -> None:
        """Sets ``watch`` on the children of these nodes, where they are there."""
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
