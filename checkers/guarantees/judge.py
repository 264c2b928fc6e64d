"""The result of a campaign, from the evidence and the totals.

This module joins the small tables of the runs with the totals of reconciling. The conclusions are
drawn in ``checkers.guarantees.decisions`` alone.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ackproof.checkers import thresholds
from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks import latency, outages, read_counts
from ackproof.checkers.checks.catalogue import CATALOGUE
from ackproof.checkers.checks.check_transactions import CellTransactions
from ackproof.checkers.checks.planned_consumers import clients_of
from ackproof.checkers.checks.plugin_examination import CellExaminations
from ackproof.checkers.checks.read_counts import ConsumerCounts, added
from ackproof.checkers.context import coverage, gaps, steps
from ackproof.checkers.context.faults import Partition
from ackproof.checkers.context.gaps import folded
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS
from ackproof.checkers.context.pace import ServerPace
from ackproof.checkers.context.partition_guarantees import (
    ack_window_of,
    agreement_of,
    commit_window_of,
    read_window_of,
)
from ackproof.checkers.context.quiet_period import quiet_period_of
from ackproof.checkers.context.retention import retention_of
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.context.status import (
    FORGOTTEN,
    REMOTE_ONLY,
    GuaranteeStatus,
    count_name,
)
from ackproof.checkers.engine.results import (
    CONSUMPTION,
    HISTORY,
    REPLICAS,
    ROOT_CAUSE_ERROR,
    PartitionTotals,
    Totals,
)
from ackproof.checkers.guarantees import liveness
from ackproof.checkers.guarantees.decisions import campaign_verdict, judged, verdict
from ackproof.checkers.guarantees.facts import (
    Facts,
    PluginCheck,
    Readers,
    plugin_checks,
    plugins_of,
)
from ackproof.checkers.guarantees.facts import findings as of_plugins
from ackproof.checkers.guarantees.liveness import LivenessResult
from ackproof.checkers.guarantees.table import STAYS_UP
from ackproof.checkers.index.sequences import RANGE, missing
from ackproof.checkers.root_cause.causes import in_order
from ackproof.checkers.verdict import (
    CampaignResult,
    CellResult,
    ClientCounts,
    Consumption,
    GroupCounts,
    RunResult,
    Unavailable,
    Verdict,
)
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell, PlannedGroup, PlannedWriter
from ackproof.history.messages import printable


def campaign_result(
    runs: Sequence[RunEvidence],
    totals: Totals,
    transactions: Mapping[tuple[int, str], CellTransactions] | None = None,
    plugged: CellExaminations | None = None,
    *,
    gaps: tuple[str, ...],
    findings: tuple[str, ...] = (),
) -> CampaignResult:
    """Return the result of a campaign.

    Args:
        runs: The evidence of each run of the manifest.
        totals: The totals of reconciling.
        transactions: The results of transactional cells, by run and cell.
        plugged: The results of plug-ins' checkers of whole cells, by run and cell.
        gaps: The evidence that the whole campaign lacks, a sentence each.
        findings: Further facts about the whole campaign.
    """
    of_cells = transactions or {}
    cells: list[CellResult] = []
    checks: list[PluginCheck] = []
    for run in runs:
        for planned in run.planned.cells:
            key = (run.number, planned.cell.name)
            keys = [(run.number, partition) for partition in planned.cell.topic_partitions]
            found = [totals.partitions.get(one) for one in keys]
            mine = tuple(plugin_checks(run, planned, found, (plugged or {}).get(key, {})))
            cells.append(_cell(run, planned, totals, of_cells.get(key), mine))
            checks += mine
    counted: Counter[str] = Counter()
    for partition in totals.partitions.values():
        counted.update(partition.counts)
    for told in of_cells.values():
        counted.update(told.counts)
    by_plugins: Counter[str] = Counter()
    for check in checks:
        by_plugins[check.checker] += check.totals.found.total()
    return CampaignResult(
        verdict=campaign_verdict((cell.counts_as for cell in cells), gaps),
        cells=tuple(cells),
        anomalies={**{name: counted[name] for name in CATALOGUE.built_in}, **by_plugins},
        findings=tuple(
            map(printable, (*gaps, *findings, *of_plugins(runs), *_findings(runs, totals)))
        ),
        baseline=bool(runs) and all(run.baseline for run in runs),
        skipped=tuple(dict.fromkeys(one for run in runs for one in run.planned.skipped)),
        plugins=plugins_of(runs, checks),
        runs=tuple(_runs(runs)),
        consumption=consumption(runs, totals),
        causes=tuple(in_order(c for one in totals.partitions.values() for c in one.causes)),
    )


def _runs(runs: Sequence[RunEvidence]) -> Iterator[RunResult]:
    """Yield the result of each run. A run that did not begin because the user had stopped the
    campaign did not fail."""
    stopped = False
    for run in runs:
        begun = run.history.is_dir()
        yield _run(run, failed=run.infrastructure_failed and (begun or not stopped))
        stopped = stopped or run.stopped


def _run(run: RunEvidence, *, failed: bool) -> RunResult:
    senders = {writer.node for writer in run.planned.writers if writer.table == "sends"}
    return RunResult(
        number=run.number,
        clock_bound_ns=run.clocks.bound(senders),
        infrastructure_failed=failed,
        cluster=run.planned.cluster,
        zookeeper=steps.zookeeper_work(run.zookeeper),
        failovers=steps.failovers(run.planned.failovers, run.failovers, run.zookeeper),
    )


def _findings(runs: Sequence[RunEvidence], totals: Totals) -> Iterator[str]:
    yield from of_plugins(runs)
    for run in runs:
        told = list(run.findings)
        for (number, _), found in sorted(totals.partitions.items(), key=lambda item: item[0]):
            told += [
                check_error.message for check_error in found.check_errors if number == run.number
            ]
        yield from (f"run {run.number}: {finding}" for finding in folded(told))


def _cell(
    run: RunEvidence,
    planned: PlannedCell,
    totals: Totals,
    transactions: CellTransactions | None,
    checks: tuple[PluginCheck, ...] = (),
) -> CellResult:
    cell = planned.cell
    cell_transactions = transactions or CellTransactions()
    found = [totals.partitions.get((run.number, partition)) for partition in cell.topic_partitions]
    counts: Counter[str] = Counter()
    for each in found:
        counts.update(each.counts if each else {})
    counts.update(cell_transactions.counts)
    facts = Facts(
        cell=cell,
        counts=counts,
        why=tuple(_why(run, cell, totals)),
        apart=tuple(_apart(run, cell)),
        withdrawn=tuple(_withdrawn(run, cell)),
        uncommitted=tuple(_uncommitted(run, planned)),
        readers=Readers.planned(run.planned, planned),
        transactional=planned.transactional,
        tombstones=planned.tombstones,
        undecided=cell_transactions.why,
        whole=_whole(run, cell, found),
        crashed=frozenset((*_crashed(found), *cell_transactions.crashed)),
        gaps=tuple(
            dict.fromkeys([*_cell_gaps(run, planned, found, counts), *cell_transactions.gaps])
        ),
        recovers=_recovers(run, cell, _by_partition(cell, found)),
        groups_recover=groups_recover(run, planned, found),
        stays_up=_stays_up(run, cell),
        plugin_checks=checks,
        baseline=run.baseline,
        unchecked=run.planned.unchecked,
    )
    guarantees, doubtful = judged(facts)
    conclusion, reasons = verdict(facts, guarantees, doubtful)
    result = CellResult(
        run=run.number,
        settings=cell,
        sent=counts["sent"],
        acked=counts["acked"],
        failed=counts["failed"],
        indeterminate=counts["indeterminate"],
        lost=_known(run, cell, "lost", found, counts),
        duplicated=_known(run, cell, "duplicated", found, counts),
        reordered=_known(run, cell, "reordered", found, counts),
        guarantees=guarantees,
        verdict=conclusion,
        expected=_expected(planned),
        forgotten=_forgotten(run, cell, found, counts),
        unavailable=_unavailable(run, cell, found),
        **_speed(run, cell, found),
        transactions=cell_transactions.summed if planned.transactional else None,
        reasons=tuple(map(printable, reasons)),
    )
    evidence = thresholds.Evidence(
        ended=not (run.infrastructure_failed or run.stopped),
        complete=not (facts.gaps or facts.crashed or doubtful),
        acks=cell.acks,
        tail_readers=facts.readers.tail,
        shown_min=0 if planned.transactional else _shown_min(run, result),
    )
    judged_thresholds = thresholds.judged(planned.thresholds, result, evidence)
    return replace(result, thresholds=tuple(judged_thresholds))


def _shown_min(run: RunEvidence, result: CellResult) -> int:
    """Return the number of records that the tail readers of a cell must have read in all: each of
    them all records that were acknowledged and are not lost. A reader that replaces another is not
    counted."""
    partition = result.settings.topic_partitions[0]
    readers = [
        tables["polls"]
        for tables in clients_of(run.planned).values()
        if "polls" in tables and "commits" not in tables
    ]
    there = [one for one in readers if one.instead_of is None and partition in one.partitions]
    return len(there) * (result.acked - (result.lost or 0))


def _recovers(
    run: RunEvidence, cell: Cell, counts: Mapping[Partition, Mapping[str, int]]
) -> liveness.LivenessResult:
    looked = max((row["time"] for row in run.recovery), default=0)
    # What others restart once the recovery was seen delays no recovery from a fault.
    faults = [fault for fault in run.faults if not (fault.unordered and fault.start > looked)]
    silent = tuple(coverage.silent_since_heal(cell, faults, counts))
    living = liveness.recovers(
        run.planned,
        cell,
        faults,
        run.recovery,
        run.observation,
        silent=silent,
        servers=() if "servers" in run.incomplete else run.servers,
        pace=run.pace,
    )
    return liveness.resting_on(living, ("recovery", "faults"), run.incomplete)


def _stays_up(run: RunEvidence, cell: Cell) -> liveness.LivenessResult:
    if STAYS_UP in run.planned.unchecked:
        return liveness.LivenessResult(looked=False)
    living = liveness.stays_up(cell, run.ends, run.servers, run.recovery, run.observation)
    return liveness.resting_on(living, ("servers", "faults"), run.incomplete)


def _known(
    run: RunEvidence,
    cell: Cell,
    what: str,
    found: Sequence[PartitionTotals | None],
    counts: Mapping[str, int],
) -> int | None:
    """Return a count, or None if it is 0 and not everything was examined."""
    looked = all(totals is not None and what in totals.counts for totals in found)
    return counts[what] if counts.get(what) or (looked and _whole(run, cell, found)) else None


def _forgotten(
    run: RunEvidence, cell: Cell, found: Sequence[PartitionTotals | None], counts: Counter[str]
) -> int | None:
    """Return the number of acked records that the topic's cleanup policy removed, or None if it
    removes none."""
    return _known(run, cell, FORGOTTEN, found, counts) if _removes(cell) else None


def _removes(cell: Cell) -> bool:
    """Return whether the cleanup policy of a cell's topic may remove records."""
    return cell.compacts or retention_of(cell) is not None


