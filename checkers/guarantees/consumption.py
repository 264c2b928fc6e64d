"""The consumers and groups of a cell: their counts, and the guarantee that groups recover."""

from collections.abc import Iterator, Mapping, Sequence

from ackproof.checkers.arrays import NONE
from ackproof.checkers.checks import read_counts
from ackproof.checkers.checks.planned_consumers import clients_of
from ackproof.checkers.checks.read_counts import ConsumerCounts, added
from ackproof.checkers.context.observed import OBSERVATION_LAG_NS
from ackproof.checkers.context.pace import ServerPace
from ackproof.checkers.context.quiet_period import quiet_period_of
from ackproof.checkers.context.run import RunEvidence
from ackproof.checkers.engine.results import PartitionTotals, Totals
from ackproof.checkers.guarantees.liveness import LivenessResult
from ackproof.checkers.verdict import ClientCounts, Consumption, GroupCounts
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedCell, PlannedGroup, PlannedWriter

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
