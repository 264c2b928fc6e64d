"""What is counted of a partition, whatever the rules find: of its records, which adds up over
slices of it, and of the partition as such, once."""

from collections import Counter

import numpy as np
import pyarrow as pa

from ackproof.checkers.arrays import Array
from ackproof.checkers.autopsy.repeats.performing import DUPLICATED
from ackproof.checkers.partition.indexes import Fate, PartitionHistory
from ackproof.checkers.promises import standing
from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.checkers.rules.acks import telling
from ackproof.checkers.rules.order import renewed
from ackproof.checkers.timeline.known import Timeline

BY_TIME = ("lost", "offset-mismatch", "watermark-regressed", "stale-leader-ack")
"""Offences of acked records: promised or not by when each was acked."""

BY_PARTITION = ("duplicated", "reordered", "nonmonotonic-send")
"""Offences promised or not with the partition as a whole."""

BY_TELLING_ACKS = ("watermark-regressed", "stale-leader-ack", "acked-below-min-isr")
"""Offences that acks tell of which tell of the cluster."""

BY_LOG = ("duplicated", "reordered", "phantom", "failed-but-present", "offset-gap")
"""Offences that the records of the final log tell of."""

BY_STATES = ("two-leaders", "epoch-regressed")
"""Offences that the states of a partition tell of."""


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
    counts.update(_examined(history))
    counts.update(_by_moment(item, acks))
    return counts


def of_partition(item: WorkItem, begun: int) -> Counter[str]:
    """How the partition stands to what is promised, and by whom it was watched. ``begun``: when the
    first record was sent to it, NONE for never."""
    counts = Counter({standing.name("partitions", standing.of_partition(begun, item.terms)): 1})
    counts.update(_watched(item.timeline))
    for checker in BY_STATES:
        counts[standing.examined(checker)] += len(item.timeline.epochs)
    return counts


def _examined(history: PartitionHistory) -> Counter[str]:
    """Return what the rules look at, rule by rule."""
    examined = {
        ("lost",): int(np.count_nonzero(history.fate == Fate.ACKED)),
        ("offset-mismatch", "nonmonotonic-send"): len(history.named_acks),
        BY_TELLING_ACKS: len(telling(history)),
        BY_LOG: len(history.log_offset),
    }
    return Counter(
        {standing.examined(checker): many for some, many in examined.items() for checker in some}
    )


def of_rule(
    item: WorkItem,
    history: PartitionHistory,
    name: str,
    rows: pa.Table,
    records: int | None = None,
) -> Counter[str]:
    """What a rule found, as counts. ``records``: so many of the first of the history's are what the
    rows are about; without it, all."""
    counts = Counter({name: len(rows)})
    if not len(rows):
        return counts
    if name in BY_TIME:
        counts.update(standing.by_time(name, rows["time"].to_numpy(), item.terms))
    if name in BY_PARTITION:
        counts[standing.name(name, standing.of_partition(history.begun, item.terms))] += len(rows)
    if name == DUPLICATED and history.written:
        excused = sum(renewed(history, offsets) for offsets in history.copies.values())
        counts[standing.name(name, standing.of_partition(history.begun, item.terms))] -= excused
        counts[standing.name(name, standing.Standing.UNPROMISED)] += excused
    if name == "epoch-regressed":
        # What brokers and ZooKeeper say is promised always; how a log came to be follows from where
        # replicas cut theirs.
        in_log = len(rows) - rows["offset"].null_count
        counts[standing.name(name, standing.Standing.PROMISED)] += len(rows) - in_log
        counts[standing.name(name, standing.Standing(item.agreement))] += in_log
    if name == "reordered":
        behind, _ = history.out_of_order
        own = behind if records is None else behind[behind < records]
        acked = int(np.count_nonzero(history.fate[own] == Fate.ACKED))
        of_partition = standing.of_partition(history.begun, item.terms)
        counts[standing.name(standing.REORDERED_ACKED, of_partition)] += acked
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
