"""The assignment of a new topic's replicas to brokers.

Partition i of n sorted brokers goes first to broker i mod n (*HA design*, "How to distribute all
replicas evenly across the cluster"). The document puts replica j on broker (i + j) mod n. All
leaderships of a failed broker then go to its neighbour, although the document wants its load spread
over all others. The followers are therefore placed as in Kafka
(``AdminUtils.assignReplicasToBrokers``): they are shifted by one more broker after each round over
the brokers. The first round, without a shift, is the document's.

With racks, the brokers are first put into an order that alternates between racks, and replicas
avoid racks and brokers already used (KIP-36). Without racks, each broker counts as a rack of its
own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

from ackproof.broker.types import BrokerId


class InvalidReplicationFactor(ValueError):
    """A replication factor that is larger than the number of brokers, or smaller than 1."""


def assign_replicas(
    brokers: Mapping[BrokerId, str | None],
    partitions: int,
    replication_factor: int,
    first_partition: int = 0,
    start: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the replicas by partition, the preferred one first.

    Args:
        brokers: the live brokers with their racks.
        partitions: their number, from ``first_partition`` on (not 0 when a topic is extended).
        start: the place of partition 0 in the order of brokers, plus n for each broker by which
            its followers are shifted. It must differ between topics. Otherwise all topics of one
            partition have the same leader. Kafka draws both at random.

    Raises:
        InvalidReplicationFactor: not between 1 and the number of brokers.
    """
    if not 1 <= replication_factor <= len(brokers):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor}: must be between 1 and the number of live "
            f"brokers, {len(brokers)}"
        )
    ordered, racks = _order(brokers)
    size = len(ordered)
    return {
        number: _across_racks(
            ordered,
            racks,
            replication_factor,
            first=(start + number) % size,
            shift=start // size + number // size,
        )
        for number in range(first_partition, first_partition + partitions)
    }


def assign_more(
    brokers: Mapping[BrokerId, str | None],
    existing: Mapping[int, Sequence[BrokerId]],
    added: int,
) -> dict[int, tuple[BrokerId, ...]]:
    """Return the replicas of further partitions of a topic, as if it had been created with them.

    Args:
        brokers: the live brokers with their racks.
        existing: the replicas of all its partitions.

    Raises:
        InvalidReplicationFactor: the topic has more replicas than there are brokers now.
    """
    return assign_replicas(
        brokers,
        added,
        replication_factor=len(existing[0]),
        first_partition=len(existing),
        start=_start_of(brokers, existing),
    )


def _start_of(
    brokers: Mapping[BrokerId, str | None], existing: Mapping[int, Sequence[BrokerId]]
) -> int:
    """Return the ``start`` that explains the places of most of the first partitions. It need not
    explain all: other brokers may have been alive at the time, or replicas may have been moved."""
    ordered, _ = _order(brokers)
    size, factor, first = len(ordered), len(existing[0]), existing[0][0]
    if first not in ordered or factor > size:
        return 0
    looked_at = range(min(size, len(existing)))

    def matching_partitions(start: int) -> int:
        assigned = assign_replicas(brokers, len(looked_at), factor, start=start)
        return sum(assigned[number] == tuple(existing[number]) for number in looked_at)

    unshifted = ordered.index(first)
    return max(range(unshifted, unshifted + size * max(1, size - 1), size), key=matching_partitions)


def _order(
    brokers: Mapping[BrokerId, str | None],
) -> tuple[list[BrokerId], Mapping[BrokerId, str | BrokerId]]:
    """Return the brokers in the order of assignment, and the rack of each."""
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    if len(racks) < len(brokers):
        return sorted(brokers), {broker: broker for broker in brokers}
    return alternating(racks), racks


def alternating(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Return the brokers so that neighbours are in different racks as long as possible.

    For example, racks ``{0: a, 1: a, 2: b, 3: b}`` give ``[0, 2, 1, 3]``.
    """
    by_rack: dict[str, list[BrokerId]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _across_racks(
    ordered: Sequence[BrokerId],
    racks: Mapping[BrokerId, str | BrokerId],
    replication_factor: int,
    *,
    first: int,
    shift: int,
) -> tuple[BrokerId, ...]:
    """Take the ``first`` broker, then the others in order, beginning ``shift`` + 1 brokers after
    it. A rack is used again only when every rack has been used as often."""
    size = len(ordered)
    others = [ordered[(first + 1 + (j + shift) % (size - 1)) % size] for j in range(size - 1)]
    chosen = [ordered[first]]
    while len(chosen) < replication_factor:
        used = Counter(racks[broker] for broker in chosen)
        free = {broker: used[racks[broker]] for broker in others if broker not in chosen}
        chosen.append(min(free, key=free.__getitem__))
    return tuple(chosen)
