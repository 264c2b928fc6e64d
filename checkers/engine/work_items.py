"""Work items: one for each partition that the manifest plans, in the form in which Spark passes it
to a task."""

from dataclasses import dataclass, field

from ackproof.checkers.checks.compaction import (
    CompactionEvidence,
    compaction_of,
    end_of_final_read,
    is_any_clock_changed,
)
from ackproof.checkers.checks.planned_consumers import consumers_of, group_of
from ackproof.checkers.checks.plugin_work import PluginWork, work_of
from ackproof.checkers.checks.read_anomalies import PartitionGuarantees
from ackproof.checkers.checks.read_counts import Consumer, PlannedGroupWork
from ackproof.checkers.checks.replicas import copies
from ackproof.checkers.context.coverage import ack_periods
from ackproof.checkers.context.fault_windows import windows
from ackproof.checkers.context.faults import Partition, deleted_before
from ackproof.checkers.context.final_reads import FinalRead
from ackproof.checkers.context.observed import Span
from ackproof.checkers.context.partition_guarantees import (
    ack_window_of,
    agreement_of,
    read_window_of,
    within_int64,
)
from ackproof.checkers.context.retention import (
    ObservedStarts,
    RetentionEvidence,
    retention_of,
)
from ackproof.checkers.context.row_times import ANY, Expected
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.timeline import PartitionTimeline
from ackproof.checkers.context.validity import ValidityWindow
from ackproof.checkers.index.sequences import RANGE
from ackproof.checkers.root_cause.partition_context import (
    PartitionContext,
    context_sources,
    partition_context,
)
from ackproof.history.manifest import PlannedCell

Key = tuple[int, Partition]
"""The number of a run, and a partition of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One partition to reconcile.

    Attributes:
        run: The number of the run.
        cell: The name of the cell.
        topic: The name of the topic.
        partition: The number of the partition.
        sends: The files of ``sends``.
        cut: Those of ``sends`` whose writer was crashed, so that they lack the last moments.
        log: The files of ``log``.
        sends_whole: Whether ``sends`` has every record that was sent.
        log_whole: Whether ``log`` has every record of the final read.
        read: The final read.
        records: The number of records that the final read reports, or None.
        deleted_before: The offset below which records were deleted by an administrator's order.
        fault_bounds: The bounds of the windows in which faults affected the partition.
        fault_labels: The faults of each window.
        unpromised_before, unknown_before, unknown_in: As of
            :class:`checkers.context.validity.ValidityWindow`.
        moments: The names of the windows in which acks are counted
            (:class:`checkers.context.coverage.AckPeriod`).
        moment_starts: The start of each of these.
        moment_ends: The end of each of these.
        shown_unpromised_before, shown_unknown_before: The validity window of what consumers read.
        tiered: Whether closed segments are copied to a remote tier.
        consumers: The planned consumers of the partition.
        groups: The guarantees to consumer groups.
        brokers, copies, compared_to, uncompared: As of :class:`checkers.checks.replicas.Copies`.
        agreement: The status of the guarantee that replicas agree.
        timeline: The observations of its leaders, epochs and ISR.
        context: The context of its losses.
        transactional: Whether it was written in transactions.
        committed: The files with its committed offsets, or None if no consumer reads committed
            records only.
        expected: The values that the rows of its sends must have.
        sequence_range: The number of sequence numbers that are counted together
            (:mod:`checkers.index.sequences`).
        plugin_work: The work of plug-ins' checkers on it.
        retention: What is known of deletions by retention, or None if the topic sets no retention.
        compaction: The evidence of compaction, or None if the log is not compacted.
    """

    run: int
    cell: str
    topic: str
    partition: int
    sends: list[str]
    cut: list[str]
    log: list[str]
    sends_whole: bool
    log_whole: bool
    read: FinalRead
    records: int | None
    deleted_before: int
    fault_bounds: list[int]
    fault_labels: list[str | None]
    unpromised_before: int
    unknown_before: int
    moments: list[str]
    moment_starts: list[int]
    moment_ends: list[int]
    shown_unpromised_before: int
    shown_unknown_before: int
    tiered: bool
    consumers: list[Consumer]
    groups: list[PlannedGroupWork]
    brokers: list[int]
    copies: list[str]
    compared_to: int
    uncompared: list[str]
    agreement: str
    timeline: PartitionTimeline
    context: PartitionContext
    transactional: bool = False
    committed: list[str] | None = None
    expected: Expected = ANY
    sequence_range: int = RANGE
    unknown_in: list[tuple[int, int]] = field(default_factory=list)
    plugin_work: list[PluginWork] = field(default_factory=list)
    retention: RetentionEvidence | None = None
    compaction: CompactionEvidence | None = None

    @property
    def key(self) -> Key:
        """The key of the partition."""
        return self.run, (self.topic, self.partition)

    @property
    def recorded(self) -> bool:
        """Whether any file was recorded for the partition. A run that never began has none."""
        own = (self.sends, self.log, self.copies, self.committed)
        return any(own) or any(consumer.polls for consumer in self.consumers)

    @property
    def terms(self) -> ValidityWindow:
        """The validity window of its acked records."""
        return ValidityWindow(
            unpromised_before=self.unpromised_before,
            unknown_before=self.unknown_before,
            unknown_in=tuple(Span(start, end) for start, end in self.unknown_in),
        )

    @property
    def promises(self) -> PartitionGuarantees:
        """The guarantees for the partition and for its consumers."""
        return PartitionGuarantees(
            acked=self.terms,
            shown=ValidityWindow(
                unpromised_before=self.shown_unpromised_before,
                unknown_before=self.shown_unknown_before,
            ),
            groups={group.name: group.coordinated for group in self.groups},
        )


