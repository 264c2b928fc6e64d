"""What is answered of partitions, as responses have it."""

from collections.abc import Mapping
from typing import TypeVar

from ackproof.broker.types import TopicPartition

T = TypeVar("T")


def by_topic(outcomes: Mapping[TopicPartition, T]) -> dict[str, list[tuple[int, T]]]:
    """Under each topic its partitions' numbers, all in order. E.g. ``{"t": [(0, a), (1, b)]}``."""
    topics: dict[str, list[tuple[int, T]]] = {}
    for topic, number in sorted(outcomes):
        outcome = outcomes[TopicPartition(topic, number)]
        topics.setdefault(topic, []).append((number, outcome))
    return topics
