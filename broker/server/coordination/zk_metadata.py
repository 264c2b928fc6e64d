"""The metadata cache where there is no controller: filled from ZooKeeper when somebody asks.

Seed 001 watches a partition's leader on the brokers that host it, and nowhere else; its count of
watches has no room for every broker to hear of every leader. So a broker that is asked about a
topic reads it, and remembers it for a moment: many clients ask at once, when a leader has failed.
Who is registered is watched (one watch a broker): followers have to reach their leaders. So are the
topics' names (one more): groups forget what they have committed of a topic when it is deleted, and
made again before somebody asks it would never have been away.
"""

import asyncio
from collections.abc import Callable, Collection

from ackproof.broker.config import Listener
from ackproof.broker.controller.cluster import LiveBroker
from ackproof.broker.coordination.nodes import PartitionView
from ackproof.broker.server.coordination.zk_reader import Reader
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
"""How old an answer may be at least."""

SHARE = 5
"""What took long to read counts as fresh for so many times that: no more than a fifth of a broker's
time goes into reading metadata, however often clients ask for all of it."""

FRESH_S_MAX = 2.0
"""But not for longer: it may have taken so long because ZooKeeper could not be reached."""

LOOK_S = 0.1
"""How often those look who wait for something to happen."""


class ZkMetadata(MetadataCache):
    """Reads on demand. The broker with the lowest id is named as the controller: clients send
    there what any broker would do."""

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
        """Told who is registered, whenever some come or go."""

    @property
    def names(self) -> Collection[str]:
        """As last read."""
        return self._names

    def __contains__(self, tp: TopicPartition) -> bool:
        """Of a topic of which no more is known than its name, every partition may exist."""
        known = self._topics.get(tp.topic)
        return tp.topic in self._names if known is None else tp.partition in known

    async def follow_brokers(self) -> None:
        """Keeps up with who is registered, for ever."""
        while True:
            self._look.clear()
            await self.read_brokers()
            await self._look.wait()

    async def read_brokers(self) -> None:
        """Who is registered now, and at which address."""
        registered = await self._zk.live_brokers(self._look.set)
        self._see(_live(broker) for _, broker in sorted(registered.items()))
        self._controller = min(registered, default=NO_LEADER)
        self._notify()
        if self.on_registered is not None:
            self.on_registered(frozenset(registered))

    async def follow_topics(self) -> None:
        """Keeps up with which topics there are, for ever."""
        changed = asyncio.Event()
        while True:
            changed.clear()
            await self._read_names(changed.set)
            await changed.wait()

    def is_fresh(self, topics: Collection[str] | None) -> bool:
        """Whether all that is asked for was read a moment ago, and somebody is registered.

        When ZooKeeper hangs for longer than all sessions last, whoever is back first finds nobody
        registered. Clients that it tells so forget all brokers (see the method that this one
        overrides).
        """
        now = _now()
        if not self._brokers or self._named_until < now:
            return False
        wanted = self._names if topics is None else self._names.intersection(topics)
        return all(self._until.get(topic, 0.0) >= now for topic in wanted)

    async def refresh(self, topics: Collection[str] | None) -> None:
        """Reads what is not fresh; waits as long as ZooKeeper cannot be reached, and for somebody
        to be registered :data:`FIRST_UPDATE_S`."""
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
        """Nobody tells of changes: looks again and again."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    await self.refresh(topics)
                    if condition():
                        return True
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            return condition()

    async def names_now(self) -> Collection[str]:
        """Read anew: those read a moment ago may lack a topic that another coordinator, from which
        this broker takes over just now, has taken commits of."""
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
        """Everybody who asks at the same time gets the same answer."""
        task = self._reading.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._read(topic))
            self._reading[topic] = task
            task.add_done_callback(lambda _: self._reading.pop(topic, None))
        return task

    async def _read(self, topic: str) -> None:
        """Of a topic that went meanwhile nothing is kept. Kept, it would never be forgotten, since
        only what has a name is: clients would be shown it, and nobody could make it again here."""
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
        """Of a leader the epoch that stands beside it. ``ISR`` is read after ``leader``: 1 dies and
        2 claims in between, and 1 would be shown as the leader of epoch 2, which is 2's."""
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
        """Groups may have committed of partitions that nobody has asked this broker about, and that
        it has not read therefore: with the name goes all that they have of it."""
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
