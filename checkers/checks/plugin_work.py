"""The work of a plug-in's checker. The driver lists it, and a task does it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ackproof.checkers.checks.catalogue import concerned, provider
from ackproof.checkers.context.fault_windows import FaultWindows, windows
from ackproof.checkers.context.faults import Partition
from ackproof.checkers.context.observed import Span
from ackproof.checkers.context.partition_guarantees import (
    ack_window_of,
    read_window_of,
    share_window_of,
    within_int64,
)
from ackproof.checkers.context.quiet_period import quiet_period_of
from ackproof.checkers.context.row_times import Expected
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.validity import ALWAYS_VALID, ValidityWindow
from ackproof.checkers.interface import Extent, PluginChecker, Promised
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell, PlannedShareGroup
from ackproof.history.names import PARTITIONED

_CLIENTS = frozenset({"sends", "polls", "assignments", "commits", "deliveries"})
"""The tables that clients close when they are asked to end."""
_CLOCKED = ("sends", "polls", "deliveries")
"""The tables with times by the clocks of clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """The files of one table or of one partition of it, and the values that their rows must
    have."""

    table: str
    files: tuple[str, ...]
    expected: Expected


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginWork:
    """One checker, and one partition or cell that it must examine.

    Attributes:
        checker: The name of the checker.
        plugin: The plug-in that provides it, with its version, or None for a built-in checker.
        run: The number of the run.
        cell: The cell.
        partition: The number of the partition, or None for the whole cell.
        tables: The files that it reads, in the order of the partitions.
        missing: The rows that are missing from these, a sentence each.
        log_records: The number of records that the final read got, over all files of ``log``.
        crashed: The tables with writers that a fault crashed.
        clock_bound_ns, read_began, share_groups, quiet_periods: As in
            :class:`checkers.interface.RecordedRows`.
        terms: The validity window of the guarantee by partition, and under None for anomalies that
            do not concern a single partition.
        faults: The faults of the run, to which anomalies are attributed.
    """

    checker: str
    plugin: str | None
    run: int
    cell: Cell
    partition: int | None
    tables: tuple[TableFiles, ...]
    missing: tuple[str, ...]
    log_records: int
    crashed: frozenset[str]
    clock_bound_ns: int | None
    read_began: int | None
    share_groups: tuple[PlannedShareGroup, ...]
    quiet_periods: Mapping[str, tuple[int, int]]
    terms: Mapping[int | None, ValidityWindow]
    faults: FaultWindows


def work_of(
    run: RunEvidence, planned: PlannedCell, partition: Partition | None
) -> list[PluginWork]:
    """Return what plug-ins' checkers have to look at in a partition of a cell, or, with None, in
    the cell as a whole."""
    extent = Extent.CELL if partition is None else Extent.PARTITION
    return [
        _work(run, planned, partition, checker)
        for checker in concerned(run.planned, planned).values()
        if checker.extent is extent
    ]


def _work(
    run: RunEvidence, planned: PlannedCell, partition: Partition | None, checker: PluginChecker
) -> PluginWork:
    cell = planned.cell
    places = cell.topic_partitions if partition is None else (partition,)
    bounds = [run.clock_bound_ns(place, *_CLOCKED) for place in places]
    bound = None if None in bounds else max(one for one in bounds if one is not None)
    touching = [fault for fault in run.faults if any(map(fault.touches, places))]
    reads = [run.reads.get(place) for place in places]
    began = [run.final_read(place).began for place in places]
    return PluginWork(
        checker=checker.name,
        plugin=provider(checker.name),
        run=run.number,
        cell=cell,
        partition=None if partition is None else partition[1],
        tables=tuple(_files(run, cell, places, checker)),
        missing=tuple(_missing(run, places, checker)),
        log_records=sum(read.records or 0 for read in reads if read is not None),
        crashed=frozenset(
            table
            for table in checker.reads.keys() & PARTITIONED
            if any(run.writers.cut(table, place) for place in places)
        ),
        clock_bound_ns=bound,
        share_groups=planned.share_groups,
        quiet_periods=dict(_quiet_periods(run, planned)),
        read_began=None if None in began else min(one for one in began if one is not None),
        terms=_terms(run, cell, places, checker.promised),
        faults=windows(touching, run.planned, bound or 0, run.pace),
    )


def _quiet_periods(run: RunEvidence, planned: PlannedCell) -> Iterator[tuple[str, tuple[int, int]]]:
    if not planned.share_groups:
        return
    span = quiet_period_of(run, planned.cell).span
    end = span.end - run.pace.lost_ns(span.start, span.end)
    for group in planned.share_groups:
        if any(run.writers.lived(one, "deliveries", span.end) for one in group.members):
            yield group.name, (span.start, end)


def _files(
    run: RunEvidence, cell: Cell, places: Sequence[Partition], checker: PluginChecker
) -> Iterator[TableFiles]:
    for table in checker.reads:
        for place in places if table in PARTITIONED else (None,):
            yield TableFiles(
                table=table,
                files=tuple(map(str, run.writers.files(table, place))),
                expected=run.expected(table, place, cell.name if table == "sends" else None),
            )


def _missing(
    run: RunEvidence, places: Sequence[Partition], checker: PluginChecker
) -> Iterator[str]:
    """Yield a sentence for each part of the tables of a checker that is missing or damaged."""
    for table in checker.reads:
        if table in PARTITIONED:
            for topic, number in places:
                if not run.writers.whole(table, (topic, number)):
                    yield f"rows of {table} of {topic}-{number} are missing or damaged"
        elif table in run.incomplete or run.writers.incomplete(table):
            yield f"rows of {table} are missing or damaged"
    if not run.flushed and not _CLIENTS.isdisjoint(checker.reads):
        yield "it is not known whether the clients closed their histories"
    if "log" in checker.reads:
        for topic, number in places:
            if not run.final_read((topic, number)).complete:
                yield f"the final read of {topic}-{number} did not reach the end of the log"


def _terms(
    run: RunEvidence, cell: Cell, places: Sequence[Partition], promised: Promised
) -> Mapping[int | None, ValidityWindow]:
    of = {
        Promised.WHILE_ACKS_ARE_KEPT: ack_window_of,
        Promised.WHILE_READS_STAY: read_window_of,
        Promised.WHILE_SHARES_STAY: share_window_of,
    }
    if promised not in of:
        return {None: ALWAYS_VALID, **{number: ALWAYS_VALID for _, number in places}}
    own: dict[int | None, ValidityWindow] = {
        place[1]: _within_int64(of[promised](run, cell, place)) for place in places
    }
    together = ValidityWindow(
        unpromised_before=max(one.unpromised_before for one in own.values()),
        unknown_before=max(one.unknown_before for one in own.values()),
        unknown_in=tuple(span for one in own.values() for span in one.unknown_in),
    )
    return {None: together, **own}


def _within_int64(terms: ValidityWindow) -> ValidityWindow:
    return ValidityWindow(
        unpromised_before=within_int64(terms.unpromised_before),
        unknown_before=within_int64(terms.unknown_before),
        unknown_in=tuple(
            Span(within_int64(span.start), within_int64(span.end)) for span in terms.unknown_in
        ),
    )
