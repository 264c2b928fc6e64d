"""``__consumer_offsets``: which partition a group belongs to, who leads it, and how it is made.

The topic is made when somebody first looks for a coordinator, never with fewer replicas than
``offsets.topic.replication.factor``. It is not compacted as in Kafka; see
:mod:`broker.server.group_rewrite`.
"""

from kio.schema.errors import ErrorCode

from broker.config import BrokerConfig
from broker.server.java_hash import java_hash
from broker.server.metadata_cache import LiveBroker, MetadataCache
from broker.server.topic_names import OFFSETS_TOPIC
from broker.server.topics import Refused, Topics, TopicSpec
from broker.types import TopicPartition


def partition_for(group: str, partitions: int) -> int:
    """The partition of ``__consumer_offsets`` that holds a group, as Kafka computes it."""
    code = java_hash(group)
    return (0 if code == -(2**31) else abs(code)) % partitions


class OffsetsTopic:
    """The topic as this broker knows it."""

    def __init__(self, config: BrokerConfig, metadata: MetadataCache, topics: Topics) -> None:
        self._config = config
        self._metadata = metadata
        self._topics = topics

    @property
    def partitions(self) -> int:
        """How many it has, or will have."""
        known = self._metadata.topics.get(OFFSETS_TOPIC)
        return len(known) if known else self._config.offsets_topic_num_partitions

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

    async def coordinator(self, group: str) -> LiveBroker:
        """The broker that leads the group's partition.

        Raises:
            Refused: the topic cannot be made, or there is no leader now.
        """
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
