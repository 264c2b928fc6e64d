"""Where partitions are in a cluster that is not there yet."""

from collections.abc import Iterable, Mapping, Sequence

from ackproof.infra.api.interface import ClusterView, PartitionView
from ackproof.infra.api.metadata import CONTROLLER_IDS
from ackproof.nemesis.interface import Members


def planned_view(members: Members, topics: Mapping[str, tuple[Iterable[int], int]]) -> ClusterView:
    """A cluster as it may be at first: each partition on brokers that follow each other, all in
    sync, the first of them leading. ``topics``: of each the numbers of its partitions, and of how
    many replicas they are."""
    brokers = [number for number, name in members.by_id.items() if name in members.brokers]
    return ClusterView(
        brokers=dict.fromkeys(brokers, 0),
        controller=CONTROLLER_IDS + 1 if members.kraft and not members.combined else brokers[0],
        controller_epoch=1,
        partitions={
            (topic, number): _planned(topic, number, replicas, brokers)
            for topic, (numbers, replicas) in topics.items()
            for number in numbers
        },
    )


def _planned(topic: str, number: int, replicas: int, brokers: Sequence[int]) -> PartitionView:
    first = number % len(brokers)
    there = tuple([*brokers[first:], *brokers[:first]][:replicas])
    return PartitionView(
        topic=topic,
        partition=number,
        leader=there[0],
        isr=there,
        replicas=there,
        leader_epoch=0,
        controller_epoch=1,
    )
