"""What is owed to groups: that they go on when the cluster has recovered.

A group that is stuck (in rebalances without end, with a partition that nobody is assigned, with a
coordinator that answers nothing) is shown nothing wrong, since it is shown nothing. How long it may
take is in the manifest: what the campaign gives the cluster itself, and what the classic protocol
gives a group, its members' ``session.timeout.ms`` and ``max.poll.interval.ms`` (the rebalance
timeout, KIP-62). So the harness waits for groups before it ends a run (its step ``recover``); where
it did not, too little time passed to blame anybody.
"""

from collections.abc import Iterator, Mapping, Sequence

from ackproof.checkers.arrays import NONE
from ackproof.checkers.cluster.observed import OBSERVATION_LAG_NS
from ackproof.checkers.cluster.pace import Pace
from ackproof.checkers.evidence.peace import peace_of
from ackproof.checkers.evidence.run import RunEvidence
from ackproof.checkers.judging.liveness import Living
from ackproof.checkers.reconciling.results import PartitionTotals
from ackproof.history.manifest import PlannedCell, PlannedGroup

Counts = Mapping[str, int | None]

_NS_PER_MS = 1_000_000


def groups_recover(
    run: RunEvidence, planned: PlannedCell, found: Sequence[PartitionTotals | None]
) -> Living:
    """Whether every group of a cell was shown what was acked of each partition in peace, in time.

    It takes a record that the group was owed for all of its time to say that it was not, and one
    that was sent in peace and shown to say that it was: of a partition that has neither nobody
    knows. ``found``: of each of the cell's partitions, what reconciling found.
    """
    peace = peace_of(run, planned.cell)
    if peace.why:
        return Living(suspended=peace.why, looked=False)
    broken: list[str] = []
    looked, examined = True, 0
    for group in planned.groups:
        members = _members(group, found)
        deserted = not any(run.writers.went_on(one, peace.span.end) for one in members)
        for (topic, number), counts in zip(
            planned.cell.topic_partitions, _counted(group, found), strict=True
        ):
            # Whose members have all ended has nobody left to go on; other findings tell of that.
            stuck_ms = 0 if deserted else _stuck_ms(counts, peace.span.end, run.pace)
            if group.recovery_ms is not None and stuck_ms > group.recovery_ms:
                name = f"{group.name} on {topic}-{number}"
                broken.append(f"{name}: {_holders(counts)}, shown nothing for {stuck_ms:,} ms")
            elif not counts.get("went_on"):
                looked = False
            else:
                examined += 1
    return Living(broken=tuple(broken), looked=looked, examined=examined)


def _counted(group: PlannedGroup, found: Sequence[PartitionTotals | None]) -> Iterator[Counts]:
    """What was counted of a group in each partition; nothing where that is not known."""
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


def _stuck_ms(counts: Counts, end: int, pace: Pace) -> int:
    """For how long it has been owed a record when clients were asked to end, less what servers had
    to wait for a processor; 0 where it was owed none."""
    since = counts.get("owed_since")
    if since is None or since == NONE:
        return 0
    waited = pace.lost_ns(since, end)
    return max(0, end - since - waited - OBSERVATION_LAG_NS) // _NS_PER_MS


def _holders(counts: Counts) -> str:
    many = counts.get("holders")
    if many is None:
        return "nobody knows whose"
    return "assigned to nobody" if not many else f"assigned to {many} of its members"
