"""Which brokers get the replicas of a new topic.

Without racks the seeds' algorithm (seed 000, "How to distribute all replica evenly across the
cluster"): of n sorted brokers, partition i goes first to broker i mod n, its j-th replica to
broker (i + j) mod n. With racks the brokers are first put into an order that alternates between
racks, and replicas avoid racks and brokers already used (KIP-36, ``AdminUtils``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from broker.types import BrokerId


class InvalidReplicationFactor(ValueError):
    """More replicas asked for than there are brokers, or none."""


def assign_replicas(
    brokers: Mapping[BrokerId, str | None],
    partitions: int,
    replication_factor: int,
    first_partition: int = 0,
    start: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replicas by partition, the preferred one first.

    Args:
        brokers: the live brokers with their racks.
        partitions: how many, from ``first_partition`` on (not 0 when a topic is extended).
        start: where in the order of brokers partition 0 begins; another for each topic, or all
            topics of one partition would be led by the same broker. Kafka draws it at random.

    Raises:
        InvalidReplicationFactor: not between 1 and the number of brokers.
    """
    if not 1 <= replication_factor <= len(brokers):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor}: must be between 1 and the number of live "
            f"brokers, {len(brokers)}"
        )
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    numbers = range(first_partition, first_partition + partitions)
    if len(racks) < len(brokers):
        ordered = sorted(brokers)
        return {
            i: tuple(ordered[(start + i + j) % len(ordered)] for j in range(replication_factor))
            for i in numbers
        }
    ordered = alternating(racks)
    return {i: _across_racks(start + i, ordered, racks, replication_factor) for i in numbers}


def assign_more(
    brokers: Mapping[BrokerId, str | None],
    existing: Mapping[int, Sequence[BrokerId]],
    added: int,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replicas of further partitions of a topic, as if it had been created with all of them.

    Args:
        brokers: the live brokers with their racks.
        existing: the replicas of all its partitions.

    Raises:
        InvalidReplicationFactor: the topic has more replicas than there are brokers now.
    """
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    ordered = sorted(brokers) if len(racks) < len(brokers) else alternating(racks)
    first = existing[0][0]
    return assign_replicas(
        brokers,
        added,
        replication_factor=len(existing[0]),
        first_partition=len(existing),
        start=ordered.index(first) if first in ordered else 0,
    )


def alternating(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Brokers so that neighbours are in different racks as long as possible.

    E.g. racks ``{0: a, 1: a, 2: b, 3: b}`` give ``[0, 2, 1, 3]``.
    """
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _across_racks(
    partition: int,
    ordered: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    replication_factor: int,
) -> tuple[BrokerId, ...]:
    """Take brokers in order from the partition's own start. A rack is used again only when every
    rack has been used as often. Partitions of later rounds skip further, so that followers of one
    leader are not always the same brokers."""
    size = len(ordered)
    start, lap = partition % size, partition // size
    others = [ordered[(start + 1 + (j + lap) % (size - 1)) % size] for j in range(size - 1)]
    chosen = [ordered[start]]
    while len(chosen) < replication_factor:
        used = Counter(racks[broker] for broker in chosen)
        free = {broker: used[racks[broker]] for broker in others if broker not in chosen}
        chosen.append(min(free, key=free.__getitem__))
    return tuple(chosen)