def _whole(run: RunEvidence, cell: Cell, found: Sequence[PartitionTotals | None]) -> bool:
    """Return whether every send of a cell and its complete final log could be read."""
    judged = all(
        totals is not None
        and not any(check_error.checker == HISTORY for check_error in totals.check_errors)
        for totals in found
    )
    return judged and all(
        run.writers.whole("sends", partition)
        and run.writers.whole("log", partition)
        and (read := run.reads.get(partition)) is not None
        and read.read.complete
        for partition in cell.topic_partitions
    )


def _unavailable(
    run: RunEvidence, cell: Cell, found: Sequence[PartitionTotals | None]
) -> Unavailable | None:
    whole = all(
        run.writers.whole("sends", partition) and not run.writers.cut("sends", partition)
        for partition in cell.topic_partitions
    )
    if cell.acks == "0" or not whole or not all(found):
        return None
    names = [f"{topic}-{number}" for topic, number in cell.topic_partitions]
    return outages.unavailable(
        {name: totals.counts for name, totals in zip(names, found, strict=True) if totals}
    )


def _speed(
    run: RunEvidence, cell: Cell, found: Sequence[PartitionTotals | None]
) -> Mapping[str, Any]:
    """Return the throughput of acks and the latencies, as far as they are known. The last moments
    of a crashed client are not included."""

    def told(table: str) -> bool:
        return all(run.writers.whole(table, partition) for partition in cell.topic_partitions)

    counts = [totals.counts for totals in found if totals]
    if len(counts) < len(found) or not told("sends"):
        return {}
    return {
        "acks_per_second": latency.acks_per_second(counts),
        "ack_latency": latency.latency(latency.ACK, counts),
        "shown_latency": latency.latency(latency.SHOWN, counts) if told("polls") else None,
    }


