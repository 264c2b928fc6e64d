"""The orders that an administrator can give to a running cluster.

A refused order is repeated until its time is up. A controller that is being elected, or a broker
that is starting, refuses an order that it carries out a moment later. It must therefore be harmless
to give an order twice.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol


class Election(StrEnum):
    """The replica that an election makes the leader."""

    PREFERRED = "preferred"
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = "unclean"
    """Any replica that is online, if no replica of the ISR is."""


class OrderRefused(Exception):
    """The cluster refused the order until its time was up. It has not been carried out."""


class NoSuchTopic(OrderRefused):
    """The topic, or the partition of it, does not exist."""


class AdminTimeout(Exception):
    """No broker answered in time. The order may have been carried out, or may yet be."""


class Admin(Protocol):
    """An administrator of the cluster, which gives each order for at most ``within_s`` seconds.

    It is thread-safe. Brokers are ``broker.id``s. All methods raise OrderRefused and NoAnswer.
    """

    @property
    def answer_ms(self) -> int:
        """Return how many milliseconds an order may take if nothing delays it."""

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], within_s: float
    ) -> None:
        """Begin to move a partition to these replicas, the preferred one first.

        A move in progress is redirected. ZooKeeper shows when it has ended. Raises NoSuchTopic.
        """

    def elect(self, election: Election, topic: str, partition: int, within_s: float) -> bool:
        """Have a leader elected. Return whether an election was needed."""

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        """Create a topic with the replicas of each partition, unless it exists."""

    def grow_topic(self, topic: str, partitions: int, within_s: float) -> None:
        """Give a topic so many partitions, unless it has them."""

    def delete_topic(self, topic: str, within_s: float) -> None:
        """Delete a topic if it exists."""

    def set_topic_config(self, topic: str, name: str, value: str | None, within_s: float) -> None:
        """Set one of the topic's own settings; with None the broker's setting applies from now
        on."""

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """Return the topic's own settings, as ZooKeeper has them now.

        Raises ``infra.api.interface.ViewUnavailable``.
        """

    def append(self, topic: str, partition: int, records: int, within_s: float) -> None:
        """Write so many records that no workload counts."""

    def delete_records(self, topic: str, partition: int, before: int, within_s: float) -> None:
        """Delete the records below an offset."""

    def log_start(self, topic: str, partition: int, within_s: float) -> int:
        """Return the first offset that the partition's leader has."""
