"""Listing the work: one item for each partition that the manifest plans."""

from ackproof.checkers.autopsy.gathering import Told, scene
from ackproof.checkers.cluster.coverage import moments
from ackproof.checkers.cluster.faults import Partition, deleted_before
from ackproof.checkers.cluster.reach import windows
from ackproof.checkers.evidence.promised import (
    agreement_of,
    around,
    shown_terms_of,
    terms_of,
    within_int64,
)
from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.partition.sequences import RANGE
from ackproof.checkers.plugin_checks.work import work_of
from ackproof.checkers.reads.planned import consumers_of, group_of
from ackproof.checkers.reconciling.work_item import WorkItem
from ackproof.checkers.replicas.collected import copies
from ackproof.checkers.timeline.derived import timeline
from ackproof.history.manifest import PlannedCell


def work_items(run: RunEvidence) -> list[WorkItem]:
    """The items of one run, by topic and partition."""
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
    counted = list(moments(touching, bound))
    promise = terms_of(run, cell, partition)
    shown = shown_terms_of(run, cell, partition)
    compared = copies(run, cell, partition)
    befell = around(run, partition)
    words = run.words.get(partition, ())
    ensemble = run.zookeepers != 1 and len(run.planned.combined) != 1
    known = timeline(cell, partition, befell, words, ensemble=ensemble)
    told = Told(
        cell=cell,
        partition=partition,
        around=befell,
        timeline=known,
        words=words,
        orders=run.orders.get(partition, {}),
        truncations=run.truncations.get(partition, ()),
        absences=run.absences,
        # Every replica's, in sync or not: where a copy is left is another question than whose logs
        # have to agree.
        logs=(run.logs or {}).get(f"{topic}-{number}", ()),
        readers_bound=run.clock_bound_ns(partition, "polls"),
    )
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
        compacted=cell.compacts,
        consumers=consumers_of(run, partition),
        groups=[group_of(run, cell, group, partition) for group in planned.groups],
        brokers=list(compared.brokers),
        copies=list(map(str, compared.directories)),
        compared_to=compared.end,
        uncompared=list(compared.untold),
        agreement=agreement_of(run, cell, partition).standing,
        timeline=known,
        scene=scene(told),
        transactional=planned.transactional,
        committed=_committed(run, planned, partition),
        expected=run.expected("sends", partition, cell.name),
        sequence_range=RANGE * cell.partitions,
        plugin_work=work_of(run, planned, partition),
    )


def _committed(run: RunEvidence, planned: PlannedCell, partition: Partition) -> list[str] | None:
    if not (planned.transactional and planned.cell.reads_committed):
        return None
    return list(map(str, run.writers.files("committed", partition)))