def _why(run: RunEvidence, cell: Cell, totals: Totals) -> Iterator[str]:
    """Yield why acked records of a cell need not be kept, or perhaps not, for partitions with such
    records."""
    for partition in cell.topic_partitions:
        found = totals.partitions.get((run.number, partition))
        concerned = (
            count_name("acked", standing) for standing in GuaranteeStatus if standing != "promised"
        )
        if found and any(found.counts[what] for what in concerned):
            for why in ack_window_of(run, cell, partition).why:
                yield f"{partition[0]}-{partition[1]}: {why}"


def _apart(run: RunEvidence, cell: Cell) -> Iterator[str]:
    """Yield why replicas of a cell need not agree, or perhaps not."""
    for partition in cell.topic_partitions:
        for why in agreement_of(run, cell, partition).why:
            yield f"{partition[0]}-{partition[1]}: {why}"


def _withdrawn(run: RunEvidence, cell: Cell) -> Iterator[str]:
    """Yield why reads of a cell need not stay, or perhaps not."""
    for partition in cell.topic_partitions:
        for why in read_window_of(run, cell, partition).why:
            yield f"{partition[0]}-{partition[1]}: {why}"


def _uncommitted(run: RunEvidence, planned: PlannedCell) -> Iterator[str]:
    """Yield why committed offsets of a cell's groups need not be kept, or perhaps not."""
    for group in planned.groups:
        read = planned.cell.topic_partitions[0]
        yield from (f"{group.name}: {why}" for why in commit_window_of(run, group, read).why)


