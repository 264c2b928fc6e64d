"""Where topics are written down: what requests ask of it, whoever coordinates.

With a controller it is :class:`~broker.server.zk.kafka_zk.KafkaZk`, where the controller sees what
changed and does the rest. Without one it is
:class:`~broker.server.coordination.led_topics.LedTopics`, which says itself what is to be done, to
each broker concerned.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ackproof.broker.controller.cluster import TopicAssignment


class TopicStore(Protocol):
    """Topics and their assignments in ZooKeeper."""

    async def topics(self) -> set[str]:
        """The names of all topics."""

    async def has_topic(self, topic: str) -> bool:
        """Whether there is such a topic."""

    async def topic_assignments(self, topics: Iterable[str]) -> dict[str, TopicAssignment]:
        """The assignments of those topics that exist."""

    async def partition_count(self, topic: str) -> int:
        """How many partitions ``topic`` has, those with it that are still being made; 0: there is
        no such topic."""

    async def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], config: Mapping[str, str]
    ) -> None:
        """Make a topic with these replicas by partition, the preferred one first.

        Raises:
            TopicExists: also when another broker was faster.
            SessionExpired: unknown whether the topic was created.
        """

    async def add_partitions(self, topic: str, added: Mapping[int, Sequence[int]]) -> None:
        """Give ``topic`` further partitions; those it has stay as they are.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether they were added.
        """

    async def is_being_deleted(self, topic: str) -> bool:
        """Whether somebody has ordered ``topic`` to be deleted."""

    async def delete_topic(self, topic: str) -> None:
        """Order ``topic`` to be deleted.

        Raises:
            UnknownTopic: no such topic.
            SessionExpired: unknown whether it will be deleted.
        """
