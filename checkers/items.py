"""Listing the work: one item for each partition that the manifest plans."""

from checkers.coverage import moments
from checkers.evidence import RunEvidence
from checkers.faults import FOREVER, Partition
from checkers.reach import settle_ns, windows
from checkers.reconcile import WorkItem
from checkers.replicas.agreement import Agreement, agreement
from checkers.replicas.collected import copies
from checkers.terms import Surroundings, Terms, terms
from checkers.timeline.derived import timeline
from history.cell import Cell


def work_items(run: RunEvidence) -> list[WorkItem]:
    """The items of one run, by topic and partition."""
    cells = {
        partition: planned.cell
        for planned in run.planned.cells
        for partition in planned.cell.topic_partitions
    }
    return [_item(run, cells[partition], partition) for partition in sorted(cells)]


def terms_of(run: RunEvidence, cell: Cell, partition: Partition) -> Terms:
    """From when on a partition's acked records are promised to be kept."""
    return terms(cell, partition, _around(run, partition))


def agreement_of(run: RunEvidence, cell: Cell, partition: Partition) -> Agreement:
    """Whether a partition's replicas are promised to hold the same log."""
    return agreement(cell, partition, _around(run, partition))


def _around(run: RunEvidence, partition: Partition) -> Surroundings:
    return Surroundings(
        observed=run.observation.of(partition),
        faults=run.faults,
        settle_ns=settle_ns(run.planned),
        clock_bound_ns=run.clock_bound_ns(partition),
    )


def _item(run: RunEvidence, cell: Cell, partition: Partition) -> WorkItem:
    topic, number = partition
    read = run.reads.get(partition)
    bound = run.clock_bound_ns(partition) or 0
    reached = windows([f for f in run.faults if f.touches(partition)], run.planned, bound)
    counted = list(moments(run.faults, bound))
    promise = terms_of(run, cell, partition)
    compared = copies(run, cell, partition)
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
        complete=read is not None and read.read.complete,
        records=read.records if read else None,
        start=read.read.start if read else None,
        end=read.read.end if read else None,
        fault_bounds=list(reached.bounds),
        fault_labels=list(reached.labels),
        unpromised_before=_within_int64(promise.unpromised_before),
        unknown_before=_within_int64(promise.unknown_before),
        moments=[moment.name for moment in counted],
        moment_starts=[_within_int64(moment.span.start) for moment in counted],
        moment_ends=[_within_int64(moment.span.end) for moment in counted],
        brokers=list(compared.brokers),
        copies=list(map(str, compared.directories)),
        uncompared=list(compared.untold),
        agreement=agreement_of(run, cell, partition).standing,
        timeline=timeline(
            cell,
            partition,
            _around(run, partition),
            run.words.get(partition, ()),
            ensemble=run.zookeepers != 1,
        ),
    )


def _within_int64(time: int) -> int:
    """A history may hold any time; what lies beyond all of them is as good as the last."""
    return max(0, min(time, FOREVER))
