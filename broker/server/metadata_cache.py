"""The broker's knowledge of the cluster: brokers, topics and leaders.

It is fed only by the controller's UpdateMetadata, as in Kafka. It may be out of date, and it
answers Metadata requests. Without a controller it is read from ZooKeeper on request
(:mod:`broker.server.coordination.zk_metadata`). Replication does not read it, except for the
address of a leader. Not handled: topic ids for clients, and several listeners.
"""

import asyncio
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ackproof.broker.config import Listener
from ackproof.broker.types import (
    LEADER_DURING_DELETE,
    NO_BROKER_EPOCH,
    NO_CONTROLLER_EPOCH,
    NO_LEADER,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
)
from ackproof.broker.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

FIRST_UPDATE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadata:
    """A registered broker in the form in which clients see it."""

    id: BrokerId
    listener: Listener
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A partition in the form in which clients see it. ``leader`` is -1 when it has none."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class MetadataCache:
    """The latest UpdateMetadata of the controller, and a way to wait for changes."""

    def __init__(self) -> None:
        self._brokers: dict[BrokerId, BrokerMetadata] = {}
        self._topics: dict[str, dict[int, PartitionMetadata]] = {}
        self._ids: dict[str, uuid.UUID | None] = {}
        self._controller = NO_LEADER
        self._epochs = NO_CONTROLLER_EPOCH, NO_BROKER_EPOCH
        self._changed = asyncio.Event()
        self.on_deleted: Callable[[Collection[str]], None] | None = None
        """Called with topics that are gone, if :meth:`update` does not report it."""

    @property
    def controller(self) -> BrokerId:
        """The controller's broker id, -1 before the first UpdateMetadata."""
        return self._controller

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerMetadata]:
        """The registered brokers by id."""
        return MappingProxyType(self._brokers)

    @property
    def topics(self) -> Mapping[str, Mapping[int, PartitionMetadata]]:
        """The partitions by topic and number."""
        return MappingProxyType(self._topics)

    @property
    def names(self) -> Collection[str]:
        """The names of all topics, including those whose partitions are unknown."""
        return self._topics.keys()

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp.partition in self._topics.get(tp.topic, {})

    def is_fresh(self, _topics: Collection[str] | None) -> bool:
        """Return whether the cache holds what can be known without a :meth:`refresh`.

        This concerns these topics (None: all), the brokers, and the topics' names. It is so once
        the controller has sent any of it. A broker that comes back within its session waits for its
        old node to vanish. In these seconds it listens and has heard nothing. A client that asked
        it then saw a cluster without brokers. librdkafka (2.16) forgot all that it knew, in some
        clients for good.
        """
        return bool(self._brokers)

    async def refresh(self, topics: Collection[str] | None) -> None:
        """Return when the cache holds what can be known, or nothing has come for
        :data:`FIRST_UPDATE_S`; see :meth:`is_fresh`."""
        if not self.is_fresh(topics):
            await self.wait_until(lambda: self.is_fresh(topics), FIRST_UPDATE_S)

    async def names_now(self) -> Collection[str] | None:
        """Return the names of all topics, or None if nothing has come for :data:`FIRST_UPDATE_S`.

        No topic is missing that existed when this was called and this broker led a partition. The
        controller's messages to a broker are ordered. It announces a topic before the leadership of
        a partition in which a group has committed offsets of the topic, and it announces all
        existing topics before anything else.
        """
        await self.refresh(None)
        return self.names if self.is_fresh(None) else None

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """Take over the controller's update, and return the partitions that it deletes.

        A new registration, or the first update of a new controller, begins with everything again,
        and earlier metadata is dropped. A topic may have been deleted between two registrations, or
        by a controller that died before all brokers were told. No later update names it. Clients
        would be sent to its leader for as long as this broker runs. Groups would keep its offsets,
        which would then count for the next topic of that name.

        So whatever was dropped, and is not announced again with the same topic id, counts as
        deleted. Kafka does the same when a controller announces a complete update (KIP-866,
        ``ZkMetadataCache.transformKRaftControllerFullMetadataRequest``).
        """
        deleted = self._dropped(request)
        self._controller = request.controller_id
        self._see(
            BrokerMetadata(
                id=broker.id,
                listener=Listener(broker.endpoints[0].host, broker.endpoints[0].port),
                rack=broker.rack,
            )
            for broker in request.live_brokers
        )
        deleted += [
            TopicPartition(topic.topic_name, state.partition_index)
            for topic in request.topic_states
            for state in topic.partition_states
            if not self._update_partition(topic.topic_name, state)
        ]
        # This applies to all that is left, after the deletions: t-0 is removed with all that was
        # known of t, and the same request announces t-1.
        for topic in request.topic_states:
            if topic.topic_name in self._topics:
                self._ids[topic.topic_name] = topic.topic_id
        self._notify()
        return tuple(deleted)

    def _dropped(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Drop the metadata of another controller or of a former registration, and return what of
        it was deleted."""
        epochs = request.controller_epoch, request.broker_epoch
        if epochs == self._epochs:
            return []
        self._epochs = epochs
        (topics, self._topics), (ids, self._ids) = (self._topics, {}), (self._ids, {})
        stay = {topic.topic_name: topic.topic_id for topic in request.topic_states}
        return [
            TopicPartition(topic, number)
            for topic, partitions in topics.items()
            if topic not in stay or stay[topic] != ids[topic]
            for number in partitions
        ]

    def _see(self, brokers: Iterable[BrokerMetadata]) -> None:
        """Replace the registered brokers by these."""
        self._brokers = {broker.id: broker for broker in brokers}

    def _notify(self) -> None:
        """Wake the waiting tasks, which check their conditions again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(
        self, condition: Callable[[], bool], timeout_s: float, _topics: Collection[str] = ()
    ) -> bool:
        """Wait until ``condition``, which concerns these topics, holds; check it after each update.
        Return False on timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True

    def _update_partition(self, topic: str, state: UpdateMetadataPartitionState) -> bool:
        """Take over a partition. Return False if the update says that it is deleted."""
        if state.leader == LEADER_DURING_DELETE:
            partitions = self._topics.get(topic, {})
            partitions.pop(state.partition_index, None)
            if not partitions:
                self._topics.pop(topic, None)
                self._ids.pop(topic, None)
            return False
        self._topics.setdefault(topic, {})[state.partition_index] = PartitionMetadata(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr,
            offline_replicas=state.offline_replicas,
        )
        return True
