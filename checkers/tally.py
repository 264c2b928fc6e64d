"""What is counted of a partition, whatever the rules find: of its records, which adds up over
slices of it, and of the partition as such, once."""

from collections import Counter

import numpy as np

from checkers import standing
from checkers.indexes import Array, Fate, PartitionHistory
from checkers.timeline.known import Timeline
from checkers.work_item import WorkItem


def of_records(item: WorkItem, history: PartitionHistory) -> Counter[str]:
    """What was sent and what became of it; acks by standing and by moment. ``history``: of all or
    of some of the partition's records."""
    fates = np.bincount(history.fate, minlength=len(Fate))
    acks = history.time[history.fate == Fate.ACKED]
    counts = Counter(
        {
            "sent": int(fates[Fate.INDETERMINATE :].sum()),
            "acked": int(fates[Fate.ACKED]),
            "failed": int(fates[Fate.FAILED]),
            "indeterminate": int(fates[Fate.INDETERMINATE]),
        }
    )
    counts.update(standing.by_time("acked", acks, item.terms))
    counts.update(_by_moment(item, acks))
    return counts


def of_partition(item: WorkItem, begun: int) -> Counter[str]:
    """How the partition stands to what is promised, and by whom it was watched. ``begun``: when the
    first record was sent to it, NONE for never."""
    counts = Counter({standing.name("partitions", standing.of_partition(begun, item.terms)): 1})
    counts.update(_watched(item.timeline))
    return counts


def _watched(timeline: Timeline) -> Counter[str]:
    return Counter(
        {
            standing.WATCHED: int(timeline.watched),
            standing.VERSIONED: int(timeline.versioned),
            standing.SPOKEN: int(timeline.spoken),
        }
    )


def _by_moment(item: WorkItem, acks: Array) -> Counter[str]:
    if not item.moments:
        return Counter()
    in_order = np.sort(acks, kind="stable")
    starts = np.searchsorted(in_order, np.array(item.moment_starts, np.int64))
    ends = np.searchsorted(in_order, np.array(item.moment_ends, np.int64))
    found = np.maximum(ends - starts, 0).tolist()
    return Counter(dict(zip(item.moments, found, strict=True)))
