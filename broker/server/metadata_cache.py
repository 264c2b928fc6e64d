"""What this broker believes about the cluster: brokers, topics, who leads what.

Fed by the controller's UpdateMetadata alone, as in Kafka: it may be behind the truth, and it is
what Metadata requests are answered from. Where there is no controller, it is read from ZooKeeper
when somebody asks (:mod:`broker.server.coordination.zk_metadata`). Replication does not read it,
except to find out where a leader is reached. Clients are shown no topic ids; several listeners are
not handled.
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
    """A registered broker as clients are shown it."""

    id: BrokerId
    listener: Listener
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A partition as clients are shown it; ``leader`` is -1 when it has none."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class MetadataCache:
    """The latest UpdateMetadata of the controller, and a way to wait for it to change."""

    def __init__(self) -> None:
        self._brokers: dict[BrokerId, BrokerMetadata] = {}
        self._topics: dict[str, dict[int, PartitionMetadata]] = {}
        self._ids: dict[str, uuid.UUID | None] = {}
        self._controller = NO_LEADER
        self._epochs = NO_CONTROLLER_EPOCH, NO_BROKER_EPOCH
        self._changed = asyncio.Event()
        self.on_deleted: Callable[[Collection[str]], None] | None = None
        """Called with topics that are gone, where nobody's :meth:`update` says so."""

    @property
    def controller(self) -> BrokerId:
        """The controller's broker id; -1 before the first UpdateMetadata."""
        return self._controller

    @property
    def brokers(self) -> Mapping[BrokerId, BrokerMetadata]:
        """The registered brokers by id."""
        return MappingProxyType(self._brokers)

    @property
    def topics(self) -> Mapping[str, Mapping[int, PartitionMetadata]]:
        """Partitions by number, by topic."""
        return MappingProxyType(self._topics)

    @property
    def names(self) -> Collection[str]:
        """The names of all topics, also of those of whose partitions nothing is known."""
        return self._topics.keys()

    def __contains__(self, tp: TopicPartition) -> bool:
        return tp.partition in self._topics.get(tp.topic, {})

    def is_fresh(self, _topics: Collection[str] | None) -> bool:
        """Whether it holds what can be known of these topics (None: of all), and the brokers and
        the topics' names, without a :meth:`refresh`: once the controller has told of any of it.

        A broker that comes back within its session waits for its old node to go, seconds in which
        it listens and has heard nothing. A client that asked it then was shown a cluster without
        brokers, and librdkafka (2.16) forgot all that it knew, some clients for good.
        """
        return bool(self._brokers)

    async def refresh(self, topics: Collection[str] | None) -> None:
        """Returns when it holds what can be known, or nothing has come for :data:`FIRST_UPDATE_S`;
        see :meth:`is_fresh`."""
        if not self.is_fresh(topics):
            await self.wait_until(lambda: self.is_fresh(topics), FIRST_UPDATE_S)

    async def names_now(self) -> Collection[str] | None:
        """The names of all topics, none missing that there was when this was asked and this broker
        led something; None if nothing has come for :data:`FIRST_UPDATE_S`.

        A controller tells a broker in one row: of a topic before of leading a partition in which
        somebody has committed of it, and of all there are before anything else.
        """
        await self.refresh(None)
        return self.names if self.is_fresh(None) else None

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """Takes what the controller sent; returns the partitions that were deleted by it.

        A new registration is told everything anew, and by a new controller everybody is, with the
        first update: what was told before is dropped. A topic that was deleted between two
        registrations, or by a controller that died before all had heard of it, is in no update any
        more, and clients would be sent to its leader for as long as this broker runs. Nor would
        groups forget its offsets, which would count for the next topic of that name. So what was
        dropped, and is not told anew of the topic with the same id, was deleted, too, as in Kafka
        where a controller says that it tells all there is (KIP-866,
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
        # Of all that is left, and behind what was deleted: t-0 goes with all that was known of t,
        # and the same request tells of t-1.
        for topic in request.topic_states:
            if topic.topic_name in self._topics:
                self._ids[topic.topic_name] = topic.topic_id
        self._notify()
        return tuple(deleted)

    def _dropped(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """Drops what others have told, or what was told of a former registration; which of it was
        deleted."""
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
        """These are registered, and no others."""
        self._brokers = {broker.id: broker for broker in brokers}

    def _notify(self) -> None:
        """Those who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(
        self, condition: Callable[[], bool], timeout_s: float, _topics: Collection[str] = ()
    ) -> bool:
        """Waits until ``condition``, which looks at these topics, holds; looks after each update.
        False: time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            return condition()
        return True

    def _update_partition(self, topic: str, state: UpdateMetadataPartitionState) -> bool:
        """False if the update says that the partition is deleted."""
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
