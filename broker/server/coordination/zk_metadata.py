"""The metadata cache without a controller, filled from ZooKeeper on request.

*Design V2* watches a partition's leader only on the brokers that host it. Its number of watches has
no room for every broker to hear of every leader. A broker that is asked about a topic therefore
reads it, and remembers it for a moment, because many clients ask at once when a leader has failed.

Registered brokers are watched (one watch a broker), because followers must reach their leaders. So
are the topics' names (one more): groups must forget the offsets of a deleted topic. If it were
created again before the next request, its absence would go unnoticed.
"""

import asyncio
from collections.abc import Callable, Collection

from ackproof.broker.config import Listener
from ackproof.broker.controller.cluster import LiveBroker
from ackproof.broker.coordination.nodes import PartitionView
from ackproof.broker.server.coordination.zk_nodes import Reader
from ackproof.broker.server.metadata_cache import (
    FIRST_UPDATE_S,
    BrokerMetadata,
    MetadataCache,
    PartitionMetadata,
)
from ackproof.broker.server.zk.kafka_zk import KafkaZk
from ackproof.broker.server.zk.session import Callback
from ackproof.broker.types import NO_EPOCH, NO_LEADER, BrokerId, TopicPartition

FRESH_S = 0.1
"""The smallest age that an answer may have."""

SHARE = 5
"""The factor by which the time of a read gives the time for which it counts as fresh. No more than
a fifth of a broker's time goes into reading metadata, however often clients ask for all of it."""

FRESH_S_MAX = 2.0
"""The limit of that time. The read may have been slow because ZooKeeper could not be reached."""

CHECK_INTERVAL_S = 0.1
"""The interval at which waiting tasks check their conditions."""


