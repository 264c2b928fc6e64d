"""Reconciliation of the history, partition by partition.

A record belongs to one partition, and each ``sends`` and ``log`` file holds one partition. A
partition is therefore one work item: the driver lists it, and a Spark task reconciles it
(``checkers.engine.tasks``), without a shuffle. Several small partitions are reconciled together.

Each step of an item yields its :class:`~checkers.engine.results.StepResult` and does not change its
arguments.
"""

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
from ackproof.checkers.checks.acks import records_with_known_acks
from ackproof.checkers.checks.catalogue import DIVERGENT, RESURRECTED_VALUE, TOO_EARLY
from ackproof.checkers.checks.check_reads import ConsumerCheck, check_consumers
from ackproof.checkers.checks.partition_rules import CHECKERS
from ackproof.checkers.checks.plugin_examination import examined
from ackproof.checkers.checks.read_anomalies import ReadAnomalies
from ackproof.checkers.checks.records import renewed
from ackproof.checkers.checks.replicas import Divergence
from ackproof.checkers.checks.tombstones import due_to_stand
from ackproof.checkers.context import status
from ackproof.checkers.context.faults import FOREVER
from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.engine.loading import Loaded, load
from ackproof.checkers.engine.results import (
    CONSUMPTION,
    HISTORY,
    REPLICAS,
    ROOT_CAUSE_ERROR,
    CheckError,
    PartitionTotals,
    StepResult,
    padded,
    rows_written,
    totals_of,
)
from ackproof.checkers.engine.work_items import WorkItem
from ackproof.checkers.index.partition_history import Fate, PartitionHistory
from ackproof.checkers.index.raw_logs import (
    NO_POSITIONS,
    OtherFormat,
    ProducerPosition,
    RawLog,
    written,
)
from ackproof.checkers.index.sequences import sequences_of
from ackproof.checkers.root_cause.divergence import DivergenceCauses
from ackproof.checkers.root_cause.duplicates import DUPLICATED, explain_duplicates
from ackproof.checkers.root_cause.missing_records import (
    LOST,
    RootCauses,
    explain_lost,
    explain_reads,
)
from ackproof.history.storage import located

BY_TIME = (
    *("lost", TOO_EARLY, RESURRECTED_VALUE),
    *("offset-mismatch", "watermark-regressed", "stale-leader-ack"),
)
"""Violations of acked records. Whether the guarantee applied depends on the time of each ack."""

BY_PARTITION = ("duplicated", "reordered", "nonmonotonic-send")
"""Violations whose guarantee applies to the partition as a whole."""

BY_ACK = ("watermark-regressed", "stale-leader-ack", "acked-below-min-isr")
"""Violations that show from acks whose send is recorded."""

BY_LOG = (
    *("duplicated", "reordered", "phantom", "wrong-topic", "failed-but-present"),
    "offset-gap",
)
"""Violations that show from the records of the final log."""

BY_STATES = ("two-leaders", "epoch-regressed")
"""Violations that show from the observed states of a partition."""


def of_records(item: WorkItem, history: PartitionHistory) -> Counter[str]:
    """Count the records by outcome, and the acks by guarantee status and by fault window. The
    history may have all records of the partition or some."""
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
    """Count the partition by guarantee status and by the sources that observed it. ``begun`` is the
    time at which the first record was sent to it, or NONE."""
    counts = Counter({status.count_name("partitions", status.of_partition(begun, item.terms)): 1})
    counts.update(_watched(item.timeline))
    for checker in BY_STATES:
        counts[status.examined(checker)] += len(item.timeline.epochs)
    return counts


def _examined(history: PartitionHistory) -> Counter[str]:
    """Return the number of items that each rule examines."""
    examined = {
        ("lost",): int(np.count_nonzero(history.fate == Fate.ACKED)),
        ("offset-mismatch", "nonmonotonic-send"): len(history.named_acks),
        BY_ACK: len(records_with_known_acks(history)),
        BY_LOG: len(history.log_offset),
    }
    return Counter(
        {status.examined(checker): many for some, many in examined.items() for checker in some}
    )


