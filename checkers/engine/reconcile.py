"""Reconciling partition by partition.

A record belongs to one partition, and ``sends`` and ``log`` files hold one partition each, so a
partition is a work item of its own: listed by the driver, reconciled in a task of Spark's
(``checkers.engine.tasks``), without a shuffle. Several small ones are reconciled at a time.

Each step of an item yields its :class:`~checkers.engine.results.StepResult`, and changes nothing
that it was given."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ackproof.checkers.arrays import Array
from ackproof.checkers.checks import latency, outages
from ackproof.checkers.checks.acks import telling
from ackproof.checkers.checks.catalogue import CHECKERS
from ackproof.checkers.checks.check_reads import Consumed, consumed
from ackproof.checkers.checks.plugin_examination import examined
from ackproof.checkers.checks.read_anomalies import Found
from ackproof.checkers.checks.records import renewed
from ackproof.checkers.checks.replicas import DIVERGENT, Divergence
from ackproof.checkers.context import status
from ackproof.checkers.context.timeline import Timeline
from ackproof.checkers.engine.loading import Loaded, load
from ackproof.checkers.engine.results import (
    AUTOPSY_DOUBT,
    CONSUMPTION,
    HISTORY,
    REPLICAS,
    Doubt,
    PartitionTotals,
    StepResult,
    padded,
    rows_written,
    totals_of,
)
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.index.raw_logs import UNTOLD, OtherFormat, Written, written
from ackproof.checkers.index.sequences import sequences_of
from ackproof.checkers.root_cause.divergence import Partings
from ackproof.checkers.root_cause.duplicates import DUPLICATED, perform_repeated
from ackproof.checkers.root_cause.missing_records import LOST, Autopsies, perform, perform_shown
from ackproof.history.storage import located

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
    counts.update(status.by_time("acked", acks, item.terms))
    counts.update(_examined(history))
    counts.update(_by_moment(item, acks))
    return counts


def of_partition(item: WorkItem, begun: int) -> Counter[str]:
    """How the partition stands to what is promised, and by whom it was watched. ``begun``: when the
    first record was sent to it, NONE for never."""
    counts = Counter({status.count_name("partitions", status.of_partition(begun, item.terms)): 1})
    counts.update(_watched(item.timeline))
    for checker in BY_STATES:
        counts[status.examined(checker)] += len(item.timeline.epochs)
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
        {status.examined(checker): many for some, many in examined.items() for checker in some}
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
        counts.update(status.by_time(name, rows["time"].to_numpy(), item.terms))
    if name in BY_PARTITION:
        counts[status.count_name(name, status.of_partition(history.begun, item.terms))] += len(rows)
    if name == DUPLICATED and history.written:
        excused = sum(renewed(history, offsets) for offsets in history.copies.values())
        counts[status.count_name(name, status.of_partition(history.begun, item.terms))] -= excused
        counts[status.count_name(name, status.Standing.UNPROMISED)] += excused
    if name == "epoch-regressed":
        # What brokers and ZooKeeper say is promised always; how a log came to be follows from where
        # replicas cut theirs.
        in_log = len(rows) - rows["offset"].null_count
        counts[status.count_name(name, status.Standing.PROMISED)] += len(rows) - in_log
        counts[status.count_name(name, status.Standing(item.agreement))] += in_log
    if name == "reordered":
        behind, _ = history.out_of_order
        own = behind if records is None else behind[behind < records]
        acked = int(np.count_nonzero(history.fate[own] == Fate.ACKED))
        of_partition = status.of_partition(history.begun, item.terms)
        counts[status.count_name(status.REORDERED_ACKED, of_partition)] += acked
    return counts


def _watched(timeline: Timeline) -> Counter[str]:
    return Counter(
        {
            status.WATCHED: int(timeline.watched),
            status.VERSIONED: int(timeline.versioned),
            status.SPOKEN: int(timeline.spoken),
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


# --- parts ----------------------------------------------------------------------------------------
#
# What is lost, or stands in the log more than once, a part at a time where there is too much of it
# to have its autopsies together: each part with causes of its own, neighbours by sequence number.


RARE_MAX = 300_000
"""Records that are judged together: each takes a thousand bytes, with its autopsy."""

REPEATED_MAX = 100_000
"""Of those that stand in the log more than once: each takes three thousand, with that of its
copies."""

CAUSES_EACH = 10_000
"""More than there are stories of what is judged together."""


def parts(history: PartitionHistory, records: Array, most: int) -> Iterator[PartitionHistory]:
    """The history with so many of these records at a time as those that are rare, and with all of
    them where they are no more."""
    if len(records) <= most:
        yield history
        return
    in_order = records[np.argsort(history.sequence[records], kind="stable")]
    for first in range(0, len(in_order), most):
        rare = np.zeros(len(history.fate), dtype=bool)
        rare[in_order[first : first + most]] = True
        yield replace(history, rare=rare)


# --- reconcile ------------------------------------------------------------------------------------


def reconcile(
    items: Sequence[WorkItem], write: Callable[[pa.Table], None]
) -> list[PartitionTotals]:
    """Reconcile some partitions, write the rows of their anomalies (FOUND), and return the totals
    of each. Rows are written one partition's after the other's, each rule by rule.

    All partitions are taken one step further in turn: what a step needs of the processor's caches
    is there for each but the first, which is a quarter of what a small partition takes. The rows of
    the first are written as they come, those of the others are held back: a large partition is
    better alone.

    A rule that throws, and a history that cannot be read, become doubts about the partition and
    leave the others alone. Raises what ``write`` raises.
    """
    steps = map(_steps, load(items))
    results: list[list[StepResult]] = [[] for _ in items]
    for first, *others in zip_longest(*steps, fillvalue=()):
        results[0] += rows_written(first, write)
        for held, step in zip(results[1:], others, strict=True):
            held += step
    return [
        totals_of(item, rows_written(held, write))
        for item, held in zip(items, results, strict=True)
    ]


def _steps(loaded: Loaded) -> Iterator[Iterable[StepResult]]:
    """Yield the steps of reconciling one partition; the results of each must be taken before the
    next step."""
    item, history = loaded.item, loaded.history
    counts, doubts = (None, ()) if history is None else _counts(item, history)
    yield (StepResult(counts=counts or Counter(), doubts=(*loaded.doubts, *doubts)),)
    if history is None or counts is None:
        return
    looked, result = consumption(item, history)
    seen = None if looked is None else looked.seen
    history = replace(history, seen=seen, written=sessions(item, history))
    yield (result,)
    if looked is not None:
        for found in looked.found:
            yield (_shown(item, history, found, looked.clients),)
    for name in CHECKERS:
        yield ruled(name, item, history)
    yield divergent(item)
    yield by_plugins(item)
    yield (StepResult(sequences=sequences_of(history, item.sequence_range)),)


def _counts(
    item: WorkItem, history: PartitionHistory
) -> tuple[Counter[str] | None, tuple[Doubt, ...]]:
    """Return what is counted whatever rules find; None, and a doubt, where that cannot be."""
    try:
        counts = of_records(item, history)
        counts.update(of_partition(item, history.begun))
        counts.update(outages.counts(outages.asked(history), history.faults))
        counts.update(latency.of_acks(history))
    except Exception as error:  # noqa: BLE001 - whatever it is, other partitions can be judged
        return None, (Doubt(checker=HISTORY, message=f"cannot be indexed: {error!r}"),)
    return counts, ()


def ruled(name: str, item: WorkItem, history: PartitionHistory) -> Iterator[StepResult]:
    """Yield what one rule finds and counts, with autopsies where it has them. A rule that throws
    ends with a doubt."""
    try:
        for number, part in enumerate(_parts(name, history)):
            rows = CHECKERS[name].rule(part)
            counts = of_rule(item, part, name, rows)
            if not len(rows):
                yield StepResult(counts=counts)
                continue
            perform = _PERFORMED.get(name)
            performed = perform and partial(perform, part, item.scene, item.terms, item.run)
            result = _explained(item, rows, performed).after_causes(number * CAUSES_EACH)
            yield replace(result, counts=counts)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        yield StepResult(doubts=(failed(name, error),))


def _parts(name: str, history: PartitionHistory) -> Iterator[PartitionHistory]:
    if name == LOST:
        return parts(history, history.lost, RARE_MAX)
    if name == DUPLICATED:
        return parts(history, history.repeated, REPEATED_MAX)
    return iter([history])


def failed(name: str, error: Exception) -> Doubt:
    """Return the doubt about a checker that threw."""
    return Doubt(checker=name, message=f"the checker {name} failed: {error!r}")


_PERFORMED = {LOST: perform, DUPLICATED: perform_repeated}
"""The rules whose rows have autopsies, and the functions that perform them."""


def _shown(
    item: WorkItem, history: PartitionHistory, found: Found, clients: Sequence[str]
) -> StepResult:
    if found.shown is None:
        return _explained(item, found.rows, None)
    performed = partial(perform_shown, history, item.scene, found, clients, item.run)
    return _explained(item, found.rows, performed)


def _explained(
    item: WorkItem, rows: pa.Table, perform: Callable[[], Autopsies] | None
) -> StepResult:
    """Return the rows of an anomaly, with the autopsy of each if it is ``perform``\\ ed, and the
    causes that they have in common. A row is laid to the faults of its cause, so that a record is
    laid to the same faults wherever it is counted; to those within whose reach it is where its
    cause has none."""
    if perform is None or not len(rows):
        return StepResult(rows=padded(item, rows))
    try:
        performed = perform()
        explained = rows
        if performed.faults is not None:
            place = rows.schema.get_field_index("fault")
            faults = pc.coalesce(performed.faults, rows["fault"].combine_chunks())
            explained = rows.set_column(place, rows.schema.field(place), faults)
        explained = explained.append_column("autopsy", performed.of_records)
    except Exception as error:  # noqa: BLE001 - what was lost is lost, explained or not
        doubt = Doubt(checker=AUTOPSY_DOUBT, message=f"no autopsies: {error!r}")
        return StepResult(rows=padded(item, rows), doubts=(doubt,))
    return StepResult(rows=padded(item, explained), causes=tuple(performed.causes))


def sessions(item: WorkItem, history: PartitionHistory) -> Mapping[int, Written]:
    """Return who wrote what stands in the log more than once, by offset."""
    if not item.copies:
        return UNTOLD
    offsets = sorted(offset for found in history.copies.values() for offset in found)
    epochs = history.epoch_at(offsets).tolist()
    return written(list(map(located, item.copies)), dict(zip(offsets, epochs, strict=True)))


def consumption(item: WorkItem, history: PartitionHistory) -> tuple[Consumed | None, StepResult]:
    """Look at the consumers; None where they could not be looked at."""
    counts = Counter(item.promises.counts(history))
    try:
        looked = consumed(item.consumers, history, item.promises)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        message = f"what consumers were shown cannot be looked at: {error!r}"
        doubt = Doubt(checker=CONSUMPTION, message=message)
        return None, StepResult(counts=counts, doubts=(doubt,))
    counts.update(looked.latencies)
    for found in looked.found:
        counts[found.anomaly] += len(found.rows)
        counts.update(found.standing)
    counts.update(status.looked(name) for name in looked.looked)
    counts.update({status.examined(name): many for name, many in looked.examined.items()})
    doubts = tuple(Doubt(checker=CONSUMPTION, message=problem) for problem in looked.problems)
    return looked, StepResult(counts=counts, doubts=doubts, consumption=tuple(looked.counted))


def divergent(item: WorkItem) -> Iterator[StepResult]:
    """Yield what the checker divergent-replicas finds."""
    promised = status.Standing(item.agreement)
    copies = Divergence(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        brokers=item.brokers,
        directories=list(map(located, item.copies)),
        end=item.compared_to,
        deleted_before=item.deleted_before,
        untold=list(item.uncompared),
    )
    autopsies = Partings(
        scene=item.scene,
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        run=item.run,
        promised=promised is status.Standing.PROMISED,
    )
    unread, doubts = [], []
    try:
        for some in copies.partings():
            counts = Counter(
                {DIVERGENT: len(some), status.count_name(DIVERGENT, promised): len(some)}
            )
            result = _explained(item, copies.rows(some), partial(autopsies.performed, some))
            yield replace(result, counts=counts)
    except (OtherFormat, OSError) as error:
        unread = [f"replicas not compared: {error}"]
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        doubts = [failed(DIVERGENT, error)]
    untold = [*copies.untold, *unread]
    doubts += [Doubt(checker=REPLICAS, message=words) for words in untold]
    counts = Counter(
        {
            status.count_name(status.REPLICAS, promised): 1,
            status.examined(DIVERGENT): copies.compared,
            status.COMPARED: int(bool(item.brokers) and not untold),
        }
    )
    yield StepResult(counts=counts, causes=tuple(autopsies.causes()), doubts=tuple(doubts))


def by_plugins(item: WorkItem) -> Iterator[StepResult]:
    """Yield what each checker of a plug-in finds."""
    for work in item.plugin_work:
        examination = examined(work)
        yield StepResult(
            rows=padded(item, examination.rows),
            plugin_checks={work.checker: examination.totals},
        )
