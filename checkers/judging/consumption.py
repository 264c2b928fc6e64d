"""What was counted of the consumers of a campaign, over all partitions."""

from collections.abc import Iterator, Mapping, Sequence

from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.reads import commits, shown
from ackproof.checkers.reads.consumers import Counted
from ackproof.checkers.reads.planned import clients_of
from ackproof.checkers.reads.shown import added
from ackproof.checkers.reconciling.results import Totals
from ackproof.checkers.verdict import ClientCounts, Consumption, GroupCounts
from ackproof.history.cell import Cell
from ackproof.history.manifest import PlannedWriter

Partitions = Sequence[Sequence[Counted] | None]
"""What was counted of each partition of a cell; None of one that was not reconciled."""


def consumption(runs: Sequence[RunEvidence], totals: Totals) -> Consumption:
    """What was counted of every client and group of a campaign, by run and cell."""
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
            mine = [_one(counted, client, None) for counted in partitions]
            groups = (one.group for one in mine if one is not None)
            yield ClientCounts(
                run=run,
                cell=cell.name,
                client=client,
                member="commits" in tables,
                group=next((group for group in groups if group is not None), None),
                **_summed(mine, shown.COUNTS),
            )


def _groups(run: int, cell: Cell, partitions: Partitions) -> Iterator[GroupCounts]:
    counted_groups = (one for counted in partitions for one in counted or () if not one.client)
    for group in sorted({one.group for one in counted_groups if one.group is not None}):
        mine = [_one(counted, None, group) for counted in partitions]
        yield GroupCounts(run=run, cell=cell.name, group=group, **_summed(mine, commits.COUNTS))


def _one(
    counted: Sequence[Counted] | None, client: str | None, group: str | None
) -> Counted | None:
    """A client's, or without one a group's."""
    of = (
        one
        for one in counted or ()
        if one.client == client and (client is not None or one.group == group)
    )
    return next(of, None)


def _summed(partitions: Sequence[Counted | None], names: Sequence[str]) -> dict[str, int | None]:
    return {
        name: added([None if one is None else one.counts[name] for one in partitions])
        for name in names
    }
