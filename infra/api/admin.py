"""What an administrator can order a running cluster to do.

An order that is refused is given again until its time is up: a controller that is being elected, or
a broker that is on its way back, refuses today what it will do in a moment. Orders are therefore
such as may be given twice.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol


class Election(StrEnum):
    """Whom an election is to make the leader."""

    PREFERRED = "preferred"
    """The first of the assignment, if it is in sync."""
    UNCLEAN = "unclean"
    """Any replica that is online, where none of the ISR is."""


class OrderRefused(Exception):
    """The cluster refused it for as long as it was asked. It has not been carried out."""


class NoSuchTopic(OrderRefused):
    """There is no such topic, or no such partition of it."""


class NoAnswer(Exception):
    """Nobody has answered in time. It may have been carried out, or may yet be."""


class Admin(Protocol):
    """Gives orders, each for at most ``within_s`` seconds; thread-safe. Brokers are ``broker.id``s.

    All raise OrderRefused and NoAnswer.
    """

    @property
    def answer_ms(self) -> int:
        """How long an order may take, where nothing is in its way."""

    def reassign(
        self, topic: str, partition: int, replicas: Sequence[int], within_s: float
    ) -> None:
        """Begin to move a partition to these replicas, the preferred one first; a move that is
        under way goes there instead. That it has ended, ZooKeeper tells. Raises NoSuchTopic."""

    def elect(self, election: Election, topic: str, partition: int, within_s: float) -> bool:
        """Have a leader elected; False where there was no need to."""

    def create_topic(
        self, topic: str, assignment: Sequence[Sequence[int]], within_s: float
    ) -> None:
        """Make a topic, with the replicas of each partition; nothing where there is one of that
        name."""

    def grow_topic(self, topic: str, partitions: int, within_s: float) -> None:
        """Give a topic more partitions, so that it has that many; nothing where it has."""

    def delete_topic(self, topic: str, within_s: float) -> None:
        """Delete a topic; nothing where there is none."""

    def set_topic_config(self, topic: str, name: str, value: str | None, within_s: float) -> None:
        """Set one of the topic's own settings; None: it has the broker's from now on."""

    def topic_config(self, topic: str) -> Mapping[str, str]:
        """The topic's own settings, as ZooKeeper has them now. Raises
        ``infra.api.interface.ViewUnavailable``."""

    def append(self, topic: str, partition: int, records: int, within_s: float) -> None:
        """Write so many records that nobody counts."""

    def delete_records(self, topic: str, partition: int, before: int, within_s: float) -> None:
        """Delete the records below an offset."""

    def log_start(self, topic: str, partition: int, within_s: float) -> int:
        """The first offset that the partition's leader has."""