def _crashed(found: Sequence[PartitionTotals | None]) -> Iterator[str]:
    for totals in found:
        # Unreadable records of consumers and replicas that were not compared are reported
        # elsewhere.
        check_errors = totals.check_errors if totals else ()
        told = (HISTORY, CONSUMPTION, REPLICAS, ROOT_CAUSE_ERROR)
        yield from (
            check_error.checker for check_error in check_errors if check_error.checker not in told
        )


def _cell_gaps(
    run: RunEvidence,
    planned: PlannedCell,
    found: Sequence[PartitionTotals | None],
    counts: Mapping[str, int],
) -> Iterator[str]:
    """Yield the evidence that a cell lacks."""
    cell = planned.cell
    yield from gaps.concerning(run.gaps, cell.name)
    for totals in found:
        check_errors = totals.check_errors if totals else ()
        yield from (
            check_error.message for check_error in check_errors if check_error.checker == HISTORY
        )
    if not all(found):
        yield "not all partitions of this cell were checked"
    yield from _missing_sends(run, planned, found)
    yield from _too_few(planned, counts)
    for (topic, number), own in _by_partition(cell, found).items():
        if counts["acked"] and not own["acked"]:
            yield f"{topic}-{number}: nothing was acknowledged"
    if not run.baseline:
        yield from _untouched(run, cell)
    if cell.tiered and not counts[REMOTE_ONLY]:
        yield "it is tiered, but nothing shows that any of its records was in the remote tier alone"
    # A log that has lost no acked record also has the sessions of its producers.
    if counts[count_name("partitions", GuaranteeStatus.PROMISED)] == len(found):
        yield from run.writers.fatal(cell.name)
    yield from coverage.lacking(cell, run.faults, run.observation, _by_partition(cell, found))
    for strange in sorted(set(planned.expect) - set(_expected(planned))):
        yield f"expect: {strange!r} is not a verdict; the verdicts are {', '.join(Verdict)}"
    yield from thresholds.unknown(planned.thresholds)


