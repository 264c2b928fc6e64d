"""``__consumer_offsets``: which partition a group belongs to, who leads it, and how it is made.

The topic is made when somebody first looks for a coordinator, never with fewer replicas than
``offsets.topic.replication.factor``. It is not compacted as in Kafka; see
:mod:`broker.server.groups.group_coordinator`.
"""

from kio.schema.errors import ErrorCode

from ackproof.broker.config import BrokerConfig
from ackproof.broker.server.admin.topics import Refused, Topics, TopicSpec, TopicStore, java_hash
from ackproof.broker.server.metadata_cache import BrokerMetadata, MetadataCache
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition


def partition_for(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that holds a group, as Kafka computes it."""
    code = java_hash(group)
    return (0 if code == -(2**31) else abs(code)) % partitions


async def count_partitions(store: TopicStore, config: BrokerConfig) -> int:
    """How many partitions the topic has, or will have when it is made."""
    return await store.partition_count(OFFSETS_TOPIC) or config.offsets_topic_num_partitions


class OffsetsTopic:
    """The topic as this broker knows it.

    ``partitions`` is how many it has, for as long as this broker runs, as in Kafka. What the
    controller says of them does not count: a new one first tells of those that have a state. With
    20 of 50 told, a group of partition 12 would be in 2, commit there, and never see it again.
    """

    def __init__(
        self, config: BrokerConfig, metadata: MetadataCache, topics: Topics, partitions: int
    ) -> None:
        self.partitions = partitions
        self._config = config
        self._metadata = metadata
        self._topics = topics

    def of(self, group: str) -> TopicPartition:
        """Where a group's records are."""
        return TopicPartition(OFFSETS_TOPIC, partition_for(group, self.partitions))

    async def create_automatically(self) -> ErrorCode:
        """Makes it for a client that asked about it by name, in its own shape and not as
        ``num.partitions`` says; returns what to tell that client."""
        try:
            await self._topics.create(self._spec())
        except Refused as refused:
            if refused.error is ErrorCode.invalid_replication_factor:
                return refused.error
        return ErrorCode.leader_not_available

    async def coordinator(self, group: str) -> BrokerMetadata:
        """The broker that leads the group's partition.

        Raises:
            Refused: the topic cannot be made, or there is no leader now.
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
