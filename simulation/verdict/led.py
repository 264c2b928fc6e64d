"""Partitions of clients, and their leaders' replicas, for whoever asks them on purpose."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ackproof.broker.server.replication import partition as server
from ackproof.broker.server.topic_names import OFFSETS_TOPIC
from ackproof.broker.types import TopicPartition
from simulation.model.observer import Observer

Hosted = Callable[[int, TopicPartition], server.Partition | None]
"""The replica on a broker, if that lives and has one."""


class Led(NamedTuple):
    """A partition, and its leader's replica."""

    tp: TopicPartition
    leader: server.Partition

    @property
    def broker(self) -> int:
        return self.leader.replica.broker

    @property
    def start(self) -> int:
        return self.leader.log.log_start_offset

    @property
    def end(self) -> int:
        return self.leader.replica.high_watermark


def of_clients(observer: Observer) -> Iterator[TopicPartition]:
    """All but those of ``__consumer_offsets``."""
    return (tp for tp, _ in observer.partitions() if tp.topic != OFFSETS_TOPIC)


def led(observer: Observer, hosted: Hosted) -> list[Led]:
    """Those of them that are led."""
    return [
        Led(tp, replica)
        for tp, partition in observer.partitions()
        if tp.topic != OFFSETS_TOPIC and partition.state is not None
        if (replica := hosted(partition.state.leader, tp)) is not None
    ]