def _forgotten(history: PartitionHistory) -> Counter[str]:
    """Count the acked records that the topic's cleanup policy has removed. Only a record that a
    consumer read is known to have been kept until then; what was not committed need not be."""
    if history.deletions is None and history.keys is None:
        return Counter()
    forgotten, deletions = history.forgotten, history.deletions
    kept = forgotten[history.is_committed(forgotten)]
    unread = len(kept) if history.seen is None else int((history.seen[kept] != 1).sum())
    return Counter(
        {
            status.FORGOTTEN: len(forgotten),
            status.FORGOTTEN_UNREAD: unread,
            status.FORGOTTEN_UNKEYED: history.unkeyed,
            status.FORGOTTEN_UNDETERMINED: int(deletions.undetermined.sum()) if deletions else 0,
            status.FORGOTTEN_UNANSWERED: history.perhaps_deleted,
            status.examined("deleted-too-early"): len(history.expired),
            status.examined(TOO_EARLY): len(due_to_stand(history)),
            status.examined(RESURRECTED_VALUE): history.tombstones_acked,
        }
    )


def of_rule(
    item: WorkItem,
    history: PartitionHistory,
    name: str,
    rows: pa.Table,
    records: int | None = None,
) -> Counter[str]:
    """Count the rows that a rule found. Only the first ``records`` records of the history are the
    subject of the rows; without this number, all are."""
    counts = Counter({name: len(rows)})
    if not len(rows):
        return counts
    if name == RESURRECTED_VALUE and history.tombstones_unseen:
        counts[status.count_name(name, status.GuaranteeStatus.UNKNOWN)] += len(rows)
    elif name in BY_TIME:
        counts.update(status.by_time(name, rows["time"].to_numpy(), item.terms))
    if name in BY_PARTITION:
        counts[status.count_name(name, status.of_partition(history.begun, item.terms))] += len(rows)
    if name == DUPLICATED and history.written:
        excused = sum(renewed(history, offsets) for offsets in history.copies.values())
        counts[status.count_name(name, status.of_partition(history.begun, item.terms))] -= excused
        counts[status.count_name(name, status.GuaranteeStatus.UNPROMISED)] += excused
    if name == "epoch-regressed":
        # Leader epochs that brokers and ZooKeeper report must never go back. The epochs in a log
        # also depend on the offsets to which replicas truncated their logs.
        in_log = len(rows) - rows["offset"].null_count
        counts[status.count_name(name, status.GuaranteeStatus.PROMISED)] += len(rows) - in_log
        counts[status.count_name(name, status.GuaranteeStatus(item.agreement))] += in_log
    if name == "reordered":
        behind, _ = history.out_of_order
        own = behind if records is None else behind[behind < records]
        acked = int(np.count_nonzero(history.fate[own] == Fate.ACKED))
        of_partition = status.of_partition(history.begun, item.terms)
        counts[status.count_name(status.REORDERED_ACKED, of_partition)] += acked
    return counts


