"""The logic of ``/brokers/state/N`` ("State change communication"): when full, what to drop.

``stateChangeQ.shrink`` "retains only one close-replica request for a partition, the one with the
latest epoch", so that a broker that comes back deletes what it hosted; start-replica requests need
not be kept: at its start a broker finds its replicas by itself.
"""

from collections.abc import Iterable

from broker.coordination.nodes import Change, QueuedRequest
from broker.types import TopicPartition


def superfluous(entries: Iterable[QueuedRequest]) -> tuple[str, ...]:
    """The names that ``shrink`` deletes, in order. Of equal epochs the entry put last stays: admin
    commands all send -1."""
    kept: dict[TopicPartition, QueuedRequest] = {}
    dropped: list[str] = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.request.change is not Change.CLOSE_REPLICA:
            dropped.append(entry.name)
            continue
        rival = kept.get(entry.request.partition)
        if rival is not None and rival.request.epoch > entry.request.epoch:
            dropped.append(entry.name)
            continue
        if rival is not None:
            dropped.append(rival.name)
        kept[entry.request.partition] = entry
    return tuple(sorted(dropped))
