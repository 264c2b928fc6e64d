"""The planned consumers of a run: their partitions, their files, and the guarantees to groups."""

from collections.abc import Mapping

from ackproof.checkers.checks.read_counts import Consumer, PlannedGroupWork
from ackproof.checkers.context.fault_windows import windows
from ackproof.checkers.context.faults import Partition
from ackproof.checkers.context.partition_guarantees import (
    commit_window_of,
    group_surroundings,
    offsets_partition,
    within_int64,
)
from ackproof.checkers.context.quiet_period import quiet_period_of
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.validity import Stale, stale_spans
from ackproof.checkers.context.writers import WriterFiles
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedGroup, PlannedRun, PlannedWriter
from ackproof.history.names import CONSUMPTION

AT_LEAST_ONCE = "at-least-once"

_NOTHING = WriterFiles(files=(), whole=False, cut=False)


def consumers_of(run: RunEvidence, partition: Partition) -> list[Consumer]:
    """Return the planned readers of a partition with their files, by name. A client that is planned
    to commit is a member of a group; any other is a tail reader."""
    return [
        _consumer(run, client, tables, partition)
        for client, tables in sorted(clients_of(run.planned).items())
        if "polls" in tables and partition in tables["polls"].partitions
    ]


def clients_of(run: PlannedRun) -> Mapping[str, Mapping[str, PlannedWriter]]:
    """Return the writers of the tables of consumers, by client and table."""
    found: dict[str, dict[str, PlannedWriter]] = {}
    for writer in run.writers:
        if writer.table in CONSUMPTION:
            found.setdefault(writer.client or writer.writer, {})[writer.table] = writer
    return found


def _consumer(
    run: RunEvidence, client: str, tables: Mapping[str, PlannedWriter], partition: Partition
) -> Consumer:
    def left(table: str, where: Partition | None = None) -> WriterFiles:
        return run.writers.left(tables[table], where) if table in tables else _NOTHING

    polls, assignments, committed = left("polls", partition), left("assignments"), left("commits")
    return Consumer(
        client=client,
        member="commits" in tables,
        polls=list(map(str, polls.files)),
        assignments=list(map(str, assignments.files)),
        commits=list(map(str, committed.files)),
        polls_whole=polls.whole,
        assignments_whole=assignments.whole,
        commits_whole=committed.whole,
        cut=polls.cut,
        expected=run.expected("polls", partition),
    )


def group_of(
    run: RunEvidence, cell: Cell, group: PlannedGroup, partition: Partition
) -> PlannedGroupWork:
    """Return the guarantees to a group of a cell that reads a partition, for a work item."""
    quiet_period = quiet_period_of(run, cell).span
    promise, kept_in = commit_window_of(run, group, partition), offsets_partition(run, group)
    concerned = [
        fault
        for fault in run.faults
        if fault.touches(partition) or (kept_in is not None and fault.touches(kept_in))
    ]
    stale: list[Stale] = []
    if kept_in is not None:
        stale += stale_spans(kept_in, group_surroundings(run, kept_in, partition))
    reached = windows(concerned, run.planned, run.clock_bound_ns(partition, "polls") or 0, run.pace)
    return PlannedGroupWork(
        name=group.name,
        at_least_once=group.delivery == AT_LEAST_ONCE,
        unpromised_before=within_int64(promise.unpromised_before),
        unknown_before=within_int64(promise.unknown_before),
        stale=[
            Stale(
                start=within_int64(one.start),
                seen=within_int64(one.seen),
                end=within_int64(one.end),
            )
            for one in stale
        ],
        fault_bounds=list(reached.bounds),
        fault_labels=list(reached.labels),
        quiet_start=within_int64(quiet_period.start),
        quiet_end=within_int64(quiet_period.end),
    )