class ZkMetadata(MetadataCache):
    """The metadata cache that reads on demand. It names the broker with the lowest id as the
    controller. Clients send there what any broker would do."""

    def __init__(self, zk: KafkaZk, reader: Reader) -> None:
        super().__init__()
        self._zk = zk
        self._reader = reader
        self._names: set[str] = set()
        self._named_until = 0.0
        self._until: dict[str, float] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._look = asyncio.Event()
        self.on_registered: Callable[[frozenset[BrokerId]], None] | None = None
        """Called with the registered brokers, whenever some come or go."""

    @property
    def names(self) -> Collection[str]:
        """The names of the topics, as last read."""
        return self._names

    def __contains__(self, tp: TopicPartition) -> bool:
        """Return whether the partition may exist. If only its topic's name is known, any partition
        may."""
        known = self._topics.get(tp.topic)
        return tp.topic in self._names if known is None else tp.partition in known

    async def follow_brokers(self) -> None:
        """Follow the registered brokers for ever."""
        while True:
            self._look.clear()
            await self.read_brokers()
            await self._look.wait()

    async def read_brokers(self) -> None:
        """Read the registered brokers and their addresses."""
        registered = await self._zk.live_brokers(self._look.set)
        self._see(_live(broker) for _, broker in sorted(registered.items()))
        self._controller = min(registered, default=NO_LEADER)
        self._notify()
        if self.on_registered is not None:
            self.on_registered(frozenset(registered))

    async def follow_topics(self) -> None:
        """Follow the names of the topics for ever."""
        changed = asyncio.Event()
        while True:
            changed.clear()
            await self._read_names(changed.set)
            await changed.wait()

    def is_fresh(self, topics: Collection[str] | None) -> bool:
        """Return whether everything requested was read a moment ago, and a broker is registered.

        When ZooKeeper hangs for longer than all sessions last, the first broker that is back finds
        no registered broker. Clients that are told so forget all brokers (see the overridden
        method).
        """
        now = _now()
        if not self._brokers or self._named_until < now:
            return False
        wanted = self._names if topics is None else self._names.intersection(topics)
        return all(self._until.get(topic, 0.0) >= now for topic in wanted)

    async def refresh(self, topics: Collection[str] | None) -> None:
        """Read what is not fresh. Wait as long as ZooKeeper cannot be reached, and up to
        :data:`FIRST_UPDATE_S` for a registered broker."""
        if not self._brokers:
            await super().wait_until(lambda: bool(self._brokers), FIRST_UPDATE_S)
        if self._named_until < _now():
            await self._read_names()
        wanted = self._names if topics is None else self._names.intersection(topics)
        now = _now()
        stale = sorted(topic for topic in wanted if self._until.get(topic, 0.0) < now)
        await asyncio.gather(*(asyncio.shield(self._read_once(topic)) for topic in stale))

    async def wait_until(
        self, condition: Callable[[], bool], timeout_s: float, topics: Collection[str] = ()
    ) -> bool:
        """Check the condition again and again, because changes are not announced."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await self.refresh(topics)
                    if condition():
                        return True
                    await asyncio.sleep(CHECK_INTERVAL_S)
        except TimeoutError:
            return condition()

    async def names_now(self) -> Collection[str]:
        """Read the names again. The names read a moment ago may lack a topic for which the former
        coordinator, from which this broker is taking over, has accepted commits."""
        await self._read_names()
        return self._names

    async def _read_names(self, watch: Callback | None = None) -> None:
        began = _now()
        names = set(await self._reader.topics(watch))
        for gone in sorted(self._names - names):
            self._forget(gone)
        self._names = names
        self._named_until = _fresh_until(began)

    def _read_once(self, topic: str) -> asyncio.Task[None]:
        """Return the task that reads a topic. Simultaneous requests share it."""
        task = self._reading.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._read(topic))
            self._reading[topic] = task
            task.add_done_callback(lambda _: self._reading.pop(topic, None))
        return task

    async def _read(self, topic: str) -> None:
        """Read a topic. If it was deleted meanwhile, nothing is kept. Otherwise it would never be
        forgotten, because only named topics are. Clients would see it, and it could not be created
        again here."""
        began = _now()
        tps = [TopicPartition(topic, number) for number in await self._reader.partitions(topic)]
        views = await asyncio.gather(*map(self._reader.partition, tps))
        known = {
            tp.partition: self._shown(view)
            for tp, view in zip(tps, views, strict=True)
            if view.replicas is not None
        }
        if topic not in self._names:
            return
        if known:
            self._topics[topic] = known
        else:
            self._topics.pop(topic, None)
        self._until[topic] = _fresh_until(began)
        self._notify()

    def _shown(self, view: PartitionView) -> PartitionMetadata:
        """Return a partition for clients, with the leader's own epoch. ``ISR`` is read after
        ``leader``. If broker 1 dies and broker 2 claims in between, broker 1 would be shown as the
        leader of epoch 2, which is broker 2's."""
        leader, epoch = NO_LEADER, view.isr.epoch if view.isr else NO_EPOCH
        if view.leader is not None and view.leader.broker in self._brokers:
            leader, epoch = view.leader.broker, view.leader.epoch
        return PartitionMetadata(
            leader=leader,
            leader_epoch=epoch,
            replicas=view.assigned,
            isr=view.isr.isr if view.isr else (),
            offline_replicas=tuple(b for b in view.assigned if b not in self._brokers),
        )

    def _forget(self, topic: str) -> None:
        """Forget a topic. Groups may have committed offsets of partitions that this broker was
        never asked about, and has therefore not read. With the name they lose all offsets of the
        topic."""
        self._topics.pop(topic, None)
        self._until.pop(topic, None)
        if self.on_deleted is not None:
            self.on_deleted([topic])


def _live(broker: LiveBroker) -> BrokerMetadata:
    endpoint = broker.info.endpoints[0]
    return BrokerMetadata(
        id=broker.info.broker_id,
        listener=Listener(endpoint.host, endpoint.port),
        rack=broker.info.rack,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()


def _fresh_until(began: float) -> float:
    now = _now()
    return now + min(max(FRESH_S, SHARE * (now - began)), FRESH_S_MAX)
