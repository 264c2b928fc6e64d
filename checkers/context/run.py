"""The evidence of one run: what the manifest planned, and what the history records.

Evidence that is missing or unreadable becomes a gap of the cells that it concerns, and a finding
for the reader. Nothing in this module raises because of the contents of a history.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from ackproof.checkers.context import gaps, row_times, steps, writers
from ackproof.checkers.context import pace as servers_pace
from ackproof.checkers.context.broker_logs import (
    CollectedFiles,
    Logs,
    ReplicaTruncation,
    Role,
    collected_files,
    logs_of,
    orders_of,
    roles_of,
    truncations_of,
    unreadable_lines,
)
from ackproof.checkers.context.endings import ServerEnd, unaccounted
from ackproof.checkers.context.fault_windows import settle_ns
from ackproof.checkers.context.faults import FaultFacts, Partition, faults_of
from ackproof.checkers.context.final_reads import (
    FinalRead,
    ReadFacts,
    ends_not_met,
    read_gaps,
    reads_of,
)
from ackproof.checkers.context.gaps import UNJUDGED, Gap, folded
from ackproof.checkers.context.observed import Absence, ClusterObservation, Span, absences
from ackproof.checkers.context.pace import ServerPace, pace_of
from ackproof.checkers.context.retention import ObservedStarts, observed_starts
from ackproof.checkers.context.row_times import NodeClocks
from ackproof.checkers.context.steps import fault_findings, fault_gaps, unrecorded
from ackproof.checkers.context.writers import (
    Writers,
    crashes_of,
    with_consumer_crashes,
    without_unused_replacements,
)
from ackproof.history import reader
from ackproof.history.cell import Cell
from ackproof.history.errors import DamagedFiles
from ackproof.history.manifest import PlannedRun, identity_of
from ackproof.history.names import MEASURES
from ackproof.history.reader import Listed
from ackproof.history.storage import AnyPath

_STAYS_UP = "servers-stay-up"
"""The guarantee whose violations are findings where it is not checked."""

SMALL_TABLES = (
    "phases",  # The steps come first, because they bound the times of the other tables' rows.
    "reads",
    "faults",
    "cluster",
    "servers",
    "scheduling",
    "clients",
    "recovery",
    "clocks",
    "collected",
    "log_starts",
    *sorted(MEASURES),
)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """The evidence of one run.

    Attributes:
        planned: The run as the manifest plans it.
        baseline: Whether the campaign is declared as a baseline and plans no faults.
        history: The directory of its tables.
        reads: The final reads.
        faults: The faults that the history records, planned or not.
        unrecorded: The planned faults and restarts by others whose rows may be missing, with
            everything that they may have done.
        observation: The observer's view of the partitions.
        clocks: The bounds of the clocks.
        recorded: The span in which its rows may lie (:mod:`checkers.context.row_times`).
        writers: The writers of its tables.
        roles, orders, truncations: The roles, received leader epochs and truncations of each
            partition, from the brokers' own logs.
        absences: The times in which brokers had no ZooKeeper session.
        recovery, servers, zookeeper, failovers: The rows of these tables.
        ends: The ends of servers that no fault explains.
        log_starts: The observed starts of the logs of topics that set a retention.
        pace: The share of the time that servers could use.
        logs: The collected logs of the brokers, or None if their directory does not exist.
        collected: The span in which the brokers' logs were copied, or None if copying failed.
        read_began: The time at which the final read began, or None if unknown.
        read_over: The time at which it completed, or None if unknown.
        asked_to_end: The time just before the clients were asked to end, or None if unknown.
        flushed: Whether the clients are known to have closed their histories.
        incomplete: The tables of the whole run that differ from what their writers closed.
            Everything that depends on one of them is unknown.
        infrastructure_failed, stopped: As in :mod:`checkers.context.steps`.
        gaps: The missing evidence, with the cells that it concerns.
        findings: Further facts that a reader must know.
    """

    planned: PlannedRun
    baseline: bool
    history: AnyPath
    reads: Mapping[Partition, ReadFacts]
    faults: tuple[FaultFacts, ...]
    unrecorded: tuple[FaultFacts, ...]
    observation: ClusterObservation
    clocks: NodeClocks
    recorded: Span
    writers: Writers
    roles: Mapping[Partition, Sequence[Role]]
    orders: Mapping[Partition, Mapping[int, Sequence[int]]]
    truncations: Mapping[Partition, Sequence[ReplicaTruncation]]
    absences: Sequence[Absence]
    recovery: Sequence[Row]
    servers: Sequence[Row]
    ends: tuple[ServerEnd, ...]
    zookeeper: Sequence[Row]
    failovers: Sequence[Row]
    log_starts: Mapping[Partition, ObservedStarts]
    pace: ServerPace
    logs: Logs | None
    collected: Span | None
    read_began: int | None
    read_over: int | None
    asked_to_end: int | None
    flushed: bool
    incomplete: frozenset[str]
    infrastructure_failed: bool
    stopped: bool
    gaps: tuple[Gap, ...]
    findings: tuple[str, ...]

    @property
    def number(self) -> int:
        """The number of the run."""
        return self.planned.number

    def final_read(self, partition: Partition) -> FinalRead:
        """Return the final read of a partition, with the time at which it began by the clocks of
        the clients that sent to the partition."""
        facts = self.reads.get(partition)
        if facts is None:
            return FinalRead(complete=False)
        # If a partition was read in several attempts, the row of the interrupted one may be
        # missing.
        complete = facts.read.complete and "reads" not in self.incomplete
        read = replace(facts.read, complete=complete)
        if self.read_began is None:
            return read
        # A client's clock that is ahead by the bound gives a record a time that is later by the
        # bound.
        bound = self.clock_bound_ns(partition, "sends", "polls") or 0
        return replace(read, began=max(self.read_began - bound, 0))

    @property
    def zookeepers(self) -> int:
        """The number of ZooKeeper servers that were watched, or 0 if it is unknown."""
        names = {str(row["server"]) for row in self.servers}
        return sum(name.startswith("zookeeper") for name in names)

    def clock_bound_ns(self, partition: Partition, *tables: str) -> int | None:
        """Return the clock bound of the clients that send to a partition, or that write these
        tables of it, or None if it is unknown."""
        nodes = (self.writers.nodes(partition, table) for table in tables or ("sends",))
        return self.clocks.bound(set().union(*nodes))

    def expected(
        self, table: str, where: Partition | None = None, cell: str | None = None
    ) -> row_times.Expected:
        """Return the values that rows of a table, or of one partition of it, must have: times
        within the run by the clocks of their writers, and the cell."""
        bound = self.clocks.bound(self.writers.nodes(where, table)) or 0
        return row_times.Expected(within=row_times.widened(self.recorded, bound), cell=cell)


def gather(history: AnyPath, planned: PlannedRun, *, baseline: bool = False) -> RunEvidence:
    """Return the evidence of one run from the directory of its tables."""
    listed, closed, unclosed = _closed(history)
    tables, damaged, within = _tables(listed)
    faults = faults_of(tables["faults"], planned.faults)
    said, collected = history.parent / "logs", steps.span(tables["phases"], "collect")
    files = collected_files(history.parent, planned, tables["collected"])
    crashes = crashes_of(tables["clients"], faults)
    planned = without_unused_replacements(planned, crashes)
    faults = with_consumer_crashes(faults, crashes, planned)
    logs = logs_of(history.parent / "replicas", files.is_whole)
    all_writers = Writers(planned, listed, closed, crashes, tables["clients"])
    incomplete = frozenset(damaged).union(filter(all_writers.incomplete, SMALL_TABLES))
    observation = ClusterObservation(tables["cluster"], whole="cluster" not in incomplete)
    clocks, reads = NodeClocks(tables["clocks"]), reads_of(tables["reads"])
    ends, pace = _ends(planned, tables["servers"], faults, said), pace_of(tables["scheduling"])
    found = (
        *(Gap(words=f"{path}: {why}") for path, why in unclosed.items()),
        *gaps.of_all(steps.gaps(tables["phases"], identity_of(planned.number, planned.seed))),
        *damaged.values(),
        *all_writers.gaps(),
        *_lacking(planned, faults, reads, clocks, observation),
    )
    if not history.is_dir():
        found = (Gap(words=f"{history} does not exist"),)  # all else follows from that
    findings = (
        *steps.failures(tables["phases"]),  # the cause comes first, then what follows from it
        *steps.infrastructure_failures(tables["phases"]),
        *folded([*(gap.words for gap in found), *fault_findings(tables["faults"])]),
        *unreadable_lines(said, files.altered),
        *all_writers.findings(),
        *ends_not_met(reads),
        *clocks.findings(),
        *_measured(planned, tables, pace),
        *_unchecked(planned, ends, logs, collected, files),
    )
    return RunEvidence(
        planned=planned,
        baseline=baseline,
        history=history,
        reads=reads,
        faults=faults,
        unrecorded=tuple(unrecorded(planned, faults, tables["phases"], incomplete)),
        observation=observation,
        clocks=clocks,
        recorded=within,
        writers=all_writers,
        roles=roles_of(said, files.altered),
        orders=orders_of(said, files.altered),
        truncations=truncations_of(said, files.altered),
        absences=absences(tables["cluster"]),
        recovery=tables["recovery"],
        servers=tables["servers"],
        ends=ends,
        zookeeper=tables["zookeeper"],
        failovers=tables["failovers"],
        log_starts=observed_starts(tables["log_starts"]),
        pace=pace,
        logs=logs,
        collected=collected,
        read_began=steps.began_after(tables["phases"], "final-read", "workload"),
        read_over=steps.ended_after(tables["phases"], "final-read", "workload"),
        asked_to_end=steps.begun(tables["phases"], "flush"),
        incomplete=incomplete,
        flushed="flush" in steps.ended(tables["phases"]),
        infrastructure_failed=any(steps.infrastructure_failures(tables["phases"])),
        stopped=steps.stopped(tables["phases"]),
        gaps=found,
        findings=tuple(dict.fromkeys(findings)),
    )


def _closed(
    history: AnyPath,
) -> tuple[Mapping[str, Listed], writers.Closings, Mapping[AnyPath, str]]:
    """Return the files of each table that are as their writers closed them, these closings, and the
    files of closings that cannot be read."""
    listed = reader.listed_by_table(history)
    closed, unread = writers.read_closings(listed["closings"])
    return closed.held_against(listed), closed, unread


def _tables(
    listed: Mapping[str, Listed],
) -> tuple[dict[str, list[Row]], Mapping[str, Gap], Span]:
    """Return the rows of each table, the problems of tables that cannot be read, and the span in
    which rows of the run may lie. Damaged files, and files whose name does not identify their
    writer, do not count here: the gaps of the writers name them."""
    tables: dict[str, list[Row]] = {}
    damaged = {}
    within = row_times.EVER
    for name in SMALL_TABLES:
        try:
            stems, _ = listed[name]
            files = [path for paths in stems.values() for path in paths]
            rows = reader.read_files(name, files)
            if (words := row_times.Expected(within=within).problem(rows)) is not None:
                raise ValueError(words)
            tables[name] = rows.to_pylist()
            if name == "phases":
                within = row_times.recorded(tables[name])
        except (DamagedFiles, ValueError, pa.ArrowException) as error:
            tables[name] = []
            concerned: frozenset[str] | None = frozenset() if name in UNJUDGED else None
            damaged[name] = Gap(words=f"table {name}: {error}", cells=concerned)
    return tables, damaged, within


def _measured(
    planned: PlannedRun, tables: Mapping[str, Sequence[Row]], pace: ServerPace
) -> Iterator[str]:
    """Yield whether servers waited while clients wrote, and which measurements are missing. A
    manifest from before there were measurements plans none."""
    start, end = steps.begun(tables["phases"], "workload"), steps.begun(tables["phases"], "flush")
    if start is not None and end is not None:
        yield from servers_pace.findings(tables["scheduling"], pace, start, end)
    if {writer.table for writer in planned.writers} >= MEASURES:
        yield from steps.findings(planned, tables["failovers"], tables["zookeeper"])


def _unchecked(
    planned: PlannedRun,
    ends: Sequence[ServerEnd],
    logs: Logs | None,
    collected: Span | None,
    files: CollectedFiles,
) -> Iterator[str]:
    """Yield the ends of servers that no guarantee judges, which logs were not compared, and what an
    external cluster does not reveal. A manifest from before logs were collected plans none."""
    if _STAYS_UP in planned.unchecked:
        yield from (end.words for end in ends)
    if planned.replicas and collected is None:
        yield "replicas not compared: the step collect did not succeed"
    elif planned.replicas and logs is None:
        gone = "are missing" if "replicas" in files.absent else "were not collected"
        yield f"replicas not compared: their logs {gone}"
    yield from files.findings
    yield from unchecked_findings(planned)


def _lacking(
    planned: PlannedRun,
    faults: Sequence[FaultFacts],
    reads: Mapping[Partition, ReadFacts],
    clocks: NodeClocks,
    observation: ClusterObservation,
) -> Iterator[Gap]:
    """Yield the faults that are not proven, and the partitions that were not read back, compared or
    observed."""
    yield from fault_gaps(planned, faults)
    yield from read_gaps(planned, reads)
    yield from _clock_gaps(planned, clocks)
    yield from _unobserved(planned, observation)


def _ends(
    planned: PlannedRun, servers: Sequence[Row], faults: Sequence[FaultFacts], logs: AnyPath
) -> tuple[ServerEnd, ...]:
    combined = frozenset(planned.combined)
    return unaccounted(servers, faults, slack_ns=settle_ns(planned), combined=combined, logs=logs)


def _unobserved(planned: PlannedRun, observation: ClusterObservation) -> Iterator[Gap]:
    """Yield the partitions of which the observer saw no state, so that their leaders are
    unknown."""
    for cell in _cells(planned):
        for partition in cell.topic_partitions:
            if not observation.of(partition).states:
                words = f"{partition[0]}-{partition[1]}: its leader and ISR were never observed"
                yield Gap(words=words, cells=frozenset({cell.name}))


def _clock_gaps(planned: PlannedRun, clocks: NodeClocks) -> Iterator[Gap]:
    senders = [writer for writer in planned.writers if writer.table == "sends"]
    for writer, words in clocks.missing(senders):
        topics = {topic for topic, _ in writer.partitions}
        cells = frozenset(cell.name for cell in _cells(planned) if cell.topic in topics)
        yield Gap(words=words, cells=cells or None)


def _cells(planned: PlannedRun) -> list[Cell]:
    return [planned_cell.cell for planned_cell in planned.cells]


# --- unchecked guarantees ------------------------------------------------------------------------
#
# Guarantees that cannot be checked on an external cluster, and that therefore never count as
# passed.


def unchecked_findings(planned: PlannedRun) -> Iterator[str]:
    """Yield a sentence for each reason why guarantees cannot be checked."""
    found = planned.unchecked
    for reason in dict.fromkeys(found.values()):
        names = ", ".join(name for name, why in found.items() if why == reason)
        yield f"not checked: {names}: {reason}"