def _watched(timeline: PartitionTimeline) -> Counter[str]:
    return Counter(
        {
            status.WATCHED: int(timeline.watched),
            status.VERSIONED: int(timeline.versioned),
            status.IN_BROKER_LOGS: int(timeline.in_broker_logs),
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
# Lost and repeated records are judged in parts if there are too many for all root causes to be
# found together. Each part has neighbours by sequence number, and root causes of its own.


ANOMALOUS_MAX = 300_000
"""The number of lost records that are judged together. Each takes a thousand bytes, with its root
cause."""

REPEATED_MAX = 100_000
"""The number of repeated records that are judged together. Each takes three thousand bytes, with
the root cause of its copies."""

CAUSES_EACH = 10_000
"""The range of cause numbers for one part, which is larger than its number of root causes."""


def parts(history: PartitionHistory, records: Array, most: int) -> Iterator[PartitionHistory]:
    """Yield the history with at most ``most`` of these records marked as ``selected`` at a time.
    Yield it unchanged if there are no more than that."""
    if len(records) <= most:
        yield history
        return
    in_order = records[np.argsort(history.sequence[records], kind="stable")]
    for first in range(0, len(in_order), most):
        selected = np.zeros(len(history.fate), dtype=bool)
        selected[in_order[first : first + most]] = True
        yield replace(history, selected=selected)


# --- reconcile ------------------------------------------------------------------------------------


def reconcile(
    items: Sequence[WorkItem], write: Callable[[pa.Table], None]
) -> list[PartitionTotals]:
    """Reconcile some partitions, write the rows of their anomalies (FOUND), and return the totals
    of each. Rows are written partition by partition, and rule by rule.

    All partitions take each step in turn. The data that a step needs is then in the processor's
    caches for each partition but the first, which saves a quarter of the time for a small
    partition. The rows of the first partition are written at once, and those of the others are held
    back. A large partition should therefore be alone.

    A rule that raises an exception, or a history that cannot be read, becomes a check error of that
    partition and does not affect the others. Raises what ``write`` raises.
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
    """Yield the steps of reconciling one partition. The results of each must be consumed before the
    next step."""
    item, history = loaded.item, loaded.history
    counts, check_errors = (None, ()) if history is None else _counts(item, history)
    yield (
        StepResult(counts=counts or Counter(), check_errors=(*loaded.check_errors, *check_errors)),
    )
    if history is None or counts is None:
        return
    looked, result = consumption(item, history)
    seen = None if looked is None else looked.seen
    history = replace(history, seen=seen, written=sessions(item, history))
    yield (result,)
    yield (StepResult(counts=_forgotten(history)),)
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
) -> tuple[Counter[str] | None, tuple[CheckError, ...]]:
    """Return the counts that do not depend on rules, or None and a check error if the history
    cannot be counted."""
    try:
        counts = of_records(item, history)
        counts.update(of_partition(item, history.begun))
        counts.update(outages.counts(outages.asked(history), history.faults))
        counts.update(latency.of_acks(history))
    except Exception as error:  # noqa: BLE001 - whatever it is, other partitions can be judged
        return None, (CheckError(checker=HISTORY, message=f"cannot be indexed: {error!r}"),)
    return counts, ()


def ruled(name: str, item: WorkItem, history: PartitionHistory) -> Iterator[StepResult]:
    """Yield the rows and counts of one rule, with root causes if the rule has them. A rule that
    raises an exception ends with a check error."""
    try:
        for number, part in enumerate(_parts(name, history)):
            rows = CHECKERS[name](part)
            counts = of_rule(item, part, name, rows)
            if not len(rows):
                yield StepResult(counts=counts)
                continue
            explain = _EXPLAINED.get(name)
            bound = explain and partial(explain, part, item.context, item.terms, item.run)
            result = _explained(item, rows, bound).after_causes(number * CAUSES_EACH)
            yield replace(result, counts=counts)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        yield StepResult(check_errors=(failed(name, error),))


def _parts(name: str, history: PartitionHistory) -> Iterator[PartitionHistory]:
    if name == LOST:
        return parts(history, history.lost, ANOMALOUS_MAX)
    if name == DUPLICATED:
        return parts(history, history.repeated, REPEATED_MAX)
    return iter([history])


def failed(name: str, error: Exception) -> CheckError:
    """Return the check error for a checker that raised an exception."""
    return CheckError(checker=name, message=f"the checker {name} failed: {error!r}")


_EXPLAINED = {LOST: explain_lost, DUPLICATED: explain_duplicates}
"""The rules whose rows have root causes, and the functions that find these."""


def _shown(
    item: WorkItem, history: PartitionHistory, found: ReadAnomalies, clients: Sequence[str]
) -> StepResult:
    if found.shown is None:
        return _explained(item, found.rows, None)
    explain = partial(explain_reads, history, item.context, found, clients, item.run)
    return _explained(item, found.rows, explain)


def _explained(
    item: WorkItem, rows: pa.Table, explain: Callable[[], RootCauses] | None
) -> StepResult:
    """Return the rows of an anomaly, with the root cause of each and the causes that they share, if
    ``explain`` finds them.

    A row is attributed to the faults of its cause, so that a record is attributed to the same
    faults wherever it is counted. If its cause has no faults, the row is attributed to the faults
    that were active at its time.
    """
    if explain is None or not len(rows):
        return StepResult(rows=padded(item, rows))
    try:
        found = explain()
        explained = rows
        if found.faults is not None:
            place = rows.schema.get_field_index("fault")
            faults = pc.coalesce(found.faults, rows["fault"].combine_chunks())
            explained = rows.set_column(place, rows.schema.field(place), faults)
        explained = explained.append_column("root_cause", found.of_records)
    except Exception as error:  # noqa: BLE001 - what was lost is lost, explained or not
        check_error = CheckError(checker=ROOT_CAUSE_ERROR, message=f"no root causes: {error!r}")
        return StepResult(rows=padded(item, rows), check_errors=(check_error,))
    return StepResult(rows=padded(item, explained), causes=tuple(found.causes))


def sessions(item: WorkItem, history: PartitionHistory) -> Mapping[int, ProducerPosition]:
    """Return the sessions that wrote the records that are in the log more than once, by offset."""
    if not item.copies:
        return NO_POSITIONS
    offsets = sorted(offset for found in history.copies.values() for offset in found)
    epochs = history.epoch_at(offsets).tolist()
    return written(list(map(located, item.copies)), dict(zip(offsets, epochs, strict=True)))


def consumption(
    item: WorkItem, history: PartitionHistory
) -> tuple[ConsumerCheck | None, StepResult]:
    """Check the reads of the consumers. Return None instead of the result if they could not be
    checked."""
    counts = Counter(item.promises.counts(history))
    try:
        looked = check_consumers(item.consumers, history, item.promises)
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        message = f"the reads of consumers cannot be examined: {error!r}"
        check_error = CheckError(checker=CONSUMPTION, message=message)
        return None, StepResult(counts=counts, check_errors=(check_error,))
    counts.update(looked.latencies)
    for found in looked.found:
        counts[found.anomaly] += len(found.rows)
        counts.update(found.standing)
    counts.update(status.looked(name) for name in looked.looked)
    counts.update({status.examined(name): many for name, many in looked.examined.items()})
    check_errors = tuple(
        CheckError(checker=CONSUMPTION, message=problem) for problem in looked.problems
    )
    return looked, StepResult(
        counts=counts, check_errors=check_errors, consumption=tuple(looked.counted)
    )


def divergent(item: WorkItem) -> Iterator[StepResult]:
    """Yield the result of the checker divergent-replicas."""
    promised = status.GuaranteeStatus(item.agreement)
    # Each replica deletes on its own, so that their logs may start at different offsets.
    own_starts = item.retention is not None or item.tiered
    copies = Divergence(
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        brokers=item.brokers,
        directories=list(map(located, item.copies)),
        end=item.compared_to,
        # Each replica deletes on its own, so that their logs may start at different offsets.
        deleted_before=FOREVER if own_starts else item.deleted_before,
        not_compared=list(item.uncompared),
    )
    root_causes = DivergenceCauses(
        context=item.context,
        cell=item.cell,
        topic=item.topic,
        partition=item.partition,
        run=item.run,
        promised=promised is status.GuaranteeStatus.PROMISED,
    )
    unread, check_errors = [], []
    try:
        for some in copies.divergent_ranges():
            counts = Counter(
                {DIVERGENT: len(some), status.count_name(DIVERGENT, promised): len(some)}
            )
            result = _explained(item, copies.rows(some), partial(root_causes.performed, some))
            yield replace(result, counts=counts)
    except (OtherFormat, OSError) as error:
        unread = [f"replicas not compared: {error}"]
    except Exception as error:  # noqa: BLE001 - one checker never takes down another
        check_errors = [failed(DIVERGENT, error)]
    not_compared = [*copies.not_compared, *unread]
    check_errors += [CheckError(checker=REPLICAS, message=words) for words in not_compared]
    counts = Counter(
        {
            status.count_name(status.REPLICAS, promised): 1,
            status.examined(DIVERGENT): copies.compared,
            status.COMPARED: int(bool(item.brokers) and not not_compared),
            status.REMOTE_ONLY: _remote_only(item),
        }
    )
    yield StepResult(
        counts=counts, causes=tuple(root_causes.causes()), check_errors=tuple(check_errors)
    )


def _remote_only(item: WorkItem) -> int:
    """Return the number of offsets of the final log below the start of every copied log."""
    if not item.tiered or item.read is None or item.read.start is None:
        return 0
    starts = [RawLog(located(copy)).start for copy in item.copies]
    lowest = min((start for start in starts if start is not None), default=item.read.start)
    return max(lowest - item.read.start, 0)


def by_plugins(item: WorkItem) -> Iterator[StepResult]:
    """Yield the result of each checker of a plug-in."""
    for work in item.plugin_work:
        examination = examined(work)
        yield StepResult(
            rows=padded(item, examination.rows),
            plugin_checks={work.checker: examination.totals},
        )