def _too_few(planned: PlannedCell, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield which records are fewer than the campaign demands."""
    acked, needed = counts["acked"], max(1, planned.acked_min)
    if acked < needed:
        yield f"{acked} acked records, but at least {needed} are needed"
    removed = counts[FORGOTTEN]
    if _removes(planned.cell) and removed < planned.removed_min:
        yield (
            f"{removed} acked records were removed by cleanup.policy, but at least "
            f"{planned.removed_min} are needed"
        )


def _missing_sends(
    run: RunEvidence, planned: PlannedCell, found: Sequence[PartitionTotals | None]
) -> Iterator[str]:
    """Yield the sends that are missing from files that are as their writers left them. For other
    files, missing rows are already reported."""
    cell = planned.cell
    sequences = {
        f"{topic}-{number}": totals.sequences
        for (topic, number), totals in zip(cell.topic_partitions, found, strict=True)
        if totals
        and run.writers.whole("sends", (topic, number))
        and not any(check_error.checker == HISTORY for check_error in totals.check_errors)
    }
    if len(sequences) == len(found):
        width = RANGE * cell.partitions
        yield from missing(sequences, width, in_turn=not planned.transactional)


def _by_partition(
    cell: Cell, found: Sequence[PartitionTotals | None]
) -> Mapping[Partition, Mapping[str, int]]:
    """Return the counts of the partitions that were reconciled."""
    partitions = zip(cell.topic_partitions, found, strict=True)
    return {partition: totals.counts for partition, totals in partitions if totals}


def _untouched(run: RunEvidence, cell: Cell) -> Iterator[str]:
    if not run.planned.faults:
        yield "no fault was planned, and the campaign does not declare itself a baseline"
    elif not any(fault.is_effective for fault in coverage.touching(run.faults, cell)):
        yield "no fault that is proven to have taken effect touched a partition of this cell"


def _expected(planned: PlannedCell) -> tuple[Verdict, ...]:
    return tuple(Verdict(name) for name in planned.expect if name in set(Verdict))


# --- consumers ------------------------------------------------------------------------------------

Partitions = Sequence[Sequence[ConsumerCounts] | None]
"""The counts of each partition of a cell, or None for one that was not reconciled."""


def consumption(runs: Sequence[RunEvidence], totals: Totals) -> Consumption:
    """Return the counts of every client and group of a campaign, by run and cell."""
    clients: list[ClientCounts] = []
    groups: list[GroupCounts] = []
    for run in runs:
        planned = clients_of(run.planned)
        for cell in (one.cell for one in run.planned.cells):
            found = [totals.partitions.get((run.number, key)) for key in cell.topic_partitions]
            counted = [None if one is None else one.consumption for one in found]
            clients += _clients(run.number, cell, planned, counted)
            groups += _groups(run.number, cell, counted)
    return Consumption(clients=tuple(clients), groups=tuple(groups))


def _clients(
    run: int,
    cell: Cell,
    planned: Mapping[str, Mapping[str, PlannedWriter]],
    partitions: Partitions,
) -> Iterator[ClientCounts]:
    for client, tables in sorted(planned.items()):
        if "polls" in tables and not set(cell.topic_partitions).isdisjoint(
            tables["polls"].partitions
        ):
            own_counts = [_one(counted, client, None) for counted in partitions]
            groups = (one.group for one in own_counts if one is not None)
            yield ClientCounts(
                run=run,
                cell=cell.name,
                client=client,
                member="commits" in tables,
                group=next((group for group in groups if group is not None), None),
                **_summed(own_counts, read_counts.CLIENT_COUNTS),
            )


def _groups(run: int, cell: Cell, partitions: Partitions) -> Iterator[GroupCounts]:
    counted_groups = (one for counted in partitions for one in counted or () if not one.client)
    for group in sorted({one.group for one in counted_groups if one.group is not None}):
        mine = [_one(counted, None, group) for counted in partitions]
        yield GroupCounts(
            run=run, cell=cell.name, group=group, **_summed(mine, read_counts.GROUP_COUNTS)
        )


def _one(
    counted: Sequence[ConsumerCounts] | None, client: str | None, group: str | None
) -> ConsumerCounts | None:
    """Return the counts of a client, or those of a group if ``client`` is None."""
    of = (
        one
        for one in counted or ()
        if one.client == client and (client is not None or one.group == group)
    )
    return next(of, None)


def _summed(
    partitions: Sequence[ConsumerCounts | None], names: Sequence[str]
) -> dict[str, int | None]:
    return {
        name: added([None if one is None else one.counts[name] for one in partitions])
        for name in names
    }


# --- groups ---------------------------------------------------------------------------------------
#
# The guarantee that groups make progress again after the cluster has recovered.
#
# A stuck group (in endless rebalances, with an unassigned partition, or with a coordinator that
# does not answer) reads nothing and therefore reads nothing wrong. The manifest says how long
# recovery may take: the time that the campaign allows the cluster, plus the time of the group
# protocol, which is the session timeout and ``max.poll.interval.ms`` of the members (the rebalance
# timeout, KIP-62 and KIP-848). The harness waits for groups before it ends a run (its step
# ``recover``). If it did not, too little time passed to blame a group.


Counts = Mapping[str, int | None]

_NS_PER_MS = 1_000_000


def groups_recover(
    run: RunEvidence, planned: PlannedCell, found: Sequence[PartitionTotals | None]
) -> LivenessResult:
    """Judge whether every group of a cell read, in time, the records of each partition that were
    acked in the quiet period.

    The guarantee is violated if the group was owed a record for the whole of its time. It holds if
    the group read a record that was sent in the quiet period. For a partition with neither, it is
    unknown. ``found`` has the totals of each of the cell's partitions.
    """
    quiet_period = quiet_period_of(run, planned.cell)
    if quiet_period.why:
        return LivenessResult(suspended=quiet_period.why, looked=False)
    broken: list[str] = []
    looked, examined = True, 0
    for group in planned.groups:
        members = _members(group, found)
        deserted = not any(run.writers.went_on(one, quiet_period.span.end) for one in members)
        for (topic, number), counts in zip(
            planned.cell.topic_partitions, _counted(group, found), strict=True
        ):
            # If all members have ended, no member is left to make progress. Other findings report
            # that.
            stuck_ms = 0 if deserted else _stuck_ms(counts, quiet_period.span.end, run.pace)
            if group.recovery_ms is not None and stuck_ms > group.recovery_ms:
                name = f"{group.name} on {topic}-{number}"
                broken.append(f"{name}: {_holders(counts)}, read nothing for {stuck_ms:,} ms")
            elif not counts.get("went_on"):
                looked = False
            else:
                examined += 1
    return LivenessResult(broken=tuple(broken), looked=looked, examined=examined)


def _counted(group: PlannedGroup, found: Sequence[PartitionTotals | None]) -> Iterator[Counts]:
    """Yield the counts of a group in each partition, empty if they are unknown."""
    for totals in found:
        mine = (
            one.counts
            for one in ((totals and totals.consumption) or ())
            if one.client is None and one.group == group.name
        )
        yield next(mine, {})


def _members(group: PlannedGroup, found: Sequence[PartitionTotals | None]) -> set[str]:
    return {
        one.client
        for totals in found
        for one in ((totals and totals.consumption) or ())
        if one.client is not None and one.group == group.name
    }


def _stuck_ms(counts: Counts, end: int, pace: ServerPace) -> int:
    """Return for how long the group had been owed a record when clients were asked to end, minus
    the time that servers waited for a processor, in milliseconds. Return 0 if it was owed none."""
    since = counts.get("owed_since")
    if since is None or since == NONE:
        return 0
    waited = pace.lost_ns(since, end)
    return max(0, end - since - waited - OBSERVATION_LAG_NS) // _NS_PER_MS


def _holders(counts: Counts) -> str:
    many = counts.get("holders")
    if many is None:
        return "owner unknown"
    return "assigned to no member" if not many else f"assigned to {many} of its members"
