"""``__consumer_offsets``: the partition of a group, its leader, and the creation of the topic.

The topic is created when a client first looks for a coordinator, never with fewer replicas than
``offsets.topic.replication.factor``. It is not compacted as in Kafka; see
:mod:`broker.server.groups.group_coordinator`.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.admin import Refused, Topics, TopicSpec, TopicStore, java_hash
from ackproof.broker.server.metadata_cache import BrokerMetadata, MetadataCache
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition


def partition_for(group: str, partitions: int) -> int:
    """Return the partition of ``__consumer_offsets`` that holds a group, as Kafka computes it."""
    code = java_hash(group)
    return (0 if code == -(2**31) else abs(code)) % partitions


async def count_partitions(store: TopicStore, config: BrokerConfig) -> int:
    """Return how many partitions the topic has, or will have when it is created."""
    return await store.partition_count(OFFSETS_TOPIC) or config.offsets_topic_num_partitions


class OffsetsTopic:
    """The topic as this broker knows it.

    ``partitions`` is their number, for as long as this broker runs, as in Kafka. The controller's
    metadata does not count, because a new controller first reports the partitions that have a
    state. If it had reported 20 of 50, a group of partition 12 would be in 2, commit there, and
    never see its offsets again.
    """

    def __init__(
        self, config: BrokerConfig, metadata: MetadataCache, topics: Topics, partitions: int
    ) -> None:
        self.partitions = partitions
        self._config = config
        self._metadata = metadata
        self._topics = topics

    def of(self, group: str) -> TopicPartition:
        """Return the partition with a group's records."""
        return TopicPartition(OFFSETS_TOPIC, partition_for(group, self.partitions))

    async def create_automatically(self) -> ErrorCode:
        """Create the topic for a client that named it in a request, with its own settings and not
        ``num.partitions``. Return the error for that client."""
        try:
            await self._topics.create(self._spec())
        except Refused as refused:
            if refused.error is ErrorCode.invalid_replication_factor:
                return refused.error
        return ErrorCode.leader_not_available

    async def coordinator(self, group: str) -> BrokerMetadata:
        """Return the broker that leads the group's partition.

        Raises:
            Refused: the topic cannot be created, or there is no leader now.
        """
        await self._metadata.refresh([OFFSETS_TOPIC])
        if OFFSETS_TOPIC not in self._metadata.topics:
            await self._topics.create(self._spec())
        topic, number = self.of(group)
        partition = self._metadata.topics.get(topic, {}).get(number)
        leader = self._metadata.brokers.get(partition.leader) if partition else None
        if leader is None:
            error = ErrorCode.coordinator_not_available
            raise Refused(error, f"{topic}-{number} has no leader yet.")
        return leader

    def _spec(self) -> TopicSpec:
        config = self._config
        return TopicSpec(
            name=OFFSETS_TOPIC,
            partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            config={
                "segment.bytes": str(config.offsets_topic_segment_bytes),
                "retention.ms": "-1",
                "retention.bytes": "-1",
            },
        )