# --- items ----------------------------------------------------------------------------------------
#
# The list of the work: one item for each partition that the manifest plans.


def work_items(run: RunEvidence) -> list[WorkItem]:
    """Return the items of one run, by topic and partition."""
    cells = {
        partition: planned
        for planned in run.planned.cells
        for partition in planned.cell.topic_partitions
    }
    return [_item(run, cells[partition], partition) for partition in sorted(cells)]


def _item(run: RunEvidence, planned: PlannedCell, partition: Partition) -> WorkItem:
    cell = planned.cell
    topic, number = partition
    read = run.reads.get(partition)
    bound = run.clock_bound_ns(partition) or 0
    touching = [fault for fault in run.faults if fault.touches(partition)]
    reached = windows(touching, run.planned, bound, run.pace)
    counted = list(ack_periods(touching, bound))
    promise = ack_window_of(run, cell, partition)
    shown = read_window_of(run, cell, partition)
    compared = copies(run, cell, partition)
    sources = context_sources(run, cell, partition)
    return WorkItem(
        run=run.number,
        cell=cell.name,
        topic=topic,
        partition=number,
        sends=list(map(str, run.writers.files("sends", partition))),
        cut=list(map(str, run.writers.cut("sends", partition))),
        log=list(map(str, run.writers.files("log", partition))),
        sends_whole=run.flushed and run.writers.whole("sends", partition),
        log_whole=run.writers.whole("log", partition),
        read=run.final_read(partition),
        records=read.records if read else None,
        deleted_before=within_int64(deleted_before((*run.faults, *run.unrecorded), partition)),
        fault_bounds=list(reached.bounds),
        fault_labels=list(reached.labels),
        unpromised_before=within_int64(promise.unpromised_before),
        unknown_before=within_int64(promise.unknown_before),
        unknown_in=[
            (within_int64(span.start), within_int64(span.end)) for span in promise.unknown_in
        ],
        moments=[moment.name for moment in counted],
        moment_starts=[within_int64(moment.span.start) for moment in counted],
        moment_ends=[within_int64(moment.span.end) for moment in counted],
        shown_unpromised_before=within_int64(shown.unpromised_before),
        shown_unknown_before=within_int64(shown.unknown_before),
        tiered=cell.tiered,
        consumers=consumers_of(run, partition),
        groups=[group_of(run, cell, group, partition) for group in planned.groups],
        brokers=list(compared.brokers),
        copies=list(map(str, compared.directories)),
        compared_to=compared.end,
        uncompared=list(compared.not_compared),
        agreement=agreement_of(run, cell, partition).standing,
        timeline=sources.timeline,
        context=partition_context(sources),
        transactional=planned.transactional,
        committed=_committed(run, planned, partition),
        expected=run.expected("sends", partition, cell.name),
        sequence_range=RANGE * cell.partitions,
        plugin_work=work_of(run, planned, partition),
        retention=_retention(run, planned, partition),
        compaction=compaction_of(run, planned, partition),
    )


def _retention(
    run: RunEvidence, planned: PlannedCell, partition: Partition
) -> RetentionEvidence | None:
    policy = retention_of(planned.cell)
    if policy is None:
        return None
    return RetentionEvidence(
        policy=policy,
        starts=run.log_starts.get(partition, ObservedStarts()),
        read_over=end_of_final_read(run),
        value_bytes=planned.value_bytes,
        clock_bound_ns=run.clock_bound_ns(partition),
        clocks_changed=is_any_clock_changed(run),
    )


def _committed(run: RunEvidence, planned: PlannedCell, partition: Partition) -> list[str] | None:
    if not (planned.transactional and planned.cell.reads_committed):
        return None
    return list(map(str, run.writers.files("committed", partition)))
