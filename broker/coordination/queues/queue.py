"""The logic of ``/brokers/state/N`` ("State change communication"): when full, what to drop.

``stateChangeQ.shrink`` "retains only one close-replica request for a partition, the one with the
latest epoch", so that a broker that comes back deletes what it hosted; start-replica requests need
not be kept: at its start a broker finds its replicas by itself.

One that is up, and slow, does not. With room for two, the third partition of a topic would take the
first two's requests out of the queues of brokers that are about to carry them out: nobody follows
these until the brokers are started again. Fenced, what was asked last of each partition is kept.
"""

from collections.abc import Iterable

from ackproof.broker.coordination.nodes import Change, QueuedRequest
from ackproof.broker.types import TopicPartition


def superfluous(entries: Iterable[QueuedRequest], *, keeps_all_kinds: bool) -> tuple[str, ...]:
    """The names that ``shrink`` deletes, in order. Of equal epochs the entry put last stays: admin
    commands all send -1.

    ``keeps_all_kinds``: and of the requests that are no close-replica the one put last, of each
    partition and kind; whatever their epochs are, for a topic that is made again begins at 0.
    """
    kept: dict[TopicPartition, QueuedRequest] = {}
    others: dict[tuple[TopicPartition, Change], str] = {}
    dropped: list[str] = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        if entry.request.change is not Change.CLOSE_REPLICA:
            of = entry.request.partition, entry.request.change
            former = others.get(of) if keeps_all_kinds else entry.name
            if former is not None:
                dropped.append(former)
            others[of] = entry.name
            continue
        rival = kept.get(entry.request.partition)
        if rival is not None and rival.request.epoch > entry.request.epoch:
            dropped.append(entry.name)
            continue
        if rival is not None:
            dropped.append(rival.name)
        kept[entry.request.partition] = entry
    return tuple(sorted(dropped))
